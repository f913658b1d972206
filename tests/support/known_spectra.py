"""Matrices whose singular values are known exactly."""

import numpy as np
import scipy.linalg
import scipy.sparse as sp

ORDER = 16
HADAMARD = scipy.linalg.hadamard(ORDER) / 4.0  # symmetric and orthogonal, with entries ±1/4


def dyadic(rng, deep, size):
    """Numbers from 2^-deep to 1, both included, spread evenly on a log scale; multiples of 2^-deep."""
    values = np.floor(2.0 ** rng.uniform(0, deep, size)) / 2.0**deep
    values[:2] = 2.0**-deep, 1.0
    return rng.permutation(values)


def block(values):
    """A matrix with these singular values, exact in binary if they are multiples of 2^-40 up to 1."""
    return (HADAMARD * np.asarray(values)) @ HADAMARD


def shuffled_blocks(values, rng, extra=0):
    """A sparse block-diagonal matrix with rows and columns permuted, and `extra` empty columns."""
    M = sp.block_diag([block(part) for part in np.reshape(values, (-1, ORDER))], format="csr")
    M = sp.hstack([M, sp.csr_array((M.shape[0], extra))], format="csr") if extra else M
    return M[rng.permutation(M.shape[0])][:, rng.permutation(M.shape[1])]


def incidence(tails, heads, nodes):
    """The incidence matrix of a graph, one row per node."""
    edge = np.arange(len(tails))
    signs = np.r_[np.ones(len(tails)), -np.ones(len(tails))]
    return sp.csr_array((signs, (np.r_[tails, heads], np.r_[edge, edge])), (nodes, len(tails)))


def differences(size, order):
    """Differences of neighbours, `order` times."""
    D = sp.eye_array(size, format="csr")
    for _ in range(order):
        D = D[1:] - D[:-1]
    return D.tocsr()


def ill_conditioned():
    """117 Hilbert, Vandermonde and Gaussian-kernel matrices of 5 to 100 rows."""
    for size in np.linspace(5, 100, 39).astype(int):
        t = np.linspace(0.0, 1.0, size)
        yield f"Hilbert {size}", scipy.linalg.hilbert(size)
        yield f"Vandermonde {size}", np.vander(t)
        yield f"kernel {size}", np.exp(-10 * (t[:, None] - t) ** 2)
