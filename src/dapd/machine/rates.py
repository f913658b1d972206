"""What products, steps and factorisations take, in seconds, from which the candidates of a solve are estimated.

They were measured on one core of a usual server. `dapd.explain` shows the estimates that follow from them.
"""

from __future__ import annotations

from typing import NamedTuple


class FactorisationRates(NamedTuple):
    """Dense and sparse factorisations."""

    dense: float = 1e10  # multiplications per second of dense linear algebra, a low estimate
    sparse: float = 1e9  # operations per second of a sparse factorisation
    entry: float = 2e-8  # seconds per entry of a sparse factor
    counting: float = 1e-7  # seconds per entry of a sparse factor to count the entries before it is computed
    sparse_product: float = 30.0  # dense multiplications that take as long as one of a product of sparse matrices
    examining: float = 1.2e-6  # seconds per entry, row and column of a sparse M to estimate its factorisations


class BandRates(NamedTuple):
    """Banded factorisations."""

    row: float = 4e-8  # seconds per row
    place: float = 4e-9  # seconds per place in the band
    pair: float = 5e-9  # seconds per product of two entries of M
    wide: float = 1e10  # operations per second of a wide band


class NewtonRates(NamedTuple):
    """Second-order steps, beside their factorisations."""

    step: float = 6e-4  # seconds of a step at least
    unknown: float = 5e-8  # seconds of a step per row and column
    sparse_entry: float = 1.6e-8  # seconds of a step per entry of a sparse matrix
    dense_entry: float = 2e-9  # seconds of a step per entry of a dense matrix
    set_up: float = 2e-3  # seconds of a set-up at least
    set_up_entry: float = 3e-8  # seconds of a set-up per entry of the matrices
    set_up_unknown: float = 1e-6  # seconds of a set-up per row and column


class FirstOrderRates(NamedTuple):
    """First-order steps in the native core."""

    set_up: float = 3e-3  # seconds of the set-up and the first convergence check
    iteration: float = 8e-6  # seconds of an iteration at least, convergence checks included
    vector_entry: float = 1e-9  # seconds of an iteration per entry of x and y
    dense_product: float = 1e-10  # seconds per multiplication with a dense matrix
    sparse_product: float = 5e-10  # seconds per multiplication with a sparse matrix
    in_python: float = 10  # times that an iteration in NumPy takes


class ClarabelRates(NamedTuple):
    """Clarabel's interior point; its iterations are of one factorisation each."""

    call: float = 5e-4  # seconds of a call at least
    unknown: float = 1.5e-7  # seconds of an iteration per row and column of its system
    entry: float = 6e-8  # seconds of an iteration per entry of the factor
    flop: float = 6e-10  # seconds per operation of the factorisation by columns
    flop_in_panels: float = 2e-10  # seconds per operation of the factorisation by dense panels
    ordering: float = 3.5e-9  # seconds of the ordering per squared number of entries of a row, once


class LinearProgramRates(NamedTuple):
    """The linear program that looks for a proof of infeasibility."""

    entry: float = 1e-6  # seconds per entry of M at least
    unknown: float = 1e-5  # seconds per row and column at least


class CompilationRates(NamedTuple):
    """Programs of JAX for a batch."""

    batch: float = 4.0  # seconds that it usually takes to compile those of a new kind of batch
    smaller_batch: float = 1.5  # seconds for those of the same batch with fewer problems


FACTORISATION, BAND, NEWTON, FIRST_ORDER = FactorisationRates(), BandRates(), NewtonRates(), FirstOrderRates()
CLARABEL, LINEAR_PROGRAM, COMPILATION = ClarabelRates(), LinearProgramRates(), CompilationRates()
