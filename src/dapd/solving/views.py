"""A result as HTML, as a picture and as plain data."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import asdict, is_dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dapd.arrays import Array, on_device

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dapd.solving.result import Result

WIDTH, HEIGHT = 140, 28  # of a sparkline, in pixels
COLOURS = {"optimal": "#2a7d4f", "infeasible": "#8a5a00", "unbounded": "#8a5a00"}  # others: red


def plain(value: Any) -> Any:
    """Numbers, strings, lists and dictionaries only, as JSON has them; None for a number that is not finite."""
    if isinstance(value, np.ndarray) or on_device(value):
        return plain(value.tolist())
    if hasattr(value, "_asdict"):
        return plain(value._asdict())
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    if isinstance(value, dict):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    if isinstance(value, str):
        return str(value)
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, np.integer):
        return int(value)
    number = float(value)
    return number if math.isfinite(number) else None


def as_html(result: Result) -> str:
    """A small table with a sparkline of the relative error."""
    c = result.certificate
    colour = COLOURS.get(result.status, "#b03a2e")
    rows = [
        ("objective", f"{result.objective:.9g}"),
        ("stationarity", f"{c.stationarity:.1e}"),
        ("feasibility", f"{c.feasibility:.1e}"),
        ("gap", f"{c.gap:.1e}"),
        ("method", f"{html.escape(result.method)}, {html.escape(result.engine.name)}"),
        ("iterations", f"{result.iterations:,}"),
        ("seconds", f"{result.setup_time + result.solve_time:.3g}"),
    ]
    drawn = sparkline(result.errors)
    if drawn:
        rows.append(("relative error", drawn))
    cells = "".join(
        f'<tr><th style="text-align:left;font-weight:normal;opacity:.7">{name}</th>'
        f'<td style="text-align:left">{text}</td></tr>'
        for name, text in rows
    )
    return (
        f'<div title="{html.escape(result.message)}"><b style="color:{colour}">{result.status}</b>'
        f"<table>{cells}</table></div>"
    )


def sparkline(errors: Array) -> str:
    """The error at each look on a log scale as SVG; empty if there are fewer than two."""
    known = errors[np.isfinite(errors[:, 1]) & (errors[:, 1] > 0)] if len(errors) else errors
    if len(known) < 2 or known[-1, 0] == known[0, 0]:
        return ""
    levels = np.log10(known[:, 1])
    low, high = float(levels.min()), float(levels.max())
    x = 2 + (WIDTH - 4) * (known[:, 0] - known[0, 0]) / (known[-1, 0] - known[0, 0])
    y = 2 + (HEIGHT - 4) * (high - levels) / ((high - low) or 1.0)
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))
    label = f"from {known[0, 1]:.0e} to {known[-1, 1]:.0e} in {int(known[-1, 0]):,} iterations"
    return (
        f'<svg width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" role="img"><title>{label}</title>'
        f'<polyline points="{points}" fill="none" stroke="#3b6ea5" stroke-width="1.5"/></svg>'
    )


def draw(result: Result, axes: Axes | Sequence[Axes] | None) -> tuple[Axes, ...]:
    """Residuals against iterations, and against seconds if there is a second axes."""
    if result.history is None:
        raise ValueError("there is no history to plot; solve with history=True")
    import matplotlib.pyplot as plt

    given: Sequence[Axes]
    if axes is None:
        given = plt.subplots(1, 2, sharey=True, figsize=(9, 3.6), layout="constrained")[1]
    else:
        given = axes if isinstance(axes, (Sequence, np.ndarray)) else [axes]
    history = result.history
    scales = [("iterations", history.iterations), ("seconds", history.time)]
    for ax, (label, at) in zip(given, scales, strict=False):
        curves = [
            ("stationarity", history.stationarity),
            ("feasibility", history.feasibility),
            ("relative error", history.error),
        ]
        for name, values in curves:
            if values is not None:
                # a log scale has no place for an exact zero
                ax.semilogy(at, np.where(values > 0, values, np.nan), label=name)
        rate = predicted(result)
        if rate is not None:
            bottom = ax.get_ylim()[0]
            ax.semilogy(at, np.where(rate >= bottom, rate, np.nan), "k:", label="predicted rate")
        ax.set_xlabel(label)
        ax.grid(visible=True, which="major", alpha=0.3)
    given[0].set_title(result.method)
    given[0].legend()
    return tuple(given)


def predicted(result: Result) -> Array | None:
    """The residual at the start times √(1 − 1/Π)^k, the rate of the method's theorem; None if there is none."""
    Pi, history = getattr(result.parameters, "Pi", math.inf), result.history
    if history is None or not 1 < Pi < math.inf:
        return None
    start = max(float(history.stationarity[0]), float(history.feasibility[0]))
    return np.asarray(start * np.exp(0.5 * history.iterations * math.log1p(-1 / Pi)))
