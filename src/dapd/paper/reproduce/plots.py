"""Plots: each method has one colour, dash and marker everywhere, and can be recognised without colour."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dapd.paper.reproduce import published
from dapd.paper.reproduce.runs import SHARED, Record, title

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

# the colours of Okabe and Ito; the methods of the paper have strong ones
COLOURS = {
    "y-dapd": "#0072B2",
    "x-dapd": "#D55E00",
    "y-sbc-dapd": "#56B4E9",
    "x-sbc-dapd": "#E69F00",
    "papc": "#009E73",
    "capd": "#CC79A7",
    "apapc": "#000000",
}
DASHES: dict[str, Any] = {
    "papc": (0, (5, 2)),
    "capd": (0, (1, 1.5)),
    "apapc": (0, (3, 1, 1, 1)),
    "y-sbc-dapd": (0, (6, 2, 1, 2)),
}
MARKERS = {"y-dapd": "o", "x-dapd": "s", "y-sbc-dapd": "^", "x-sbc-dapd": "D", "papc": "v", "capd": "X", "apapc": "P"}
AXES = {
    "iterations": "iterations",
    "products": "products with blocks of M (BMM)",
    "seconds": "seconds of solve time",
}
MEASURES = {"error": "‖x − x*‖ / ‖x*‖", "kkt": "max(‖∇f(x) + Mᵀy‖, ‖Mx − b‖)"}


class Style(NamedTuple):
    """How a method is drawn."""

    color: str
    linestyle: Any
    marker: str
    markerfacecolor: str  # hollow for the variants with a shared sample


def style(method: str) -> Style:
    """The colour, dash and marker of a method."""
    name = method.removesuffix(SHARED)
    shared = name != method
    colour = COLOURS[name]
    return Style(colour, ":" if shared else DASHES.get(name, "-"), MARKERS[name], "white" if shared else colour)


def draw(ax: Axes, records: Sequence[Record], *, axis: str = "iterations", measure: str = "error") -> None:
    """Draw the curves of several methods into one panel, on a logarithmic scale.

    Against products, a method that the paper counts differently is drawn a second time with the paper's count.
    """
    ends = [getattr(record, axis)[-1] for record in records]
    wide = max(ends) > 10 * min(ends)  # block methods and others together: only a logarithmic axis shows both
    for k, record in enumerate(records):
        values = np.array(getattr(record, measure))
        at = np.array(getattr(record, axis), dtype=float)
        method = record.run.method
        name = title(method)
        if axis == "products" and (scale := papers_scale(record)) != 1 and not method.endswith(SHARED):
            within = scale * at <= at[-1]
            theirs = published.PUBLISHED_BLOCK_PRODUCTS[method]
            label = f"{name}, {theirs} per iteration"
            shown = np.where(values > 0, values, np.nan)[within]
            ax.semilogy((scale * at)[within], shown, label=label, linewidth=1.1, color=COLOURS[method], alpha=0.9)
            name += f", {theirs / scale:.3g} per iteration"
        # six markers per curve, evenly spread; those of different curves do not overlap
        part = (np.arange(6) + (k + 1) / (len(records) + 1)) / 6
        marks = np.searchsorted(at, at[-1] ** part if wide else at[-1] * part)
        ax.semilogy(
            at,
            np.where(values > 0, values, np.nan),  # a log scale cannot show an exact zero
            label=name,
            linewidth=1.6,
            markersize=4.5,
            markevery=np.minimum(marks, len(at) - 1).tolist(),
            **style(method)._asdict(),
        )
    ax.set(xlabel=AXES[axis], ylabel=MEASURES[measure])
    _use_plain_labels(ax.yaxis)
    if wide:
        ax.set_xscale("log")
        _use_plain_labels(ax.xaxis)
    else:
        ax.ticklabel_format(axis="x", style="sci", scilimits=(-2, 4))
    ax.margins(x=0.01)
    ax.grid(visible=True, which="major", alpha=0.3)
    ax.legend(fontsize="small", framealpha=0.8)


def _use_plain_labels(axis: Axis) -> None:
    """Label the powers of ten of a logarithmic axis by plain text, which takes a third of the time of mathematics."""
    from matplotlib.ticker import FuncFormatter, LogFormatter

    digits = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
    axis.set_major_formatter(FuncFormatter(lambda value, _: "10" + f"{np.log10(value):.0f}".translate(digits)))
    axis.set_minor_formatter(LogFormatter())  # labels some if there are few powers of ten


def papers_scale(record: Record) -> float:
    """The number of products with blocks per iteration that the paper counts, divided by ours."""
    theirs = published.PUBLISHED_BLOCK_PRODUCTS.get(record.run.method.removesuffix(SHARED))
    if theirs is None or not record.iterations[-1]:
        return 1.0
    return float(theirs / round(record.products[-1] / record.iterations[-1], 1))


def picture(records: Sequence[Record], *, axis: str, measure: str) -> str:
    """One panel as SVG text; equal records give equal bytes."""
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        raise ModuleNotFoundError(
            "the figures need matplotlib, which is not installed; run pip install 'dapd[experiments]'"
        ) from None
    with matplotlib.rc_context({"svg.hashsalt": "dapd", "font.size": 9}):
        figure = Figure(figsize=(5.2, 3.6), layout="constrained")
        draw(figure.subplots(), records, axis=axis, measure=measure)
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue()
