"""What the core calls back for: rows of a φ whose prox, or of a loss whose derivative, only Python has."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from dapd.arguments import asked
from dapd.arrays import Array
from dapd.functions import Function
from dapd.functions.terms import Terms
from dapd.kinds.base import Phi
from dapd.problem import ask


class PythonRows:
    """Replaces u = base + Mv, in place, by what a function of u and the step returns."""

    def __init__(self, name: str, function: Callable[[Array, float], Array]) -> None:
        self.name, self.function = name, function

    def __call__(self, rows: Array, step: float) -> None:
        """The core's own memory is overwritten by the next step, so the function gets a copy, which it may keep."""
        rows[:] = self.function(rows.copy(), step)


def prox_rows(phi: Phi) -> PythonRows:
    """The prox of φ."""
    return PythonRows(f"φ = {phi.kind}", lambda u, step: ask.prox(phi, u, step))


def slope_rows(terms: Terms) -> PythonRows:
    """The derivative of the loss, row by row, at u = Ax."""
    loss, d, name = terms.loss, 0.0 if terms.d is None else terms.d, "the slope of the loss"
    assert loss is not None
    return PythonRows(
        f"the loss {type(loss).__name__} of f",
        lambda u, step: ask.returned(name, asked(name, loss.slope, u, d), u.shape),
    )


def gradient_rows(f: Function) -> PythonRows:
    """The whole gradient of f, as if it were the derivative of a loss of x."""
    return PythonRows(f"f = {type(f).__name__}", lambda x, _: ask.gradient(f, x))


def evaluated_in_python(calls: Iterable[PythonRows]) -> str:
    """A reason that names what is called; empty if nothing is."""
    names = list(dict.fromkeys(call.name for call in calls))
    return f"{' and '.join(names)} {'is' if len(names) == 1 else 'are'} evaluated in Python" if names else ""
