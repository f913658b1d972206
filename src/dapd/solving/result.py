"""What a solve returns, and how it is shown: as a page, as HTML, as a picture and as plain data."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dapd.arrays import Array, on_device
from dapd.certificate.certify import Certificate
from dapd.engines.protocol import Engine
from dapd.spectrum.estimate import Spectrum
from dapd.ways.causes import Cause, Status

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH, HEIGHT = 140, 28  # of a sparkline, in pixels
COLOURS = {"optimal": "#2a7d4f", "infeasible": "#8a5a00", "unbounded": "#8a5a00"}  # others: red


@dataclass(frozen=True, eq=False)
class History:
    """Residuals at log-spaced iterations; `error` is ‖x − x*‖/‖x*‖ if the problem has x_star."""

    iterations: Array
    time: Array
    stationarity: Array
    feasibility: Array
    error: Array | None


@dataclass(frozen=True, repr=False, eq=False)
class Result:
    """A solution with its certificate.

    `y` are the multipliers of the rows of M and `z` those of the bounds on x (zeros if there are none):
    ∇f(x) + Mᵀy + z = 0, with z ≤ 0 at a lower bound and z ≥ 0 at an upper one.

    `gradients` and `products` (with M and with Mᵀ, each counted) are what the method spent; the certificate's own
    are not among them. A block-coordinate method spends `block_products`, with one block of M or its transpose, and
    `gradients` of one block. `solve_time` is without `setup_time` (the spectrum) and the recording of a history.

    `ray` is the proof of `infeasible` (a direction of y) or of `unbounded` (a direction of x), else None.

    `errors` has a row for each convergence check: the iteration, and the relative error that `tol` bounds.

    `cause` says why the solve ended, in one word; of the status `interrupted`, that may be "callback", "ctrl_c",
    "rounding" or "no_progress".

    `objective` is f(x) + φ*(Mx − b). If the certificate meets the tolerance row by row, what is left of a constraint's
    residual counts as satisfied, so the objective is finite; else a violated constraint makes it infinite.
    """

    x: Array
    y: Array
    z: Array
    status: Status
    message: str
    iterations: int
    gradients: int
    products: int
    block_products: int
    certificate: Certificate
    objective: float
    solve_time: float
    setup_time: float
    method: str
    engine: Engine
    history: History | None = None
    parameters: Any = None
    spectrum: Spectrum | None = None
    ray: Array | None = None
    errors: Array = field(default_factory=lambda: np.zeros((0, 2)))
    cause: Cause = Cause.certificate

    @property
    def converged(self) -> bool:
        """Whether the certificate meets the tolerance."""
        return self.status is Status.optimal

    def __repr__(self) -> str:
        c = self.certificate
        return (
            f"Result({self.status} by {self.method} in {self.iterations:,} iterations, {self.solve_time:.3g} s: "
            f"stationarity {c.stationarity:.2e}, feasibility {c.feasibility:.2e}, gap {c.gap:.2e})"
        )

    def summary(self) -> str:
        """A page for people."""
        c = self.certificate
        rows = [
            ("status", f"{self.status}: {self.message}"),
            ("method", self.method),
            ("engine", str(self.engine)),
            ("iterations", f"{self.iterations:,}"),
            ("gradients", f"{self.gradients:,}"),
            ("products", f"{self.products:,}"),
            ("objective", f"{self.objective:.9g}"),
            ("stationarity", f"{c.stationarity:.3e}  (relative, worst coordinate: {c.stationarity_error:.1e})"),
            ("feasibility", f"{c.feasibility:.3e}  (relative, worst row: {c.feasibility_error:.1e})"),
            ("complementarity", f"(relative, worst row or bound: {c.complementarity_error:.1e})"),
            ("gap", f"{c.gap:.3e}  (relative: {c.gap_error:.1e})"),
            ("distance", f"{c.distance:.3e}  (a bound on ‖x − x*‖)"),
            ("solve time", f"{self.solve_time:.4g} s"),
            ("set-up time", f"{self.setup_time:.4g} s"),
        ]
        if not np.isfinite(c.distance):
            rows = [row for row in rows if row[0] != "distance"]
        if self.block_products:
            rows.insert(5, ("block products", f"{self.block_products:,}"))
        if self.spectrum is not None:
            rows.append(("singular values", f"s_max {self.spectrum.s_max:.6g}, s_min {self.spectrum.s_min:.6g}"))
            how = self.spectrum.how.get("s_max")
            if how is not None:
                rows.append(("", f"by {how.method}, {self.spectrum.products} products"))
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"{name:>{width}}  {text}" for name, text in rows)

    def _repr_html_(self) -> str:
        return as_html(self)

    def to_dict(self) -> dict[str, Any]:
        """Everything as numbers, strings, lists and dictionaries, ready for JSON; None for a number that is not finite.

        `converged` is among them, and `engine` is a dictionary of its name and reason.
        """
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        engine = {"name": self.engine.name, "reason": self.engine.reason}
        return {name: plain(value) for name, value in {**values, "converged": self.converged, "engine": engine}.items()}

    def plot(self, axes: Axes | Sequence[Axes] | None = None) -> tuple[Axes, ...]:
        """Draw the residuals against iterations and against seconds; needs `history=True` and matplotlib.

        Parameters
        ----------
        axes : matplotlib Axes, or two of them, optional
            Where to draw; one gets the iterations only. By default a new figure.

        Returns
        -------
        tuple of Axes
            Those drawn in. The dotted line has the rate that the theorem of a named method predicts.
        """
        return draw(self, axes)


def plain(value: Any) -> Any:
    """Numbers, strings, lists and dictionaries only, as JSON has them; None for a number that is not finite."""
    if isinstance(value, (np.ndarray, np.generic)) or on_device(value):
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
    """The error at each convergence check, on a log scale, as SVG; empty if there are fewer than two checks."""
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
