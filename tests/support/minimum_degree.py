"""The counts of an approximate minimum degree ordering (Amestoy, Davis and Duff 1996) in plain Python.

The same algorithm as in src/core/symbolic.hpp, to test the core against. In the quotient graph, an eliminated column is
an element, with the variables that it couples; a variable has a list of elements and one of variables. Variables with
equal lists are merged into one, whose weight is their number.
"""

from __future__ import annotations

import numpy as np

from dapd.arrays import Array
from dapd.newton.costs import most_entries


class MinimumDegree:
    """The ordering of a symmetric pattern, of which one triangle is enough."""

    def __init__(self, indptr: Array, indices: Array) -> None:
        n = len(indptr) - 1
        row = np.repeat(np.arange(n), np.diff(indptr))
        off = row != indices
        row, column = row[off], indices[off]
        pairs = np.unique(np.concatenate([row * n + column, column.astype(np.int64) * n + row]))
        row, column = pairs // max(n, 1), pairs % max(n, 1)
        lengths = np.bincount(row, minlength=n)
        dense = lengths > most_entries(n)
        kept = ~(dense[row] | dense[column])
        lists = np.split(column[kept], np.cumsum(np.bincount(row[kept], minlength=n))[:-1]) if n else []
        self.size, self.dense = n, int(dense.sum())
        self.variables: list[list[int]] = [part.tolist() for part in lists]
        self.elements: list[list[int]] = [[] for _ in range(n)]
        self.members: list[list[int]] = [[] for _ in range(n)]  # the variables that an element couples
        self.weight = (~dense).astype(int).tolist()  # 0: eliminated, merged or dense
        self.degree = [len(part) for part in self.variables]  # bound on a variable's, the exact one of an element
        self.dense_near = np.bincount(row, dense[column], minlength=n).astype(int).tolist()
        self.alive = [False] * n  # elements that no other has absorbed
        self.by_degree: list[dict[int, None]] = [{} for _ in range(n + 1)]  # variables, in the order of their insertion
        for i in range(n):
            if self.weight[i]:
                self.by_degree[self.degree[i]][i] = None
        self.left, self.lowest = n - self.dense, 0

    def run(self, fill_limit: float, flops_limit: float) -> tuple[float, float, bool]:
        """Entries and flops of L, and whether all were counted."""
        fill, flops = 0.0, 0.0
        while self.left > 0:
            columns, below = self._eliminate()
            fill += columns * below + columns * (columns - 1) / 2
            flops += columns * below**2 + columns * (columns - 1) * (below + (2 * columns - 1) / 6)
            if fill > fill_limit or flops > flops_limit:
                return fill, flops, False
        last = self.dense
        return fill + last * (last - 1) / 2, flops + last * (last - 1) * (2 * last - 1) / 6, True

    def _eliminate(self) -> tuple[int, int]:
        """Eliminate a variable of least degree: how many columns that is, and how many entries are below them."""
        while not self.by_degree[self.lowest]:
            self.lowest += 1
        pivot = self.by_degree[self.lowest].popitem()[0]
        columns, self.weight[pivot] = self.weight[pivot], 0
        members = self._gather(pivot)
        reach = sum(self.weight[i] for i in members)
        outside = self._outside(members)
        alone = [i for i in members if self._update(i, pivot, outside, members)]
        for i in alone:  # coupled by nothing else, so eliminated with the pivot
            columns, reach = columns + self.weight[i], reach - self.weight[i]
            self.weight[i] = 0
            self._add_dense(pivot, self.dense_near[i])
        self.left -= columns
        self._merge_alike(members)
        self.members[pivot] = [i for i in members if self.weight[i]]
        self.alive[pivot], self.degree[pivot] = reach > 0, reach
        for i in self.members[pivot]:
            rest = reach - self.weight[i]
            self.degree[i] = min(self.degree[i] + rest, self.left - self.weight[i])
            self.by_degree[self.degree[i]][i] = None
            self.lowest = min(self.lowest, self.degree[i])
        return columns, reach + self.dense_near[pivot]

    def _gather(self, pivot: int) -> dict[int, None]:
        """The variables that the pivot couples, directly or by its elements, which are absorbed."""
        found: dict[int, None] = {}
        for element in self.elements[pivot]:
            found.update(dict.fromkeys(self.members[element]))
            self._absorb(element, pivot)
        found.update(dict.fromkeys(self.variables[pivot]))
        members = {i: None for i in found if self.weight[i]}
        for i in members:
            del self.by_degree[self.degree[i]][i]
        return members

    def _absorb(self, element: int, pivot: int) -> None:
        self.alive[element], self.members[element] = False, []
        self._add_dense(pivot, self.dense_near[element])

    def _add_dense(self, i: int, count: int) -> None:
        self.dense_near[i] = min(self.dense, self.dense_near[i] + count)

    def _outside(self, members: dict[int, None]) -> dict[int, int]:
        """What each element of the members couples outside of them, by weight."""
        outside: dict[int, int] = {}
        for i in members:
            for element in self.elements[i]:
                if self.alive[element]:
                    outside[element] = outside.get(element, self.degree[element]) - self.weight[i]
        return outside

    def _update(self, i: int, pivot: int, outside: dict[int, int], members: dict[int, None]) -> bool:
        """Take out of the lists of i what is gone, put the pivot in, bound the degree; True if nothing is left."""
        kept = []
        for element in self.elements[i]:
            if self.alive[element] and outside[element]:
                kept.append(element)
            elif self.alive[element]:
                self._absorb(element, pivot)  # all that it couples is the pivot's
        self.variables[i] = [j for j in self.variables[i] if self.weight[j] and j not in members]
        bound = sum(outside[element] for element in kept) + sum(self.weight[j] for j in self.variables[i])
        self.degree[i] = min(self.degree[i], bound)
        self.elements[i] = [pivot, *kept]
        return not kept and not self.variables[i]

    def _merge_alike(self, members: dict[int, None]) -> None:
        """Merge members with equal lists; the last of them stands for all."""
        stands: dict[tuple[frozenset[int], frozenset[int]], int] = {}
        for i in reversed(members):
            if not self.weight[i]:
                continue
            other = stands.setdefault((frozenset(self.elements[i]), frozenset(self.variables[i])), i)
            if other != i:
                self.weight[other] += self.weight[i]
                self.weight[i] = 0
                self._add_dense(other, self.dense_near[i])
