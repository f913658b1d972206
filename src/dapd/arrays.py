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
