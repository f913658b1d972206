"""The problem: min_x max_y f(x) + yᵀMx − bᵀy − φ(y)."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from dapd.arguments import curvatures, named, partition, vector
from dapd.arrays import Array
from dapd.model import ask
from dapd.model.proximal import Phi, Zero
from dapd.model.smooth import Function, Separable
from dapd.operators.base import as_operator
from dapd.operators.columns import ColumnBlocks
from dapd.spectrum.estimate import Spectrum


class Sizes(NamedTuple):
    """Sizes of the data: what a residual of 1 is measured against, row by row and coordinate by coordinate."""

    rows: Array  # |b_i| + ‖M_i‖₂: b, and what a unit of x does to the row
    duals: Array  # unit/‖M_i‖₂: the y_i whose pull on x is that of a unit of x
    columns: Array  # |∇f_j(0)| + unit
    unit: float  # what a unit of x does to ∇f at least: μ, or if μ = 0 ‖∇f(0)‖∞, or if that is 0 too L, or 1


class Problem:
    """min_x max_y f(x) + yᵀMx − bᵀy − φ(y), equivalently min_x f(x) + φ*(Mx − b).

    Its solution (x, y) satisfies ∇f(x) + Mᵀy = 0 and y = prox_φ(y + Mx − b). With φ ≡ 0 that is Mx = b, with
    φ = NonNegative() Mx ≤ b; y has these signs whichever method finds it.

    Parameters
    ----------
    f : Function
        Smooth and convex: Quadratic, PseudoHuber, LeastSquares, Logistic, Separable or Smooth.
    M : array, sparse matrix, Kronecker, ColumnBlocks, or anything with shape, matvec and rmatvec
        Kept without a copy: leave it unchanged while the problem lives. It may be zero, or have no rows: then
        the problem is to minimise f.
    b : vector, one entry for each row of M
    phi : Phi
        Zero (the default), NonNegative, L1, GroupBall, Box, Interval, Conjugate or Stack.
    blocks : int or list of slices, optional
        How x divides into consecutive blocks.
    x_star, y_star : vector, optional
        The solution if it is known, for the history's relative error.
    spectrum : Spectrum, optional
        Bounds on the singular values of M if they are known, so no solve estimates them.
    """

    @named
    def __init__(
        self,
        f: Function,
        M: Any,
        b: Any,
        phi: Phi | None = None,
        *,
        blocks: int | list[slice] | None = None,
        x_star: Any = None,
        y_star: Any = None,
        spectrum: Spectrum | None = None,
    ) -> None:
        if not isinstance(f, Function):
            raise TypeError(f"f must be a dapd function, found {type(f).__name__}; wrap yours in dapd.Smooth")
        phi = Zero() if phi is None else phi
        if not isinstance(phi, Phi):
            raise TypeError(f"phi must be a dapd.Phi, found {type(phi).__name__}; subclass dapd.Phi or use Conjugate")
        if spectrum is not None and not isinstance(spectrum, Spectrum):
            raise TypeError(f"spectrum must be a dapd.Spectrum, found {type(spectrum).__name__}")
        self.spectrum = spectrum
        self.M = as_operator(M, empty=True)
        self.rows, self.columns = self.M.shape
        self.b: Array = vector("b", b, self.rows)
        self.phi = phi.sized(self.rows)
        self.blocks = self._divide(f, blocks)
        self.f = self._fit(f)
        curvatures(f.mu, f.L, owner="f.")
        # float32 only when both say so: a float64 b must not lose digits unasked
        self.dtype = np.result_type(self.M.dtype, self.b.dtype)
        self.x_star = None if x_star is None else vector("x_star", x_star, self.columns)
        self.y_star = None if y_star is None else vector("y_star", y_star, self.rows)

    def _divide(self, f: Function, blocks: int | list[slice] | None) -> list[slice] | None:
        if blocks is not None:
            return partition("blocks", blocks, self.columns)
        if isinstance(self.M, ColumnBlocks):
            return self.M.blocks
        return f.blocks if isinstance(f, Separable) else None

    def _fit(self, f: Function) -> Function:
        if isinstance(f, Separable):
            if f.blocks is None and self.blocks is not None:
                f = Separable(f.functions, sizes=[block.stop - block.start for block in self.blocks])
            if f.blocks is not None and f.blocks != self.blocks:
                raise ValueError("f has other blocks than the problem; make Separable's sizes and blocks= agree")
        return f.sized(self.columns)

    @cached_property
    def sizes(self) -> Sizes:
        """What residuals are compared with, as far as it does not depend on the point."""
        norms = np.where(self.M.row_norms > 0, self.M.row_norms, 1.0)
        rows = abs(self.b.astype(np.float64)) + self.M.row_norms
        start = np.asarray(ask.gradient(self.f, np.zeros(self.columns)), np.float64)
        slopes = np.where(np.isfinite(start), abs(start), 0.0)
        unit = self.f.mu or float(slopes.max()) or self.f.L or 1.0
        return Sizes(rows=np.where(rows > 0, rows, 1.0), duals=unit / norms, columns=slopes + unit, unit=unit)

    @cached_property
    def parts(self) -> list[Function] | None:
        """f_1, …, f_N with f(x) = Σ f_i(x_i) over the blocks; None if f is not known to separate."""
        return None if self.blocks is None else self.f.split(self.blocks)

    def objective(self, x: Array) -> float:
        """f(x) + φ*(Mx − b): inf if x breaks a constraint, however little."""
        return self.f.value(x) + self.phi.conjugate(self.M.forward(x) - self.b)

    def with_solution(self, x_star: Any, y_star: Any = None) -> Problem:
        """The same problem, knowing its solution."""
        solution = {"x_star": x_star, "y_star": y_star}
        return Problem(self.f, self.M, self.b, self.phi, blocks=self.blocks, spectrum=self.spectrum, **solution)

    def __repr__(self) -> str:
        parts = [repr(self.f), repr(self.M), type(self.phi).__name__]
        if self.blocks is not None:
            parts.append(f"{len(self.blocks)} blocks")
        return f"Problem({', '.join(parts)})"
