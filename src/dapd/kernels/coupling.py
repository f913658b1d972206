"""The dual step with each kind of M, as compiled code sees it: a record of one thread's rows, and its team."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.extending import overload

from dapd.arrays import Array
from dapd.kernels import dense, diagonal, sparse
from dapd.kernels.compiled import compiled
from dapd.kernels.diagonal import Blocks
from dapd.kernels.rows import Table, prox_units, units
from dapd.kernels.sparse import Csr
from dapd.kernels.team import Team, all_columns, all_rows, meet, own_part, summed


class Rows(NamedTuple):
    """A dense matrix in rows."""

    matrix: Array


class Columns(NamedTuple):
    """A dense matrix in columns: the columns of `transpose` from `left` on."""

    transpose: Array
    left: int


class Products(NamedTuple):
    """A dense matrix in columns that BLAS is to multiply, twice, on its own threads."""

    transpose: Array


class Factor(NamedTuple):
    """A ⊗ I."""

    A: Array  # this thread's rows
    columns: Array  # this thread's columns of all of A, as rows


class Factors(NamedTuple):
    """A ⊗ B, on one thread."""

    A: Array
    B: Array


def dual_step(M: Any, phi: Table, v: Array, base: Array, step: float, team: Team) -> tuple[Array, Array]:
    """Return y = prox_{step·φ}(base + Mv) and Mᵀy: in compiled code alone, for each kind of M."""
    raise NotImplementedError


@compiled
def fused(M: Any, phi: Table, v: Array, base: Array, step: float, team: Team, y: Array, Mty: Array) -> None:
    """`dual_step`, for Python to call; nothing is returned, for the reason that `chunk` gives."""
    y[:], Mty[:] = dual_step(M, phi, v, base, step, team)


def _rows(M: Any, phi: Table, v: Array, base: Array, step: float, team: Team) -> tuple[Array, Array]:
    y, part = np.empty_like(base), own_part(team, v)
    dense.by_rows(M.matrix, phi, all_columns(team, v), base, step, y, part)
    return y, summed(team, part)


def _columns(M: Any, phi: Table, v: Array, base: Array, step: float, team: Team) -> tuple[Array, Array]:
    y, part = np.empty_like(base), own_part(team, v)
    dense.by_columns(M.transpose, M.left, phi, all_columns(team, v), base, step, y, part)
    return y, summed(team, part)


def _products(M: Any, phi: Table, v: Array, base: Array, step: float, team: Team) -> tuple[Array, Array]:
    y = base + np.dot(M.transpose.T, v)
    prox_units(phi, step, y, 0, units(phi, y.size))
    return y, np.dot(M.transpose, y)


def _sparse(M: Any, phi: Table, v: Array, base: Array, step: float, team: Team) -> tuple[Array, Array]:
    y, part = np.empty_like(base), own_part(team, v)
    sparse.by_rows(M, phi, all_columns(team, v), base, step, y, part)
    return y, summed(team, part)


def _blocks(M: Any, phi: Table, v: Array, base: Array, step: float, team: Team) -> tuple[Array, Array]:
    y, out = np.empty_like(base), np.empty_like(v)
    diagonal.by_panels(M, phi, v, base, step, y, out)
    meet(team)  # a gradient that gathers x relies on a meeting in every dual step
    return y, out


def _factor(M: Any, phi: Table, v: Array, base: Array, step: float, team: Team) -> tuple[Array, Array]:
    width = base.size // M.A.shape[0]
    x = all_columns(team, v)
    X, y = x.reshape(x.size // width, width), base.copy()
    Y = y.reshape(M.A.shape[0], width)
    for r in range(Y.shape[0]):
        dense.add(X, dense.NO, M.A[r], Y[r], 0, X.shape[0])
    prox_units(phi, step, y, 0, units(phi, y.size))
    whole, out = all_rows(team, y), np.zeros_like(v)
    Y, Out = whole.reshape(whole.size // width, width), out.reshape(M.columns.shape[0], width)
    for k in range(Out.shape[0]):
        dense.add(Y, dense.NO, M.columns[k], Out[k], 0, Y.shape[0])
    return y, out


def _factors(M: Any, phi: Table, v: Array, base: Array, step: float, team: Team) -> tuple[Array, Array]:
    (p, q), (r, s) = M.A.shape, M.B.shape
    y, out, half = np.empty_like(base), np.empty_like(v), np.empty((p, s), v.dtype)
    np.dot(M.A, v.reshape(q, s), half)
    np.dot(half, M.B.T, y.reshape(p, r))
    y += base
    prox_units(phi, step, y, 0, units(phi, y.size))
    np.dot(y.reshape(p, r), M.B, half)
    np.dot(M.A.T, half, out.reshape(q, s))
    return y, out


_STEPS = {
    Rows: _rows,
    Columns: _columns,
    Products: _products,
    Csr: _sparse,
    Blocks: _blocks,
    Factor: _factor,
    Factors: _factors,
}


@overload(dual_step, strict=False)
def _dual_step(M: Any, phi: Any, v: Any, base: Any, step: Any, team: Any) -> Any:
    return _STEPS.get(M.instance_class) if isinstance(M, types.BaseNamedTuple) else None
