"""The Maros–Mészáros problems, from a folder of .mat files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
import scipy.sparse as sp

from peers import model as m

INFINITE = 1e20  # a bound of this size means none


def names(folder: Path) -> list[str]:
    """The problems of a folder, by size of the file."""
    files = folder.glob("*.mat")
    return [file.stem for file in sorted(files, key=lambda file: (file.stat().st_size, file.stem))]


def load(folder: Path, name: str) -> m.Model:
    """Min ½xᵀPx + qᵀx subject to l ≤ Ax ≤ u; the last n rows of A are the identity and become bounds."""
    data = scipy.io.loadmat(folder / f"{name}.mat")
    P, A = (sp.csr_array(data[key].astype(float)) for key in ("P", "A"))
    q, lower, upper = (data[key].astype(float).ravel() for key in ("q", "l", "u"))
    lower[lower <= -INFINITE], upper[upper >= INFINITE] = -np.inf, np.inf
    n = len(q)
    rows = A.shape[0] - n
    if (A[rows:] - sp.eye_array(n)).nnz:
        raise ValueError(f"{name}: the last {n} rows of A are not the identity")
    P = (P + P.T) / 2
    return m.make(
        name,
        "maros",
        m.Quadratic(diagonal_or(P), q),
        A[:rows],
        np.zeros(rows),
        m.Within(lower[:rows], upper[:rows]) if rows else [],
        (lower[rows:], upper[rows:]),
    )


def diagonal_or(P: Any) -> Any:
    """The diagonal if there is nothing else in P."""
    diagonal = P.diagonal()
    return diagonal if (P - sp.diags_array(diagonal)).count_nonzero() == 0 else P
