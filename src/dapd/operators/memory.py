"""What was computed of an object, so it is computed only once."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

T = TypeVar("T")


class Memory:
    """Results by their owner, the function or class that they belong to, and a key of its choice."""

    def __init__(self) -> None:
        self._found: dict[Hashable, Any] = {}

    def once(self, owner: Hashable, key: Hashable, find: Callable[[], T]) -> T:
        """The result of `find`, of the first call with this owner and key."""
        place = owner, key
        if place not in self._found:
            self._found[place] = find()
        found: T = self._found[place]
        return found

    def known(self, owner: Hashable, key: Hashable = None) -> Any:
        """What was found before; None if nothing was."""
        return self._found.get((owner, key))

    def keep(self, owner: Hashable, key: Hashable, found: T) -> T:
        """Replace what was found before."""
        self._found[owner, key] = found
        return found

    def __bool__(self) -> bool:
        return bool(self._found)
