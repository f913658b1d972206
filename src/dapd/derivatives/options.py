"""The options of a differentiable solve."""

from __future__ import annotations

from typing import Any, NamedTuple

from dapd.arguments import near_miss

# those of `dapd.solve` that say how, not what: all hashable
NAMES = ("method", "tol", "tol_absolute", "max_iterations", "time_limit", "engine", "direct", "seed", "shared_sample")
FAILURES = ("raise", "nan")
TOL = 1e-8


class NotSolved(RuntimeError):
    """There is no solution with the status `optimal`, or no accurate derivative of it."""


class SolveOptions(NamedTuple):
    """Checked options."""

    failures: str
    options: tuple[tuple[str, Any], ...]  # of `dapd.solve`


def check_options(failures: str, options: dict[str, Any]) -> SolveOptions:
    """Raise if an option is unknown."""
    for name in options:
        if name not in NAMES:
            raise TypeError(f"solve() has no option {name!r} here{near_miss(name, NAMES)}")
    if failures not in FAILURES:
        raise ValueError(f"failures must be 'raise' or 'nan', found {failures!r}")
    if options.get("tol") is None and options.get("tol_absolute") is None:
        options = {**options, "tol": TOL}
    return SolveOptions(failures, tuple(sorted(options.items())))
