"""What a solve returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from dapd.arrays import Array
from dapd.certificate.certify import Certificate
from dapd.engines.protocol import Engine
from dapd.solving.views import as_html, draw, plain
from dapd.spectrum.estimate import Spectrum
from dapd.ways.causes import Cause, Status

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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

    `errors` has a row for each look at the certificate: the iteration, and the relative error that `tol` bounds.

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
