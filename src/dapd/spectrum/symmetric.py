"""Extreme eigenvalues of an explicit symmetric matrix."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from dapd.arrays import EPSILON, Array
from dapd.machine.blas import MANY, single_blas
from dapd.machine.rates import FACTORISATION
from dapd.spectrum.deadline import check_deadline
from dapd.spectrum.factored import Band, Full, least_eigenvalue
from dapd.spectrum.lanczos import MARGIN, MARGIN_ABOVE, PRODUCTS, UNRESOLVED, LanczosSearch, extremes, random_start
from dapd.spectrum.sparse import FULL_GRAM_ROWS, STEPS_BEFORE_FACTOR, STEPS_BEFORE_FULL, Gram

COMPARED_AT_ONCE = 1 << 20  # entries that are compared at a time
SMALL = 400  # rows up to which a sparse matrix is made dense at once
DENSE = 3_000  # rows up to which all eigenvalues of a dense matrix are computed
PIECE = 50  # rows, on average, up to which connected pieces are taken one by one
FULL_DENSE = 12_000  # rows of a dense matrix up to which it is factorised
GLIMPSE = 8  # Lanczos steps on a matrix whose extreme eigenvalues are not needed
FILLED = 0.25  # part of the entries from which a sparse matrix is treated as dense


def check_symmetric(H: Any, *, name: str) -> None:
    """Raise an error if a square dense or sparse matrix is not symmetric up to rounding."""
    H = H.toarray() if _is_filled(H) else H
    if sp.issparse(H):
        H = sp.csr_array(H)
        if not H.has_canonical_format:
            H = H.copy()  # its arrays are the caller's
            H.sum_duplicates()
        other, size = H.T.tocsr(), abs(H.data).max(initial=0.0)
        alike = np.array_equal(H.indptr, other.indptr) and np.array_equal(H.indices, other.indices)
        apart = abs(H.data - other.data).max(initial=0.0) if alike else abs(H - other).max()
    else:  # some rows at a time, so no copy of H is made
        height = max(1, COMPARED_AT_ONCE // max(1, H.shape[0]))
        parts = [slice(k, k + height) for k in range(0, H.shape[0], height)]
        apart = max(abs(H[part] - H[:, part].T).max() for part in parts)
        size = max(-H.min(), H.max())
    if apart > max(1e-10, 100 * float(np.finfo(H.dtype).eps)) * size:
        raise ValueError(f"{name} must be symmetric; use ({name} + {name}.T)/2")


def symmetric_extremes(H: Any, *, name: str, deadline: float = math.inf) -> tuple[float, float]:
    """Safe bounds on the eigenvalues of a dense or sparse matrix that is known to be symmetric.

    The lower bound is 0 if the least eigenvalue is 0 up to rounding, and negative only if H has a negative eigenvalue.
    """
    with single_blas(100.0 * H.nnz if sp.issparse(H) else float(H.shape[0]) ** 3, MANY):
        return _extremes(H, name, deadline)


def ritz_range(apply: Callable[[Array], Array], size: int, *, name: str) -> tuple[float, float]:
    """The extreme Ritz values of a few Lanczos steps, which lie between the eigenvalues of a symmetric map."""
    low, high, _ = extremes(apply, lambda turn: random_start(size, turn), LanczosSearch(GLIMPSE, name))
    return low.value, high.value


def check_symmetric_products(apply: Callable[[Array], Array], size: int, *, rounding: float, name: str) -> None:
    """Raise an error if two products show that a map is not symmetric."""
    u, v = (random_start(size, turn) for turn in range(2))
    Hu, Hv = apply(u), apply(v)
    if abs(float(Hu @ v - u @ Hv)) > rounding * float(np.linalg.norm(Hu) + np.linalg.norm(Hv)):
        raise ValueError(f"{name} must be symmetric, but uᵀ({name}v) = {u @ Hv:.6g} and vᵀ({name}u) = {Hu @ v:.6g}")


def _is_filled(H: Any) -> bool:
    """Whether a sparse matrix takes longer to work with than a dense one."""
    return bool(sp.issparse(H) and H.nnz > FILLED * H.shape[0] ** 2 and H.shape[0] <= FULL_DENSE)


def _extremes(H: Any, name: str, deadline: float) -> tuple[float, float]:
    size = H.shape[0]
    H = H.toarray() if _is_filled(H) else H
    if sp.issparse(H) and size > PIECE:
        H = sp.csr_array(H)
        coupled = _coupled(H)
        if coupled.sum() <= PIECE:
            return _with_lone_rows(H, coupled)
        count, owner = connected_components(H, directed=False)
        if count > 1 and size <= PIECE * count:  # small pieces that know nothing of each other
            return _by_pieces(H, count, owner, name, deadline)
    if size <= (SMALL if sp.issparse(H) else DENSE):
        check_deadline(deadline, 2 * size**3 / FACTORISATION.dense)
        return _of_dense((H.toarray() if sp.issparse(H) else H).astype(np.float64))
    gram = Gram.of(sp.csr_array(H).astype(np.float64)) if sp.issparse(H) else None
    if gram is not None and gram.nearly_diagonal:
        return float((gram.diagonal - gram.off_diagonal_sums).min()), gram.above
    return _large(H, name, gram, deadline)


def _of_dense(H: Array) -> tuple[float, float]:
    values = scipy.linalg.eigvalsh(H, check_finite=False)
    error = 4 * len(H) * EPSILON * max(abs(values[0]), abs(values[-1]))
    low = float(values[0])
    return 0.0 if abs(low) <= 2 * error else low - error, float(values[-1] + error)


def _coupled(H: Any) -> Array:
    """Which rows or columns of a CSR matrix have a stored entry beside the diagonal."""
    row_of = np.repeat(np.arange(H.shape[0]), np.diff(H.indptr))
    coupled, beside = np.zeros(H.shape[0], bool), H.indices != row_of
    coupled[row_of[beside]] = coupled[H.indices[beside]] = True
    return coupled


def _with_lone_rows(H: Any, coupled: Array) -> tuple[float, float]:
    """The extremes if few rows and columns have an entry beside the diagonal."""
    alone = H.diagonal()[~coupled].astype(np.float64)
    found = [(float(alone.min()), float(alone.max()))]
    if coupled.any():
        found.append(_of_dense(H[coupled][:, coupled].toarray().astype(np.float64)))
    return min(low for low, _ in found), max(high for _, high in found)


def _by_pieces(H: Any, count: int, owner: Any, name: str, deadline: float) -> tuple[float, float]:
    """The extremes over the blocks of a matrix that is block-diagonal up to a permutation."""
    order = np.argsort(owner, kind="stable")
    H = H[order][:, order]
    sizes = np.bincount(owner, minlength=count)
    ends = np.cumsum(sizes)
    found = [
        _extremes(H[end - size : end, end - size : end], name, deadline)
        for end, size in zip(ends, sizes, strict=True)
        if size > 1
    ]
    if np.any(sizes == 1):  # pieces of one entry, which is its eigenvalue
        values = H.diagonal()[ends[sizes == 1] - 1].astype(np.float64)
        found.append((float(values.min()), float(values.max())))
    return min(low for low, _ in found), max(high for _, high in found)


def _large(H: Any, name: str, gram: Gram | None, deadline: float) -> tuple[float, float]:
    """Lanczos, then a factor of H if that does not settle the lower bound."""
    size = H.shape[0]
    by_band = gram is not None and gram.ordering is not None
    by_full = size <= FULL_GRAM_ROWS if sp.issparse(H) else size <= FULL_DENSE
    steps = STEPS_BEFORE_FACTOR if by_band or not sp.issparse(H) else STEPS_BEFORE_FULL
    if not (by_band or by_full):
        steps = PRODUCTS
    search = LanczosSearch(steps, name, deadline=deadline)
    low, high, _ = extremes(lambda v: H @ v, lambda turn: random_start(size, turn), search)
    above = (1 + 2 * MARGIN_ABOVE) * (high.value + high.error)
    if gram is not None:
        above = min(above, gram.above)
    if low.error <= UNRESOLVED * abs(low.value):
        return (1 - 2 * MARGIN) * (low.value - low.error), above
    A: Full | Band
    if gram is not None and gram.ordering is not None:
        A = Band(gram.matrix, gram.ordering, norm=gram.above, terms=0)
    elif by_full:
        A = Full((H.toarray() if sp.issparse(H) else H).astype(np.float64), above)
    else:
        return 0.0, above
    least = least_eigenvalue(A, positive=False, deadline=deadline)
    return (min(low.value, 0.0) if least is None else least.lower), above
