"""Products with a few rows of a dense matrix.

Left to the compiler, vectors would begin where the matrix begins, which is hardly ever where a cache line does, so that
every load would take two lines; and it can't run a loop backwards without turning every vector around. Backwards, the
second product begins with what the first has left in the nearest cache. Sums do not depend on where a matrix begins:
column j adds to a sum with all columns j ± lanes, and these sums are added in an order that has no first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from dapd.kernels.vectors import INDEX, Vectors, wider


class Panel:
    """Some rows and the vectors that they are read in.

    The first vector has the first `lead` columns and the last one those from `stop` on. All between begin where a cache
    line does, if the rows are whole cache lines apart.
    """

    def __init__(self, vectors: Vectors, M: Any, width: Any, at: Any, rows: int, columns: Any) -> None:
        builder, lanes = vectors.builder, INDEX(vectors.lanes)
        self.rows = [builder.gep(M, [at])]
        for _ in range(rows - 1):
            self.rows.append(builder.gep(self.rows[-1], [width]))
        entry = vectors.context.get_abi_sizeof(M.type.pointee)
        address = builder.udiv(builder.ptrtoint(self.rows[0], INDEX), INDEX(entry))
        self.lead = builder.sub(lanes, builder.and_(address, INDEX(vectors.lanes - 1)))
        after = builder.sub(columns, self.lead)
        between = builder.sdiv(builder.sub(after, INDEX(1)), lanes)  # 0 where the first vector has all columns
        self.stop = builder.add(self.lead, builder.mul(between, lanes))
        self.columns = columns


def _with_panel(code: Callable[..., None]) -> Any:
    """An intrinsic (M, i, left, a, b, v, rows): rows of M from row i and column `left` on, and as many columns as v."""

    def typed(context: Any, M: Any, i: Any, left: Any, a: Any, b: Any, v: Any, rows: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            arrays = [
                context.make_array(kind)(context, builder, args[k]) for k, kind in ((0, M), (3, a), (4, b), (5, v))
            ]
            vectors = Vectors(context, builder, wider(M.dtype, v.dtype))
            _, width = cgutils.unpack_tuple(builder, arrays[0].shape, 2)
            (columns,) = cgutils.unpack_tuple(builder, arrays[3].shape, 1)
            at = builder.add(builder.mul(args[1], width), args[2])
            panel = Panel(vectors, arrays[0].data, width, at, rows.literal_value, columns)
            first = [builder.gep(array.data, [args[1]]) for array in arrays[1:3]]
            code(vectors, panel, *zip(first, (a.dtype, b.dtype), strict=True), arrays[3].data)
            return context.get_dummy_value()

        if any(array.layout != "C" for array in (M, a, b, v)):
            return None
        return types.void(M, types.int64, types.int64, a, b, v, rows), generate

    typed.__name__ = code.__name__
    return intrinsic(prefer_literal=True)(typed)


def _dots(vectors: Vectors, panel: Panel, base: Any, y: Any, v: Any) -> None:
    builder = vectors.builder
    zero = vectors.kind(None)
    sums = [cgutils.alloca_once_value(builder, zero) for _ in panel.rows]

    def add(j: Any, some: Any = None) -> None:
        x = vectors.load(v, j, some)
        for row, so_far in zip(panel.rows, sums, strict=True):
            builder.store(vectors.multiply_add(vectors.load(row, j, some), x, builder.load(so_far)), so_far)

    lanes = INDEX(vectors.lanes)
    before = builder.sub(panel.lead, lanes)
    add(before, vectors.lane(">=", builder.sub(INDEX(0), before)))
    with cgutils.for_range_slice(builder, panel.lead, panel.stop, lanes) as (j, _):
        add(j)
    add(panel.stop, vectors.lane("<", builder.sub(panel.columns, panel.stop)))
    for r, so_far in enumerate(sums):
        (from_base, base_dtype), (to, dtype) = ((builder.gep(data, [INDEX(r)]), kind) for data, kind in (base, y))
        start = vectors.context.cast(builder, builder.load(from_base), base_dtype, vectors.dtype)
        total = builder.fadd(start, vectors.total(builder.load(so_far)))
        builder.store(vectors.context.cast(builder, total, vectors.dtype, dtype), to)


def _add(vectors: Vectors, panel: Panel, y: Any, _: Any, out: Any) -> None:
    builder, (data, dtype) = vectors.builder, y
    weights = [vectors.number(builder.load(builder.gep(data, [INDEX(r)])), dtype) for r in range(len(panel.rows))]

    def add(j: Any, where: Any = None) -> None:
        before = after = vectors.load(out, j)
        for row, weight in zip(panel.rows, weights, strict=True):
            after = vectors.multiply_add(vectors.load(row, j), weight, after)
        vectors.store(after if where is None else builder.select(where, after, before), out, j)

    # the last vector and the first one overlap others, and change only what these don't
    lanes = INDEX(vectors.lanes)
    last = builder.sub(panel.columns, lanes)
    add(last, vectors.lane(">=", builder.sub(panel.stop, last)))
    final, beyond = builder.sub(panel.stop, lanes), builder.sub(panel.lead, lanes)
    with cgutils.for_range_slice(builder, final, beyond, INDEX(-vectors.lanes), inc=False) as (j, _):
        add(j)
    add(INDEX(0), vectors.lane("<", panel.lead))


dot_rows = _with_panel(_dots)  # set b = a + Mv in these rows
add_rows = _with_panel(_add)  # add the rows, weighted by a = b, to v
