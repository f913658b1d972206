"""Problems that people type most, one call each; each docstring states the mathematics.

Arguments are named as in the formulas. Matrices may be dense or sparse; limits may be numbers or vectors.
"""

from dapd.problems.control import mpc, trajectory
from dapd.problems.finance import portfolio
from dapd.problems.geometry import chebyshev_centre, geometric_median, projection
from dapd.problems.network import consensus, flow, incidence, transport
from dapd.problems.quadratic import qp
from dapd.problems.regression import (
    basis_pursuit,
    chebyshev_fit,
    elastic_net,
    group_lasso,
    huber,
    lasso,
    least_absolute_deviations,
    logistic,
    nnls,
    quantile,
    ridge,
    svm,
)
from dapd.problems.signal import isotonic, total_variation, trend_filter

__all__ = [
    "basis_pursuit",
    "chebyshev_centre",
    "chebyshev_fit",
    "consensus",
    "elastic_net",
    "flow",
    "geometric_median",
    "group_lasso",
    "huber",
    "incidence",
    "isotonic",
    "lasso",
    "least_absolute_deviations",
    "logistic",
    "mpc",
    "nnls",
    "portfolio",
    "projection",
    "qp",
    "quantile",
    "ridge",
    "svm",
    "total_variation",
    "trajectory",
    "transport",
    "trend_filter",
]
