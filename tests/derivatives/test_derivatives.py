"""Derivatives of solutions: against central differences, forward against reverse mode, under jit and vmap."""

import re
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp
from derivative_cases import FUNCTIONS, PHIS, STEP, B, check, cosh, portfolio, problem_for
from instances import COLUMNS, matrix
from jax.test_util import check_grads

import dapd
import dapd.jax as dj
from dapd.derivatives import host, linearised, systems

pytestmark = pytest.mark.usefixtures("float64")


@pytest.mark.parametrize("name", PHIS)
def test_derivatives_match_central_differences_for_every_phi(name):
    data, parameters, phi = problem_for(name)
    slopes = check(
        lambda b, c, H, M, *rest: jnp.concatenate(dj.solve(dj.Quadratic(H, c), M, b, phi(jnp, *rest))[:2]),
        [*data, *parameters],
    )
    assert all(jnp.linalg.norm(slope) > 1e-3 for slope in slopes)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives_match_central_differences_for_every_f_and_bounds(name):
    parameters, f = FUNCTIONS[name]
    draw = np.random.default_rng(5)
    M, limit = matrix(draw, 5.0), np.full(COLUMNS, 0.1)
    b = M @ draw.uniform(-0.1, 0.1, COLUMNS) - 0.02
    slopes = check(
        lambda b, M, low, high, *rest: jnp.concatenate(dj.solve(f(*rest), M, b, dj.NonNegative(), bounds=(low, high))),
        [b, M, -limit, limit, *parameters],
    )
    assert all(jnp.linalg.norm(slope) > 1e-3 for slope in slopes[4:])
    assert name != "diagonal" or all(jnp.linalg.norm(slope) > 1e-3 for slope in slopes)


def test_check_grads_passes_under_jit_and_vmap_in_both_modes():
    batch = jnp.stack([jnp.asarray(B), 1.5 * jnp.asarray(B), -jnp.asarray(B)])
    mapped = jax.jit(jax.vmap(portfolio, in_axes=(0, None)))
    check_grads(mapped, (batch, jnp.asarray(0.1)), order=1, modes=("fwd", "rev"), eps=STEP, atol=1e-6, rtol=1e-6)
    assert jnp.allclose(mapped(batch, 0.1), jnp.stack([portfolio(b, 0.1) for b in batch]), atol=1e-12)


def test_second_derivatives_match_differences_of_first_ones():
    gradient = jax.jit(jax.grad(lambda b: jnp.sum(portfolio(b, 0.1) ** 3)))
    curvature = jax.jit(jax.jacfwd(gradient))(jnp.asarray(B))
    move = jnp.asarray([0.3, -0.2, 0.5, 0.7])
    expected = (gradient(B + STEP * move) - gradient(B - STEP * move)) / (2 * STEP)
    assert jnp.allclose(curvature @ move, expected, rtol=1e-6, atol=1e-6 * jnp.linalg.norm(expected))


def test_all_right_hand_sides_share_one_factorisation(monkeypatch):
    made = []
    monkeypatch.setattr(
        linearised, "Factorised", lambda *parts, make=systems.Factorised: made.append(1) or make(*parts)
    )
    solved, transposed = jax.vjp(lambda b: portfolio(b, 0.1), jnp.asarray(B))
    made.clear()
    (jacobian,) = jax.vmap(transposed)(jnp.eye(solved.size))
    assert jacobian.shape == (COLUMNS, 4)
    assert len(made) == 1


def sparse_problem():
    draw = np.random.default_rng(2)
    M = sp.csr_array(sp.random_array((30, 40), density=0.1, rng=draw) + sp.eye_array(30, 40))
    return M, draw.standard_normal(30), np.linspace(1, 3, 40)


def test_sparse_matrices_give_the_derivatives_of_dense_ones(monkeypatch):
    M, b, h = sparse_problem()
    entries = dj.Sparse.of(M)

    def loss(M, b):
        return jnp.sum(dj.solve(dj.Quadratic(h), M, b, dj.GroupBall(0.2, 2), bounds=(-0.5, None)).x ** 2)

    dense = jax.grad(loss, (0, 1))(jnp.asarray(M.toarray()), jnp.asarray(b))
    monkeypatch.setattr(systems, "DENSE_SIZE", 0)  # a sparse factorisation
    of_values, of_b = jax.grad(
        lambda values, b: loss(dj.Sparse(values, entries.rows, entries.columns, M.shape), b), (0, 1)
    )(jnp.asarray(entries.values), jnp.asarray(b))
    assert jnp.allclose(of_b, dense[1], atol=1e-9)
    assert jnp.allclose(of_values, dense[0][entries.rows, entries.columns], atol=1e-9)
    assert jnp.allclose(jax.grad(loss, 1)(M, jnp.asarray(b)), of_b, atol=1e-12)


@pytest.mark.parametrize("sparse", [False, True])
def test_dependent_rows_have_the_derivative_of_independent_ones(sparse, monkeypatch):
    (b, c, H, M), _, _ = problem_for("zero")
    H = np.diag(np.linspace(1, 2, COLUMNS)) if sparse else H
    monkeypatch.setattr(systems, "DENSE_SIZE", 0 if sparse else 100)

    def outcome(c, M, b):
        M = sp.csr_array(M) if sparse else M
        solved = dj.solve(dj.Quadratic(sp.csr_array(H) if sparse else H, c), M, b)
        return (
            solved.x[0] + jnp.sum((solved.y @ M if not sparse else M.T @ solved.y) ** 2) if not sparse else solved.x[0]
        )

    once = jax.grad(outcome)(jnp.asarray(c), M, b)
    twice = jax.grad(outcome)(jnp.asarray(c), np.concatenate([M, M[:2]]), np.concatenate([b, b[:2]]))
    assert jnp.allclose(once, twice, atol=1e-7)
    slope = jax.grad(lambda b: dj.solve(dj.Quadratic(H, c), np.concatenate([M, M[:1]]), b).y[0])(jnp.append(b, b[0]))
    assert jnp.all(jnp.abs(slope) < 1e3)  # of the multiplier of least norm, not infinite


def test_failures_raise_with_the_message_or_give_nan():
    M, inconsistent = np.ones((2, 3)), jnp.array([0.0, 1.0])
    f = dj.Quadratic(np.ones(3))
    with pytest.raises(dj.NotSolved, match="infeasible"):
        dj.solve(f, M, inconsistent)
    with pytest.raises(jax.errors.JaxRuntimeError, match="infeasible"):
        jax.jit(lambda b: dj.solve(f, M, b).x)(inconsistent).block_until_ready()
    batch = jnp.stack([inconsistent, jnp.ones(2)])
    mapped = jax.vmap(jax.value_and_grad(lambda b: dj.solve(f, M, b, failures="nan").x.sum()))
    values, slopes = mapped(batch)
    assert jnp.isnan(values[0])
    assert jnp.isnan(slopes[0]).all()
    assert values[1] == pytest.approx(1.0)
    assert slopes[1].sum() == pytest.approx(1.0)


@pytest.mark.parametrize("outer", [lambda function: function, jax.jit])
def test_a_row_of_nan_loses_only_itself(outer):
    M = np.ones((1, 3))

    def total(b, c):
        return dj.solve(dj.Quadratic(np.ones(3), c), M, b, dj.NonNegative(), failures="nan").x.sum()

    b, c = jnp.array([[1.0], [jnp.nan], [2.0], [2.0]]), jnp.ones((4, 3)).at[3, 1].set(jnp.nan)
    values, slopes = outer(jax.vmap(jax.value_and_grad(total)))(b, c)
    assert jnp.isnan(values).tolist() == jnp.isnan(slopes[:, 0]).tolist() == [False, True, False, True]
    assert values[0] == pytest.approx(1.0)
    assert slopes[2, 0] == pytest.approx(1.0)
    with pytest.raises(ValueError, match="b holds NaN"):
        dj.solve(dj.Quadratic(np.ones(3)), M, jnp.array([jnp.nan]))


def test_lists_and_tuples_are_arrays():
    phi = dj.Stack([dj.Zero(), dj.Interval((0.0,), [1.0])], sizes=[1, 1])
    by_lists = dj.solve(
        dj.Quadratic([1, 2, 3], (1.0, 1.0, 0.0)), [[1, 1, 1], [0, 1, 0]], (1, 0), phi, bounds=([0, 0, 0], 1)
    )
    expected = dj.solve(
        dj.Quadratic(np.arange(1.0, 4.0), np.array([1.0, 1.0, 0.0])),
        np.array([[1.0, 1.0, 1.0], [0.0, 1.0, 0.0]]),
        np.array([1.0, 0.0]),
        dj.Stack([dj.Zero(), dj.Interval(np.zeros(1), np.ones(1))], sizes=[1, 1]),
        bounds=(np.zeros(3), 1.0),
    )
    for found, wanted in zip(by_lists, expected, strict=True):
        assert jnp.allclose(found, wanted, atol=1e-6)

    def first(t):
        return dj.solve(dj.Quadratic([1.0, t, 3.0]), [[1.0, t, 1.0]], [t]).x[0]

    assert jax.grad(first)(1.5) == pytest.approx(float(first(1.51) - first(1.49)) / 0.02, rel=1e-3)


def test_float32_is_solved_in_float64_and_the_configuration_stays():
    (b, c, H, M), _, _ = problem_for("nonnegative")

    def loss(c):
        return jnp.sum(dj.solve(dj.Quadratic(H, c), M, b, dj.NonNegative()).x ** 2)

    expected = jax.grad(loss)(jnp.asarray(c))
    with jax.enable_x64(False):
        for call in (jax.grad(loss), jax.jit(jax.grad(loss))):
            found = call(jnp.asarray(c, jnp.float32))
            assert found.dtype == jnp.float32
            assert jnp.allclose(found, np.asarray(expected, np.float32), rtol=1e-4, atol=1e-5)
        short = [jnp.asarray(value, jnp.float32) for value in (H, c, M, b)]
        solved = dj.solve(dj.Quadratic(*short[:2]), *short[2:], dj.NonNegative(), engine="native")
        assert jnp.allclose(solved.x, np.asarray(dj.solve(dj.Quadratic(H, c), M, b, dj.NonNegative()).x), atol=1e-5)
        own = dj.solve(dj.Smooth(cosh, jnp.ones(COLUMNS)), M, b, dj.NonNegative(), tol=1e-6)
        assert own.x.dtype == jnp.float32
        assert not jax.config.jax_enable_x64


@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e4])
def test_rows_of_any_scale_are_told_apart_in_float32(scale):
    (b, c, H, M), _, _ = problem_for("l1")

    def loss(b):  # the rows that bind are those with y ≠ 0, however small y is beside Mx
        phi = dj.L1(jnp.asarray(scale * 0.3, jnp.float32))
        return jnp.sum(dj.solve(dj.Quadratic(H, c), jnp.asarray(scale * M), b, phi).x ** 2)

    expected = np.asarray(jax.grad(loss)(jnp.asarray(scale * b)))
    with jax.enable_x64(False):
        found = jax.jit(jax.grad(loss))(jnp.asarray(scale * b, jnp.float32))
    assert np.allclose(found, expected, rtol=1e-3, atol=1e-3 * abs(expected).max())


@pytest.mark.parametrize("engine", ["auto", "native"])
def test_infinite_bounds_are_none(engine):
    (b, c, H, M), _, _ = problem_for("nonnegative")

    def loss(c, bounds):
        solved = dj.solve(dj.Quadratic(H, c), M, b, dj.NonNegative(), bounds=bounds, engine=engine)
        return jnp.sum(solved.x**2) + jnp.sum(solved.z)

    expected = jax.grad(loss)(jnp.asarray(c), None)
    for bounds in ((None, None), (np.full(COLUMNS, -np.inf), np.inf)):
        assert jnp.allclose(jax.grad(loss)(jnp.asarray(c), bounds), expected, atol=1e-9)


def test_classes_of_dapd_are_constants_and_give_the_same_answer_as_solve():
    (b, c, H, M), _, _ = problem_for("l1")
    f, phi = dapd.Quadratic(H, c), dapd.L1(0.3)
    result = dapd.solve(dapd.Problem(f, M, b, phi, bounds=(-3, 3)), tol=1e-10)
    found = dj.solve(f, dapd.RowBlocks([M]), b, phi, bounds=(-3, 3))
    for name in ("x", "y", "z"):
        assert np.allclose(getattr(found, name), getattr(result, name), atol=1e-7), name


@pytest.mark.parametrize("options", [{"engine": "native"}, {"method": "y-dapd", "tol": 1e-7}])
def test_options_of_solve_are_kept_and_its_answer_is_made_more_accurate(options, monkeypatch):
    asked = []
    monkeypatch.setattr(host, "solve", lambda problem, **given: asked.append(given) or dapd.solve(problem, **given))
    (b, c, H, M), _, _ = problem_for("l1")

    def loss(nu):
        return jnp.sum(dj.solve(dj.Quadratic(H, c), M, b, dj.L1(nu), **options).x ** 2)

    slope = jax.grad(loss)(jnp.asarray(0.3))
    assert slope == pytest.approx(float(loss(0.3 + STEP) - loss(0.3 - STEP)) / (2 * STEP), rel=1e-6)
    assert asked[0] == {"tol": 1e-8, **options}


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: dj.solve(np.ones(3), np.ones((1, 3)), np.ones(1)), TypeError, "f must be a function"),
        (lambda: dj.solve(dj.Quadratic(np.ones(3)), np.ones((1, 3)), np.ones(1), "l1"), TypeError, "phi must be one"),
        (lambda: dj.solve(dj.Quadratic(np.ones(3)), np.ones((1, 3)), np.ones(2)), ValueError, "b has shape"),
        (lambda: dj.solve(dj.Quadratic(np.ones(3)), np.ones(3), np.ones(1)), ValueError, "M must be a matrix"),
        (lambda: dj.solve(dj.Quadratic(np.ones(2)), np.ones((1, 3)), np.ones(1)), ValueError, "2 variables"),
        (
            lambda: jax.jit(lambda b: dj.solve(dj.Quadratic(np.ones(2)), np.ones((1, 3)), b))(np.ones(1)),
            ValueError,
            "does not fit M",
        ),
        (lambda: dj.solve(dj.Quadratic(np.ones(3)), np.ones((1, 3)), np.ones(1), bounds=3), TypeError, "bounds must"),
        (
            lambda: dj.solve(dj.Quadratic(np.ones(3)), np.ones((1, 3)), np.ones(1), bounds=(np.ones(2), None)),
            ValueError,
            "lower bound",
        ),
        (lambda: dj.solve(dj.Quadratic(np.ones(3)), np.ones((1, 3)), np.ones(1), tolerance=1), TypeError, "'tol'"),
        (lambda: dj.solve(dj.Quadratic(np.ones(3)), np.ones((1, 3)), np.ones(1), failures="no"), ValueError, "'nan'"),
        (lambda: dj.solve(dj.Quadratic(-np.ones(3)), np.ones((1, 3)), np.ones(1)), ValueError, "not convex"),
        (lambda: dj.solve(dj.Quadratic(1j * np.ones(3)), np.ones((1, 3)), np.ones(1)), TypeError, "real numbers"),
    ],
)
def test_bad_arguments_are_named(call, error, says):
    with pytest.raises(error, match=says):
        call()


def run_python(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_importing_dapd_imports_neither_jax_nor_torch():
    code = "import sys, dapd; dir(dapd); sys.exit(any(name in sys.modules for name in ('jax', 'torch', 'dapd.jax')))"
    assert run_python(code).returncode == 0


@pytest.mark.parametrize("name", ["jax", "torch"])
def test_without_the_library_the_error_says_what_to_install(name):
    done = run_python(f"import sys; sys.modules['{name}'] = None; import dapd; dapd.{name}")
    assert done.returncode
    assert f"pip install 'dapd[{name}]'" in done.stderr


def differentiable(torch, *values):
    return [torch.tensor(value, dtype=torch.float64, requires_grad=True) for value in values]


@pytest.mark.parametrize("name", PHIS)
def test_torch_gradients_are_those_of_jax(name, torch):
    data, parameters, phi = problem_for(name)
    tensors = differentiable(torch, *data, *parameters)

    def loss(solve, xp, b, c, H, M, *rest):
        x, y, _ = solve(dj.Quadratic(H, c), M, b, phi(xp, *rest))
        return (x**3).sum() + (y**2).sum()

    loss(dapd.torch.solve, torch, *tensors).backward()
    expected = jax.grad(loss, tuple(range(2, 2 + len(tensors))))(dj.solve, jnp, *map(jnp.asarray, (*data, *parameters)))
    for tensor, gradient in zip(tensors, expected, strict=True):
        assert np.allclose(tensor.grad, gradient, rtol=1e-9, atol=1e-9)


def test_torch_gradcheck_passes(torch):
    dt = dapd.torch
    draw = np.random.default_rng(4)
    A, d, M, b = draw.standard_normal((6, 4)), draw.standard_normal(6), draw.standard_normal((3, 4)), -np.ones(3) / 4
    tensors = differentiable(torch, A, d, 0.5, M, b, 0.3, -0.2, np.full(4, 0.2))

    def solution(A, d, ridge, M, b, radius, low, high):
        phi = dt.Stack([dt.NonNegative(), dt.GroupBall(radius, 2)], [1, 2])
        return dt.solve(dt.LeastSquares(A, d, ridge), M, b, phi, bounds=(low, high))

    assert torch.autograd.gradcheck(solution, tensors, atol=1e-6, rtol=1e-5)
    with pytest.raises(RuntimeError, match="no second derivatives"):
        torch.autograd.grad(solution(*tensors).x.sum(), tensors[0], create_graph=True)


def test_torch_batches_dtypes_and_failures(torch):
    dt = dapd.torch
    M, b = torch.ones(2, 3), torch.tensor([[0.0, 1.0], [1.0, 1.0], [2.0, 2.0]], requires_grad=True)
    f = dt.Quadratic(torch.ones(3))
    solved = dt.solve(f, M, b, failures="nan")
    assert solved.x.shape == (3, 3)
    assert solved.y.shape == (3, 2)
    assert solved.x.dtype == torch.float32
    solved.x[1:].sum().backward()
    assert torch.isnan(solved.x[0]).all()
    assert torch.allclose(b.grad[1:].sum(1), torch.ones(2))
    with pytest.raises(dt.NotSolved, match="infeasible"):
        dt.solve(f, M, b[0])
    with pytest.raises(ValueError, match="different sizes"):
        dt.solve(dt.Quadratic(torch.ones(3), torch.ones(2, 3)), M, b)
    with pytest.raises(ValueError, match="b has shape"):
        dt.solve(f, M, torch.ones(3))


def test_torch_example_of_the_documentation_runs(torch):
    page = (Path(__file__).parents[2] / "docs" / "derivatives.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```py\n(.*?)```", page, re.DOTALL)
    exec(compile(block, "example", "exec"), {"__name__": "example"})


def test_a_loss_that_is_linear_in_x_has_second_derivatives():
    def first(H):
        return dapd.jax.solve(dapd.jax.Quadratic(H, np.ones(3)), np.ones((1, 3)), np.ones(1), tol=1e-12).x[0]

    H, step = np.arange(1.0, 4.0), 1e-4
    found = jax.hessian(first)(H)
    expected = [(jax.grad(first)(H + step * v) - jax.grad(first)(H - step * v)) / (2 * step) for v in np.eye(3)]
    np.testing.assert_allclose(found, np.array(expected), atol=1e-5)
