"""∇f of each built-in f, as compiled code sees it: a record of one thread's part of it, and its team."""

from __future__ import annotations

from math import sqrt
from typing import Any, NamedTuple

from numba import types
from numba.extending import overload

from dapd.arrays import Array
from dapd.kernels import coupling, dense, sparse
from dapd.kernels.block_function import BlockFunctions, block_grad
from dapd.kernels.rows import Table
from dapd.kernels.team import Team, all_columns, take


class Huber(NamedTuple):
    """A PseudoHuber."""

    e: float


class Diagonal(NamedTuple):
    """A Quadratic with a diagonal H."""

    H: Array
    c: Array


class Full(NamedTuple):
    """A Quadratic with a dense H: this thread's rows of it, and −c."""

    H: Array
    minus_c: Array


class Scattered(NamedTuple):
    """A Quadratic with a sparse H: this thread's rows of it."""

    H: sparse.Csr
    c: Array


class Loss(NamedTuple):
    """A loss of Ax, whose gradient is a dual step: the loss's derivative takes the place of the prox."""

    A: Any  # a record of `coupling`
    table: Table
    base: Array
    ridge: float


class Apart(NamedTuple):
    """Σ f_i(x_i), on one thread."""

    table: BlockFunctions
    image: Array  # scratch as long as the tallest A_i


def grad(f: Any, x: Array, team: Team) -> Array:
    """∇f(x): in compiled code alone, for each kind of f."""
    raise NotImplementedError("declared for compiled code, which has an overload of it")


def _huber(f: Any, x: Array, team: Team) -> Array:
    out, e = take(team, x), x.dtype.type(f.e)
    for i in range(x.size):
        out[i] = x[i] / sqrt(x[i] * x[i] + e * e) + e * x[i]
    return out


def _diagonal(f: Any, x: Array, team: Team) -> Array:
    out = take(team, x)
    for i in range(x.size):
        out[i] = f.H[i] * x[i] - f.c[i]
    return out


def _full(f: Any, x: Array, team: Team) -> Array:
    out = take(team, x)
    dense.dots(f.H, 0, all_columns(team, x), f.minus_c, out, 0, out.size)
    return out


def _scattered(f: Any, x: Array, team: Team) -> Array:
    out = take(team, x)
    sparse.times(f.H, all_columns(team, x), out, 0, out.size)
    for i in range(out.size):
        out[i] -= f.c[i]
    return out


def _loss(f: Any, x: Array, team: Team) -> Array:
    image, out = take(team, f.base), take(team, x)
    coupling.dual_step(f.A, f.table, x, f.base, 1.0, team, image, out)
    for i in range(x.size):
        out[i] += f.ridge * x[i]
    return out


def _apart(f: Any, x: Array, team: Team) -> Array:
    out, first = take(team, x), f.table.matrix.first
    for i in range(f.table.kind.size):
        block_grad(f.table, i, x[first[i] : first[i + 1]], out[first[i] : first[i + 1]], f.image)
    return out


_GRADS = {Huber: _huber, Diagonal: _diagonal, Full: _full, Scattered: _scattered, Loss: _loss, Apart: _apart}


# a division by zero gives inf, as in NumPy: a check for it would keep the loop from being vectorised
@overload(grad, strict=False, jit_options={"error_model": "numpy"})
def _grad(f: Any, x: Any, team: Any) -> Any:
    return _GRADS.get(f.instance_class) if isinstance(f, types.BaseNamedTuple) else None
