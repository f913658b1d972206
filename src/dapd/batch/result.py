"""What a batch of solves returns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from dapd.arrays import Array
from dapd.solving.result import Result, Status


@dataclass(frozen=True, repr=False, eq=False)
class BatchResult:
    """The solutions of a batch: `x[k]`, `y[k]` and `z[k]` belong to problem k, and `batch[k]` is its whole `Result`."""

    x: Array  # (problems, columns)
    y: Array  # (problems, rows)
    z: Array  # (problems, columns), the multipliers of the bounds
    status: list[Status]
    error: Array  # of each certificate, which `tol` bounds
    iterations: Array
    solve_time: float  # seconds for the whole batch
    setup_time: float
    result: Callable[[int], Result]

    @property
    def converged(self) -> bool:
        """Whether all of them did."""
        return all(status is Status.optimal for status in self.status)

    def __len__(self) -> int:
        return len(self.status)

    def __getitem__(self, k: int) -> Result:
        if not -len(self) <= k < len(self):
            raise IndexError(f"the batch has {len(self)} problems, and {k} was asked for")
        return self.result(k % len(self))

    def __iter__(self) -> Iterator[Result]:
        return (self.result(k) for k in range(len(self)))

    def __repr__(self) -> str:
        ends = ", ".join(f"{count:,} {status}" for status, count in Counter(self.status).items())
        return f"BatchResult({len(self):,} problems in {self.solve_time:.3g} s: {ends})"
