"""Functions and couplings that the jax engine knows."""

import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from instances import COLUMNS, ROWS, hessian, matrix

import dapd

RNG = np.random.default_rng(0)
A = RNG.standard_normal((14, COLUMNS))
LABELS = np.sign(RNG.standard_normal(14))
FUNCTIONS = {
    "pseudo-huber": dapd.PseudoHuber(0.3),
    "diagonal": dapd.Quadratic(np.linspace(1, 5, COLUMNS), RNG.standard_normal(COLUMNS)),
    "dense": dapd.Quadratic(hessian(RNG, 10.0), RNG.standard_normal(COLUMNS)),
    "sparse": dapd.Quadratic(sp.csr_array(hessian(RNG, 10.0)), RNG.standard_normal(COLUMNS)),
    "least squares": dapd.LeastSquares(A, LABELS, 0.1),
    "sparse least squares": dapd.LeastSquares(sp.csr_array(A), LABELS, 0.1),
    "logistic": dapd.Logistic(A, LABELS, 0.1),
    "separable": dapd.Separable(
        [dapd.PseudoHuber(0.3), dapd.Quadratic(np.linspace(1, 3, 6), RNG.standard_normal(6))], sizes=[4, 6]
    ),
    "from jax": dapd.Smooth.from_jax(lambda x: jnp.sum(jnp.cosh(0.1 * x)) + 0.5 * x @ x, mu=1.0, L=1.1),
}


def uneven(rng):
    """Rows of very different lengths, one of them empty."""
    M = sp.random_array((ROWS, COLUMNS), density=0.5, rng=rng).toarray()
    M[0], M[1] = 0.0, 1.0
    return sp.csr_array(M)


MAPS = {
    "dense": lambda rng: matrix(rng, 2.0),
    "fortran": lambda rng: np.asfortranarray(matrix(rng, 2.0)),
    "sparse": uneven,
    "identity": lambda rng: dapd.Identity(COLUMNS, rows=ROWS, start=2),
    "kronecker": lambda rng: dapd.Kronecker(matrix(rng, 2.0, 3, 5), 2),
    "kronecker of two": lambda rng: dapd.Kronecker(matrix(rng, 2.0, 3, 5), matrix(rng, 2.0, 2, 2)),
    "equal blocks": lambda rng: dapd.BlockDiagonal([matrix(rng, 2.0, 3, 5) for _ in range(2)]),
    "unequal blocks": lambda rng: dapd.BlockDiagonal([matrix(rng, 2.0, 2, 4), matrix(rng, 2.0, 4, 6)]),
    "rows": lambda rng: dapd.RowBlocks([matrix(rng, 2.0, 2), dapd.Identity(COLUMNS, rows=4, start=3)]),
    "columns": lambda rng: dapd.ColumnBlocks([sp.csr_array(half) for half in np.hsplit(matrix(rng, 2.0), 2)]),
    "written in jax": lambda rng: InJax(matrix(rng, 2.0)),
}


class InJax:
    """A matrix-free map whose products work on arrays of any kind."""

    def __init__(self, entries):
        self.entries, self.shape, self.dtype = entries, entries.shape, entries.dtype

    def matvec(self, x):
        return self.entries @ x

    def rmatvec(self, y):
        return y @ self.entries
