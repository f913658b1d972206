"""What the paper prints: intervals, running times and the residuals of its own reference.

Meng Li and Paul Grigas, "Direct Spectral Acceleration of First-Order Methods for Saddle Point Problems with Bilinear
Coupling" (2026), appendix "Additional Experimental Details and Results". Nothing here is measured by this package.
"""

from __future__ import annotations

PAPER = (
    "Meng Li and Paul Grigas, Direct Spectral Acceleration of First-Order Methods for Saddle Point Problems "
    "with Bilinear Coupling (2026)"
)
MACHINE = "Apple M4 Max, 16 cores, 64 GB; Python notebooks"

# 95 % confidence intervals of the relative error over 20 seeds, log-transformed
INTERVALS: dict[str, dict[str, tuple[float, float]]] = {
    "table-cst-1": {"papc": (2.299e-04, 5.625e-04), "capd": (1.808e-01, 1.854e-01), "y-dapd": (2.005e-07, 5.786e-07)},
    "table-cst-2": {"papc": (9.188e-03, 2.318e-02), "capd": (2.049e-01, 2.131e-01), "y-dapd": (7.371e-07, 2.769e-06)},
    "table-nse-1": {"papc": (3.99e-02, 8.36e-02), "x-dapd": (5.47e-03, 1.58e-02), "y-dapd": (1.41e-01, 1.89e-01)},
    "table-nse-2": {"papc": (8.28e-03, 4.27e-02), "x-dapd": (1.60e-02, 6.46e-02), "y-dapd": (1.54e-05, 3.69e-04)},
}

# wall-clock seconds of each notebook; for a figure, of its left and right panel
SECONDS: dict[str, tuple[float, ...]] = {
    "figure-1": (15.3, 16.0),
    "figure-2": (1895.5, 1933.9),
    "figure-3": (87.8, 484.8),
    "figure-long-run": (117.9, 116.6),
    "figure-kkt": (13.0, 13.5),
    "figure-shared-sample": (2151.2, 1278.7),
    "figure-qp": (15.0, 13.7),
    "table-cst-1": (142.8,),
    "table-cst-2": (144.3,),
    "table-nse-1": (855.2,),
    "table-nse-2": (4453.8,),
}
TOTAL_SECONDS = 13_748.9  # the paper's own total

# ‖∇f(x) + Mᵀy‖ and ‖Mx − b‖ of the Gurobi solutions that the paper compares with in compressed sensing
GUROBI_RESIDUALS = {"cst-1": (4.2e-04, 1.7e-11), "cst-2": (8.0e-05, 2.4e-10)}

# s_max²/s_min² of the instances in its figures, if random rather than chosen; for the QP it prints the singular values,
# 0.8771 and 1076.6
COUPLING_CONDITIONS = {"nse-1": 2.7e5, "nse-2": 1.3e9, "qp-inequality": (1076.6 / 0.8771) ** 2}

# CAPD's inner iterations: stated for the first two; the others follow from its 2,000 and 200 outer iterations
INNER = {"cst-1": 317, "cst-2": 1000, "cst-blocks-1": 100, "cst-blocks-2": 1000}

# s̄_max/s_max of the instances in 200 blocks
BLOCK_RATIO = 0.11

# products with blocks that the paper counts per iteration of a block method
PUBLISHED_BLOCK_PRODUCTS = {"x-sbc-dapd": 4, "y-sbc-dapd": 6}
