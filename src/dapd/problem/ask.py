"""Calls of f and φ, which may be the user's own code: the argument is read-only, and the answer is checked."""

from __future__ import annotations

from typing import Any

import numpy as np

from dapd.arguments import asked, unmasked
from dapd.arrays import Array
from dapd.functions import Function
from dapd.kinds.base import Phi


def value(f: Function, x: Array) -> float:
    """f(x)."""
    answer = asked("f.value", f.value, x)
    if np.ndim(answer) or np.iscomplexobj(answer) or answer is None:
        what = f"shape {np.shape(answer)}" if np.ndim(answer) else type(answer).__name__
        raise TypeError(f"f.value returned {what}, expected a real number")
    return float(answer)


def gradient(f: Function, x: Array) -> Array:
    """∇f(x)."""
    answer = asked("f.grad", f.grad, x)
    if type(answer) is np.ndarray and answer.dtype.kind == "f" and answer.shape == x.shape:
        return answer
    return returned("f.grad", answer, x.shape)


def prox(phi: Phi, v: Array, step: Any) -> Array:
    """argmin_y φ(y) + ‖y − v‖²/(2·step)."""
    return returned("phi.prox", asked("phi.prox", phi.prox, v, step), v.shape)


def returned(source: str, answer: Any, shape: tuple[int, ...]) -> Array:
    """Check the kind and the shape of an answer; its numbers are judged where they are used."""
    found = getattr(answer, "shape", None)
    if found != shape:
        what = type(answer).__name__ if found is None else f"shape {found}"
        raise ValueError(f"{source} returned {what}, expected an array of shape {shape}")
    if answer.dtype.kind not in "fiub":
        raise TypeError(f"{source} returned {answer.dtype}, expected real numbers")
    return unmasked(f"what {source} returned", answer)
