"""Array types: NumPy's, JAX's, or any other with + − * and an array namespace."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import numpy as np

Array = Any
Primal = Annotated[Array, "primal"]  # a field of a method's State that is as long as x
Dual = Annotated[Array, "dual"]  # a field of a method's State that is as long as y
Count = Annotated[Any, "count"]  # a field of a method's State that is a number: it grows by one in each step
EPSILON = float(np.finfo(np.float64).eps)


def namespace(v: Array) -> Any:
    """Return the module of array functions that `v` belongs to; of a float, NumPy."""
    if isinstance(v, (np.ndarray, float)):
        return np
    return sys.modules["torch"] if hasattr(v, "new_zeros") else v.__array_namespace__()


def is_foreign(value: Any) -> bool:
    """Whether this is an array of JAX or PyTorch, or holds some: perhaps traced ones, without numbers to look at."""
    if isinstance(value, (list, tuple)):
        return any(map(is_foreign, value))
    return type(value).__module__.partition(".")[0] in ("jax", "jaxlib", "torch")


def sums(v: Array, owner: Any, count: int, *, increasing: bool = False) -> Array:
    """The sum of the entries of v that belong to each of `count` owners, which may be known to increase."""
    if isinstance(v, np.ndarray):
        return np.bincount(owner, v, minlength=count).astype(v.dtype)
    if hasattr(v, "new_zeros"):  # torch
        return v.new_zeros(count).index_add(0, namespace(v).as_tensor(owner, device=v.device), v)
    return namespace(v).zeros(count, v.dtype).at[owner].add(v, indices_are_sorted=increasing)


def in_dtype(array: Array, shape: tuple[int, ...], source: str, dtype: np.dtype[Any]) -> Array:
    """`array` in the dtype of the problem, with its shape checked: float32 iterates stay float32 if f is float64."""
    found = getattr(array, "shape", None)
    if found != shape:
        what = type(array).__name__ if found is None else f"shape {found}"
        raise ValueError(f"{source} returned {what}, expected an array of shape {shape}")
    return array if array.dtype == dtype else array.astype(dtype)


def is_constant(v: np.ndarray) -> bool:
    """Whether all entries of a vector are the same number."""
    return v.size > 0 and bool((v == v[0]).all())


def on_device(v: Array) -> bool:
    """Whether `v` is a JAX array, perhaps in the memory of an accelerator, or a symbol for one."""
    return type(v).__module__.partition(".")[0] in ("jax", "jaxlib") and hasattr(v, "__array_namespace__")


def in_single(*arrays: Any) -> bool:
    """Whether JAX computes with these in float32: one of them is its own, none of those is float64, and it has none."""
    own = [array for array in arrays if on_device(array)]
    if not own or any(array.dtype == np.float64 for array in own):
        return False
    import jax

    return bool(jax.dtypes.canonicalize_dtype(np.float64) == np.float32)


def wait_for(v: Array) -> None:
    """Wait until `v` is computed, if that is up to a device."""
    if on_device(v):
        v.block_until_ready()


def owned(v: Array) -> Array:
    """A copy of `v` as a NumPy array."""
    return np.array(on_host(v))


def on_host(v: Array) -> Array:
    """`v` as a NumPy array; a copy only if it is not one. What other processes hold of it is fetched."""
    if isinstance(v, np.ndarray):
        return v
    if getattr(v, "is_fully_addressable", True) or v.is_fully_replicated:
        return np.asarray(_in_pinned_memory(v))
    from jax.experimental import multihost_utils

    return np.asarray(multihost_utils.process_allgather(v, tiled=True))


def one_gpu(v: Array) -> Any:
    """The NVIDIA GPU that a JAX array lies on; None if it lies elsewhere, or on several devices."""
    (device, *others) = v.devices()
    return None if others or "cuda" not in device.client.platform_version.lower() else device


def _in_pinned_memory(v: Array) -> Array:
    """`v` in memory of the host that a GPU writes to directly, which is several times faster; itself if it is there."""
    if not on_device(v) or one_gpu(v) is None:
        return v
    import jax

    return jax.device_put(v, v.sharding.with_memory_kind("pinned_host"))
