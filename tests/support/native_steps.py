"""Couplings with structure, and a check of the native dual step against two products."""

import numpy as np
import scipy.sparse as sp
from dual_steps import FusedDualStep

import dapd

STEP = 0.7


def problem_with(M, phi, dtype=np.float64):
    return dapd.Problem(dapd.PseudoHuber(1.0), M, np.zeros(M.shape[0], dtype), phi)


def check(core, M, phi, dtype=np.float64, threads=(1, 2, 3)):
    """The fused step of every number of threads is two products and a prox."""
    problem = problem_with(M, phi, dtype)
    rng = np.random.default_rng(1)
    v, base = rng.standard_normal(M.shape[1]).astype(dtype), rng.standard_normal(M.shape[0]).astype(dtype)
    y, Mty = problem.M.dual_step(v, base, problem.phi, STEP)
    scale = 1 + np.abs(problem.M.forward(np.abs(v))).max(initial=0.0) + np.abs(y).sum()
    tol = 1e3 * np.finfo(dtype).eps * scale
    kept = v.copy(), base.copy()
    for count in threads:
        fast_y, fast_Mty = FusedDualStep(problem, threads=count, core=core)(v, base, STEP)
        assert fast_y.dtype == fast_Mty.dtype == dtype
        assert np.abs(fast_y - y).max(initial=0.0) <= tol
        assert np.abs(fast_Mty - Mty).max() <= tol
    assert np.array_equal(v, kept[0])
    assert np.array_equal(base, kept[1])


def structured():
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((3, 5)), rng.standard_normal((2, 6))
    square = rng.standard_normal((4, 3, 5))
    uneven = [rng.standard_normal((k, k + 2)) for k in (1, 5, 2)]
    yield "kronecker with an identity", dapd.Kronecker(A, 4), dapd.GroupBall(0.5, 4)
    yield "kronecker", dapd.Kronecker(A, B), dapd.L1(0.2)
    yield "kronecker, groups across rows of A", dapd.Kronecker(A, B), dapd.GroupBall(0.5, 3)
    yield "kronecker in columns", dapd.Kronecker(A.T.copy().T, 1), dapd.NonNegative()
    yield "kronecker, tall", dapd.Kronecker(rng.standard_normal((9, 4)), B.T), dapd.NonNegative()
    yield "diagonal", dapd.BlockDiagonal(square), dapd.L1(0.2)
    yield "diagonal, groups are blocks", dapd.BlockDiagonal(square), dapd.GroupBall(0.5, 3)
    yield "diagonal, groups across blocks", dapd.BlockDiagonal(square), dapd.GroupBall(0.5, 2)
    yield "diagonal, one group", dapd.BlockDiagonal(square), dapd.GroupBall(0.5, 12)
    yield "diagonal, uneven", dapd.BlockDiagonal(uneven), dapd.Zero()
    yield (
        "diagonal, many",
        dapd.BlockDiagonal([rng.standard_normal((k % 4 + 1, k % 7 + 1)) for k in range(60)]),
        dapd.L1(0.1),
    )
    eye = dapd.Identity(8, rows=3, start=2)
    dense, sparse = rng.standard_normal((4, 8)), sp.random_array((5, 8), density=0.4, format="csr", rng=rng)
    rows = dapd.RowBlocks([dense, sparse, eye, np.asfortranarray(dense)])
    yield "rows", rows, dapd.L1(0.2)
    four = [dapd.Zero(), dapd.GroupBall(0.5, 5), dapd.Box(-1, 1), dapd.L1(0.1)]
    yield "rows, one φ per block", rows, dapd.Stack(four, sizes=[4, 5, 3, 4])
    long = dapd.RowBlocks([rng.standard_normal((20, 8)), rng.standard_normal((17, 8))])
    mixed = dapd.Stack([dapd.GroupBall(0.5, 2), dapd.L1(0.2)], sizes=[6, 31])  # rows without groups, in both blocks
    yield "rows, φ with and without groups", long, mixed


STRUCTURED = {name: (M, phi) for name, M, phi in structured()}
