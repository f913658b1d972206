"""The runs, spread over processes: resumable at any moment, with the time to go."""

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

from dapd.reproduce.problems import EXPERIMENTS, cost
from dapd.reproduce.runs import Record, Run, load, perform, save, sweep

# one thread a process: results then depend on neither --jobs nor the machine's load
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS", "NUMBA_NUM_THREADS")
PULSE = 0.5  # seconds between two words from a run


class Progress(NamedTuple):
    """What is done and what is left, in the cost model's seconds."""

    finished: Run | None  # the run that has just ended
    runs_done: int
    runs: int
    done: float
    total: float


def complete(
    runs: list[Run], folder: Path, *, jobs: int, show: Callable[[Progress], None] | None = None
) -> dict[Run, Record]:
    """Return the records of all runs; those that `folder` already holds are not computed again."""
    sweep(folder)
    unique = list(dict.fromkeys(runs))
    records = {run: record for run in unique if (record := load(run, folder)) is not None}
    # the longest first, so that no core idles at the end
    missing = sorted((run for run in unique if run not in records), key=cost, reverse=True)
    if not missing:
        return records
    total, parts = sum(map(cost, missing)), dict.fromkeys(missing, 0.0)

    def tell(finished: Run | None) -> None:
        if show is not None:
            done = sum(cost(run) * part for run, part in parts.items())
            show(Progress(finished, len(records), len(unique), done, total))

    with _workers(jobs) as (pool, messages):
        waiting: dict[Future[Record], Run] = {pool.submit(_work, run, folder): run for run in missing}
        tell(None)
        while waiting:
            finished, _ = wait(waiting, timeout=PULSE, return_when=FIRST_COMPLETED)
            for run, part in _drain(messages):
                parts[run] = max(parts[run], part)
            for future in finished:
                run = waiting.pop(future)
                records[run] = future.result()
                parts[run] = 1.0
                tell(run)
            if not finished:
                tell(None)
    return {run: records[run] for run in unique}


@contextmanager
def _workers(jobs: int) -> Iterator[tuple[ProcessPoolExecutor, Any]]:
    """Fresh processes with one thread each; none outlives an error, a Ctrl-C or a killed parent."""
    context = multiprocessing.get_context("spawn")
    messages = context.Queue()
    leash, held = context.Pipe(duplex=False)  # the workers' end is readable once ours is closed, or gone with us
    before = {name: os.environ.get(name) for name in THREADS}
    os.environ.update(dict.fromkeys(THREADS, "1"))
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_enlist, initargs=(messages, leash))
    try:
        yield pool, messages
    except BaseException:
        held.close()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
        for end in (held, leash, messages):
            end.close()
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


_messages: Any = None  # the queue to the parent, in a worker


def _enlist(messages: Any, leash: Any) -> None:
    """Tell a worker where to report, and to end at once when the leash is let go."""
    global _messages
    _messages = messages
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C is the parent's to answer

    def obey() -> None:
        multiprocessing.connection.wait([leash])
        os._exit(1)

    threading.Thread(target=obey, daemon=True).start()


def _work(run: Run, folder: Path) -> Record:
    """Compute and keep a run, in a worker."""
    said = monotonic()

    def tell(part: float) -> None:
        nonlocal said
        if monotonic() > said + PULSE:
            said = monotonic()
            _messages.put((run, part))

    record = perform(run, EXPERIMENTS[run.experiment], tell)
    save(record, folder)
    return record


def _drain(messages: Any) -> Iterator[tuple[Run, float]]:
    while True:
        try:
            yield messages.get_nowait()
        except Empty:
            return
