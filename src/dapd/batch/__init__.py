"""Many problems at once: `dapd.solve_batch`."""

from dapd.batch.batch import solve_batch
from dapd.batch.result import BatchResult

__all__ = ["BatchResult", "solve_batch"]
