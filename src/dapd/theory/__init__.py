"""Parameters, rates and Lyapunov functions, theorem by theorem, in the paper's letters.

The source is Li and Grigas, "Direct Spectral Acceleration of First-Order Methods for Saddle Point Problems with
Bilinear Coupling" (2026), whose appendix holds the full settings. Every record that belongs to a theorem has its Pi:
Ψ shrinks by the factor 1 − 1/Pi per iteration (in expectation for the block-coordinate methods; CAPD: per outer one).
`counts` predicts the products and gradients of a number of iterations.
"""

from dapd.theory.block_coordinate import XSbc, XSbcNonseparable, YSbc, x_sbc, x_sbc_nonseparable, y_sbc
from dapd.theory.compared import (
    Apapc,
    Capd,
    CondatVu,
    Papc,
    R2Hpdhg,
    apapc,
    capd,
    condat_vu,
    papc,
    r2hpdhg,
)
from dapd.theory.deterministic import Side, XDapd, YDapd, favoured, x_dapd, y_dapd
from dapd.theory.predictions import Counts, HasPi, counts, iterations
from dapd.theory.saddle_point import SaddlePoint

__all__ = [
    "Apapc",
    "Capd",
    "CondatVu",
    "Counts",
    "HasPi",
    "Papc",
    "R2Hpdhg",
    "SaddlePoint",
    "Side",
    "XDapd",
    "XSbc",
    "XSbcNonseparable",
    "YDapd",
    "YSbc",
    "apapc",
    "capd",
    "condat_vu",
    "counts",
    "favoured",
    "iterations",
    "papc",
    "r2hpdhg",
    "x_dapd",
    "x_sbc",
    "x_sbc_nonseparable",
    "y_dapd",
    "y_sbc",
]

for _name in __all__:
    globals()[_name].__module__ = __name__  # error messages and pickles name the public place
