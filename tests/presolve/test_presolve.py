"""Every transform of a problem with a known solution has that solution too, and is undone exactly."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from presolve_instances import COLUMNS, COUPLINGS, FUNCTIONS, PHIS, ROWS, couplings, functions, known
from scipy.sparse.linalg import aslinearoperator

import dapd
from dapd import presolve
from dapd.certificate.certify import certify

CLEANING = [presolve.EmptyRows, presolve.Equations, presolve.MergedRows, presolve.FixedVariables]
CHANGES = [presolve.DiagonalVariables, presolve.ChangeOfVariables, presolve.ColumnScaling, presolve.OrthonormalRows]
ALL = [*CLEANING, *CHANGES, presolve.RowScaling, presolve.BoundsAsRows]
ALWAYS = (presolve.ChangeOfVariables.apply, presolve.OrthonormalRows.apply, presolve.RowScaling.apply)
OPTIMAL = 1e-10


@st.composite
def problems(draw, phis=tuple(PHIS)):
    """Problems over all f, M and φ, and what is odd about their rows."""
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    odd = {name: draw(st.booleans()) for name in ("zero", "parallel", "single")}
    M = couplings(rng, spread=draw(st.sampled_from([0.0, 1.0, 3.0])), **odd)[draw(st.sampled_from(COUPLINGS))]
    name = draw(st.sampled_from(FUNCTIONS))
    if name == "separable" and isinstance(M, dapd.ColumnBlocks):
        name = "pseudo-huber"  # its blocks would be those of M
    phi = PHIS[draw(st.sampled_from(phis))]
    bounds = draw(st.booleans())
    return known(functions(rng)[name](), M, phi, rng, bounds=bounds, fixed=draw(st.sampled_from([0, 3])))


def check(problem, transform):
    """The transform keeps the solution, multipliers of bounds included, and `start` undoes `back`."""
    new = transform.problem
    x, y = problem.x_star, problem.stacked.y_star
    error = certify(problem.stacked, x, y).error
    near = transform.start(x, y)
    assert certify(new.stacked, *near).error <= OPTIMAL + 1e3 * error
    assert certify(problem.stacked, *transform.back(*near)).error <= OPTIMAL + 1e3 * error
    rng = np.random.default_rng(1)
    point = rng.standard_normal(new.columns), rng.standard_normal(new.multipliers)
    for found, wanted in zip(transform.start(*transform.back(*point)), point, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
@given(problem=problems())
@settings(max_examples=60)
def test_a_transform_keeps_the_solution(kind, problem):
    transform = kind.apply(problem)
    if transform is not None:
        check(problem, transform)


@pytest.mark.parametrize("last", [presolve.CONDITIONING, ALWAYS], ids=["conditioning", "change of variables"])
@given(problem=problems())
@settings(max_examples=100)
def test_a_chain_of_transforms_keeps_the_solution(last, problem):
    chain = presolve.Presolve.apply(problem, [*presolve.CLEANING, *last])
    check(problem, chain)
    assert bool(chain.why) == bool(chain.transforms)


@given(problem=problems(), seed=st.integers(0, 100))
@settings(max_examples=60)
def test_scaling_is_undone_without_rounding(problem, seed):
    rng = np.random.default_rng(seed)
    x, y = rng.standard_normal(problem.columns), rng.standard_normal(problem.multipliers)
    transform = presolve.RowScaling.apply(problem)
    if transform is not None:
        back = transform.back(*transform.start(x, y))
        assert np.array_equal(back[0], x)
        assert np.array_equal(back[1], y)


@given(problem=problems())
@settings(max_examples=40)
def test_the_problem_given_is_not_changed(problem):
    x, y = problem.x_star.copy(), problem.stacked.y_star.copy()
    b, image, pull = problem.b.copy(), problem.M.forward(x), problem.f.grad(x)
    bounds = [side.copy() for side in problem.bounds]
    chain = presolve.Presolve.apply(problem, [kind.apply for kind in ALL])
    chain.back(*chain.start(x, y))
    assert np.array_equal(problem.b, b)
    assert np.array_equal(problem.M.forward(x), image)
    assert np.array_equal(problem.f.grad(x), pull)
    assert np.array_equal(x, problem.x_star)
    assert np.array_equal(y, problem.stacked.y_star)
    assert np.array_equal(bounds, problem.bounds)


def quadratic(**how):
    rng = np.random.default_rng(3)
    how = {"M": rng.standard_normal((ROWS, COLUMNS)), "phi": dapd.Zero(), "f": "dense", **how}
    f, M, phi = functions(rng)[how.pop("f")](), how.pop("M"), how.pop("phi")
    return known(f, M, phi, rng, **how)


@pytest.mark.parametrize("kind", ["dense", "kronecker", "kronecker with identity", "block diagonal"])
def test_equations_get_orthonormal_rows(kind):
    problem = quadratic(M=couplings(np.random.default_rng(2), spread=2.0)[kind])
    new = presolve.OrthonormalRows.apply(problem).problem
    np.testing.assert_allclose(new.M.dense() @ new.M.dense().T, np.eye(new.rows), atol=1e-11)
    assert type(new.M) is type(problem.M)
    assert new.phi.is_zero


def test_only_the_equations_of_a_mixed_problem_get_orthonormal_rows():
    problem = quadratic(phi=dapd.Stack([dapd.NonNegative(), dapd.Zero()], sizes=[3, 3]), bounds=True)
    new = presolve.OrthonormalRows.apply(problem).problem
    top = new.M.dense()[:3]
    np.testing.assert_allclose(top @ top.T, np.eye(3), atol=1e-11)
    np.testing.assert_array_equal(new.M.dense()[3:6], problem.M.dense()[:3])
    np.testing.assert_array_equal(new.bounds, problem.bounds)


def test_dependent_equations_are_dropped_if_they_agree():
    M = np.random.default_rng(0).standard_normal((ROWS, COLUMNS))
    M[5] = M[0] + 2 * M[1]
    M[4] = 0
    problem = quadratic(M=M)
    transform = presolve.OrthonormalRows.apply(problem)
    assert transform.problem.rows == 4
    check(problem, transform)
    b = problem.b.copy()
    b[5] += 1.0
    assert presolve.OrthonormalRows.apply(dapd.Problem(problem.f, M, b)) is None


@pytest.mark.parametrize("f", ["diagonal", "sparse diagonal", "dense", "sparse", "least squares"])
def test_a_change_of_variables_makes_the_hessian_the_identity(f):
    problem = quadratic(f=f)
    kind = presolve.DiagonalVariables if "diagonal" in f else presolve.ChangeOfVariables
    new = kind.apply(problem).problem
    assert new.f.L / new.f.mu == pytest.approx(1.0, abs=1e-14)
    check(problem, kind.apply(problem))


def test_bounds_stay_bounds_and_become_rows_of_an_identity_last():
    problem = quadratic(f="diagonal", bounds=True)
    new = presolve.Presolve.apply(problem, [presolve.DiagonalVariables.apply, *presolve.STACKING])
    scaled, *_, stacked = (transform.problem for transform in new.transforms)
    assert type(scaled.M) is type(problem.M)
    assert np.isfinite(scaled.bounds).any()
    assert isinstance(stacked.M.operators[-1], dapd.Identity)
    check(problem, new)


def test_few_bounds_become_few_rows():
    problem = dapd.Problem(
        dapd.Quadratic(np.ones(9), np.ones(9)), np.ones((2, 9)), [1.0, 2.0], bounds=([0.0] * 3 + [-np.inf] * 6, None)
    )
    chain = presolve.Presolve.apply(problem, presolve.STACKING)
    assert chain.problem.rows == 5
    _, y = chain.back(np.ones(9), np.arange(1.0, 6.0))
    np.testing.assert_array_equal(y, [1, 2, 3, 4, 5, 0, 0, 0, 0, 0, 0])


def test_row_scaling_brings_norms_near_one():
    scales = np.geomspace(1e-6, 1e6, ROWS)
    M = sp.csr_array(scales[:, None] * np.random.default_rng(0).standard_normal((ROWS, COLUMNS)))
    new = presolve.RowScaling.apply(dapd.Problem(dapd.PseudoHuber(0.5), M, np.ones(ROWS), dapd.NonNegative())).problem
    assert new.M.row_norms.max() / new.M.row_norms.min() <= 2.01


def test_variables_are_changed_only_for_equations_unless_asked():
    for phi in (dapd.Zero(), dapd.NonNegative()):
        problem = dapd.Problem(
            dapd.Quadratic(np.diag([1.0, 2.0, 3.0]) + 0.1, np.ones(3)), np.eye(2, 3) + 0.5, [1, 2], phi
        )
        assert presolve.ChangeOfVariables.apply(problem) is not None
        assert (presolve.ChangeOfVariables.apply_to_equations(problem) is None) == (not phi.is_linear)


def test_a_row_that_no_x_satisfies_stays():
    M = np.vstack([np.zeros(3), np.ones(3)])
    problem = dapd.Problem(dapd.PseudoHuber(0.5), M, [1.0, 1.0])
    assert presolve.EmptyRows.apply(problem) is None
    crossing = dapd.Problem(dapd.PseudoHuber(0.5), np.ones((2, 3)), [0.0, 0.0], dapd.Interval([0, 2], [1, 3]))
    assert presolve.MergedRows.apply(crossing) is None
    bounds = dapd.Problem(
        dapd.PseudoHuber(0.5),
        dapd.RowBlocks([dapd.Identity(3)] * 2),
        np.zeros(6),
        dapd.Interval([1] * 3 + [2] * 3, [1] * 3 + [3] * 3),
    )
    assert presolve.MergedRows.apply(bounds) is None


def test_a_row_with_one_entry_becomes_a_bound():
    M = sp.csr_array(np.array([[0, 2.0, 0, 0], [1, 1, 1, 1], [0, 0, -4.0, 0], [0, 5.0, 0, 0]]))
    phi = dapd.Interval([-2.0, 0, -8, 1], [2.0, 0, 4, 100])
    problem = dapd.Problem(dapd.Quadratic(np.ones(4), [3.0, 9, -7, 1]), M, np.zeros(4), phi)
    transform = presolve.MergedRows.apply(problem)
    assert transform.problem.rows == 1
    np.testing.assert_array_equal(transform.problem.lower, [-np.inf, 0.2, -1, -np.inf])
    np.testing.assert_array_equal(transform.problem.upper, [np.inf, 1, 2, np.inf])
    x, y = _solved(transform)
    assert certify(problem, x, y).error <= 1e-9
    np.testing.assert_allclose(x[1], 1.0, atol=1e-8)


def _solved(transform):
    result = dapd.solve(transform.problem, method="papc", tol=1e-11)
    assert result.status == "optimal"
    return transform.back(result.x, np.concatenate([result.y, result.z])[: transform.problem.multipliers])


@pytest.mark.parametrize("f", ["diagonal", "dense", "pseudo-huber", "least squares", "logistic"])
@pytest.mark.parametrize("phi", ["zero", "nonnegative", "interval", "group ball"])
def test_a_solution_of_the_new_problem_solves_the_given_one(f, phi):
    problem = quadratic(f=f, phi=PHIS[phi], bounds=True, fixed=2)
    chain = presolve.Presolve.apply(problem, [kind.apply for kind in ALL])
    x, y = _solved(chain)
    assert certify(problem, x, y).error <= 1e-8
    np.testing.assert_allclose(x, problem.x_star, atol=1e-6)


def test_nearly_dependent_equations_get_orthonormal_rows():
    rng = np.random.default_rng(0)
    M = rng.standard_normal((ROWS, COLUMNS))
    M[5] = M[0] + 1e-7 * M[5]
    problem = quadratic(M=M)
    transform = presolve.OrthonormalRows.apply(problem)
    new = transform.problem.M.dense()
    np.testing.assert_allclose(new @ new.T, np.eye(ROWS), atol=1e-11)
    assert certify(problem, *transform.back(*transform.start(problem.x_star, problem.y_star))).error <= 1e-9


def test_float32_stays_float32_if_only_scaled():
    M = np.geomspace(1e-3, 1e3, ROWS, dtype=np.float32)[:, None] * np.ones((ROWS, COLUMNS), np.float32)
    problem = dapd.Problem(dapd.PseudoHuber(0.5), M, np.ones(ROWS, np.float32), dapd.NonNegative())
    assert presolve.RowScaling.apply(problem).problem.dtype == np.float32


def test_a_problem_without_rows_is_scaled_too():
    problem = dapd.Problem(dapd.Quadratic(np.geomspace(1, 1e6, 4), np.ones(4)), np.zeros((0, 4)), [])
    new = presolve.DiagonalVariables.apply(problem).problem
    assert pytest.approx(new.f.mu) == new.f.L


def test_a_named_method_does_not_presolve():
    problem = dapd.experiments.compressed_sensing(seed=0, n=20, m=60, nonzeros=4)
    result = dapd.solve(problem, method="y-dapd", max_iterations=30, tol=0)
    method = dapd.METHODS["y-dapd"](problem, result.parameters)
    x, y = method.point(method.run(method.init(), 30))
    np.testing.assert_allclose(result.x, x, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(result.y, y, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    "M",
    [
        dapd.Kronecker(np.ones((1, 2)), 2),
        dapd.BlockDiagonal([np.ones((1, 2)), np.ones((1, 2))]),
        aslinearoperator(np.kron(np.ones((1, 2)), np.eye(2))),
    ],
    ids=lambda M: type(M).__name__,
)
def test_a_linear_program_is_solved_whatever_kind_M_is(M):
    problem = dapd.Problem(dapd.Quadratic(None, [1.0, 2, 3, 5]), M, [0.0, 0.0], dapd.Interval(-1, 1), bounds=(-3, 3))
    expected = dapd.solve(dapd.Problem(problem.f, problem.M.dense(), problem.b, problem.phi, bounds=(-3, 3))).objective
    for options in ({}, {"direct": False}, {"engine": "python"}):
        result = dapd.solve(problem, **options)
        assert result.status == "optimal"
        assert result.objective == pytest.approx(expected, rel=1e-4)
