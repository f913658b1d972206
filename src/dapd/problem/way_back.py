"""How points of a transformed problem are taken back by multiplying and moving entries, on the host or a device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from dapd.arrays import Array, on_device

if TYPE_CHECKING:
    from dapd.problem.problem import Problem


class WayBack(NamedTuple):
    """x = columns·x̂[x_places] and y = rows·ŷ[y_places], of NumPy or of JAX arrays."""

    columns: Any = 1.0  # a vector, or a number if all entries are the same
    rows: Any = 1.0
    x_places: Array | None = None  # None: all entries stay in their places
    y_places: Array | None = None

    def after(self, last: WayBack) -> WayBack:
        """The way back by `last` first, and then by this one."""
        return WayBack(
            self.columns * _at(self.x_places, last.columns),
            self.rows * _at(self.y_places, last.rows),
            _composed(self.x_places, last.x_places),
            _composed(self.y_places, last.y_places),
        )

    def of(self, x: Array, y: Array) -> tuple[Array, Array]:
        """The point (x, y) taken back."""
        return self.columns * _at(self.x_places, x), self.rows * _at(self.y_places, y)

    def start(self, x: Array, y: Array) -> tuple[Array, Array]:
        """The point that is taken back to (x, y)."""
        return _undone(x, self.columns, self.x_places), _undone(y, self.rows, self.y_places)


def _at(places: Array | None, v: Any) -> Any:
    """v[places]; a number is the same in all places."""
    return v if places is None or np.ndim(v) == 0 else v[places]


def _undone(v: Array, factors: Any, places: Array | None) -> Array:
    """The vector w with factors·w[places] = v."""
    if not isinstance(factors, float) or factors != 1.0:
        v = (v / factors).astype(v.dtype)
    if places is None:
        return v
    if on_device(v):
        return v.at[places].set(v, unique_indices=True)
    found = np.empty_like(v)
    found[places] = v
    return found


def _composed(places: Array | None, before: Array | None) -> Array | None:
    """v[before][places] is v[these]."""
    return places if before is None else _at(places, before)


class Transformed(Protocol):
    """A transform of a problem, as those see it who take points there and back."""

    @property
    def problem(self) -> Problem:
        """The transformed one."""

    @property
    def way_back(self) -> WayBack | None:
        """How a point is taken back; None if that takes more than multiplying and moving entries."""

    def start(self, x: Array, y: Array) -> tuple[Array, Array]:
        """(x, y) of the given problem in the variables of the transformed one."""

    def back(self, x: Array, y: Array) -> tuple[Array, Array]:
        """(x, y) of the given problem."""
