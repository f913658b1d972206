"""CAPD: accelerated PAPC on a Chebyshev polynomial of MᵀM, with an inner loop of fixed length; for Mx = b."""

from __future__ import annotations

from typing import Any

from dapd import theory
from dapd.arrays import Array
from dapd.methods.apapc import State, init, point
from dapd.methods.base import Method
from dapd.methods.oracle import repeated

Parameters = theory.Capd


def chebyshev(p: Parameters, o: Any, x: Array) -> tuple[Array, Array]:
    """N Chebyshev iterations towards Mx = b: return d and Mᵀd, where x + Mᵀd is their result."""
    r, Mtr = o.dual_step(x, -o.b, 0.0)  # Mx − b and Mᵀ of it
    gamma = -p.nu / 2
    q, Mtq = -1 / p.nu * r, -1 / p.nu * Mtr

    def inner(s: tuple[Any, ...]) -> tuple[Any, ...]:
        gamma, q, Mtq, d, Mtd = s
        beta = p.rho / gamma
        gamma = -(p.nu + beta)
        r, Mtr = o.dual_step(x + Mtd, -o.b, 0.0)
        q, Mtq = 1 / gamma * (r + beta * q), 1 / gamma * (Mtr + beta * Mtq)
        return gamma, q, Mtq, d + q, Mtd + Mtq

    *_, d, Mtd = repeated(o, p.N - 1, inner, (gamma, q, Mtq, q, Mtq))
    return d, Mtd


def step(p: Parameters, o: Any, s: State) -> State:
    """One outer iteration of Algorithm 1 of Salim et al., which is N inner ones."""
    x_g = p.tau * s.x + (1 - p.tau) * s.x_f
    shrink = 1 / (1 + p.eta * p.alpha)
    x_half = shrink * (s.x - p.eta * (o.grad(x_g) - p.alpha * x_g + s.Mty))
    d, Mtd = chebyshev(p, o, x_half)
    y, Mty = s.y - p.theta * d, s.Mty - p.theta * Mtd
    x = x_half + p.eta * shrink * p.theta * Mtd
    x_f = x_g + 2 * p.tau / (2 - p.tau) * (x - s.x)
    return State(x, x_f, y, Mty)


class CAPD(Method):
    """Chebyshev-accelerated primal–dual method, for φ ≡ 0. The paper's u is Mᵀy here."""

    name = "capd"
    title = "CAPD"
    reference = "Salim, Condat, Kovalev and Richtárik 2022, Algorithm 1"
    any_phi = False
    record = Parameters
    settings = staticmethod(theory.capd)
    first = staticmethod(init)
    update = staticmethod(step)
    point = staticmethod(point)

    @property
    def iterations_per_step(self) -> int:
        return int(self.parameters.N)
