"""f: the smooth part of the objective."""

from dapd.functions.base import Function
from dapd.functions.composed import Composite, Separable
from dapd.functions.quadratic import Quadratic
from dapd.functions.regression import LeastSquares, Logistic, PseudoHuber
from dapd.functions.smooth import Smooth

__all__ = ["Composite", "Function", "LeastSquares", "Logistic", "PseudoHuber", "Quadratic", "Separable", "Smooth"]
