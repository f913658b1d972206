"""Objects as pytrees, which compiled programs take as arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from operator import attrgetter
from typing import Any, TypeVar, dataclass_transform

import jax
import numpy as np

T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def pytree(*static: str) -> Callable[[type[T]], type[T]]:
    """A frozen dataclass as a pytree; the `static` fields are part of the compiled program."""

    def register(cls: type[T]) -> type[T]:
        made = dataclass(frozen=True)(cls)
        data = [field.name for field in fields(made) if field.name not in static]  # type: ignore[arg-type]
        leaves_of, own_of = _getter(data), _getter(static)

        def flatten(value: T) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
            return leaves_of(value), own_of(value)

        def unflatten(own: tuple[Any, ...], leaves: Iterable[Any]) -> T:
            return made(**dict(zip(static, own, strict=True)), **dict(zip(data, leaves, strict=True)))

        # not `register_dataclass`, as below
        jax.tree_util.register_pytree_node(made, flatten, unflatten)
        return made

    return register


def _getter(names: Sequence[str]) -> Callable[[Any], tuple[Any, ...]]:
    """A function that gives these attributes, quickly, since every call of a program asks for them."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda value: tuple(getattr(value, name) for name in names)


class Static:
    """A part of a compiled program, equal to others that look the same."""

    def __init__(self, value: Any) -> None:
        self.value = value
        arrays = isinstance(value, np.ndarray)
        self.key: Any = (value.shape, value.dtype, value.tobytes()) if arrays else value
        if isinstance(value, (list, slice, dict, set)):
            self.key = repr(value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Static) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


REGISTERED: set[type] = set()


def register(kind: type, arrays: Callable[[Any], Mapping[str, Any]]) -> None:
    """Let JAX find arrays in the attributes of an object that `arrays` gives; others are part of compiled programs.

    Not by `register_dataclass`: in JAX 0.10 the trees of two dataclasses with as many fields count as equal.
    """
    if kind in REGISTERED:
        return

    def flatten(thing: Any) -> tuple[list[Any], Any]:
        own = arrays(thing)
        others = [k for k in vars(thing) if k not in own and not isinstance(getattr(kind, k, None), cached_property)]
        return list(own.values()), (tuple(own), tuple((name, Static(vars(thing)[name])) for name in sorted(others)))

    def unflatten(static: Any, values: Iterable[Any]) -> Any:
        names, others = static
        made: Any = object.__new__(kind)
        vars(made).update({name: one.value for name, one in others}, **dict(zip(names, values, strict=True)))
        return made

    jax.tree_util.register_pytree_node(kind, flatten, unflatten)
    REGISTERED.add(kind)
