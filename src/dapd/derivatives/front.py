"""What `dapd.jax` and `dapd.torch` share: `solve`, its options and results, and f, φ and M that take their arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from dapd.arguments import near_miss
from dapd.arrays import Array, namespace
from dapd.derivatives.data import Data, data_of
from dapd.derivatives.records import LeastSquares, Logistic, PseudoHuber, Quadratic, Separable, Sparse
from dapd.kinds.by_rows import L1, Box, Interval, NonNegative, Zero
from dapd.kinds.composed import Conjugate, Stack
from dapd.kinds.sets import GroupBall

__all__ = [
    "L1",
    "Box",
    "Conjugate",
    "GroupBall",
    "Interval",
    "LeastSquares",
    "Logistic",
    "NonNegative",
    "NotSolved",
    "PseudoHuber",
    "Quadratic",
    "Separable",
    "Solution",
    "Sparse",
    "Stack",
    "Zero",
]

# options of `dapd.solve` that say how, not what: all hashable
NAMES = ("method", "tol", "tol_absolute", "max_iterations", "time_limit", "engine", "direct", "seed", "shared_sample")
FAILURES = ("raise", "nan")
TOL = 1e-8


class NotSolved(RuntimeError):
    """There is no solution with the status `optimal`, or no accurate derivative of it."""


class SolveOptions(NamedTuple):
    """Checked options."""

    failures: str
    options: tuple[tuple[str, Any], ...]  # of `dapd.solve`


class Solution(NamedTuple):
    """x, the multipliers y of the rows of M, and z of the bounds: ∇f(x) + Mᵀy + z = 0."""

    x: Any
    y: Any
    z: Any

    @classmethod
    def of(cls, data: Data, x: Array, w: Array) -> Solution:
        """From w, which is y, or (y, z) if x has bounds."""
        rows = data.b.shape[0]
        return cls(x, w[:rows], namespace(x).zeros_like(x) if data.lower is None else w[rows:])


class Front(NamedTuple):
    """`solve` of a library, of which `solution` makes differentiable arrays."""

    solution: Callable[[SolveOptions, Data], Solution]

    def solve(
        self,
        f: Any,
        M: Any,
        b: Any,
        phi: Any = None,
        *,
        bounds: tuple[Any, Any] | None = None,
        failures: str = "raise",
        **options: Any,
    ) -> Solution:
        """Solve min_x max_y f(x) + yᵀMx − bᵀy − φ(y), differentiably.

        The problem is solved on the host, in float64: by Newton steps if it is small and they suffice, else by
        `dapd.solve`; a batch, all problems at once, by `dapd.solve_batch`. Derivatives come from the optimality
        conditions at the solution: each takes one linear system, and none goes through the iterations. The results have
        the dtype of the arguments.

        In JAX it works under jit, vmap, grad, jvp and their combinations.

        In PyTorch the results are also on the device of the tensors, and there are no second derivatives. A tensor with
        one dimension more than its argument can have is a batch: b of shape (batch, rows), c and d of shape (batch, …),
        M, H and A of shape (batch, rows, columns), lower, upper, nu and radius of shape (batch, …). The others are
        shared, and the results have the batch as their first dimension.

        Parameters
        ----------
        f : Quadratic, LeastSquares, Logistic, PseudoHuber or Separable of the same module, or `dapd.jax.Smooth`
            With traced arrays or tensors as parameters. A function of `dapd` itself is a constant.
        M : array, tensor, sparse matrix or `Sparse` of the same module; as a constant, any other map that
            `dapd.Problem` takes
        b : vector
        phi : Zero (the default), NonNegative, L1, GroupBall, Box, Interval, Conjugate, Stack or your own `dapd.Phi`
        bounds : pair (lower, upper), optional
            Of x: numbers or vectors, infinite or None if there is none.
        failures : str
            What happens if a solve does not end with the status `optimal`, or its derivative is too large to compute:
            "raise" an error with its message, or return "nan", so the others of a batch are not lost.
        **options
            Of `dapd.solve`: method, tol (1e-8 by default), tol_absolute, max_iterations, time_limit, engine, direct,
            seed and shared_sample.
        """
        return self.solution(check_options(failures, options), data_of(f, M, b, phi, bounds))


def check_options(failures: str, options: dict[str, Any]) -> SolveOptions:
    """Raise if an option is unknown."""
    for name in options:
        if name not in NAMES:
            raise TypeError(f"solve() has no option {name!r} here{near_miss(name, NAMES)}")
    if failures not in FAILURES:
        raise ValueError(f"failures must be 'raise' or 'nan', found {failures!r}")
    if options.get("tol") is None and options.get("tol_absolute") is None:
        options = {**options, "tol": TOL}
    return SolveOptions(failures, tuple(sorted(options.items())))
