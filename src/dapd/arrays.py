"""What stands for an array: NumPy's, JAX's, or any other with + − * and a namespace."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = Any


def namespace(v: Array) -> Any:
    """Return the module of array functions that `v` belongs to."""
    return np if isinstance(v, np.ndarray) else v.__array_namespace__()
