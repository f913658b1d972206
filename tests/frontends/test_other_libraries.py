"""Operators, prox objects and tables of other libraries, wherever their NumPy form goes."""

import numpy as np
import pandas as pd
import pylops
import pyproximal
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import aslinearoperator

import dapd

N, NU = 30, 0.7
rng = np.random.default_rng(0)
A, D_FULL = rng.standard_normal((40, N)), np.eye(N, k=1)[:-1] - np.eye(N)[:-1]
TARGET, SHIFT = rng.standard_normal(40), 0.1 * rng.standard_normal(N)
PYLOPS = pylops.FirstDerivative(N, kind="forward", edge=False)  # its last row is zero
D = np.vstack([D_FULL, np.zeros(N)])
MATRICES = {"numpy": D, "scipy": sp.csr_array(D), "LinearOperator": aslinearoperator(D), "pylops": PYLOPS}
# ν‖Dx − b‖₁, by its dual term and by itself
TERMS = {
    "dapd": lambda: dapd.Box(-NU, NU),
    "conjugate": lambda: dapd.Conjugate(pyproximal.L1(NU)),
    "dual": lambda: pyproximal.Box(-NU, NU),
    "stack": lambda: dapd.Stack([pyproximal.Box(-NU, NU), dapd.Box(-NU, NU)], sizes=[10, None]),
}


@pytest.fixture(scope="module")
def reference():
    problem = dapd.Problem(dapd.LeastSquares(A, TARGET), D, SHIFT, dapd.Box(-NU, NU))
    return dapd.solve(problem, tol=1e-12)


@pytest.mark.parametrize("term", TERMS)
@pytest.mark.parametrize("matrix", MATRICES)
def test_all_forms_of_a_problem_give_the_same_answer(matrix, term, reference):
    problem = dapd.Problem(dapd.LeastSquares(A, TARGET), MATRICES[matrix], SHIFT, TERMS[term]())
    result = dapd.solve(problem, tol=1e-12)
    assert result.converged
    assert abs(result.x - reference.x).max() <= 1e-9
    assert abs(result.objective - reference.objective) <= 1e-9 * abs(reference.objective)


def test_pylops_in_f():
    result = dapd.solve(dapd.Problem(dapd.LeastSquares(pylops.MatrixMult(A), TARGET), D[:5], SHIFT[:5]), tol=1e-11)
    same = dapd.solve(dapd.Problem(dapd.LeastSquares(A, TARGET), D[:5], SHIFT[:5]), tol=1e-11)
    H = dapd.Quadratic(pylops.MatrixMult(A.T @ A), A.T @ TARGET)
    third = dapd.solve(dapd.Problem(H, D[:5], SHIFT[:5]), tol=1e-11)
    assert abs(result.x - same.x).max() <= 1e-9
    assert abs(third.x - same.x).max() <= 1e-9


@pytest.mark.parametrize(
    ("theirs", "mine"),
    [
        (pyproximal.Box(-0.1, 0.2), dapd.Interval(-0.1, 0.2)),
        (pyproximal.EuclideanBall(np.zeros(5), 0.5), None),
        (pyproximal.Simplex(5, 1.0), None),
    ],
)
def test_an_indicator_of_pyproximal_is_a_constraint(theirs, mine):
    c = rng.standard_normal(5)
    problem = dapd.Problem(dapd.Quadratic(np.ones(5), c), np.eye(5), np.zeros(5), dapd.Conjugate(theirs))
    result = dapd.solve(problem, max_iterations=10_000)
    assert result.converged
    assert abs(result.x - theirs.prox(c, 1.0)).max() <= 1e-6  # the projection of c; that onto a simplex has few digits
    assert np.isfinite(result.objective)
    if mine is not None:
        assert abs(result.x - dapd.solve(dapd.Problem(problem.f, np.eye(5), np.zeros(5), mine)).x).max() <= 1e-6


def test_a_solver_takes_another_term_of_pyproximal():
    f = dapd.Quadratic(np.ones(5), np.arange(5.0))
    solver = dapd.Solver(dapd.Problem(f, np.eye(5), np.zeros(5), dapd.Conjugate(pyproximal.L1(1.0))))
    solver.solve()
    solver.update(phi=dapd.Conjugate(pyproximal.L1(2.0)))
    assert abs(solver.solve().x - [0, 0, 0, 1, 2]).max() < 1e-5
    with pytest.raises(ValueError, match="Conjugate of L1, found Conjugate of Box"):
        solver.update(phi=dapd.Conjugate(pyproximal.Box(0, 1)))


def test_tables_of_pandas_go_in_wherever_arrays_do():
    names = [f"x{k}" for k in range(N)]
    frame, target, shift = pd.DataFrame(A, columns=names), pd.Series(TARGET), pd.Series(SHIFT, index=names)
    M = pd.DataFrame(D, columns=names, index=names)
    bounds = (pd.Series(-np.ones(N)), pd.Series(np.ones(N)))
    table = dapd.solve(dapd.Problem(dapd.LeastSquares(frame, target), M, shift, dapd.L1(1.0), bounds=bounds))
    plain = dapd.solve(dapd.Problem(dapd.LeastSquares(A, TARGET), D, SHIFT, dapd.L1(1.0), bounds=(-1, 1)))
    assert np.array_equal(table.x, plain.x)
    within = dapd.Interval(-3 * shift.abs(), 3 * shift.abs())
    again = dapd.Solver(dapd.Problem(dapd.Quadratic(M.T @ M, shift), M, shift, within))
    again.update(b=2 * shift, H=M.T @ M + pd.DataFrame(np.eye(N), columns=names, index=names), c=shift)
    assert again.solve(x0=shift).converged
    labels = pd.Series(np.sign(TARGET))
    assert dapd.solve(dapd.Problem(dapd.Logistic(frame, labels, 1.0), M, shift, dapd.L1(1.0))).converged


def test_mixed_and_nullable_columns_are_numbers():
    mixed = pd.DataFrame({"a": [True, False], "b": [1.5, 2.0], "c": pd.array([1, 2], dtype="Int64")})
    problem = dapd.Problem(dapd.Quadratic(np.ones(3)), mixed, pd.Series([1, 2], dtype="Float64"))
    assert np.array_equal(problem.M.dense(), [[1, 1.5, 1], [0, 2, 2]])
    missing = pd.DataFrame({"a": pd.array([1, None], dtype="Int64"), "b": [1.0, 2.0]})
    with pytest.raises(ValueError, match="M holds NaN"):
        dapd.Problem(dapd.Quadratic(np.ones(2)), missing, [0, 0])
    with pytest.raises(TypeError, match="M must be real numbers"):
        dapd.Problem(dapd.Quadratic(np.ones(2)), pd.DataFrame({"a": ["x", "y"], "b": [1.0, 2.0]}), [0, 0])


@pytest.mark.parametrize(
    "text", [pd.Series(["1", "-1"]), pd.Series(["1", "-1"], dtype="string"), pd.Series(pd.Categorical(["1", "-1"]))]
)
def test_text_is_no_number_even_if_it_reads_like_one(text):
    with pytest.raises(TypeError, match="d must be real numbers, found dtype object"):
        dapd.LeastSquares(np.eye(2), text)
    with pytest.raises(TypeError, match="M must be real numbers"):
        dapd.Problem(dapd.Quadratic(np.ones(2)), pd.DataFrame({"a": text, "b": [1.0, 2.0]}), [0, 0])
