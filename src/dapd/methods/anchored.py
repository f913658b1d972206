"""Anchored epochs: primal–dual steps that are drawn back to where the epoch began, less and less.

T takes (x, y) to x' = x − t(∇f(x) + Mᵀy), y' = prox_{sφ}(y + s(M(2x' − x) − b)) (Condat 2013, Vũ 2013). With any w > 0,
s = w/s_max and 1/t = L + w·s_max it is averaged, with constant 2/3 or, if f is linear, 1/2, in the norm of
[[1/t, −Mᵀ], [−M, 1/s]], whatever M, φ and μ are. So R = T + ρ(T − I) is nonexpansive with ρ = 1/2, or 1. An anchored
step is z⁺ = (1 − β)R(z) + β·z₀ (Halpern 1967). docs/restarts.md says when epochs end and how w is found.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from dapd.arrays import Array, Dual, Primal
from dapd.methods.base import Method


class Parameters(NamedTuple):
    """Of a piece of an epoch."""

    t: float  # step of x
    s: float  # step of y
    ahead: float  # (1 − β)(1 + ρ), the part of T(z) − z
    beta: float  # β, the part of z₀ − z


def parameters(*, L: float, s_max: float, weight: float, beta: float) -> Parameters:
    """For a weight w of moves of x against moves of y."""
    rho = 0.5 if L > 0 else 1.0
    return Parameters(1 / (L + weight * s_max), weight / s_max, (1 - beta) * (1 + rho), beta)


class State(NamedTuple):
    """One iterate z, T of the one before, and the anchor."""

    x: Primal
    y: Dual
    Mty: Primal
    x_plain: Primal
    y_plain: Dual
    x_0: Primal
    y_0: Dual
    Mty_0: Primal


def init(p: Parameters, o: Any, x: Array, y: Array) -> State:
    """Start at the anchor."""
    Mty = o.adjoint(y)
    return State(x, y, Mty, x, y, x, y, Mty)


def step(p: Parameters, o: Any, s: State) -> State:
    """One anchored step."""
    x_plain = s.x - p.t * (o.grad(s.x) + s.Mty)
    y_plain, Mty_plain = o.dual_step(p.s * (2.0 * x_plain - s.x), s.y - p.s * o.b, p.s)
    x = s.x + p.ahead * (x_plain - s.x) + p.beta * (s.x_0 - s.x)
    y = s.y + p.ahead * (y_plain - s.y) + p.beta * (s.y_0 - s.y)
    Mty = s.Mty + p.ahead * (Mty_plain - s.Mty) + p.beta * (s.Mty_0 - s.Mty)
    return State(x, y, Mty, x_plain, y_plain, s.x_0, s.y_0, s.Mty_0)


def residuals(s: State, ahead: Any, beta: Any) -> tuple[Any, Any]:
    """The lengths of T(z) − z, of x and of y, at the z before the last step."""
    return tuple(
        _length(plain - (now - ahead * plain - beta * first) / (1.0 - ahead - beta))
        for now, plain, first in ((s.x, s.x_plain, s.x_0), (s.y, s.y_plain, s.y_0))
    )


def _length(v: Array) -> Any:
    return (v * v).sum() ** 0.5


class Anchored(Method):
    """A piece of an anchored epoch."""

    is_listed = False  # restarts alone use it

    name = "anchored"
    title = "anchored primal–dual steps"
    reference = "Condat 2013; Vũ 2013; Halpern 1967"
    record = Parameters
    settings = staticmethod(parameters)
    first = staticmethod(init)
    update = staticmethod(step)

    @staticmethod
    def point(state: State) -> tuple[Array, Array]:
        """T of the last iterate but one, to which no anchor draws."""
        return state.x_plain, state.y_plain
