"""Many problems at once: `dapd.solve_batch`."""

from dapd.solving.batch.front import solve_batch
from dapd.solving.batch.results import BatchResult

__all__ = ["BatchResult", "solve_batch"]
