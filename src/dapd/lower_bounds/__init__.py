"""The paper's hard instances: problems on which no first-order method can be fast, and how close each one comes."""

from dapd.lower_bounds.instances import HardProblem, affine, block, dimension
from dapd.lower_bounds.saddle import ConvexConcave, convex_concave, extragradient

__all__ = ["ConvexConcave", "HardProblem", "affine", "block", "convex_concave", "dimension", "extragradient"]
