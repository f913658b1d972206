"""Problems built backwards from a chosen solution (x*, y*), so no test needs another solver."""

import numpy as np

import dapd
from dapd.paper.experiments.problems import with_singular_values

ROWS, COLUMNS = 6, 10

DETERMINISTIC = ["x-dapd", "y-dapd", "papc", "apapc", "capd", "condat-vu", "r2hpdhg"]

PHIS = {
    "zero": dapd.Zero(),
    "nonnegative": dapd.NonNegative(),
    "l1": dapd.L1(0.3),
    "l1 by rows": dapd.L1(np.linspace(0.1, 0.6, ROWS)),
    "group ball": dapd.GroupBall(0.8, 2),
    "uneven group ball": dapd.GroupBall([0.8, 1.2], [slice(0, 2), slice(2, 6)]),
    "box": dapd.Box(-0.5, 0.7),
    "one-sided box": dapd.Box([-np.inf] * 3 + [-0.5] * 3, 0.7),
    "interval": dapd.Interval([-1.0, 0.2, -np.inf, -np.inf, -0.3, 0.0], [1.0, 0.2, 0.5, np.inf, 0.3, np.inf]),
    "conjugate": dapd.Conjugate(dapd.L1(0.5)),
    "stack": dapd.Stack([dapd.Zero(), dapd.NonNegative(), dapd.L1(0.2)], sizes=[2, 2, 2]),
}


def matrix(rng, ratio, rows=ROWS, columns=COLUMNS, s_max=1.0):
    return with_singular_values(rng, rows, columns, s_max / ratio, s_max)


def hessian(rng, kappa, columns=COLUMNS, mu=1.0):
    P = np.linalg.qr(rng.standard_normal((columns, columns)))[0]
    spectrum = mu * np.geomspace(1.0, kappa, columns)
    H = (P * spectrum) @ P.T
    return (H + H.T) / 2


def dual_pair(phi, rng, rows):
    """y* and g* ∈ ∂φ(y*): the prox of φ at a random point, and the difference from that point."""
    v = 1.5 * rng.standard_normal(rows)
    y = phi.prox(v, 1.0)
    return y, v - y


def quadratic_problem(phi, *, seed=0, kappa=10.0, ratio=5.0, rows=ROWS, columns=COLUMNS):
    """A QP whose solution is known exactly."""
    rng = np.random.default_rng(seed)
    M, H = matrix(rng, ratio, rows, columns), hessian(rng, kappa, columns)
    x, (y, g) = rng.standard_normal(columns), dual_pair(phi, rng, rows)
    f = dapd.Quadratic(H, H @ x + M.T @ y)
    return dapd.Problem(f, M, M @ x - g, phi, x_star=x, y_star=y)
