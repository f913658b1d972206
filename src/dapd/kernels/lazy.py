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

from dapd.kernels.team import own_columns, take
from dapd.kernels.vectors import INDEX, Vectors

LEAF, NEGATIVE = "leaf", "neg"
DUAL = ("y", "w")  # the parts of a state that are as long as M has rows


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


def _entries(vectors: Vectors, kind: Any, value: Any, i: Any) -> Any:
    """A vector of entries of an expression, from i on."""
    context, builder = vectors.context, vectors.builder
    if not isinstance(kind, Lazy):
        return vectors.number(value, kind)
    parts = [_part(context, builder, kind, value, k) for k in range(len(kind.parts))]
    if kind.operation == LEAF:
        return vectors.load(context.make_array(kind.parts[0])(context, builder, parts[0]).data, i)
    operands = [_entries(vectors, k, part, i) for k, part in zip(kind.parts, parts, strict=True)]
    do = {NEGATIVE: builder.fneg, "add": builder.fadd, "sub": builder.fsub, "mul": builder.fmul}
    return do[kind.operation](*operands)


def _evaluate(context: Any, builder: Any, kinds: Any, values: Any, outs: Any) -> None:
    """All entries of some expressions of one length, into arrays; all of them at once, so that they may use these."""
    (size,) = cgutils.unpack_tuple(builder, outs[0].shape, 1)
    many, one = Vectors(context, builder, types.float64), Vectors(context, builder, types.float64, 1)
    whole = builder.and_(size, INDEX(-many.lanes))
    for vectors, start, stop in ((many, INDEX(0), whole), (one, whole, size)):
        with cgutils.for_range_slice(builder, start, stop, INDEX(vectors.lanes)) as (i, _):
            found = [_entries(vectors, kind, value, i) for kind, value in zip(kinds, values, strict=True)]
            for entries, out in zip(found, outs, strict=True):
                vectors.store(entries, out.data, i)


@intrinsic
def _fill(context: Any, e: Any, out: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array = context.make_array(out)(context, builder, args[1])
        _evaluate(context, builder, [e], [args[0]], [array])
        return context.get_dummy_value()

    return types.void(e, out), code


@intrinsic
def assign(context: Any, new: Any, old: Any) -> Any:
    """Set the arrays of a state to the expressions of another, which may use these arrays."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        for dual in (False, True):
            which = [k for k, name in enumerate(old.fields) if (name in DUAL) == dual]
            values = [builder.extract_value(args[0], k) for k in which]
            arrays = [
                context.make_array(old.types[k])(context, builder, builder.extract_value(args[1], k)) for k in which
            ]
            _evaluate(context, builder, [new.types[k] for k in which], values, arrays)
        return context.get_dummy_value()

    return types.void(new, old), code


@intrinsic
def _first_leaf(context: Any, e: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind, value = signature.args[0], args[0]
        while kind.operation != LEAF:
            k = next(k for k, part in enumerate(kind.parts) if isinstance(part, Lazy))
            kind, value = kind.parts[k], _part(context, builder, kind, value, k)
        return impl_ret_borrowed(context, builder, kind.parts[0], _part(context, builder, kind, value, 0))

    return e.array(e), code


def filled(e: Any, out: Any) -> Any:
    """The array out, with what an expression stands for."""
    raise NotImplementedError("declared for compiled code, which has an overload of it")


@overload(filled)
def _filled(e, out):  # type: ignore[no-untyped-def]  # as above
    def loop(e, out):  # type: ignore[no-untyped-def]  # as above
        _fill(e, out)
        return out

    return loop


def computed(e: Any, team: Any) -> Any:
    """The array that an expression stands for, in this step; a leaf's own."""
    raise NotImplementedError("declared for compiled code, which has an overload of it")


@overload(computed)
def _computed(e, team):  # type: ignore[no-untyped-def]  # as above
    if e.operation == LEAF:
        return lambda e, team: _first_leaf(e)
    return lambda e, team: filled(e, take(team, _first_leaf(e)))


def multiplied(e: Any, team: Any) -> Any:
    """The same, best made where other threads can read it."""
    raise NotImplementedError("declared for compiled code, which has an overload of it")


@overload(multiplied)
def _multiplied(e, team):  # type: ignore[no-untyped-def]  # as above
    if e.operation == LEAF:
        return lambda e, team: _first_leaf(e)
    return lambda e, team: filled(e, own_columns(team, _first_leaf(e)))


def kept(v: Any) -> Any:
    """V itself; in compiled code, computed now: what a loop assigns anew must not grow with the iterations."""
    return v


@overload(kept)
def _kept(v):  # type: ignore[no-untyped-def]  # as above
    return (lambda v: leaf(filled(v, np.empty_like(_first_leaf(v))))) if isinstance(v, Lazy) else None
