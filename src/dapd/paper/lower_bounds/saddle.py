"""The hard instance of min_x max_y f(x) + yᵀMx − g(y), neither side strongly convex, and the extragradient method."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp

from dapd.arguments import named, number, whole
from dapd.arrays import Array
from dapd.operators.explicit import Sparse
from dapd.paper.lower_bounds.chain import LOSS, Bounded, Chain, representable, zero_chain
from dapd.paper.lower_bounds.instances import checked_coupling, half_ratio, half_width


class ConvexConcave(Bounded):
    """min_x max_y (L_x/2)‖x₁‖² + yᵀMx − (L_y/2)‖y₁‖² + hᵀy₂ with M = (ŝA, s_min I; −s_min I, ŝA).

    x = (x₁, x₂) and y = (y₁, y₂) have 2l entries each.

    α and β (`alpha`, `beta`) are the paper's: q is the root nearest 1 of its quartic, which factors into
    (q + 1/q − 2)² − α(q + 1/q − 2) + β = 0. The second root of that quadratic cancels against h, so y₂* is the exact
    solution of a single chain.
    """

    def __init__(self, L_x: float, L_y: float, s_max: float, s_min: float, l: int) -> None:  # noqa: E741 - the paper's ℓ
        self.L_x, self.L_y = number("L_x", L_x, above=0.0), number("L_y", L_y, above=0.0)
        self.s_max, self.s_min = checked_coupling(s_max, s_min)
        self.l = whole("l", l, least=2)
        s_hat = self.s_hat = half_width(self.s_max, self.s_min)
        width = half_ratio(self.s_max, self.s_min)
        delta = representable("L_x·L_y/s_min²", self.L_x / self.s_min * (self.L_y / self.s_min))
        self.alpha = (2 + delta) / width**2
        self.beta = 1 / width**4
        self.concavity = representable("s_min²/L_x", self.s_min / self.L_x * self.s_min)
        # v₋ = w√β and v₊ = √β/w are the roots of v² − αv + β, with w + 1/w = 2 + δ
        w = 2 / (2 + delta + math.sqrt(delta) * math.sqrt(4 + delta))
        chain = Chain(representable("1/α", w / width**2), self.l, "(1 + L_x·L_y/s_min²)·(s_max/s_min)²")
        self.q, self.theta = chain.q, chain.theta

        A = zero_chain(self.l)
        side = sp.diags_array(np.full(self.l, self.s_min))
        self.M = Sparse(sp.block_array([[s_hat * A, side], [-side, s_hat * A]], format="csr"))
        self.h = np.zeros(self.l)
        push = representable("s_max⁴/(L_x·s_min²)", s_hat * width / self.L_x * s_hat * width * chain.gap)
        self.h[:2] = push * np.array([1 + 1 / (w * width**2), -1.0])
        self.x_star, self.y_star = self._solution(chain, width, 2 / (1 + math.sqrt(1 + 4 / delta)))
        self.scale = LOSS * self.s_min / self.s_max * float(np.linalg.norm(self.y_star))
        self.lag = 3
        self.reach = self.l - 4

    def _solution(self, chain: Chain, width: float, rest: float) -> tuple[Array, Array]:
        """(x*, y*) from the rows of the optimality system, one after the other; `rest` is 1 − w."""
        y2, slope = chain.solution(), chain.slope()
        end = self.s_hat * width * chain.gap / self.L_x
        x1 = self.s_min / self.L_x * rest * y2
        x1[0] += end
        x2 = -width * (self.L_y / self.s_min + self.s_min / self.L_x * rest) * slope
        x2[-1] -= width * end
        return np.concatenate([x1, x2]), np.concatenate([-width * slope, y2])

    def f(self, x: Array) -> float:
        """(L_x/2)‖x₁‖²."""
        return float(self.L_x / 2 * (x[: self.l] @ x[: self.l]))

    def g(self, y: Array) -> float:
        """(L_y/2)‖y₁‖² − hᵀy₂."""
        return float(self.L_y / 2 * (y[: self.l] @ y[: self.l]) - self.h @ y[self.l :])

    def grad_x(self, x: Array, y: Array) -> Array:
        """∇f(x) + Mᵀy."""
        gradient = self.M.adjoint(y)
        gradient[: self.l] += self.L_x * x[: self.l]
        return gradient

    def grad_y(self, x: Array, y: Array) -> Array:
        """Mx − ∇g(y)."""
        gradient = self.M.forward(x)
        gradient[: self.l] -= self.L_y * y[: self.l]
        gradient[self.l :] += self.h
        return gradient

    def required_dimension(self, k: int) -> int:
        """The l for which the paper's theorem covers k rounds: max{2 log_{1/q}((2 + 2√2)(7 + α)/β), k + 4}.

        The proof needs k + 3 although the statement has k + 1, and it counts a gradient that is free here. The first
        term covers the difference between y₂* and the geometric q^i. With the exact y₂* it is not needed: `bound` holds
        for every k ≤ l − 4.
        """
        k = whole("k", k, least=1)
        settled = 2 * math.log((2 + math.sqrt(8)) * (7 + self.alpha) / self.beta) / self.theta
        return max(math.ceil(settled), k + 4)

    def _chain_of(self, y: Array) -> Array:
        return y[self.l :]

    def _revealed_by(self, k: int) -> int:
        return k // 2 + 2  # the two entries of h are free

    def __repr__(self) -> str:
        constants = f"L_x={self.L_x:.3g}, L_y={self.L_y:.3g}, s_max={self.s_max:.3g}, s_min={self.s_min:.3g}"
        return f"ConvexConcave({constants}, l={self.l})"


@named
def convex_concave(*, L_x: float, L_y: float, s_max: float, s_min: float, l: int) -> ConvexConcave:  # noqa: E741
    """Make the instance on which methods need Ω(√(s_max²/s_min² + L_xL_y s_max²/s_min⁴) log(1/ε)) rounds.

    Parameters
    ----------
    L_x, L_y : float
        Smoothness of f and of g.
    s_max, s_min : float
        The singular values of M lie in (s_min, s_max]; s_max ≥ √5·s_min > 0.
    l : int
        Half the number of entries of x, and of y.
    """
    return ConvexConcave(L_x, L_y, s_max, s_min, l)


def extragradient(instance: ConvexConcave) -> Iterator[tuple[Array, Array]]:
    """Yield the extragradient iterates from zero, z⁺ = z − tF(z − tF(z)) with t = 1/(max(L_x, L_y) + s_max)."""
    t = 1 / (max(instance.L_x, instance.L_y) + instance.s_max)
    x = y = np.zeros(2 * instance.l)
    while True:
        yield x, y
        x_half, y_half = x - t * instance.grad_x(x, y), y + t * instance.grad_y(x, y)
        x, y = x - t * instance.grad_x(x_half, y_half), y + t * instance.grad_y(x_half, y_half)
