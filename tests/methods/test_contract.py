"""What every method must do on every engine, φ, kind of M and precision; new methods and engines enter by existing."""

import copy
import re
from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
from instances import COLUMNS, PHIS, ROWS, dual_pair, hessian, matrix
from scipy.sparse.linalg import aslinearoperator

import dapd
from dapd.certificate.certify import certify
from dapd.engines import ENGINES
from dapd.machine.core import variants
from dapd.methods.block import BlockMethod

RUNNING = [engine for engine in ENGINES if engine != "auto"]
PRECISIONS = {np.float64: (1e-8, 1e-6), np.float32: (1e-4, 3e-3)}  # tolerance, then allowed error
HALF = COLUMNS // 2


def beside_an_identity(rng):
    """Two rows of numbers over four of an identity, whose columns they hardly touch."""
    rows = 0.1 * rng.standard_normal((2, COLUMNS))
    rows[:, [0, 1, 2, 7, 8, 9]] = matrix(rng, 2.0, 2, 6)
    return rows


# each makes M from random numbers in a dtype
KINDS = {
    "dense": lambda rng, dtype: matrix(rng, 2.0).astype(dtype),
    "fortran": lambda rng, dtype: np.asfortranarray(matrix(rng, 2.0).astype(dtype)),
    "csr": lambda rng, dtype: sp.csr_array(matrix(rng, 2.0).astype(dtype)),
    "matrix-free": lambda rng, dtype: aslinearoperator(matrix(rng, 2.0).astype(dtype)),
    "kronecker": lambda rng, dtype: dapd.Kronecker(matrix(rng, 2.0, 3, 5).astype(dtype), 2),
    "block-diagonal": lambda rng, dtype: dapd.BlockDiagonal([matrix(rng, 2.0, 3, 5).astype(dtype) for _ in range(2)]),
    "rows": lambda rng, dtype: dapd.RowBlocks(
        [beside_an_identity(rng).astype(dtype), dapd.Identity(COLUMNS, rows=4, start=3)]
    ),
    "columns": lambda rng, dtype: dapd.ColumnBlocks(
        [sp.csr_array(half) for half in np.hsplit(matrix(rng, 2.0).astype(dtype), 2)]
    ),
}
OPAQUE = {  # kinds whose products, or whose blocks of columns, only Python knows
    False: {"matrix-free"},
    True: {"matrix-free", "rows"},
}


def by_blocks(name):
    return issubclass(dapd.METHODS[name], BlockMethod)


@cache
def built(phi, kind, dtype, blocks):
    """A QP whose solution is known, and the singular values of its M."""
    rng = np.random.default_rng(1)
    M = dapd.Problem(dapd.PseudoHuber(1.0), KINDS[kind](rng, dtype), np.zeros(ROWS)).M
    dense = M.dense().astype(np.float64)
    H = np.geomspace(1.0, 4.0, COLUMNS) if blocks else hessian(rng, 4.0)
    x, (y, g) = rng.standard_normal(COLUMNS), dual_pair(PHIS[phi], rng, ROWS)
    f = dapd.Quadratic(H, (H * x if blocks else H @ x) + dense.T @ y, mu=1.0, L=4.0)
    s = np.linalg.svd(dense, compute_uv=False)
    s_bar_max = max(np.linalg.norm(half, 2) for half in np.hsplit(dense, 2))
    cut = [slice(0, HALF), slice(HALF, COLUMNS)] if blocks else None
    b = (dense @ x - g).astype(dtype)
    problem = dapd.Problem(f, M, b, PHIS[phi], blocks=cut, x_star=x, y_star=y)
    return problem, dapd.Spectrum(s[0], s[-1], s_bar_max)


def numbers_of(problem):
    """Every array that a solve reads."""
    M = problem.M
    return problem.b, problem.f.H, problem.f.c, M.dense(), getattr(M, "entries", None), getattr(M, "A", None)


def refused(name, problem):
    """Why the method cannot have such a problem; empty if it can."""
    try:
        dapd.METHODS[name].check(problem)
    except ValueError as reason:
        return str(reason)
    return ""


def expected_engine(name, kind, engine):
    """What must run, or None if the engine must refuse."""
    if engine == "jax":
        return None if by_blocks(name) or kind == "matrix-free" else "jax"
    knows = bool(variants()) and kind not in OPAQUE[by_blocks(name)]
    if engine == "auto":
        return "native" if knows else "python"
    return None if engine == "native" and not knows else engine


CASES = [
    (name, phi)
    for name in dapd.METHODS
    for phi in (PHIS if dapd.METHODS[name].any_phi else ["zero"])
]  # fmt: skip


def sampled(name, phi, engine, kind, dtype):
    """Whether to run a case: all of them, but not where every case has to be compiled."""
    if engine != "jax":
        return True
    plain = phi in ("zero", "stack") if name in ("x-dapd", "y-dapd") else phi == "zero"
    single = kind in ("dense", "csr") and name in ("y-dapd", "capd")
    return (plain or (kind == "dense" and "ball" not in phi)) and (dtype == np.float64 or (plain and single))


@pytest.mark.parametrize(
    ("name", "phi", "engine", "kind", "dtype"),
    [
        pytest.param(name, phi, engine, kind, dtype, id=f"{name}-{phi}-{engine}-{kind}-{dtype.__name__}")
        for name, phi in CASES
        for engine in ENGINES
        for kind in KINDS
        for dtype in PRECISIONS
        if sampled(name, phi, engine, kind, dtype)
    ],
)
def test_contract(name, phi, engine, kind, dtype):
    tol, allowed = PRECISIONS[dtype]
    problem, spectrum = built(phi, kind, dtype, by_blocks(name))
    refusal = refused(name, problem)
    if refusal:  # then every engine gives the same reason
        with pytest.raises(ValueError, match=f"^{re.escape(refusal)}$"):
            dapd.solve(problem, name, spectrum=spectrum, engine=engine)
        return
    x0, y0 = np.full(COLUMNS, 0.5), np.full(ROWS, 0.1)
    options = {"tol": tol, "max_iterations": 100_000, "x0": x0, "y0": y0, "spectrum": spectrum, "engine": engine}
    runs = expected_engine(name, kind, engine)
    if runs is None:
        with pytest.raises(ValueError, match=rf"engine='{engine}' cannot run this: .*; use engine='auto' or 'python'"):
            dapd.solve(problem, name, **options)
        return
    kept = copy.deepcopy((numbers_of(problem), x0, y0))

    result = dapd.solve(problem, name, seed=7 if by_blocks(name) else None, **options)

    assert result.status == "optimal"
    assert result.converged
    assert result.certificate.error <= tol
    assert result.certificate == certify(problem, result.x, result.y, spectrum=spectrum)
    assert result.x.dtype == result.y.dtype == dtype
    assert np.linalg.norm(result.x - problem.x_star) <= allowed * np.linalg.norm(problem.x_star)
    assert np.linalg.norm(result.y - problem.y_star) <= allowed * max(1.0, np.linalg.norm(problem.y_star))
    assert result.method == name
    assert isinstance(result.parameters, dapd.METHODS[name].record)
    assert result.engine == runs
    assert bool(result.engine.reason) == (engine == "auto" and runs == "python")
    if by_blocks(name):
        assert result.products == 0
        assert result.block_products > 0
        assert result.gradients > 0
    else:
        assert result.products == 2 * result.iterations + 1  # one for Mᵀy⁰
        assert result.gradients * getattr(result.parameters, "N", 1) == result.iterations
        assert result.block_products == 0
    for before, after in zip(kept[0], numbers_of(problem), strict=True):
        assert np.array_equal(before, after)
    assert np.array_equal(kept[1], x0)
    assert np.array_equal(kept[2], y0)


ABLE = [(name, engine) for name in dapd.METHODS for engine in RUNNING if engine != "jax" or not by_blocks(name)]


@pytest.mark.parametrize("name", dapd.METHODS)
def test_counts_are_the_same_on_every_engine(name):
    problem, spectrum = built("zero", "dense", np.float64, by_blocks(name))
    options = {"tol": 0, "max_iterations": 144, "spectrum": spectrum, "seed": 3 if by_blocks(name) else None}
    running = ["python", *(e for e in RUNNING if e != "python" and expected_engine(name, "dense", e))]
    first, *others = [dapd.solve(problem, name, engine=engine, **options) for engine in running]
    assert first.engine == "python"
    for other in others:
        assert (other.iterations, other.gradients, other.products) == (
            first.iterations,
            first.gradients,
            first.products,
        )
        # the core has MMᵀ at hand, and saves the products with which Python computes MMᵀy
        saves = name == "y-sbc-dapd"
        assert other.block_products <= first.block_products if saves else other.block_products == first.block_products
        np.testing.assert_allclose(other.x, first.x, rtol=1e-11, atol=1e-12)
        np.testing.assert_allclose(other.y, first.y, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize(("name", "engine"), ABLE)
def test_divergence_is_an_honest_status(name, engine):
    """Steps a thousand times too long, on every engine."""
    problem, spectrum = built("zero", "dense", np.float64, by_blocks(name))
    short = dapd.Spectrum(spectrum.s_max / 1e3, spectrum.s_min / 1e3, spectrum.s_bar_max / 1e3)
    with np.errstate(all="ignore"):
        result = dapd.solve(problem, name, tol=1e-12, max_iterations=200_000, spectrum=short, engine=engine)
    assert result.status == "diverged"
    assert not result.converged
    assert np.isfinite(result.x).all()
    assert np.isfinite(result.y).all()
    assert np.isfinite(result.certificate.error)


@pytest.mark.parametrize("name", [name for name in dapd.METHODS if not by_blocks(name)])
def test_nan_from_a_gradient_is_an_honest_status(name):
    problem, spectrum = built("zero", "dense", np.float64, False)
    calls = 0

    def grad(x):
        nonlocal calls
        calls += 1
        return problem.f.grad(x) if calls < 15 else np.full_like(x, np.nan)

    broken = dapd.Smooth(problem.f.value, grad, problem.f.mu, problem.f.L)
    result = dapd.solve(
        dapd.Problem(broken, problem.M, problem.b), name, tol=1e-12, max_iterations=1000, spectrum=spectrum
    )
    assert result.status == "diverged"
    assert "check_gradient" in result.message
    assert np.isfinite(result.x).all()
    assert np.isfinite(result.certificate.error)
    assert result.engine == ("native" if variants() else "python")
    assert "f = Smooth is evaluated in Python" in result.engine.reason or not variants()


@pytest.mark.parametrize(("name", "engine"), ABLE)
def test_limits_are_kept(name, engine):
    problem, spectrum = built("zero", "dense", np.float64, by_blocks(name))
    result = dapd.solve(problem, name, tol=1e-300, max_iterations=37, spectrum=spectrum, engine=engine)
    assert result.status == "iteration_limit"
    assert 0 < result.iterations <= 37
    assert "iteration limit" in result.message
    result = dapd.solve(problem, name, tol=0, time_limit=0.05, spectrum=spectrum, engine=engine)
    assert result.status == "time_limit"
    assert result.certificate == certify(problem, result.x, result.y, spectrum=spectrum)


@pytest.mark.parametrize("name", [name for name in dapd.METHODS if not dapd.METHODS[name].any_phi])
def test_methods_for_equations_refuse_another_phi_and_name_those_that_take_it(name):
    problem, _ = built("nonnegative", "dense", np.float64, by_blocks(name))
    with pytest.raises(ValueError, match=r"needs phi = Zero\(\), found NonNegative.*y-dapd"):
        dapd.solve(problem, name)


def test_auto_falls_back_if_there_is_no_core(monkeypatch):
    monkeypatch.setattr("dapd.engines.native.runner.load", lambda: None)
    monkeypatch.setattr("dapd.engines.native.blocks.load", lambda: None)
    for name in ("y-dapd", "y-sbc-dapd"):
        problem, spectrum = built("zero", "dense", np.float64, by_blocks(name))
        result = dapd.solve(problem, name, spectrum=spectrum)
        assert result.converged
        assert result.engine == "python"
        assert "install a C++ compiler" in result.engine.reason
        with pytest.raises(ValueError, match="the native core was not built"):
            dapd.solve(problem, name, spectrum=spectrum, engine="native")
