"""Problems of all kinds, built backwards: x* minimises f(x) + (Mᵀy*)ᵀx, and b = Mx* − g with g ∈ ∂φ(y*)."""

import numpy as np
import scipy.sparse as sp
from instances import PHIS, dual_pair, hessian
from scipy.sparse.linalg import aslinearoperator

import dapd

ROWS, COLUMNS = 6, 10


def _smooth(f):
    return dapd.Smooth(f.value, f.grad, f.mu, f.L)


def functions(rng):
    H, A = hessian(rng, 1e3), rng.standard_normal((14, COLUMNS)) * np.geomspace(0.1, 10, COLUMNS)
    c, labels = rng.standard_normal(COLUMNS), np.sign(rng.standard_normal(14))
    sparse = sp.csr_array(np.diag(np.geomspace(1, 100, COLUMNS)) + np.diag(np.full(COLUMNS - 1, 0.1), 1))
    return {
        "diagonal": lambda: dapd.Quadratic(np.geomspace(1e-3, 1e3, COLUMNS), c),
        "sparse diagonal": lambda: dapd.Quadratic(sp.diags_array(np.geomspace(1e-3, 1e3, COLUMNS)).tocsr(), c),
        "dense": lambda: dapd.Quadratic(H, c),
        "sparse": lambda: dapd.Quadratic(((sparse + sparse.T) / 2).tocsr(), c),
        "pseudo-huber": lambda: dapd.PseudoHuber(0.2),
        "least squares": lambda: dapd.LeastSquares(A, rng.standard_normal(14), 0.1),
        "sparse least squares": lambda: dapd.LeastSquares(sp.csr_array(np.round(A)), rng.standard_normal(14), 0.1),
        "logistic": lambda: dapd.Logistic(A, labels, 0.3),
        "separable": lambda: dapd.Separable(
            [dapd.PseudoHuber(0.2), dapd.Quadratic(np.geomspace(1, 9, 6))], sizes=[4, 6]
        ),
        "smooth": lambda: _smooth(dapd.Quadratic(H, c)),
    }


def matrix(rng, *, spread=0.0, zero=False, parallel=False, single=False):
    M = rng.standard_normal((ROWS, COLUMNS)) * 10.0 ** rng.uniform(-spread, spread, (ROWS, 1))
    if zero:
        M[1] = 0.0
    if parallel:
        M[5], M[4] = -3.0 * M[3], 0.7 * M[3]
    if single:
        M[0], M[2] = 0.0, 0.0
        M[0, 4], M[2, 4] = 2.0, -0.5
    return M


def couplings(rng, **how):
    M = matrix(rng, **how)
    return {
        "dense": M,
        "sparse": sp.csr_array(np.where(abs(M) > 0, M, 0.0)),
        "columns": dapd.ColumnBlocks([M[:, :4], sp.csr_array(M[:, 4:])]),
        "kronecker": dapd.Kronecker(M[:3, :5], M[3:5, 5:7]),
        "kronecker with identity": dapd.Kronecker(M[:3, :5], 2),
        "block diagonal": dapd.BlockDiagonal([M[:2, :5], M[2:, 5:]]),
        "matrix-free": aslinearoperator(M),
    }


FUNCTIONS = list(functions(np.random.default_rng(0)))
COUPLINGS = list(couplings(np.random.default_rng(0)))


def minimiser(f, slope):
    """argmin f(x) + slopeᵀx by Newton with differences of gradients, until rounding keeps it from getting closer."""
    x, length = np.zeros(COLUMNS), 1.0
    while length > 1e-8 and np.linalg.norm(g := f.grad(x) + slope) > 1e-15 * np.linalg.norm(slope):
        H = np.array([(f.grad(x + h) - f.grad(x - h)) / 2e-6 for h in 1e-6 * np.eye(COLUMNS)])
        direction, length = -np.linalg.solve((H + H.T) / 2, g), 1.0
        while length > 1e-8 and np.linalg.norm(f.grad(x + length * direction) + slope) >= np.linalg.norm(g):
            length /= 2
        x = x + length * direction
    return x


def known(f, M, phi, rng, *, bounds=False, fixed=0):
    """A problem with its solution; with `bounds` on x, some of them equal if `fixed`."""
    rows = dapd.Problem(dapd.PseudoHuber(1.0), M, np.zeros(ROWS)).M
    y, g = dual_pair(phi.sized(ROWS), rng, ROWS)
    if not bounds:
        x = minimiser(f, rows.adjoint(y))
        return dapd.Problem(f, rows, rows.forward(x) - g, phi, x_star=x, y_star=y)
    z = np.where(rng.uniform(size=COLUMNS) < 0.5, 0.3 * rng.standard_normal(COLUMNS), 0.0)
    x = minimiser(f, rows.adjoint(y) + z)
    lower = np.where(z < 0, x, np.where(rng.uniform(size=COLUMNS) < 0.3, -np.inf, x - 1))
    upper = np.where(z > 0, x, np.where(rng.uniform(size=COLUMNS) < 0.3, np.inf, x + 0.5))
    lower[:fixed] = upper[:fixed] = x[:fixed]
    return dapd.Problem(f, rows, rows.forward(x) - g, phi, bounds=(lower, upper), x_star=x, y_star=y)


__all__ = ["COUPLINGS", "FUNCTIONS", "PHIS", "couplings", "functions", "known"]
