"""f: the smooth part of the objective, one file per function."""

from dapd.functions.base import Function
from dapd.functions.composite import Composite
from dapd.functions.least_squares import LeastSquares
from dapd.functions.logistic import Logistic
from dapd.functions.pseudo_huber import PseudoHuber
from dapd.functions.quadratic import Quadratic
from dapd.functions.separable import Separable
from dapd.functions.smooth import Smooth

__all__ = ["Composite", "Function", "LeastSquares", "Logistic", "PseudoHuber", "Quadratic", "Separable", "Smooth"]
