"""The rows of M on a mesh: which need a sum over the devices, which lie as x does, and which become a matrix first."""

from __future__ import annotations

from functools import singledispatch
from itertools import groupby
from typing import Any

import numpy as np
from jax.sharding import Mesh

from dapd.engines.jax.layout import Layout
from dapd.engines.native.maps import obstacle
from dapd.operators.base import FORMED, Operator, stored
from dapd.operators.blocks import RowBlocks
from dapd.operators.explicit import Sparse
from dapd.operators.structured import BlockDiagonal, Identity, Kronecker


def divided_shape(M: Operator, mesh: Any) -> tuple[int, int]:
    """The shape of the rows of M that need a sum over the devices; it decides what is divided."""
    if not isinstance(mesh, Mesh):
        raise TypeError(f"mesh must be a jax.sharding.Mesh, found {type(mesh).__name__}")
    rows, columns = 0, M.shape[1]
    for by_columns in (True, False):
        rows = sum(p.shape[0] for p in parts_of(M) if not lies_as_x(p, mesh.size, by_columns=by_columns))
        if rows <= columns:
            break
    return rows, columns


def parts_of(M: Operator) -> list[Operator]:
    """The maps that lie on top of each other, without those that have no rows."""
    return [part for part, _ in M.bands() if part.shape[0]]


@singledispatch
def lies_as_x(part: Operator, devices: int, *, by_columns: bool) -> bool:
    """Whether the rows of a part can lie as x does, so that products with them need no other device."""
    return False


@lies_as_x.register
def _(part: Identity, devices: int, *, by_columns: bool) -> bool:
    return part.shape[0] == part.shape[1]


@lies_as_x.register
def _(part: Sparse, devices: int, *, by_columns: bool) -> bool:
    return is_diagonal(part.matrix)


@lies_as_x.register
def _(part: BlockDiagonal, devices: int, *, by_columns: bool) -> bool:
    alike = len({block.shape for block in part.matrices}) == 1
    return by_columns and alike and len(part.matrices) % devices == 0  # whole blocks on each device


def is_diagonal(matrix: Any) -> bool:
    """Whether a square CSR matrix stores its diagonal and nothing else."""
    rows, columns = matrix.shape
    return rows == columns == matrix.nnz and bool(
        np.array_equal(matrix.indptr, np.arange(rows + 1)) and np.array_equal(matrix.indices, np.arange(rows))
    )


def divisible_parts(M: Operator, layout: Layout) -> list[Operator]:
    """The parts of M; with blocks of rows, neighbours whose rows the devices cannot divide are one matrix."""
    devices, by_columns = layout.mesh.size, layout.by_columns
    if by_columns:
        return parts_of(M)
    found: list[Operator] = []
    for free, some in groupby(parts_of(M), lambda part: lies_as_x(part, devices, by_columns=False)):
        run = list(some)
        if free or all(part.shape[0] % devices == 0 for part in run):
            found += run
            continue
        rows = sum(part.shape[0] for part in run)
        if rows % devices:
            raise ValueError(
                f"M has {rows} neighbouring rows ({', '.join(map(repr, run))}), which the {devices} devices of mesh "
                "cannot divide evenly; append zero rows to them, or put the parts of M in another order"
            )
        found.append(_merged(run))
    return found


def _merged(run: list[Operator]) -> Operator:
    """The parts as one matrix, kept with the first of them."""
    matrix: Operator | None
    known, matrix = run[0].memory.known(_merged) or ([], None)
    if matrix is None or list(map(id, known)) != list(map(id, run[1:])):
        matrix = as_matrix(RowBlocks(run))
        run[0].memory.keep(_merged, None, (run[1:], matrix))
    return matrix


def as_matrix(M: Operator) -> Operator:
    """The matrix of a map with structure: dense if all of its parts are, else sparse."""
    matrix = stored(M, FORMED)
    if matrix is not None:
        return matrix
    part = obstacle(M, FORMED)
    if isinstance(part, Kronecker):
        raise ValueError(
            f"M has a Kronecker product whose A is {part.A.shape[0]} × {part.A.shape[1]}, which the devices of mesh "
            f"cannot divide evenly, and its {part.entry_count:,} entries are too many to form it; append zero columns "
            "(or rows, if M has more of these) to A, or use fewer devices"
        )
    raise ValueError(
        f"M has a part of the kind {type(part).__name__}, which a mesh cannot divide; give an array, a sparse matrix, "
        "Kronecker, BlockDiagonal, RowBlocks or ColumnBlocks of these, or what dapd.jax.load_shards returns"
    )
