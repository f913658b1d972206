"""Calls of f and φ, which may be the user's own code: the argument is read-only, and the answer is checked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dapd.arguments import unmasked
from dapd.arrays import Array
from dapd.model.phi import Phi
from dapd.model.smooth import Function


def value(f: Function, x: Array) -> float:
    """f(x)."""
    answer = _asked("f.value", f.value, x)
    if np.ndim(answer) or np.iscomplexobj(answer) or answer is None:
        what = f"shape {np.shape(answer)}" if np.ndim(answer) else type(answer).__name__
        raise TypeError(f"f.value returned {what}, expected a real number")
    return float(answer)


def gradient(f: Function, x: Array) -> Array:
    """∇f(x)."""
    return returned("f.grad", _asked("f.grad", f.grad, x), x.shape)


def prox(phi: Phi, v: Array, step: Any) -> Array:
    """argmin_y φ(y) + ‖y − v‖²/(2·step)."""
    return returned("phi.prox", _asked("phi.prox", phi.prox, v, step), v.shape)


def returned(source: str, answer: Any, shape: tuple[int, ...]) -> Array:
    """Check the kind and the shape of an answer; its numbers are judged where they are used."""
    found = getattr(answer, "shape", None)
    if found != shape:
        what = type(answer).__name__ if found is None else f"shape {found}"
        raise ValueError(f"{source} returned {what}, expected an array of shape {shape}")
    if answer.dtype.kind not in "fiub":
        raise TypeError(f"{source} returned {answer.dtype}, expected real numbers")
    return unmasked(f"what {source} returned", answer)


def _asked(source: str, call: Callable[..., Any], v: Array, *more: Any) -> Any:
    view = v.view()
    view.flags.writeable = False
    try:
        return call(view, *more)
    except ValueError as error:
        if "read-only" in str(error):
            raise ValueError(f"{source} changes its argument; let it compute in a new array") from error
        raise
