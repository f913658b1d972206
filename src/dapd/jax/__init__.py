"""Solutions that JAX can differentiate: `dapd.jax.solve`, and f and φ whose parameters may be traced arrays."""

try:
    import jax as _jax  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "jax":
        raise
    raise ModuleNotFoundError("dapd.jax needs JAX, which is not installed; try: pip install 'dapd[jax]'") from None

from dapd.engines.jax_mesh import load_shards
from dapd.implicit.options import NotSolved
from dapd.implicit.records import (
    L1,
    Box,
    Conjugate,
    GroupBall,
    Interval,
    LeastSquares,
    Logistic,
    NonNegative,
    PseudoHuber,
    Quadratic,
    Separable,
    Sparse,
    Stack,
    Zero,
)
from dapd.jax.derivatives import Solution, solve
from dapd.jax.smooth import Smooth

__all__ = [
    "L1",
    "Box",
    "Conjugate",
    "GroupBall",
    "Interval",
    "LeastSquares",
    "Logistic",
    "NonNegative",
    "NotSolved",
    "PseudoHuber",
    "Quadratic",
    "Separable",
    "Smooth",
    "Solution",
    "Sparse",
    "Stack",
    "Zero",
    "load_shards",
    "solve",
]
