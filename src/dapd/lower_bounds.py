"""The paper's hard instances, on which no first-order method can be fast, and how close methods come to the bound."""

from dapd.paper.lower_bounds import (
    ConvexConcave,
    HardProblem,
    Landscape,
    Report,
    Run,
    affine,
    block,
    convex_concave,
    dimension,
    extragradient,
    landscape,
    report,
    rounds,
)

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
