"""One solver on one instance, in a process of its own: the least time to an answer that the judge accepts.

Packages that bring HiGHS in different versions do not bear each other in one process, and one that hangs can be ended.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from first_order_parts.contestants import CONTESTANTS, Goal
from first_order_parts.instances import Instance, of_name
from first_order_parts.judges import Judge
from peers.case import Attempt, Case

TIGHTER = (1.0, 1e-1, 1e-2)  # factors on the tolerance, tried until the judge accepts the answer
OVERTIME = 1.1  # how far beyond its limit an answer still counts, since solvers look at the clock now and then
BUILDING, PATIENCE = 60.0, 1.5  # seconds to make an instance, and how far beyond its limit a solver is waited for
QUICK, REPEATS = 1.0, 2  # a run of fewer seconds is repeated so many times, and the least time counts


class Outcome(NamedTuple):
    """The fastest accepted answer, or the most accurate one if none was."""

    accepted: bool
    seconds: float
    iterations: int
    error: float  # as the judge sees it
    status: str
    setting: str = ""
    others: str = ""  # seconds of the other settings


def best_of(found: Sequence[Outcome]) -> Outcome:
    """The fastest accepted outcome, else the most accurate one."""
    best = min(found, key=lambda one: (not one.accepted, one.seconds if one.accepted else one.error))
    others = (
        f"{one.setting or 'default'} {one.seconds:.2f} s{'' if one.accepted else ' failed'}"
        for one in found
        if one.setting != best.setting
    )
    return best._replace(others=", ".join(others))


def outcome(case: Case, instance: Instance, name: str, tol: float, limit: float, setting: dict[str, Any]) -> Outcome:
    """One setting, asked for more until the judge accepts the answer."""
    run = CONTESTANTS[name].run
    found: list[Outcome] = []
    for factor in TIGHTER:
        try:
            attempt = run(case, Goal(tol * factor, instance.judge), limit, setting)
        except Exception as failed:  # a peer's failure is a row of the table, and its message is in it
            attempt = Attempt(None, limit, False, f"{type(failed).__name__}: {str(failed)[:80]}")
        error = float("inf") if attempt.answer is None else instance.judge(case, attempt.answer)
        accepted = error <= tol and attempt.seconds <= OVERTIME * limit
        told = " ".join(f"{key}={value}" for key, value in setting.items())
        found.append(Outcome(accepted, attempt.seconds, attempt.iterations, error, attempt.status, told))
        if accepted or not attempt.claims or attempt.seconds >= limit:
            break
    last = found[-1]
    if last.accepted and last.seconds < QUICK:
        again = [run(case, Goal(tol * factor, instance.judge), limit, setting) for _ in range(REPEATS)]
        return last._replace(seconds=min(last.seconds, *(one.seconds for one in again)))
    return best_of(found)


def serve(connection: Any, chosen: str, judge: Judge, name: str, tolerances: Sequence[float], limit: float) -> None:
    """Send the best outcome of all settings for one tolerance after another, and None where the solver cannot run."""
    instance = of_name(chosen)._replace(judge=judge)
    case = Case(instance.make())
    settings = CONTESTANTS[name].settings_for(case)
    if not settings:
        connection.send(None)
    for tol in tolerances if settings else ():
        found = [outcome(case, instance, name, tol, limit, setting) for setting in settings]
        settings = [one for one, its in zip(settings, found, strict=True) if its.accepted] or settings[:1]
        connection.send(best_of(found))


def outcomes(instance: Instance, name: str, tolerances: Sequence[float], limit: float) -> Iterator[Outcome | None]:
    """The outcome for each tolerance; one None if the solver does not apply to the instance."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(
        target=serve, args=(theirs, instance.name, instance.judge, name, tolerances, limit), daemon=True
    )
    process.start()
    theirs.close()
    contestant = CONTESTANTS[name]
    runs = (len(contestant.settings) + len(contestant.for_lps)) * len(TIGHTER)
    try:
        for _ in tolerances:
            if not ours.poll(BUILDING + PATIENCE * limit * runs):
                yield Outcome(False, limit, 0, float("inf"), "did not come back")
                return
            found = ours.recv()
            yield found
            if found is None or not found.accepted:
                return
    except EOFError:
        yield Outcome(False, limit, 0, float("inf"), "its process died")
    finally:
        process.kill()
        process.join()
