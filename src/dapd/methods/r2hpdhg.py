"""r²HPDHG: primal–dual hybrid gradient steps, reflected, drawn back to an anchor less and less, and restarted.

T takes (x, y) to x' = prox(x − t(∇f(x) + Mᵀy)), y' = prox_{sφ}(y + s(M(2x' − x) − b)) (Chambolle and Pock 2011; Condat
2013; Vũ 2013). The prox of x is that of the bounds and of the part of f that allows it, and ∇f is the gradient of the
rest. R = T + ρ(T − I) is nonexpansive in the norm of [[1/t, −Mᵀ], [−M, 1/s]]. A step is z⁺ = (1 − β)R(z) + β·z₀ with
β = 1/(k + 2) in step k after the anchor z₀ (Halpern 1967). `methods/anchors.py` decides when T(z) becomes the next
anchor, and with which t and s. docs/restarts.md proves that this converges.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dapd import theory
from dapd.arrays import Array, Count, Dual, Primal
from dapd.methods.anchors import ROUNDINGS, Measured
from dapd.methods.base import Method
from dapd.problem.problem import Problem

Parameters = theory.R2Hpdhg


class State(NamedTuple):
    """One iterate z, T of the one before, and the anchor."""

    x: Primal
    y: Dual
    Mty: Primal  # Mᵀy
    x_plain: Primal
    y_plain: Dual
    Mty_plain: Primal
    x_0: Primal
    y_0: Dual
    Mty_0: Primal
    k: Count  # steps since the anchor


def init(p: Parameters, o: Any, x: Array, y: Array) -> State:
    """Start at the anchor."""
    Mty = o.adjoint(y)
    return State(x, y, Mty, x, y, Mty, x, y, Mty, 0.0)


def step(p: Parameters, o: Any, s: State) -> State:
    """T, its reflection, and a part of the way back to the anchor."""
    x = o.primal_step(s.x - p.t * (o.grad(s.x) + s.Mty), p.t)
    y, Mty = o.dual_step(p.s * (2 * x - s.x), s.y - p.s * o.b, p.s)
    beta = 1 / (s.k + 2)

    def drawn(now: Array, plain: Array, first: Array) -> Array:
        return (1 - beta) * ((1 + p.rho) * plain - p.rho * now) + beta * first

    after = drawn(s.x, x, s.x_0), drawn(s.y, y, s.y_0), drawn(s.Mty, Mty, s.Mty_0)
    return State(*after, x, y, Mty, s.x_0, s.y_0, s.Mty_0, s.k + 1)


def _move(p: Parameters, k: Any, now: Array, plain: Array, first: Array) -> Array:
    """T(z) − z of the z before the last step, a part of which became `now`."""
    part = 1.0 / k
    return ((1.0 + part) * now - part * first - plain) / p.rho


def last_step(p: Parameters, s: State) -> tuple[Array, Array]:
    """The x before the last step, and the x of T."""
    return s.x_plain - _move(p, s.k, s.x, s.x_plain, s.x_0), s.x_plain


def measured(p: Parameters, s: State, adjoint: Any = None) -> Measured:
    """How far T moved the z before the last step, and how far that is from the anchor.

    `adjoint` makes Mᵀ of the move of y if the state has no products with Mᵀ.
    """
    dx, dy = _move(p, s.k, s.x, s.x_plain, s.x_0), _move(p, s.k, s.y, s.y_plain, s.y_0)
    dMty = _move(p, s.k, s.Mty, s.Mty_plain, s.Mty_0) if adjoint is None else adjoint(dy)
    x, y = _moved(s.x_plain, s.x_0), _moved(s.y_plain, s.y_0)
    return Measured(*((a * b).sum() for a, b in ((dx, dx), (dy, dy), (dx, dMty), (x, x), (y, y))))


def _moved(after: Array, before: Array) -> Array:
    """The move, without entries whose move may be rounding."""
    move = after - before
    return move * (abs(move) > ROUNDINGS * np.finfo(after.dtype).eps * abs(after))


def at_plain(s: State) -> State:
    """T of the last z as the next anchor."""
    plain = s.x_plain, s.y_plain, s.Mty_plain
    return State(*plain, *plain, *plain, 0.0)


def at_anchor(s: State) -> State:
    """The same anchor once more."""
    anchor = s.x_0, s.y_0, s.Mty_0
    return State(*anchor, *anchor, *anchor, 0.0)


class R2HPDHG(Method):
    """Restarted Halpern PDHG with reflection.

    Engines restart it; iterated by hand, it takes the steps of one epoch, without a restart.
    """

    name = "r2hpdhg"
    title = "r²HPDHG"
    reference = "Lu and Yang 2024; Halpern 1967; Condat 2013; Vũ 2013"
    needs_s_min = False
    needs_mu = False
    is_proximal = True
    is_restarted = True
    record = Parameters
    settings = staticmethod(theory.r2hpdhg)
    first = staticmethod(init)
    update = staticmethod(step)
    measured = staticmethod(measured)
    at_plain = staticmethod(at_plain)
    at_anchor = staticmethod(at_anchor)

    @classmethod
    def constants_of(cls, problem: Problem) -> dict[str, float]:
        """L of the part of f that is linearised, and the usual ratio of y and x; raise if L is not known."""
        rest = problem.proximable.rest
        if rest is not None and rest.L is None:
            raise ValueError(
                f"method {cls.name!r} needs the L of f = {type(problem.f).__name__}, which is unknown. Pass it if you "
                "know it, or use method='auto', which does not need it"
            )
        return {"L": 0.0 if rest is None else float(rest.L or 0.0), "weight": usual_weight(problem)}

    @staticmethod
    def point(state: State) -> tuple[Array, Array]:
        """T of the last iterate but one, which nothing draws back."""
        return state.x_plain, state.y_plain


def usual_weight(problem: Problem) -> float:
    """The usual ratio of y and x, by the data; kept, since units take longer than many steps of a device."""

    def find() -> float:
        units = problem.units()
        of_x, of_y = (float(np.linalg.norm(v)) or 1.0 for v in (units.x, units.y))
        return of_y / of_x

    return problem.memory.once(usual_weight, None, find)
