"""The paper's hard instances, on which no first-order method can be fast, and how close methods come to the bound."""

from dapd.paper.lower_bounds.instances import HardProblem, affine, block, dimension
from dapd.paper.lower_bounds.meter import Run, rounds
from dapd.paper.lower_bounds.reporting import Landscape, Report, landscape, report
from dapd.paper.lower_bounds.saddle import ConvexConcave, convex_concave, extragradient

__all__ = [
    "ConvexConcave",
    "HardProblem",
    "Landscape",
    "Report",
    "Run",
    "affine",
    "block",
    "convex_concave",
    "dimension",
    "extragradient",
    "landscape",
    "report",
    "rounds",
]
