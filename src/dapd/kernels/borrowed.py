"""Arrays that compiled code uses without counting who uses them."""

from __future__ import annotations

from typing import Any

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


@intrinsic
def borrowed(context: Any, record: Any) -> Any:
    """The same record; its arrays must outlive the call.

    Numba counts the users of every array of a record each time the record, or a part of it, is handed on, and every
    count is an atomic operation: in a short step they would take longer than the arithmetic.
    """

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _without_owner(context, builder, signature.args[0], args[0])

    return record(record), code


def _without_owner(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    if isinstance(kind, types.Array):
        array = cgutils.create_struct_proxy(kind)(context, builder, value)
        array.meminfo = cgutils.get_null_value(array.meminfo.type)
        return array._getvalue()
    if isinstance(kind, types.BaseTuple):
        for k, part in enumerate(kind.types):
            inner = _without_owner(context, builder, part, builder.extract_value(value, k))
            value = builder.insert_value(value, inner, k)
    return value
