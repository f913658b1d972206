"""Vectors as expressions: `2 * a - b` is kept as it stands, and computed entry by entry in one loop when asked for.

Numba computes an expression of arrays in a loop that the compiler can't vectorise, since any array might be broadcast.
Here all vectors of an expression have one length, so that the loop takes a quarter of the time.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numba import types
from numba.core import cgutils
from numba.core.imputils import impl_ret_borrowed
from numba.extending import intrinsic, models, overload, register_model

LEAF, NEGATIVE = "leaf", "neg"


class Lazy(types.Type):
    """An operation on vectors and numbers, or a leaf, which is an array."""

    def __init__(self, operation: str, parts: tuple[Any, ...]) -> None:
        self.operation, self.parts = operation, parts
        super().__init__(name=f"Lazy({operation}, {', '.join(map(str, parts))})")

    @property
    def array(self) -> Any:
        """The type of the array that it is computed into: that of its first leaf."""
        if self.operation == LEAF:
            return self.parts[0]
        return next(part.array for part in self.parts if isinstance(part, Lazy))


@register_model(Lazy)
class _Model(models.StructModel):
    def __init__(self, manager: Any, kind: Lazy) -> None:
        super().__init__(manager, kind, [(f"p{k}", part) for k, part in enumerate(kind.parts)])


def _part(context: Any, builder: Any, kind: Lazy, value: Any, k: int) -> Any:
    return getattr(cgutils.create_struct_proxy(kind)(context, builder, value), f"p{k}")


def _node(operation: str) -> Any:
    """The intrinsic that makes a node."""

    def build(kind: Lazy) -> Any:
        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            node = cgutils.create_struct_proxy(kind)(context, builder)
            for k, arg in enumerate(args):
                setattr(node, f"p{k}", arg)
            return impl_ret_borrowed(context, builder, kind, node._getvalue())

        return kind(*kind.parts), code

    if operation in (LEAF, NEGATIVE):
        return intrinsic(lambda context, a: build(Lazy(operation, (a,))))
    return intrinsic(lambda context, a, b: build(Lazy(operation, (a, b))))


leaf, _negative = _node(LEAF), _node(NEGATIVE)
_sum, _difference, _product = _node("add"), _node("sub"), _node("mul")


def _vectors(*kinds: Any) -> bool:
    """Whether one is an expression, and the others are or are numbers."""
    return any(isinstance(kind, Lazy) for kind in kinds) and all(isinstance(k, (Lazy, types.Number)) for k in kinds)


@overload(operator.add)
def _add(a, b):  # type: ignore[no-untyped-def]  # Numba compares the signatures
    return (lambda a, b: _sum(a, b)) if _vectors(a, b) else None


@overload(operator.sub)
def _sub(a, b):  # type: ignore[no-untyped-def]  # as above
    return (lambda a, b: _difference(a, b)) if _vectors(a, b) else None


@overload(operator.mul)
def _mul(a, b):  # type: ignore[no-untyped-def]  # as above
    return (lambda a, b: _product(a, b)) if _vectors(a, b) else None


@overload(operator.neg)
def _neg(a):  # type: ignore[no-untyped-def]  # as above
    return (lambda a: _negative(a)) if isinstance(a, Lazy) else None


@intrinsic
def _entry(context: Any, e: Any, i: Any) -> Any:
    """Entry i of an expression, in float64."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _compute(context, builder, signature.args[0], args[0], args[1])

    return types.float64(e, types.uint64), code


def _compute(context: Any, builder: Any, kind: Any, value: Any, i: Any) -> Any:
    if not isinstance(kind, Lazy):
        return context.cast(builder, value, kind, types.float64)
    parts = [_part(context, builder, kind, value, k) for k in range(len(kind.parts))]
    if kind.operation == LEAF:
        array = context.make_array(kind.parts[0])(context, builder, parts[0])
        entry = builder.load(builder.gep(array.data, [i]))
        return context.cast(builder, entry, kind.parts[0].dtype, types.float64)
    operands = [_compute(context, builder, k, part, i) for k, part in zip(kind.parts, parts, strict=True)]
    do = {NEGATIVE: builder.fneg, "add": builder.fadd, "sub": builder.fsub, "mul": builder.fmul}
    return do[kind.operation](*operands)


@intrinsic
def _first_leaf(context: Any, e: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind, value = signature.args[0], args[0]
        while kind.operation != LEAF:
            k = next(k for k, part in enumerate(kind.parts) if isinstance(part, Lazy))
            kind, value = kind.parts[k], _part(context, builder, kind, value, k)
        return impl_ret_borrowed(context, builder, kind.parts[0], _part(context, builder, kind, value, 0))

    return e.array(e), code


def computed(e: Any) -> Any:
    """The array that an expression stands for; a leaf's own."""
    raise NotImplementedError("declared for compiled code, which has an overload of it")


@overload(computed)
def _computed(e):  # type: ignore[no-untyped-def]  # as above
    if e.operation == LEAF:
        return lambda e: _first_leaf(e)

    def loop(e):  # type: ignore[no-untyped-def]  # as above
        out = np.empty_like(_first_leaf(e))
        for i in range(np.uint64(out.size)):
            out[i] = _entry(e, i)
        return out

    return loop


def kept(v: Any) -> Any:
    """V itself; in compiled code, computed now: what a loop assigns anew must not grow with the iterations."""
    return v


@overload(kept)
def _kept(v):  # type: ignore[no-untyped-def]  # as above
    return (lambda v: leaf(computed(v))) if isinstance(v, Lazy) else None
