"""What stands for an array: NumPy's, JAX's, or any other with + − * and a namespace."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

Array = Any
Primal = Annotated[Array, "primal"]  # in a method's State: as long as x
Dual = Annotated[Array, "dual"]  # in a method's State: as long as y


def namespace(v: Array) -> Any:
    """Return the module of array functions that `v` belongs to."""
    return np if isinstance(v, np.ndarray) else v.__array_namespace__()


def in_dtype(array: Array, shape: tuple[int, ...], source: str, dtype: np.dtype[Any]) -> Array:
    """`array` in the problem's dtype, its shape checked: a float64 f must not turn float32 iterates into float64."""
    found = getattr(array, "shape", None)
    if found != shape:
        what = type(array).__name__ if found is None else f"shape {found}"
        raise ValueError(f"{source} returned {what}, expected an array of shape {shape}")
    return array if array.dtype == dtype else array.astype(dtype)
