"""Solutions that JAX can differentiate: `dapd.jax.solve`, and f and φ whose parameters may be traced arrays."""

try:
    import jax as _jax  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "jax":
        raise
    raise ModuleNotFoundError("dapd.jax needs JAX, which is not installed; try: pip install 'dapd[jax]'") from None

from dapd.derivatives.jax.smooth import Smooth
from dapd.derivatives.jax.solve import Solution, solve
from dapd.derivatives.options import NotSolved
from dapd.derivatives.records import (
    LeastSquares,
    Logistic,
    PseudoHuber,
    Quadratic,
    Separable,
    Sparse,
)
from dapd.engines.jax.mesh.place import load_shards
from dapd.kinds.by_rows import L1, Box, Interval, NonNegative, Zero
from dapd.kinds.composed import Conjugate, Stack
from dapd.kinds.groups import GroupBall

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
