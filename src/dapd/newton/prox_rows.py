"""The prox of a lowered φ and its derivative, for all rows at once and with one step per row."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import cached_property
from typing import NamedTuple

import numpy as np

from dapd.arguments import consecutive
from dapd.arrays import Array
from dapd.kinds.lowered import BALL, CLIP, KEEP, SHRINK, SHRINK_BALL, Pieces

NONE = np.zeros(0)


class Derivative(NamedTuple):
    """D of v ↦ prox_{σφ}(v): a diagonal, and in group t the matrix a·I + (a′ − a)·v̂v̂ᵀ with v̂ = v/‖v‖.

    Its eigenvalues lie in [0, 1].
    """

    across: Array  # per row: D of a row by itself, or a of its group
    along: Array  # per group: a′, what D does to v̂
    unit: Array  # per row of a group: v̂

    def same_rows(self, other: Derivative | None) -> bool:
        """Whether the same rows are active; groups change smoothly and always count as changed."""
        return other is not None and not self.along.size and np.array_equal(self.across, other.across)


class ProxRows:
    """φ by rows: prox(v) = clip(v − clip(v, σ·lower, σ·upper), least, most), and balls by groups of rows."""

    def __init__(self, pieces: Pieces) -> None:
        rows = sum(length for _, length in pieces)
        self.lower, self.upper = np.zeros(rows), np.zeros(rows)
        self.least, self.most = np.full(rows, -np.inf), np.full(rows, np.inf)
        starts, radii, shrinks, grouped = [], [], [], []
        for (piece, _), where in zip(pieces, consecutive(length for _, length in pieces), strict=True):
            if piece.code == SHRINK:
                self.lower[where], self.upper[where] = piece.lower, piece.upper
            elif piece.code == CLIP:
                self.least[where], self.most[where] = piece.lower, piece.upper
            elif piece.code in (BALL, SHRINK_BALL):
                sizes = np.asarray(piece.sizes)
                starts.append(where.start + np.cumsum(sizes) - sizes)
                radii.append(np.broadcast_to(np.asarray(piece.lower, np.float64), len(sizes)))
                shrinks.append(np.full(len(sizes), piece.code == SHRINK_BALL))
                grouped.append(np.arange(where.start, where.stop))
            elif piece.code != KEEP:
                raise ValueError(f"φ has the code {piece.code}, whose derivative is not known")
        self.clips = bool(np.any(self.least > -np.inf) or np.any(self.most < np.inf))
        self.ends: tuple[Array, Array, Array] | None = None  # the last σ, with σ·lower and σ·upper
        self.linear = self.lower == self.upper  # nothing to shrink: such a row is active if it is not clipped
        self.grouped = np.concatenate(grouped) if grouped else np.zeros(0, np.intp)  # rows that belong to groups
        self.radii = np.concatenate(radii) if radii else np.zeros(0)
        self.shrinks = np.concatenate(shrinks) if shrinks else np.zeros(0, bool)
        starts_of = np.concatenate(starts) if starts else np.zeros(0, np.intp)
        self.starts = np.searchsorted(self.grouped, starts_of)  # within `grouped`

    def scaled(self, rows: Array, cost: float) -> ProxRows:
        """φ of the problem whose rows are multiplied with `rows`, and whose f with `cost`."""
        other = copy(self)
        other.ends = None
        other.lower, other.upper = rows * self.lower, rows * self.upper
        other.least, other.most = cost * self.least / rows, cost * self.most / rows
        of_group = rows[self.grouped][self.starts]
        other.radii = np.where(self.shrinks, self.radii * of_group, cost * self.radii / of_group)
        return other

    def same_groups(self, other: ProxRows) -> bool:
        """Whether both have the same groups, of the same kinds."""
        pairs = ((self.grouped, other.grouped), (self.starts, other.starts), (self.shrinks, other.shrinks))
        return all(np.array_equal(*pair) for pair in pairs)

    @cached_property
    def owner(self) -> Array:
        """The group of each grouped row."""
        sizes = np.diff(np.append(self.starts, self.grouped.size))
        return np.repeat(np.arange(len(sizes)), sizes)

    @cached_property
    def bounded(self) -> Array:
        """Rows whose y has a bound, so their residual need not vanish."""
        found = (self.least > -np.inf) | (self.most < np.inf)
        found[self.grouped] = True
        return found

    def pool(self, steps: Array) -> Array:
        """The steps, equal within each group."""
        if self.grouped.size:
            steps = steps.copy()
            means = np.exp(np.add.reduceat(np.log(steps[self.grouped]), self.starts) / np.bincount(self.owner))
            steps[self.grouped] = means[self.owner]
        return steps

    def prox(self, v: Array, steps: Array) -> Array:
        """prox_{σφ}(v) with the steps σ."""
        p = v - self._shrunk(v, steps)
        if self.clips:
            p = np.minimum(np.maximum(p, self.least), self.most)
        if self.grouped.size:
            p[self.grouped] = v[self.grouped] * self._factors(v, steps)[0][self.owner]
        return p

    def derivative(self, v: Array, steps: Array) -> Derivative:
        """An element of the generalised derivative of the prox at v."""
        return self.prox_and_derivative(v, steps)[1]

    def prox_and_derivative(self, v: Array, steps: Array) -> tuple[Array, Derivative]:
        """Both at once."""
        p = v - self._shrunk(v, steps)
        active = (p != 0) | self.linear
        if self.clips:
            active &= (p > self.least) & (p < self.most)
            p = np.minimum(np.maximum(p, self.least), self.most)
        across = active.astype(np.float64)
        if not self.grouped.size:
            return p, Derivative(across, NONE, NONE)
        factors, norms = self._factors(v, steps)
        outside = factors < 1.0
        along = np.where(self.shrinks, (factors > 0) * 1.0, np.where(outside, 0.0, 1.0))
        across[self.grouped] = factors[self.owner]
        p[self.grouped] = v[self.grouped] * across[self.grouped]
        unit = v[self.grouped] / np.where(norms > 0, norms, 1.0)[self.owner]
        return p, Derivative(across, along, unit)

    def _shrunk(self, v: Array, steps: Array) -> Array:
        """What v loses to the intervals: clip(v, σ·lower, σ·upper)."""
        if self.ends is None or self.ends[0] is not steps:
            self.ends = steps, steps * self.lower, steps * self.upper
        return np.minimum(np.maximum(v, self.ends[1]), self.ends[2])

    def piece(self, v: Array, steps: Array, derivative: Derivative) -> Callable[[Array], Array]:
        """The prox as it is near v: linear in the rows, which stay active or not wherever its argument goes."""
        slope = derivative.across.copy()
        slope[self.grouped] = 0.0
        offset = self.prox(v, steps) - slope * v

        def near(u: Array) -> Array:
            p = slope * u + offset
            if self.grouped.size:
                p[self.grouped] = u[self.grouped] * self._factors(u, steps)[0][self.owner]
            return p

        return near

    def project(self, y: Array) -> Array:
        """The nearest point at which φ is finite."""
        y = np.clip(y, np.where(self.lower == -np.inf, 0.0, self.least), np.where(self.upper == np.inf, 0.0, self.most))
        if self.grouped.size:
            factors = np.where(self.shrinks, 1.0, self._factors(y, np.ones(y.size))[0])
            y[self.grouped] *= factors[self.owner]
        return y

    def _factors(self, v: Array, steps: Array) -> tuple[Array, Array]:
        """What the prox multiplies each group by, and the norms of the groups."""
        inside = v[self.grouped]
        norms = np.sqrt(np.add.reduceat(inside * inside, self.starts))
        safe = np.where(norms > 0, norms, 1.0)
        of_group = steps[self.grouped][self.starts]
        shrunk = np.maximum(0.0, 1.0 - of_group * self.radii / safe)
        return np.where(self.shrinks, shrunk, np.minimum(1.0, self.radii / safe)), norms
