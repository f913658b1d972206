"""The processor's own vectors, for code that the compiler would not vectorise well."""

from __future__ import annotations

from typing import Any

from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

BYTES = 64 if binding.get_host_cpu_features().get("avx512f") else 32  # of a vector
LINE = 64  # bytes of a cache line
NARROW = BYTES // 4  # numbers: fewer are no vector
FUSED = ("contract",)  # a product and a sum may be rounded once
INDEX = ir.IntType(64)


class Vectors:
    """Vectors of one dtype, in the code that is being built."""

    def __init__(self, context: Any, builder: Any, dtype: Any, lanes: int | None = None) -> None:
        self.context, self.builder, self.dtype = context, builder, dtype
        self.lanes = lanes or BYTES // context.get_abi_sizeof(context.get_value_type(dtype))
        self.kind = ir.VectorType(context.get_value_type(dtype), self.lanes)

    def all(self, value: Any) -> Any:
        """A vector of one number."""
        one = self.builder.insert_element(ir.VectorType(value.type, self.lanes)(ir.Undefined), value, INDEX(0))
        return self.builder.shuffle_vector(one, one, _places([0] * self.lanes))

    def number(self, value: Any, kind: Any) -> Any:
        """The same for a number of any kind."""
        return self.all(self.context.cast(self.builder, value, kind, self.dtype))

    def lane(self, comparison: str, value: Any) -> Any:
        """Which lanes compare so with an index."""
        lanes = ir.Constant(ir.VectorType(INDEX, self.lanes), list(range(self.lanes)))
        return self.builder.icmp_signed(comparison, lanes, self.all(value))

    def load(self, pointer: Any, index: Any, lanes: Any = None) -> Any:
        """What stands from an index on; zero where a lane is not among these, and nothing is read for it."""
        where, entry = self._where(pointer, index)
        found = self.builder.load(where, align=_size(entry)) if lanes is None else self._some(where, entry, lanes)
        return found if found.type == self.kind else self.builder.fpext(found, self.kind)

    def _some(self, where: Any, entry: Any, lanes: Any) -> Any:
        vector, align = ir.VectorType(entry, self.lanes), ir.IntType(32)
        kind = ir.FunctionType(vector, [where.type, align, lanes.type, vector])
        suffix = f"v{self.lanes}f{8 * _size(entry)}"
        function = cgutils.get_or_insert_function(self.builder.module, kind, f"llvm.masked.load.{suffix}.p0{suffix}")
        return self.builder.call(function, [where, align(_size(entry)), lanes, vector(None)])

    def store(self, vector: Any, pointer: Any, index: Any) -> None:
        """Write it from an index on."""
        where, entry = self._where(pointer, index)
        narrow = ir.VectorType(entry, self.lanes)
        fitting = vector if vector.type == narrow else self.builder.fptrunc(vector, narrow)
        self.builder.store(fitting, where, align=_size(entry))

    def _where(self, pointer: Any, index: Any) -> tuple[Any, Any]:
        entry = pointer.type.pointee
        vector = ir.VectorType(entry, self.lanes).as_pointer()
        return self.builder.bitcast(self.builder.gep(pointer, [index]), vector), entry

    def multiply_add(self, a: Any, b: Any, c: Any) -> Any:
        """a·b + c."""
        return self.builder.fadd(self.builder.fmul(a, b, flags=FUSED), c, flags=FUSED)

    def total(self, vector: Any) -> Any:
        """The sum of the entries, the same whichever lane is the first."""
        width = self.lanes
        while width > 1:
            width //= 2
            halves = (_places(range(first, first + width)) for first in (0, width))
            parts = [self.builder.shuffle_vector(vector, vector, places) for places in halves]
            vector = self.builder.fadd(*parts)
        return self.builder.extract_element(vector, INDEX(0))


@intrinsic
def prefetch(context: Any, array: Any, i: Any) -> Any:
    """Ask for entry i, which is to be read soon."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        byte, flag = ir.IntType(8).as_pointer(), ir.IntType(32)
        where = builder.gep(context.make_array(array)(context, builder, args[0]).data, [args[1]])
        kind = ir.FunctionType(ir.VoidType(), [byte, flag, flag, flag])
        function = builder.module.declare_intrinsic("llvm.prefetch", (byte,), kind)
        builder.call(function, [builder.bitcast(where, byte), flag(0), flag(3), flag(1)])  # a read, keep it, data
        return context.get_dummy_value()

    return types.void(array, types.int64), code


def wider(a: Any, b: Any) -> Any:
    """The dtype that both fit into."""
    return types.float64 if types.float64 in (a, b) else types.float32


def _places(lanes: Any) -> Any:
    places = list(lanes)
    return ir.Constant(ir.VectorType(ir.IntType(32), len(places)), places)


def _size(entry: Any) -> int:
    return 4 if isinstance(entry, ir.FloatType) else 8
