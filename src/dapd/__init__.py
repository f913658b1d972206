"""dapd: the optimal first-order solver for strongly convex problems with linear coupling.

min_x max_y  f(x) + yᵀMx − bᵀy − φ(y)
"""

from dapd import experiments, lower_bounds, testing, theory
from dapd.methods import METHODS
from dapd.model.composed import Conjugate, Stack
from dapd.model.problem import Problem
from dapd.model.proximal import L1, Box, GroupBall, Interval, NonNegative, Phi, Zero
from dapd.model.smooth import Function, LeastSquares, Logistic, PseudoHuber, Quadratic, Separable, Smooth
from dapd.operators.base import ColumnBlocks
from dapd.operators.structured import BlockDiagonal, Kronecker
from dapd.solving.certificate import Certificate
from dapd.solving.loop import Info
from dapd.solving.result import History, Result, Status
from dapd.solving.solve import solve
from dapd.spectrum.estimate import Spectrum, SpectrumWarning, estimate_spectrum

__version__ = "0.1.0"

__all__ = [
    "L1",
    "METHODS",
    "BlockDiagonal",
    "Box",
    "Certificate",
    "ColumnBlocks",
    "Conjugate",
    "Function",
    "GroupBall",
    "History",
    "Info",
    "Interval",
    "Kronecker",
    "LeastSquares",
    "Logistic",
    "NonNegative",
    "Phi",
    "Problem",
    "PseudoHuber",
    "Quadratic",
    "Result",
    "Separable",
    "Smooth",
    "Spectrum",
    "SpectrumWarning",
    "Stack",
    "Status",
    "Zero",
    "estimate_spectrum",
    "experiments",
    "lower_bounds",
    "solve",
    "testing",
    "theory",
]
