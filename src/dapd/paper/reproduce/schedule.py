"""Compute the runs in several processes; they can be interrupted and resumed at any time."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from queue import Empty
from time import monotonic
from typing import Any, NamedTuple

from dapd.paper.reproduce.runs import EXPERIMENTS, Record, Run, compute, load, remove_stale_drafts, run_cost, save

# one thread per process, so results depend neither on --jobs nor on the load of the machine
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
REPORT_INTERVAL = 0.5  # seconds between two messages from a run


class Progress(NamedTuple):
    """What is done and what is left, in seconds of the cost model."""

    finished: Run | None  # the run that has just finished
    runs_done: int
    runs: int
    done: float
    total: float


def complete(
    runs: list[Run], folder: Path, *, jobs: int, show: Callable[[Progress], None] | None = None
) -> dict[Run, Record]:
    """Return the records of all runs; those already in `folder` are not computed again."""
    remove_stale_drafts(folder)
    unique = list(dict.fromkeys(runs))
    records = {run: record for run in unique if (record := load(run, folder)) is not None}
    # the longest first, so no core is idle at the end
    missing = sorted((run for run in unique if run not in records), key=run_cost, reverse=True)
    if not missing:
        return records
    total, parts = sum(map(run_cost, missing)), dict.fromkeys(missing, 0.0)

    def report(finished: Run | None) -> None:
        if show is not None:
            done = sum(run_cost(run) * part for run, part in parts.items())
            show(Progress(finished, len(records), len(unique), done, total))

    with _workers(jobs) as (pool, messages):
        waiting: dict[Future[Record], Run] = {pool.submit(_compute_and_save, run, folder): run for run in missing}
        report(None)
        while waiting:
            finished, _ = wait(waiting, timeout=REPORT_INTERVAL, return_when=FIRST_COMPLETED)
            for run, part in _pending(messages):
                parts[run] = max(parts[run], part)
            for future in finished:
                run = waiting.pop(future)
                records[run] = future.result()
                parts[run] = 1.0
                report(run)
            if not finished:
                report(None)
    return {run: records[run] for run in unique}


@contextmanager
def _workers(jobs: int) -> Iterator[tuple[ProcessPoolExecutor, Any]]:
    """New processes with one thread each; all of them end after an error, a Ctrl-C or the death of the parent."""
    context = multiprocessing.get_context("spawn")
    messages = context.Queue()
    # the workers' end becomes readable when the parent closes its end or dies
    worker_end, parent_end = context.Pipe(duplex=False)
    before = {name: os.environ.get(name) for name in THREADS}
    os.environ.update(dict.fromkeys(THREADS, "1"))
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_start_worker, initargs=(messages, worker_end))
    try:
        yield pool, messages
    except BaseException:
        parent_end.close()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
        for end in (parent_end, worker_end, messages):
            end.close()
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


_messages: Any = None  # the queue to the parent, in a worker


def _start_worker(messages: Any, worker_end: Any) -> None:
    """Set the queue that a worker reports to, and end the worker when the parent closes its end of the pipe."""
    global _messages
    _messages = messages
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # only the parent handles Ctrl-C

    def exit_with_parent() -> None:
        multiprocessing.connection.wait([worker_end])
        os._exit(1)

    threading.Thread(target=exit_with_parent, daemon=True).start()


def _compute_and_save(run: Run, folder: Path) -> Record:
    """Compute a run in a worker, and store it."""
    last_report = monotonic()

    def report(part: float) -> None:
        nonlocal last_report
        if monotonic() > last_report + REPORT_INTERVAL:
            last_report = monotonic()
            _messages.put((run, part))

    record = compute(run, EXPERIMENTS[run.experiment], report)
    save(record, folder)
    return record


def _pending(messages: Any) -> Iterator[tuple[Run, float]]:
    """The messages that have arrived: runs, and the fraction of each that is done."""
    while True:
        try:
            yield messages.get_nowait()
        except Empty:
            return
