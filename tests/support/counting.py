"""A linear operator that counts its products."""

import numpy as np
from scipy.sparse.linalg import LinearOperator


class Counting(LinearOperator):
    """A matrix of which only products are known, each counted."""

    def __init__(self, matrix):
        super().__init__(np.dtype(np.float64), matrix.shape)
        self.matrix, self.forward, self.backward = matrix, 0, 0

    @property
    def products(self):
        return self.forward + self.backward

    def _matvec(self, x):
        self.forward += 1
        return self.matrix @ x

    def _rmatvec(self, y):
        self.backward += 1
        return self.matrix.T @ y
