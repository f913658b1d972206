"""Frozen dataclasses as pytrees, which compiled programs take as arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any, TypeVar, dataclass_transform

import jax

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

        # not `register_dataclass`: in JAX 0.10 the trees of two dataclasses with as many fields count as equal
        jax.tree_util.register_pytree_node(made, flatten, unflatten)
        return made

    return register


def _getter(names: Sequence[str]) -> Callable[[Any], tuple[Any, ...]]:
    """A function that gives these attributes, quickly, since every call of a program asks for them."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda value: tuple(getattr(value, name) for name in names)
