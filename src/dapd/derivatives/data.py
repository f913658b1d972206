"""What a user may write for f and M, as records; and records and φ as lists of arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields, replace
from typing import Any, NamedTuple

import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator

from dapd import functions
from dapd.arrays import Array, namespace
from dapd.derivatives import records
from dapd.derivatives.records import FunctionRecord, ParameterRecord, Products, Sparse, products_of
from dapd.kinds.base import Phi
from dapd.kinds.by_rows import Interval, Zero
from dapd.newton.matrices import NotExplicit, explicit
from dapd.operators.base import Operator
from dapd.operators.convert import as_operator

MOST_ENTRIES = 10_000_000  # most entries of a structured map that is written out
INDICES = 99  # stands for the rank of an array of whole numbers
# of arrays that are no vectors; a vector may be a number
RANKS = {"M": 2, "H": 2, "A": 2, "ridge": 0, "e": 0, "rows": INDICES, "columns": INDICES}


class Data(NamedTuple):
    """All that the solution depends on."""

    f: FunctionRecord
    M: Any  # an array, `Sparse` or `Products`
    b: Array
    phi: Phi
    lower: Any  # of x; None if it has no bounds, else a number or a vector, as `upper`
    upper: Any

    @property
    def lengths(self) -> tuple[int, int]:
        """Of x and of w, which is y, or (y, z) if x has bounds."""
        rows, columns = self.M.shape
        return columns, rows if self.lower is None else rows + columns

    def residual(self, x: Array, w: Array, steps: Array) -> tuple[Array, Array]:
        """What is left at (x, w) of the optimality conditions ∇f(x) + Mᵀy + z = 0, y = prox_{sφ}(y + s(Mx − b)).

        The root is the same for all prox steps > 0, but rounding must not decide which rows bind: so y and
        steps·(Mx − b) should be of similar size.
        """
        rows = self.b.shape[0]
        y, z = w[:rows], w[rows:]
        M = products_of(self.M)
        slope = self.f.grad(x) + M.adjoint(y)
        dual = y - self.phi.prox_by_rows(y + steps[:rows] * (M.forward(x) - self.b), steps[:rows])
        if self.lower is None:
            return slope, dual
        bounds = z - Interval.between(self.lower, self.upper).prox(z + steps[rows:] * x, steps[rows:])
        return slope + z, namespace(x).concat([dual, bounds])


def data_of(f: Any, M: Any, b: Any, phi: Any, bounds: Any) -> Data:
    """The arguments of `solve`, as records."""
    if bounds is None:
        lower = upper = None
    elif isinstance(bounds, (tuple, list)) and len(bounds) == 2:
        lower, upper = (
            end if value is None else _listed(value)
            for value, end in zip(bounds, (-float("inf"), float("inf")), strict=True)
        )
    else:
        raise TypeError(f"bounds must be a pair (lower, upper), found {type(bounds).__name__}")
    f, phi = record(f), Zero() if phi is None else phi
    if callable(f) and not isinstance(f, FunctionRecord):
        raise TypeError("f is a plain function; in JAX, wrap it: dapd.jax.Smooth(fun, theta) with fun(x, theta)")
    if not isinstance(f, FunctionRecord):
        raise TypeError(f"f must be a function such as Quadratic(H, c), found {type(f).__name__}")
    if not hasattr(phi, "with_parameters"):
        raise TypeError(
            "phi must be one of Zero, NonNegative, L1, GroupBall, Box, Interval, Conjugate and Stack, or a dapd.Phi of "
            f"your own, found {type(phi).__name__}"
        )
    return Data(f, matrix("M", M), _listed(b), phi, lower, upper)


def _listed(value: Any) -> Any:
    """A tuple of numbers as a list, since records may be tuples."""
    return list(value) if type(value) is tuple else value


def matrix(name: str, M: Any) -> Any:
    """M as an array, as `Sparse`, or as `Products` if its entries are unknown or too many."""
    if isinstance(M, Operator):
        try:
            if (M.entry_count or 0) > MOST_ENTRIES and M.stored_matrix is None:
                return Products(M)
            M = explicit(M)
        except NotExplicit:
            return Products(M)
    if sp.issparse(M):
        return Sparse.of(M)
    if not hasattr(M, "matvec"):
        return _listed(M)
    if name == "H":  # it is symmetric, so it need not have a transpose of its own
        M = LinearOperator(M.shape, matvec=M.matvec, rmatvec=M.matvec, dtype=M.dtype)
    return Products(as_operator(M, name=name))


def record(thing: Any) -> Any:
    """A function of `dapd` as a record with constant parameters; a record with its own parts as such."""
    if isinstance(thing, functions.Function) and not isinstance(thing, FunctionRecord):
        made = records.Constant.of(thing)
        return thing if made is None else record(made)
    if not isinstance(thing, FunctionRecord):
        return thing
    values = {one.name: getattr(thing, one.name) for one in fields(thing)}
    return replace(thing, **{name: v if name in thing.fixed else _part(name, v) for name, v in values.items()})


def _part(name: str, value: Any) -> Any:
    if name in ("H", "A"):
        return matrix(name, value)
    return [record(part) for part in value] if name == "functions" else record(_listed(value))


def check_shapes(data: Data) -> None:
    """Compare the shapes of M, b and the bounds; the classes of `dapd` check the others."""
    if len(data.M.shape) != 2:
        raise ValueError(f"M must be a matrix, found shape {tuple(data.M.shape)}")
    rows, columns = data.M.shape
    if tuple(data.b.shape) != (rows,):
        raise ValueError(
            f"b has shape {tuple(data.b.shape)}, expected ({rows},), one entry for each row of M; "
            "in JAX, use jax.vmap for a batch"
        )
    for name, end in (("lower", data.lower), ("upper", data.upper)):
        if end is not None and tuple(end.shape) not in ((), (columns,)):
            raise ValueError(f"the {name} bound has shape {tuple(end.shape)}, expected a number or ({columns},)")


def leaves(tree: Any) -> list[tuple[Any, int]]:
    """The arrays of records, depth first, each with the most dimensions that it can have."""
    found: list[tuple[Any, int]] = []
    rebuilt(tree, lambda leaf, rank: found.append((leaf, rank)))
    return found


def with_leaves(tree: Any, arrays: Iterable[Any]) -> Any:
    """The same records with other arrays, in the order of `leaves`."""
    given = iter(arrays)
    return rebuilt(tree, lambda leaf, rank: next(given))


def rebuilt(tree: Any, change: Callable[[Any, int], Any], rank: int = 1) -> Any:
    """The same records and φ with every array changed."""
    if tree is None:
        return None
    if isinstance(tree, Data):
        return Data(*(rebuilt(part, change, RANKS.get(name, 1)) for name, part in tree._asdict().items()))
    if isinstance(tree, tuple):
        return tuple(rebuilt(part, change) for part in tree)
    if hasattr(tree, "with_parameters"):  # a φ
        return tree.with_parameters(
            {
                name: [rebuilt(part, change) for part in value] if isinstance(value, list) else rebuilt(value, change)
                for name, value in tree.parameters().items()
            }
        )
    if isinstance(tree, ParameterRecord):
        changed = {
            one.name: rebuilt(getattr(tree, one.name), change, RANKS.get(one.name, 1))
            for one in fields(tree)
            if one.name not in tree.fixed
        }
        return replace(tree, **changed)
    return change(tree, rank)
