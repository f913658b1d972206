"""What the three hard instances share: the zero-chain matrix A, its geometric solution and the lower bound.

A has 1 on the antidiagonal and −1 next to it, so A² is the second-difference matrix. Each product with it reveals one
more coordinate to a method. With v > 0 and q + 1/q = 2 + v,

    (A² + vI) y = (1 − q) e₁   has the solution   y_i = (q^i − q^{2n+2−i}) / (1 + q^{2n+1}),

which is geometric up to the boundary. The source is Li and Grigas (2026), appendix on lower bounds, which works with
q^i only; with the exact solution the bounds here hold in every dimension (see docs/lower_bounds.md).
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any, overload

import numpy as np
import scipy.sparse as sp

from dapd.arguments import number, vector, whole
from dapd.arrays import Array

LOSS = 1 / math.sqrt(8)  # what the theorems lose because the chain is finite: half of it is left after n rounds


def index_type(n: int) -> type[np.signedinteger[Any]]:
    """The smallest integer type that can index the entries of A."""
    return np.int32 if 2 * n - 1 <= np.iinfo(np.int32).max else np.int64


def zero_chain(n: int) -> Any:
    """A as CSR, 2n − 1 entries."""
    index = index_type(n)
    columns = np.empty(2 * n - 1, index)
    columns[0] = n - 1
    columns[1::2] = np.arange(n - 2, -1, -1)
    columns[2::2] = np.arange(n - 1, 0, -1)
    entries = np.ones(2 * n - 1)
    entries[2::2] = -1.0
    starts = np.append(0, np.arange(1, 2 * n, 2)).astype(index)
    return sp.csr_array((entries, columns, starts), shape=(n, n))


def representable(name: str, value: float) -> float:
    """Return `value`; raise ValueError if doubles cannot represent it."""
    if not 0 < value < math.inf:
        raise ValueError(f"{name} = {value:g} is out of the range of doubles; choose constants closer in magnitude")
    return value


def distance_to_one(v: float, ratio: str) -> float:
    """1 − q for the root q < 1 of q + 1/q = 2 + v, without cancellation; `ratio` is the name of what makes v small."""
    gap = 2 / (1 + math.sqrt(1 + 4 / v))
    if 1 - gap == 1:
        raise ValueError(f"{ratio} is too large for doubles: 1 − q = {gap:.2g} makes q = 1; choose a smaller one")
    return gap


class Chain:
    """The solution y of (A² + vI)y = (1 − q)e₁ with n entries, and vectors derived from it."""

    def __init__(self, v: float, n: int, ratio: str) -> None:
        self.n = n
        self.gap = distance_to_one(v, ratio)  # 1 − q
        self.theta = -math.log1p(-self.gap)  # −log q
        self.q = 1 - self.gap
        self._i = np.arange(1.0, n + 1)
        self._weight = 1 / (1 + math.exp(-self.theta * (2 * n + 1)))

    def solution(self) -> Array:
        """y_i = q^i (1 − q^{2(n+1−i)}) / (1 + q^{2n+1})."""
        return self._weight * self._power(self._i) * self._rest(2 * (self.n + 1 - self._i))

    def slope(self) -> Array:
        """Ay, whose entry n+1−j is y_j − y_{j+1} = (1 − q)(q^j + q^{2n+1−j}) / (1 + q^{2n+1})."""
        powers = self._power(self._i) + self._power(2 * self.n + 1 - self._i)
        return self.gap * self._weight * powers[::-1]

    def complement(self) -> Array:
        """(1 − q)𝟙 − Ay, whose entry n+1−j is (1 − q)(1 − q^j)(1 − q^{2n+1−j}) / (1 + q^{2n+1})."""
        rests = self._rest(self._i) * self._rest(2 * self.n + 1 - self._i)
        return self.gap * self._weight * rests[::-1]

    def _power(self, exponent: Array) -> Array:
        return np.exp(-self.theta * exponent)

    def _rest(self, exponent: Array) -> Array:
        return -np.expm1(-self.theta * exponent)


class Bounded:
    """A lower bound ‖y^k − y*‖ ≥ scale·q^{(k + lag)/(2N)} for the rounds k that the dimension allows.

    A round is one product with M or Mᵀ (with a block of either if there are N blocks) at points that earlier rounds
    reached. Gradients are free here, but cost a round in the paper. The first gradient brings in h, so k products reach
    as far as k + N of the paper's rounds.
    """

    y_star: Any
    theta: float  # −log q
    N: int = 1  # copies of the chain
    scale: float  # factor of the power of q in the theorem
    lag: int  # rounds by which the chain is ahead of the count
    reach: int  # largest k that the dimension allows
    concavity: float  # of the dual function: s_min²/L

    @overload
    def bound(self, k: int, *, gap: bool = False) -> float: ...

    @overload
    def bound(self, k: Array, *, gap: bool = False) -> Any: ...

    def bound(self, k: Any, *, gap: bool = False) -> Any:
        """A lower bound on ‖y^k − y*‖ after k rounds from zero, or with `gap` on the duality gap, for every method.

        It is 0 if k is larger than the theorem covers in this dimension.

        Parameters
        ----------
        k : int or array of int
            The number of rounds, see `dapd.lower_bounds.rounds`.
        gap : bool
            Bound the duality gap instead: concavity/2 times the square.
        """
        rounds = np.asarray(k)
        if rounds.dtype.kind not in "iu" or np.any(rounds < 0):
            raise ValueError(f"k must be whole numbers of rounds >= 0, found {k!r}")
        distance = self.scale * np.exp(-self.theta * (rounds + self.lag) / (2 * self.N))
        distance = np.where(rounds <= self.reach, distance, 0.0)
        value = self.concavity / 2 * distance**2 if gap else distance
        return float(value) if value.ndim == 0 else value

    def iterations_needed(self, eps: float, *, gap: bool = False) -> int:
        """The smallest k with bound(k) ≤ eps: no method of the class reaches ‖y^k − y*‖ ≤ eps (or the gap) sooner.

        Parameters
        ----------
        eps : float
            The accuracy, absolute as in the theorems.
        gap : bool
            Whether `eps` is an accuracy of the duality gap.
        """
        eps = number("eps", eps, above=0.0)
        distance = math.sqrt(2 * eps / self.concavity) if gap else eps
        k = max(0, math.ceil(2 * self.N * math.log(self.scale / distance) / self.theta - self.lag))
        if k > self.reach:
            raise ValueError(
                f"eps = {eps:g} is out of reach of this instance: it takes {k} rounds, and the theorem covers "
                f"{self.reach} in this dimension; increase it by {k - self.reach} (see required_dimension)"
            )
        return k

    def tail(self, k: int) -> float:
        """‖y*‖ over the coordinates that k rounds cannot reach: bound(k) ≤ tail(k) ≤ ‖y^k − y*‖.

        It holds for every k. On `affine` and `block` the best y in the span attains it.
        """
        unseen = self._unseen
        least, more = divmod(self._revealed_by(whole("k", k, least=0)), self.N)
        a, b = (float(unseen[min(j, len(unseen) - 1)]) for j in (least, least + 1))
        # the squared tail is convex in the index, so the best use of the rounds is an equal number per copy
        return math.sqrt(more * b + (self.N - more) * a)

    def revealed(self, y: Array) -> int:
        """How many coordinates of the chain y has reached, up to the last nonzero entry; summed over all N chains."""
        chains = self._chain_of(vector("y", y, self.y_star.size)).reshape(self.N, -1)
        places = np.arange(1, chains.shape[1] + 1)
        return int(np.max(np.where(chains != 0, places, 0), axis=1).sum())

    @cached_property
    def _unseen(self) -> Array:
        """‖(y*_{j+1}, …)‖² of one copy, for every j from 0."""
        chain = self._chain_of(self.y_star)
        square = chain[: chain.size // self.N] ** 2
        return np.append(np.cumsum(square[::-1])[::-1], 0.0)

    def _chain_of(self, y: Array) -> Array:
        """The part of y that the zero-chain argument is about."""
        return y

    def _revealed_by(self, k: int) -> int:
        """Coordinates that k rounds can reach: one round for the first of a copy, since h is free, then two each."""
        return min(k, (k + self.N) // 2)
