"""Classification: two classes separated by a plane."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from dapd.arguments import named, numbers, vector
from dapd.functions import Quadratic
from dapd.kinds.by_rows import Box
from dapd.operators.convert import matrix_of
from dapd.problem.problem import Problem
from dapd.problems.rows import as_csr


@named
def svm(A: Any, labels: Any, penalty: Any = 1.0, *, intercept: bool = False) -> Problem:
    """½‖x‖² + penalty·Σᵢ max(0, 1 − labelᵢ·aᵢᵀx): the linear support vector machine.

    Parameters
    ----------
    A : matrix, dense or sparse, one row per sample
    labels : vector of +1 and −1
    penalty : float or vector
        One for all samples, or one each.
    intercept : bool
        Whether the plane need not go through the origin: aᵢᵀx + c instead of aᵢᵀx, with c the last entry of `result.x`.
    """
    matrix = as_csr("A", A) if sp.issparse(A) else matrix_of("A", A)
    m, n = matrix.shape
    labels = vector("labels", labels, m)
    if not np.all(np.abs(labels) == 1):
        raise ValueError(f"labels must be +1 or -1, found {np.unique(labels)[:5]}")
    penalty = numbers("penalty", penalty)
    if np.any(np.asarray(penalty) <= 0):
        raise ValueError("penalty must be > 0; some entry is not")
    offset = -labels[:, None]
    if sp.issparse(A):
        M = sp.diags_array(-labels) @ matrix
        M = sp.hstack([M, offset], format="csr") if intercept else M
    else:
        M = offset * matrix
        M = np.hstack([M, offset]) if intercept else M
    curvature = np.append(np.ones(n), 0.0) if intercept else np.ones(n)
    return Problem(Quadratic(curvature), M, -np.ones(m), Box.between(0.0, penalty))
