"""What a user may write for f, φ and M, as records; and records as lists of arrays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import Any, NamedTuple

import scipy.sparse as sp

from dapd.arrays import Array
from dapd.implicit import records
from dapd.implicit.records import FunctionRecord, PhiRecord, Sparse, is_fixed
from dapd.model import composed, proximal, smooth
from dapd.operators.base import Operator
from dapd.second_order.matrices import NotExplicit, explicit

# a subclass may compute something else, so it is not among them
RECORDS: dict[type, type] = {
    getattr(module, name): getattr(records, name)
    for module, names in (
        (smooth, ("Quadratic", "LeastSquares", "Logistic", "PseudoHuber", "Separable")),
        (proximal, ("Zero", "NonNegative", "Box", "Interval", "L1", "GroupBall")),
        (composed, ("Conjugate", "Stack")),
    )
    for name in names
}


class Data(NamedTuple):
    """All that the solution depends on."""

    f: FunctionRecord
    M: Any  # an array or `Sparse`
    b: Array
    phi: PhiRecord
    lower: Any  # of x; None if it has no bounds, else a number or a vector, as `upper`
    upper: Any


def data_of(f: Any, M: Any, b: Any, phi: Any, bounds: Any) -> Data:
    """The arguments of `solve`, as records."""
    if bounds is None:
        lower = upper = None
    elif isinstance(bounds, (tuple, list)) and len(bounds) == 2:
        lower, upper = (end if value is None else value for value, end in zip(bounds, (-float("inf"), float("inf")), strict=True))
    else:
        raise TypeError(f"bounds must be a pair (lower, upper), found {type(bounds).__name__}")
    f, phi = record(f), record(records.Zero() if phi is None else phi)
    if not isinstance(f, FunctionRecord):
        raise TypeError(f"f must be a function such as Quadratic(H, c), found {type(f).__name__}")
    if not isinstance(phi, PhiRecord):
        raise TypeError(f"phi must be one of Zero, NonNegative, L1, GroupBall, Box, Interval, Conjugate and Stack, found {type(phi).__name__}")
    return Data(f, matrix("M", M), b, phi, lower, upper)


def matrix(name: str, M: Any) -> Any:
    """M as an array or as `Sparse`."""
    if isinstance(M, Operator):
        try:
            M = explicit(M)
        except NotExplicit as error:
            raise TypeError(f"{name} must be an array or a sparse matrix here: {error}") from None
    if sp.issparse(M):
        return Sparse.of(M)
    if hasattr(M, "matvec"):
        raise TypeError(f"{name} must be an array or a sparse matrix here: the entries of {type(M).__name__} are unknown")
    return M


def record(thing: Any) -> Any:
    """A function or φ of `dapd` as a record with constant parameters; a record with its own parts as such."""
    kind = RECORDS.get(type(thing))
    if kind is None and not isinstance(thing, (FunctionRecord, PhiRecord)):
        return thing
    values = {one.name: _part(one.name, getattr(thing, one.name, None)) for one in fields(kind or thing)}
    if isinstance(thing, smooth.Separable):
        values["sizes"] = [block.stop - block.start for block in thing.blocks or []]
    return replace(thing, **values) if kind is None else kind(**values)


def _part(name: str, value: Any) -> Any:
    if name in ("H", "A"):
        return matrix(name, value)
    return [record(part) for part in value] if name in ("functions", "parts") else record(value)


def leaves(tree: Any, found: list[Any] | None = None) -> list[Any]:
    """The arrays of records, depth first."""
    found = [] if found is None else found
    rebuilt(tree, lambda leaf: found.append(leaf))
    return found


def rebuilt(tree: Any, change: Callable[[Any], Any]) -> Any:
    """The same records with every array changed, in the order of `leaves`."""
    if tree is None:
        return None
    if isinstance(tree, Data):
        return Data(*(rebuilt(part, change) for part in tree))
    if isinstance(tree, tuple):
        return tuple(rebuilt(part, change) for part in tree)
    if is_dataclass(tree):
        values = {one.name: getattr(tree, one.name) for one in fields(tree)}
        changed = {one.name: rebuilt(values[one.name], change) for one in fields(tree) if not is_fixed(one)}
        return type(tree)(**{**values, **changed})
    return change(tree)
