"""What is known about the singular values of M, and how it was found."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from dapd.arguments import named, number

TOO_SMALL = "{} is too small to square; rescale it"


class SpectrumWarning(UserWarning):
    """A singular value could not be resolved within the allowed number of products."""


class Estimate(NamedTuple):
    """How one number of a Spectrum was obtained."""

    method: str  # in words
    products: int  # products with M or Mᵀ spent on it
    residual: float  # estimated relative error of the number, before the safety margin
    resolved: bool = True  # False: the number is a guess, not a safe bound


@dataclass(frozen=True, init=False)
class Spectrum:
    """Bounds on the singular values of M.

    Parameters
    ----------
    s_max : float
        An upper bound on the largest singular value.
    s_min : float
        A lower bound on the singular values, one per row, so 0 if the rows are dependent. If φ is linear
        (equations) and y⁰ is in the range of M, a bound on the positive singular values is enough.
    s_bar_max : float, optional
        An upper bound on the singular values of every block of columns.
    """

    s_max: float
    s_min: float
    s_bar_max: float | None
    how: dict[str, Estimate] = field(compare=False)

    @named
    def __init__(
        self, s_max: float, s_min: float, s_bar_max: float | None = None, *, how: dict[str, Estimate] | None = None
    ) -> None:
        values = {"s_max": number("s_max", s_max, above=0.0), "s_min": number("s_min", s_min, least=0.0)}
        if values["s_min"] > values["s_max"]:
            raise ValueError(f"s_min must not exceed s_max, found {s_min:g} and {s_max:g}")
        bar = None if s_bar_max is None else number("s_bar_max", s_bar_max, above=0.0)
        # the class is frozen, so plain assignment is not possible
        for name, value in {**values, "s_bar_max": bar, "how": how or {}}.items():
            object.__setattr__(self, name, value)

    @property
    def resolved(self) -> bool:
        """False if s_min is a guess."""
        return all(estimate.resolved for estimate in self.how.values())

    @property
    def products(self) -> int:
        """The number of products with M or Mᵀ spent on all estimates."""
        return sum(estimate.products for estimate in self.how.values())


def zero_spectrum(rows: int, *, positive: bool, products: int = 0) -> Spectrum:
    """Bounds for M = 0 or an empty M: it has no positive singular value, so every positive number bounds them.

    An M without rows has independent rows, so s_min = 1 then too; rows of zeros are dependent.
    """
    how = Estimate("M is zero" if rows else "M has no rows", products, 0.0)
    independent = positive or rows == 0
    return Spectrum(1.0, 1.0 if independent else 0.0, how={"s_max": how, "s_min": how._replace(products=0)})
