"""dapd: the optimal first-order solver for strongly convex problems with linear coupling.

min_x max_y  f(x) + yᵀMx − bᵀy − φ(y)
"""

from importlib import import_module
from typing import Any

from dapd import theory
from dapd.arguments import BoundWarning
from dapd.arrays import Dual, Primal
from dapd.batch import BatchResult, solve_batch
from dapd.methods import METHODS, Method
from dapd.model.composed import Conjugate, Stack
from dapd.model.problem import Problem
from dapd.model.proximal import L1, Box, GroupBall, Interval, NonNegative, Phi, Zero
from dapd.model.smooth import Function, LeastSquares, Logistic, PseudoHuber, Quadratic, Separable, Smooth
from dapd.operators.columns import ColumnBlocks
from dapd.operators.stacked import Identity, RowBlocks
from dapd.operators.structured import BlockDiagonal, Kronecker
from dapd.solving.certificate import Certificate
from dapd.solving.explain import Explanation, explain
from dapd.solving.loop import Info
from dapd.solving.result import History, Result, Status
from dapd.solving.solve import solve
from dapd.solving.solver import Solver
from dapd.spectrum.estimate import Spectrum, SpectrumWarning, estimate_spectrum

__version__ = "0.1.0"

LAZY = ("experiments", "jax", "lower_bounds", "problems", "reproduce", "testing", "torch")  # imported on first use
SCIPY = ("lsq_linear", "minimize")
FRONT_ENDS = ("cvxpy", "qpsolvers", "sklearn", *SCIPY)

__all__ = [
    "L1",
    "METHODS",
    "BatchResult",
    "BlockDiagonal",
    "BoundWarning",
    "Box",
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
    "Method",
    "NonNegative",
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
    "Zero",
    "estimate_spectrum",
    "experiments",
    "explain",
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
    if name in FRONT_ENDS:
        return _front_end(name)
    raise AttributeError(f"module 'dapd' has no attribute {name!r}")


def _front_end(name: str) -> Any:
    """The module dapd.frontends.<name>, or the function of that name in dapd.frontends.scipy."""
    if name in SCIPY:
        return getattr(import_module("dapd.frontends.scipy"), name)
    try:
        return import_module(f"dapd.frontends.{name}")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != name:
            raise
        raise ModuleNotFoundError(f"dapd.{name} needs {name}: pip install 'dapd[{name}]'", name=name) from None


def __dir__() -> list[str]:
    return sorted({*globals(), *LAZY, *FRONT_ENDS})
