"""The dual step with each kind of M, as compiled code sees it: a record of one thread's rows, and its team."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.extending import overload

from dapd.arrays import Array
from dapd.kernels import dense, diagonal, sparse, tiles
from dapd.kernels.compiled import compiled, copy
from dapd.kernels.diagonal import Blocks
from dapd.kernels.rows import Table, prox_units, units
from dapd.kernels.sparse import Csr
from dapd.kernels.team import Team, add_parts, add_sums, all_columns, all_rows, meet, own_part, own_sum
from dapd.kernels.tiles import Tiles


class Rows(NamedTuple):
    """A dense matrix in rows."""

    matrix: Array


class Strip(NamedTuple):
    """All of a dense matrix in rows; this thread has its columns from `left` on, and all of y."""

    matrix: Array
    left: int


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
    half: Array  # scratch


def dual_step(M: Any, phi: Table, v: Array, base: Array, step: float, team: Team, y: Array, out: Array) -> None:
    """Set y = prox_{step·φ}(base + Mv) and out = Mᵀy: in compiled code alone, for each kind of M."""
    raise NotImplementedError("declared for compiled code, which has an overload of it")


@compiled
def fused(M: Any, phi: Table, v: Array, base: Array, step: float, team: Team, y: Array, out: Array) -> None:
    """`dual_step`, for Python to call."""
    dual_step(M, phi, v, base, step, team, y, out)


def _rows(M: Any, phi: Table, v: Array, base: Array, step: float, team: Team, y: Array, out: Array) -> None:
    dense.by_rows(M.matrix, phi, all_columns(team, v), base, step, y, own_part(team, out))
    add_parts(team, out)


def _strip(M: Any, phi: Table, v: Array, base: Array, step: float, team: Team, y: Array, out: Array) -> None:
    if team.rank == 0:
        copy(base, y)
    else:
        y[:] = 0
    dense.dots(M.matrix, M.left, v, y, own_sum(team, y.size), 0, y.size)
    add_sums(team, y)
    prox_units(phi, step, y, 0, units(phi, y.size))
    out[:] = 0
    dense.add(M.matrix, M.left, y, out, 0, y.size)


def _columns(M: Any, phi: Table, v: Array, base: Array, step: float, team: Team, y: Array, out: Array) -> None:
    dense.by_columns(M.transpose, M.left, phi, all_columns(team, v), base, step, y, own_part(team, out))
    add_parts(team, out)


def _products(M: Any, phi: Table, v: Array, base: Array, step: float, team: Team, y: Array, out: Array) -> None:
    np.dot(M.transpose.T, v, y)
    y += base
    prox_units(phi, step, y, 0, units(phi, y.size))
    np.dot(M.transpose, y, out)


def _sparse(M: Any, phi: Table, v: Array, base: Array, step: float, team: Team, y: Array, out: Array) -> None:
    sparse.by_rows(M, phi, all_columns(team, v), base, step, y, own_part(team, out))
    add_parts(team, out)


def _tiles(M: Any, phi: Table, v: Array, base: Array, step: float, team: Team, y: Array, out: Array) -> None:
    tiles.forward(M, all_columns(team, v), base, y)
    prox_units(phi, step, y, 0, units(phi, y.size))
    tiles.backward(M, all_rows(team, y), out)


def _blocks(M: Any, phi: Table, v: Array, base: Array, step: float, team: Team, y: Array, out: Array) -> None:
    diagonal.by_panels(M, phi, v, base, step, y, out)
    meet(team)  # a gradient that gathers x relies on a meeting in every dual step


def _factor(M: Any, phi: Table, v: Array, base: Array, step: float, team: Team, y: Array, out: Array) -> None:
    width, x = base.size // M.A.shape[0], all_columns(team, v)
    np.dot(M.A, x.reshape(x.size // width, width), y.reshape(M.A.shape[0], width))
    y += base
    prox_units(phi, step, y, 0, units(phi, y.size))
    whole = all_rows(team, y)
    np.dot(M.columns, whole.reshape(whole.size // width, width), out.reshape(M.columns.shape[0], width))


def _factors(M: Any, phi: Table, v: Array, base: Array, step: float, team: Team, y: Array, out: Array) -> None:
    (p, q), (r, s) = M.A.shape, M.B.shape
    np.dot(M.A, v.reshape(q, s), M.half)
    np.dot(M.half, M.B.T, y.reshape(p, r))
    y += base
    prox_units(phi, step, y, 0, units(phi, y.size))
    np.dot(y.reshape(p, r), M.B, M.half)
    np.dot(M.A.T, M.half, out.reshape(q, s))


_STEPS = {
    Rows: _rows,
    Strip: _strip,
    Columns: _columns,
    Products: _products,
    Csr: _sparse,
    Tiles: _tiles,
    Blocks: _blocks,
    Factor: _factor,
    Factors: _factors,
}


@overload(dual_step, strict=False)
def _dual_step(M: Any, phi: Any, v: Any, base: Any, step: Any, team: Any, y: Any, out: Any) -> Any:
    return _STEPS.get(M.instance_class) if isinstance(M, types.BaseNamedTuple) else None
