"""The problem: min_x max_y f(x) + yᵀMx − bᵀy − φ(y)."""

from __future__ import annotations

from copy import copy
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from dapd.arguments import SAFE, bounds_of, curvatures, named, partition, vector
from dapd.arrays import Array, in_single, on_device
from dapd.functions import Function
from dapd.functions.proximable import PrimalProx, Proximable, proximable
from dapd.functions.terms import Part
from dapd.kinds.base import Phi, as_phi, numbers_of
from dapd.kinds.by_rows import Interval, Zero
from dapd.kinds.composed import Stack, is_sum_over_rows
from dapd.kinds.native import UnitTable, tabulate
from dapd.kinds.sets import least_positive
from dapd.kinds.table import Table
from dapd.operators.base import Operator
from dapd.operators.blocks import RowBlocks
from dapd.operators.convert import as_operator
from dapd.operators.memory import Memory
from dapd.operators.structured import Identity
from dapd.problem import ask
from dapd.problem.sizes import Limits, Sizes, limits_of, sizes_of, within_bounds
from dapd.problem.units import Data, Units, natural_units
from dapd.spectrum.estimate import Spectrum, estimate_range


class Problem:
    """min_x max_y f(x) + yᵀMx − bᵀy − φ(y), equivalently min_x f(x) + φ*(Mx − b).

    Its solution (x, y) satisfies ∇f(x) + Mᵀy = 0 and y = prox_φ(y + Mx − b). With φ ≡ 0 that is Mx = b, with
    φ = NonNegative() Mx ≤ b; y has these signs whichever method finds it. With bounds, x stays between them.

    Parameters
    ----------
    f : Function
        Smooth and convex: Quadratic, PseudoHuber, LeastSquares, Logistic, Separable or Smooth.
    M : array, sparse matrix, Kronecker, ColumnBlocks, or anything with shape, matvec and rmatvec (PyLops, SciPy)
        Kept without a copy: leave it unchanged while the problem lives. It may be zero, or have no rows: then
        the problem is to minimise f.
    b : vector, one entry for each row of M
    phi : Phi
        Zero (the default), NonNegative, L1, GroupBall, Box, Interval, Conjugate or Stack; or any object that is called
        for its value and has `prox(v, step)`, such as those of PyProximal.
    bounds : pair (lower, upper), optional
        lower ≤ x ≤ upper: numbers or vectors; infinite, of magnitude 1e20 or more, or None if there is no bound; equal
        entries fix a variable.
        The multipliers z of the bounds are zero except at a bound: ∇f(x) + Mᵀy + z = 0, with z ≤ 0 at a lower bound and
        z ≥ 0 at an upper bound.
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
        bounds: tuple[Any, Any] | None = None,
        blocks: int | list[slice] | None = None,
        x_star: Any = None,
        y_star: Any = None,
        spectrum: Spectrum | None = None,
    ) -> None:
        if not isinstance(f, Function):
            raise TypeError(f"f must be a dapd function, found {type(f).__name__}; wrap yours in dapd.Smooth")
        phi = Zero() if phi is None else as_phi(phi)
        phi = phi.checked() if phi.is_foreign else phi
        if spectrum is not None and not isinstance(spectrum, Spectrum):
            raise TypeError(f"spectrum must be a dapd.Spectrum, found {type(spectrum).__name__}")
        self.spectrum = spectrum
        self.from_jax = on_device(M) or on_device(b)  # results are JAX arrays too
        self.in_single = in_single(M, b)  # and in float32, as all numbers are in JAX unless it is told otherwise
        if self.in_single and (isinstance(M, np.ndarray) or sp.issparse(M)):
            M = M.astype(np.float32)
        self.M = as_operator(M, empty=True)
        self.rows, self.columns = self.M.shape
        self.b: Array = self._in_precision(vector("b", b, self.rows))
        self.phi = phi.sized(self.rows)
        self.lower: Array | None = None  # float64, one entry for each column of M; None if x has no bounds
        self.upper: Array | None = None
        limits = None if bounds is None else bounds_of(bounds, self.columns)
        if limits is not None:
            self.lower, self.upper = limits
        given = None if blocks is None else partition("blocks", blocks, self.columns)
        self.blocks: list[slice] | None = given or self.M.column_partition or f.blocks
        self.f = f.divided(self.blocks).sized(self.columns)
        curvatures(f.mu, f.L, owner="f.")
        # float32 only when both say so: a float64 b must not lose digits unasked
        self.dtype = np.result_type(self.M.dtype, self.b.dtype)
        self.x_star = None if x_star is None else vector("x_star", x_star, self.columns)
        self.y_star = None if y_star is None else vector("y_star", y_star, self.rows)

    def _in_precision(self, b: Array) -> Array:
        return b.astype(np.float32) if self.in_single else b

    @cached_property
    def memory(self) -> Memory:
        """What engines keep of the problem, such as its numbers on a device, so they are moved there only once."""
        return Memory()

    def __getstate__(self) -> dict[str, Any]:
        """Without what engines keep."""
        return {name: value for name, value in vars(self).items() if name != "memory"}

    @cached_property
    def slopes(self) -> Array:
        """|∇f(0)|, zero where f has no slope there."""
        with np.errstate(all="ignore"):
            start = np.asarray(ask.gradient(self.f, np.zeros(self.columns)), np.float64)
        return np.where(np.isfinite(start), abs(start), 0.0)

    def units(self) -> Units:
        """How large x, y, rows, columns and the objective typically are, by the data; computed, and not kept."""
        of_residual, of_y = self.phi.ends(self.rows)
        data = Data(
            rows=least_positive(self.b.astype(np.float64), of_residual),
            duals=of_y,
            primal=least_positive(*self.bounds, most=SAFE),
            slopes=self.slopes,
            curvature=self.curvature,
        )
        return natural_units(data, self.M)

    @cached_property
    def sizes(self) -> Sizes:
        """What residuals are compared with, as far as it does not depend on the point."""
        return self._sizes_and_limits[0]

    @cached_property
    def limits(self) -> Limits | None:
        """The bounds on x, as points are held to them; None if there are none."""
        return self._sizes_and_limits[1]

    @cached_property
    def _sizes_and_limits(self) -> tuple[Sizes, Limits | None]:
        units, limits = self.units(), None
        if self.lower is not None and self.upper is not None:
            limits = limits_of(self.lower, self.upper, units, self.dtype)
        return sizes_of(self.b, self.slopes, self.curvature, self.bounds, units), limits

    def within_bounds(self, x: Array, dual: Array) -> Array:
        """The point between the bounds that belongs to x; `dual` may be longer than y, by multipliers of the bounds."""
        if self.limits is None:
            return x
        return within_bounds(self.limits, x, dual[self.rows :] if len(dual) > self.rows else None)

    @cached_property
    def phi_table(self) -> Table | None:
        """φ row by row; None if some rows are neither intervals nor groups."""
        table = Table.of(self.phi, self.rows)
        return None if table is None else table.simplified()

    @cached_property
    def row_table(self) -> UnitTable | None:
        """φ as a table in float64, if it is a sum over rows that the core knows."""
        known = numbers_of(self.phi, self.rows) if is_sum_over_rows(self.phi) else None
        return None if known is None else tabulate(known, np.float64)

    @cached_property
    def terms(self) -> list[Part] | None:
        """The terms of f, block by block if it separates; None if only Python can evaluate it."""
        return self.f.parts(self.columns)

    @property
    def curvature(self) -> Array:
        """How much ∂f/∂x_j changes with a unit of x_j near zero, as far as it is known: ∂²f/∂x_j² of a quadratic f."""
        if self.terms is None:
            return np.zeros(self.columns)
        return np.concatenate([part.terms.diagonal(part.size) for part in self.terms])

    def start(self) -> Array:
        """Where to start if no x0 is given: zero, or inside the bounds if f has a gradient only there."""
        inside = self._inside
        return np.zeros(self.columns, self.dtype) if inside is None else inside.astype(self.dtype)

    @cached_property
    def _inside(self) -> Array | None:
        """A point inside the bounds, near zero; None if f has a gradient at zero."""
        if self.lower is None or self.terms is not None:
            return None
        lower, upper = self.bounds
        with np.errstate(all="ignore"):
            if np.isfinite(ask.gradient(self.f, np.zeros(self.columns))).all():
                return None
            margin = np.minimum(1.0, 0.5 * (upper - lower))
            inside = np.minimum(np.maximum(0.0, lower + margin), upper - margin)
            if not np.isfinite(ask.gradient(self.f, inside)).all():
                raise ValueError(
                    "f.grad returned NaN or infinite numbers at zero, and at a point inside the bounds too; give x0=, "
                    "where f has a gradient, or check f with dapd.testing.check_gradient"
                )
        return inside

    @property
    def bounds(self) -> tuple[Array, Array]:
        """The bounds on x, infinite if there are none."""
        if self.lower is None or self.upper is None:
            return np.full(self.columns, -np.inf), np.full(self.columns, np.inf)
        return self.lower, self.upper

    @property
    def multipliers(self) -> int:
        """How many multipliers there are: of the rows, and of the bounds if x has some."""
        return self.rows if self.lower is None else self.rows + self.columns

    @cached_property
    def stacked(self) -> Problem:
        """The same problem with its bounds as rows of M, so its dual is (y, z): itself if there are no bounds."""
        if self.lower is None:
            return self
        y_star = None
        if self.x_star is not None and self.y_star is not None:
            pull = self.M.adjoint(self.y_star) + ask.gradient(self.f, self.x_star)
            y_star = np.concatenate([self.y_star, -pull])
        return Problem(
            self.f,
            self._stacked_M(),
            self._stacked_b(),
            self._stacked_phi(),
            blocks=self.blocks,
            x_star=self.x_star,
            y_star=y_star,
            spectrum=None if self.spectrum is None else self.stacked_spectrum(self.spectrum),
        )

    def _stacked_M(self) -> Operator:
        identity = Identity(self.columns)
        return RowBlocks([*(part for part, _ in self.M.bands()), identity]) if self.rows else identity

    def _stacked_b(self) -> Array:
        return np.concatenate([self.b, np.zeros(self.columns, self.b.dtype)])

    def _stacked_phi(self) -> Phi:
        limits = Interval.between(*self.bounds)
        return Stack([self.phi, limits], sizes=[self.rows, self.columns]) if self.rows else limits

    def replaced(
        self,
        *,
        f: Function | None = None,
        M: Operator | None = None,
        b: Array | None = None,
        phi: Phi | None = None,
        limits: tuple[Array, Array] | None = None,
    ) -> Problem:
        """The problem with some parts replaced by others of the same shape, which were checked before.

        Whatever depends on the other parts alone is shared with this problem, so a solver may tell by `is` what is new.
        """
        other = copy(self)
        for name, kind in vars(Problem).items():
            if isinstance(kind, cached_property):  # it may depend on any part
                vars(other).pop(name, None)
        other.f, other.M = self.f if f is None else f, self.M if M is None else M
        other.b, other.phi = self.b if b is None else self._in_precision(b), self.phi if phi is None else phi
        if limits is not None:
            other.lower, other.upper = limits
        other.dtype = np.result_type(other.M.dtype, other.b.dtype)
        other.x_star = other.y_star = None
        other.spectrum = self.spectrum if M is None else None
        if self.lower is not None and "stacked" in vars(self):
            other.stacked = self.stacked.replaced(
                f=f,
                M=None if M is None else other._stacked_M(),
                b=None if b is None else other._stacked_b(),
                phi=None if phi is None and limits is None else other._stacked_phi(),
            )
        return other

    @property
    def known_spectrum(self) -> Spectrum | None:
        """What is known of the singular values of M without work: what was given, or estimated before."""
        if self.spectrum is None and isinstance(self.M, Identity):
            return Spectrum(1.0, 1.0)
        found: Spectrum | None = self.spectrum or self.M.memory.known(estimate_range, self.phi.is_linear)
        return found

    def stacked_spectrum(self, spectrum: Spectrum) -> Spectrum:
        """The spectrum of the stacked M: the bounds are orthonormal rows, dependent on the others."""
        if self.lower is None:
            return spectrum
        return Spectrum((1 + spectrum.s_max**2) ** 0.5, 0.0) if self.rows else Spectrum(1.0, 1.0)

    @cached_property
    def proximable(self) -> Proximable:
        """The part of f whose prox is known in closed form, and the rest."""
        return proximable(self.f, self.columns)

    @property
    def primal_prox(self) -> PrimalProx:
        """The prox of that part between the bounds on x."""
        lower, upper = self.bounds
        return PrimalProx(
            self.proximable.curvature,
            self.proximable.c,
            lower if np.isfinite(lower).any() else None,
            upper if np.isfinite(upper).any() else None,
        )

    @cached_property
    def parts(self) -> list[Function] | None:
        """f_1, …, f_N with f(x) = Σ f_i(x_i) over the blocks; None if f is not known to separate."""
        return None if self.blocks is None else self.f.split(self.blocks)

    def objective(self, x: Array) -> float:
        """f(x) + φ*(Mx − b): inf if x breaks a constraint or a bound, however little."""
        if self.lower is not None and not (np.all(x >= self.lower) and np.all(x <= self.upper)):
            return np.inf
        return self.f.value(x) + self.phi.conjugate(self.M.forward(x) - self.b)

    def with_solution(self, x_star: Any, y_star: Any = None) -> Problem:
        """The same problem, knowing its solution."""
        known = Problem(self.f, self.M, self.b, self.phi, blocks=self.blocks, x_star=x_star, y_star=y_star)
        known.lower, known.upper, known.spectrum = self.lower, self.upper, self.spectrum
        return known

    def __repr__(self) -> str:
        parts = [repr(self.f), repr(self.M), type(self.phi).__name__]
        if self.lower is not None:
            parts.append("bounds")
        if self.blocks is not None:
            parts.append(f"{len(self.blocks)} blocks")
        return f"Problem({', '.join(parts)})"
