"""dapd: the optimal first-order solver for strongly convex problems with linear coupling.

min_x max_y  f(x) + yᵀMx − bᵀy − φ(y)
"""

from importlib import import_module
from typing import Any

from dapd import theory
from dapd.arguments import BoundWarning
from dapd.arrays import Dual, Primal
from dapd.certificate.certify import Certificate, certify
from dapd.engines import bind
from dapd.engines.protocol import CannotRun
from dapd.functions import Function, LeastSquares, Logistic, PseudoHuber, Quadratic, Separable, Smooth
from dapd.functions.losses import Loss
from dapd.functions.terms import Terms
from dapd.kinds.by_rows import L1, Box, GroupBall, Interval, NonNegative, Phi, Zero
from dapd.kinds.composed import Conjugate, Stack
from dapd.methods import METHODS, Method
from dapd.operators.base import Operator
from dapd.operators.blocks import ColumnBlocks, RowBlocks
from dapd.operators.structured import BlockDiagonal, Identity, Kronecker
from dapd.problem.problem import Problem
from dapd.solving.batch import BatchResult, solve_batch
from dapd.solving.explain import Explanation, explain
from dapd.solving.result import History, Result
from dapd.solving.solve import solve
from dapd.solving.solver import Solver
from dapd.spectrum.estimate import Spectrum, SpectrumWarning, estimate_spectrum
from dapd.ways.causes import Cause, Status
from dapd.ways.search import Info

__version__ = "0.1.0"

# modules that are imported on first use, and functions of dapd.frontends.scipy
LAZY = (
    "cvxpy",
    "experiments",
    "files",
    "jax",
    "lower_bounds",
    "problems",
    "qpsolvers",
    "reproduce",
    "sklearn",
    "testing",
    "torch",
)
SCIPY = ("lsq_linear", "minimize")

__all__ = [
    "L1",
    "METHODS",
    "BatchResult",
    "BlockDiagonal",
    "BoundWarning",
    "Box",
    "CannotRun",
    "Cause",
    "Certificate",
    "ColumnBlocks",
    "Conjugate",
    "Dual",
    "Explanation",
    "Function",
    "GroupBall",
    "History",
    "Identity",
    "Info",
    "Interval",
    "Kronecker",
    "LeastSquares",
    "Logistic",
    "Loss",
    "Method",
    "NonNegative",
    "Operator",
    "Phi",
    "Primal",
    "Problem",
    "PseudoHuber",
    "Quadratic",
    "Result",
    "RowBlocks",
    "Separable",
    "Smooth",
    "Solver",
    "Spectrum",
    "SpectrumWarning",
    "Stack",
    "Status",
    "Terms",
    "Zero",
    "bind",
    "certify",
    "estimate_spectrum",
    "experiments",
    "explain",
    "files",
    "lower_bounds",
    "lsq_linear",
    "minimize",
    "problems",
    "solve",
    "solve_batch",
    "testing",
    "theory",
]


def __getattr__(name: str) -> Any:
    if name in LAZY:
        return import_module(f"dapd.{name}")
    if name in SCIPY:
        return getattr(import_module("dapd.frontends.scipy"), name)
    raise AttributeError(f"module 'dapd' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *LAZY, *(name for name in globals() if name.startswith("__"))})
