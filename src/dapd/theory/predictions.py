"""Iterations, gradients and products that the theorems predict."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Protocol

from dapd.arguments import named, number
from dapd.theory.block_coordinate import XSbc, XSbcNonseparable, YSbc
from dapd.theory.compared import Capd


class HasPi(Protocol):
    """A record that belongs to a theorem."""

    @property
    def Pi(self) -> float:
        """1/(1 − rate)."""


def iterations(parameters: HasPi, accuracy: float) -> float:
    """The number of iterations (CAPD: inner ones) after which the theorem guarantees Ψ ≤ accuracy·Ψ⁰."""
    accuracy = number("accuracy", accuracy, above=0.0)
    inner = parameters.N if isinstance(parameters, Capd) else 1
    if accuracy >= 1:
        return 0.0
    if math.isinf(parameters.Pi):
        return math.inf
    if parameters.Pi <= 1:  # one step suffices
        return float(inner)
    return float(inner * math.ceil(math.log(accuracy) / math.log1p(-1 / parameters.Pi)))


class Counts(NamedTuple):
    """What a method asks of a problem, as a `Result` counts it."""

    gradients: float  # of f, or of one block
    products: float  # with M and with Mᵀ, each counted
    block_products: float  # with one block of M or its transpose


@named
def counts(parameters: Any, iterations: float, *, stored_gram: bool = True, shared_sample: bool = False) -> Counts:
    """Predict the gradients and products of a number of iterations, without those of the start.

    Parameters
    ----------
    parameters : record of `dapd.theory`
    iterations : float
        For CAPD inner ones, as everywhere.
    stored_gram : bool
        Whether y-SBC-DAPD stores MMᵀ, so moving its anchor takes no product. Otherwise that takes 2N of them with
        probability 1/N: the paper counts 6 per iteration instead of 4.
    shared_sample : bool
        Whether both steps of a block-coordinate method draw the same block.
    """
    k = number("iterations", iterations, least=0.0)
    if isinstance(parameters, XSbcNonseparable):  # one partial gradient if both steps draw the same block, else two
        return Counts(k if shared_sample else (2 - 1 / parameters.N) * k, 0, 4 * k)
    if isinstance(parameters, XSbc | YSbc):
        anchor = 0 if stored_gram or isinstance(parameters, XSbc) else 2
        return Counts(k, 0, (4 + anchor) * k)
    return Counts(k / parameters.N if isinstance(parameters, Capd) else k, 2 * k, 0)
