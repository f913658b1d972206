"""The wall-clock time of the computation, per session; a killed session counts up to its last finished run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic

from dapd.paper.reproduce.runs import write


@dataclass(frozen=True)
class Session:
    """One call of `dapd reproduce`."""

    began: str  # UTC
    full: bool
    jobs: int
    computed: int  # runs
    wall: float  # wall-clock seconds


def read(folder: Path) -> list[Session]:
    """The sessions logged in a folder."""
    try:
        return [Session(**fields) for fields in json.loads(_path(folder).read_text(encoding="utf-8"))]
    except (OSError, ValueError, TypeError):  # absent, or of another layout
        return []


def total(sessions: Sequence[Session], runs: int) -> float | None:
    """Wall-clock seconds of the full runs; None if the log covers fewer than `runs` runs."""
    full = [session for session in sessions if session.full]
    return sum(session.wall for session in full) if sum(session.computed for session in full) >= runs else None


class Log:
    """The entry of the current session, rewritten after every finished run."""

    def __init__(self, folder: Path, *, full: bool, jobs: int) -> None:
        self.folder, self.full, self.jobs = folder, full, jobs
        self.earlier = read(folder)
        self.began, self.clock = datetime.now(UTC).isoformat(timespec="seconds"), monotonic()
        self.computed = 0

    def count(self) -> None:
        """Count one more finished run."""
        self.computed += 1
        session = Session(self.began, self.full, self.jobs, self.computed, monotonic() - self.clock)
        write(_path(self.folder), json.dumps([asdict(one) for one in (*self.earlier, session)], indent=1))


def _path(folder: Path) -> Path:
    return folder / "sessions.json"
