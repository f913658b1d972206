"""Block-coordinate methods through `dapd.solve`: counts, seeds, errors, limits, choice."""

import signal
import threading
import time

import numpy as np
import pytest
import scipy.sparse as sp
from block_instances import LITERAL, instance
from counting import Counting
from scipy.sparse.linalg import aslinearoperator

import dapd
from dapd.engines import bind
from dapd.methods.block import REFRESH

NAMES = list(LITERAL)
SEPARABLE = NAMES[:2]


class Own(dapd.Smooth):
    """A user's f_i, counting its gradients."""

    def __init__(self, size):
        self.calls = 0
        super().__init__(lambda x: float(x @ x + np.sum(np.cosh(np.tanh(x)))), self.slope, 1.0, 5.0, size=size)

    def slope(self, x):
        self.calls += 1
        return 2 * x + np.sinh(np.tanh(x)) * (1 - np.tanh(x) ** 2)


def tall(N=4, rows=8, seed=0):
    """A problem with too few columns for MMᵀ to be smaller than M."""
    rng = np.random.default_rng(seed)
    M = rng.standard_normal((rows, 3 * N))
    return M, M @ rng.standard_normal(3 * N)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize(("name", "most"), [("x-sbc-dapd", 4), ("y-sbc-dapd", 6), ("x-sbc-dapd-nonseparable", 4)])
def test_block_products_are_counted_truly(name, most, shared):
    M, b = tall()
    counting = [Counting(M[:, 3 * i : 3 * i + 3]) for i in range(4)]
    f = dapd.PseudoHuber(0.3)
    spectrum = dapd.estimate_spectrum(M, blocks=4)
    options = {"seed": 3, "shared_sample": shared, "spectrum": spectrum}
    by_python = dapd.METHODS[name].from_theory(dapd.Problem(f, dapd.ColumnBlocks(counting), b), **options)
    state = by_python.run(by_python.init(), 8_000)
    assert by_python.oracle.block_products == sum(block.products for block in counting)

    result = dapd.solve(dapd.Problem(f, M, b, blocks=4), name, tol=0, max_iterations=8_000, **options)
    assert result.block_products == by_python.oracle.block_products
    assert result.gradients == by_python.oracle.gradients
    assert result.products == 0
    np.testing.assert_allclose(result.x, state.x, rtol=1e-9, atol=1e-9)
    refreshes = 8_000 // (4 * REFRESH)
    # the x side spends the same every time; the y side by chance, 2N at each move of y
    spread = 0 if name != "y-sbc-dapd" else 5 * 2 * 4 * np.sqrt(8_000 * 1 / 4 * 3 / 4)
    assert result.block_products <= most * 8_000 + 2 * 4 * refreshes + spread


@pytest.mark.parametrize("name", SEPARABLE)
def test_one_block_gradient_an_iteration(name):
    functions = [Own(3) for _ in range(4)]
    M, b = tall()
    problem = dapd.Problem(dapd.Separable(functions), M, b)
    method = dapd.METHODS[name].from_theory(problem, seed=0)
    assert bind(method).engine == "python"
    method.run(method.init(), 1_000)
    assert sum(f.calls for f in functions) == 1_000 + 4 == method.oracle.gradients


def test_y_side_needs_no_block_products_to_move_its_anchor_where_the_square_is_small():
    problem, spectrum, _ = instance("huber", 10.0, 3.0, N=5)
    result = dapd.solve(problem, "y-sbc-dapd", spectrum=spectrum, seed=0, tol=0, max_iterations=1_000)
    assert result.block_products == 4 * 1_000


@pytest.mark.parametrize("name", NAMES)
def test_finds_the_solution(name):
    problem, spectrum, _ = instance("diagonal" if name in SEPARABLE else "dense", 30.0, 4.0, N=5)
    result = dapd.solve(problem, name, spectrum=spectrum, tol=1e-11, seed=0, history=True)
    assert result.converged
    np.testing.assert_allclose(result.x, problem.x_star, rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(result.y, problem.y_star, rtol=1e-7, atol=1e-8)
    assert result.history.iterations[1] >= 5  # looks are rounds apart
    assert result.history.error[-1] < 1e-8


@pytest.mark.parametrize("name", NAMES)
def test_own_functions_and_matrix_free_blocks_work(name):
    M, b = tall()
    f = dapd.Separable([Own(3) for _ in range(4)])
    free = dapd.ColumnBlocks([aslinearoperator(M[:, 3 * i : 3 * i + 3]) for i in range(4)])
    result = dapd.solve(dapd.Problem(f, free, b), name, seed=0, tol=1e-8)
    other = dapd.solve(dapd.Problem(f, M, b), "x-dapd", tol=1e-10)
    assert result.converged
    np.testing.assert_allclose(result.x, other.x, atol=1e-6)


def test_own_nonseparable_function_works_with_its_block_gradient():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((12, 12))
    H = A @ A.T / 12 + np.eye(12)
    M, b = tall(rows=5)
    exact = dapd.Quadratic(H)
    own = dapd.Smooth(exact.value, exact.grad, exact.mu, exact.L, block_grad=lambda x, block: H[block] @ x)
    options = {"seed": 0, "tol": 1e-9}
    found = [dapd.solve(dapd.Problem(f, M, b, blocks=4), "x-sbc-dapd-nonseparable", **options) for f in (own, exact)]
    assert found[0].converged
    np.testing.assert_allclose(found[0].x, found[1].x, rtol=1e-9, atol=1e-9)


def test_float32_stays_float32():
    M, b = tall()
    problem = dapd.Problem(dapd.PseudoHuber(0.5), M.astype(np.float32), b.astype(np.float32), blocks=4)
    for name in NAMES:
        result = dapd.solve(problem, name, seed=0, tol=1e-4)
        assert result.converged
        assert result.x.dtype == result.y.dtype == np.float32


@pytest.mark.parametrize("name", NAMES)
def test_same_seed_same_result_and_fresh_seed_is_told(name):
    problem, spectrum, _ = instance("huber", 30.0, 4.0, N=4)
    options = {"spectrum": spectrum, "tol": 1e-6}
    fresh = dapd.solve(problem, name, **options)
    seed = int(fresh.message.rsplit("seed=", 1)[1].rstrip("."))
    again = dapd.solve(problem, name, seed=seed, **options)
    assert again.x.tobytes() == fresh.x.tobytes()
    assert "seed" not in again.message
    other = dapd.solve(problem, name, seed=seed + 1, **options)
    assert other.x.tobytes() != fresh.x.tobytes()


def test_history_and_progress_do_not_change_the_iterates(capsys):
    problem, spectrum, _ = instance("huber", 30.0, 4.0, N=4)
    runs = [
        dapd.solve(problem, "y-sbc-dapd", spectrum=spectrum, seed=2, tol=0, max_iterations=20_000, **extra)
        for extra in ({}, {"history": True}, {"progress": True}, {"callback": lambda info: None})
    ]
    assert len({run.x.tobytes() for run in runs}) == 1
    assert "y-SBC-DAPD" in capsys.readouterr().out


def test_by_hand_states_stay_as_they_are():
    problem, spectrum, _ = instance("huber", 30.0, 4.0, N=4)
    method = dapd.METHODS["x-sbc-dapd"].from_theory(problem, spectrum=spectrum, seed=2)
    states = [state for state, _ in zip(method, range(20), strict=False)]
    assert [state.k for state in states] == list(range(20))
    whole = method.run(method.init(), 19)
    np.testing.assert_array_equal(states[-1].x, whole.x)
    assert not np.array_equal(states[5].y, states[6].y)


def test_start_is_left_alone():
    problem, spectrum, _ = instance("huber", 30.0, 4.0, N=4)
    x0, y0 = np.ones(problem.columns), np.ones(problem.rows)
    for name in NAMES:
        dapd.solve(problem, name, spectrum=spectrum, x0=x0, y0=y0, seed=0, tol=1e-3)
    assert (x0 == 1).all()
    assert (y0 == 1).all()


def test_limits_and_callback_stop_a_block_solve():
    problem, spectrum, _ = instance("huber", 1e6, 1e3, N=5)
    options = {"spectrum": spectrum, "seed": 0, "tol": 1e-14}
    late = dapd.solve(problem, "x-sbc-dapd", time_limit=0.2, **options)
    assert late.status == "time_limit"
    assert late.solve_time < 2.0
    short = dapd.solve(problem, "x-sbc-dapd", max_iterations=1_234, **options)
    assert (short.status, short.iterations) == ("iteration_limit", 1_234)
    seen = []
    stopped = dapd.solve(problem, "x-sbc-dapd", callback=lambda info: seen.append(info) or len(seen) == 3, **options)
    assert stopped.status == "interrupted"
    assert seen[1].iteration >= 5
    assert not np.array_equal(seen[1].x, seen[2].x)  # copies, though the arrays go on


def test_ctrl_c_returns_the_best_point():
    problem, spectrum, _ = instance("huber", 1e6, 1e3, N=5)
    threading.Thread(target=lambda: (time.sleep(0.5), signal.raise_signal(signal.SIGINT))).start()
    endless = {"tol": 0, "max_iterations": 10**12, "time_limit": 30}  # else a fast machine is done before the signal
    result = dapd.solve(problem, "y-sbc-dapd", spectrum=spectrum, seed=0, **endless)
    assert result.status == "interrupted"
    assert np.isfinite(result.x).all()


def test_errors_name_the_method_that_can():
    rng = np.random.default_rng(0)
    M, b = tall()
    A = rng.standard_normal((12, 12))
    coupled = dapd.Quadratic(A @ A.T + np.eye(12))
    for name in SEPARABLE:
        with pytest.raises(ValueError, match=r"Σ f_i.*Separable.*'x-sbc-dapd-nonseparable'"):
            dapd.solve(dapd.Problem(coupled, M, b, blocks=4), name)
    for name in NAMES:
        with pytest.raises(ValueError, match=r"phi = Zero\(\), found NonNegative; methods for any φ: .*x-dapd, y-dapd"):
            dapd.solve(dapd.Problem(dapd.PseudoHuber(0.3), M, b, dapd.NonNegative(), blocks=4), name)
        with pytest.raises(ValueError, match="needs blocks; give the Problem blocks=N"):
            dapd.solve(dapd.Problem(dapd.PseudoHuber(0.3), M, b), name)
    blind = dapd.Smooth(lambda x: x @ x, lambda x: 2 * x, 2.0, 2.0)
    with pytest.raises(TypeError, match=r"Smooth has no block_grad\(x, block\)"):
        dapd.solve(dapd.Problem(blind, M, b, blocks=4), NAMES[2])
    wrong = dapd.Smooth(lambda x: x @ x, lambda x: 2 * x, 2.0, 2.0, block_grad=lambda x, block: 2 * x)
    with pytest.raises(ValueError, match=r"block_grad\(x, slice\(0, 3, None\)\) has shape \(12,\), expected \(3,\)"):
        dapd.solve(dapd.Problem(wrong, M, b, blocks=4), NAMES[2])
    with pytest.raises(ValueError, match=r"shared_sample is for the block-coordinate methods .*not for 'x-dapd'"):
        dapd.solve(dapd.Problem(dapd.PseudoHuber(0.3), M, b, blocks=4), "x-dapd", shared_sample=True)
    given = dapd.theory.x_sbc(L=2, mu=1, s_bar_max=1, s_min=1, N=3)
    with pytest.raises(ValueError, match="parameters are for N = 3 blocks, but the problem has 4"):
        dapd.solve(dapd.Problem(dapd.PseudoHuber(0.3), M, b, blocks=4), "x-sbc-dapd", parameters=given)


def test_one_block_of_a_matrix_free_map_costs_all_of_it_and_is_refused():
    M = np.eye(2, 6)
    problem = dapd.Problem(dapd.PseudoHuber(0.5), aslinearoperator(M), [1.0, 2.0], blocks=3)
    message = r"with MatrixFree\(2 × 6, float64\) each costs as much as all of M; give dapd.Colu"
    with pytest.raises(ValueError, match=message):
        dapd.solve(problem, "x-sbc-dapd")
    result = dapd.solve(problem)
    assert result.converged
    assert result.method not in dapd.METHODS


def test_column_blocks_cut_otherwise_run_native_too():
    M = np.random.default_rng(0).standard_normal((2, 6))
    for parts in ([M[:, :4], M[:, 4:]], [M[:, :4], sp.csr_array(M[:, 4:])]):
        problem = dapd.Problem(dapd.PseudoHuber(0.5), dapd.ColumnBlocks(parts), [1.0, 2.0], blocks=3)
        method = dapd.METHODS["x-sbc-dapd"].from_theory(problem, seed=0)
        same = dapd.METHODS["x-sbc-dapd"].from_theory(dapd.Problem(problem.f, M, problem.b, blocks=3), seed=0)
        points = []
        for runner in (bind(method, "native"), bind(same, "native")):
            runner.start()
            runner.advance(100, np.inf)
            points.append(runner.point()[0])
        assert np.allclose(*points, rtol=1e-9)


def test_what_runs_in_python_is_said():
    own = dapd.Separable([dapd.Smooth(lambda x: x @ x, lambda x: 2 * x, 2.0, 2.0, size=3)] * 2)
    result = dapd.solve(dapd.Problem(own, np.eye(2, 6), [1.0, 2.0]), "x-sbc-dapd", seed=0, tol=1e-3)
    assert result.engine == "python"
    assert "Smooth is only available in Python" in result.engine.reason


@pytest.mark.parametrize(("wrong", "found"), [(lambda x: x[:1], r"shape \(1,\)"), (lambda x: [1.0, 2.0, 3.0], "list")])
def test_wrong_gradient_of_a_block_is_named(wrong, found):
    own = dapd.Separable([dapd.Smooth(lambda x: x @ x, g, 2.0, 2.0, size=3) for g in (lambda x: 2 * x, wrong)])
    with pytest.raises(ValueError, match=rf"the gradient of f_2 returned {found}, expected an array of shape \(3,\)"):
        dapd.solve(dapd.Problem(own, np.eye(2, 6), [1.0, 2.0]), "x-sbc-dapd")


def test_options_that_make_no_sense_are_refused_or_said():
    problem = dapd.Problem(dapd.PseudoHuber(0.5), np.eye(2, 6), [1.0, 2.0], blocks=3)
    with pytest.raises(TypeError, match=r"shared_sample must be True or False, found 'False'"):
        dapd.solve(problem, "x-sbc-dapd", shared_sample="False")
    whole = dapd.Problem(dapd.PseudoHuber(0.5), np.eye(2, 6), [1.0, 2.0])
    assert "shared_sample had no block method" in dapd.solve(whole, shared_sample=True).message
    name = "x-sbc-dapd-nonseparable"
    parameters = dapd.METHODS[name].from_theory(problem).parameters._replace(gamma=0.0)
    with pytest.raises(ValueError, match=r"parameters.gamma must lie between 0 and 1, found 0"):
        dapd.solve(problem, name, parameters=parameters)


def test_quadratic_separates_just_where_it_is_block_diagonal():
    H = np.diag(np.arange(1.0, 7.0))
    H[0, 1] = H[1, 0] = 0.5
    pairs, triples = [slice(0, 2), slice(2, 4), slice(4, 6)], [slice(0, 3), slice(3, 6)]
    for form in (H, sp.csr_array(H)):
        f = dapd.Quadratic(form, np.ones(6))
        assert f.split(pairs) is not None
        assert f.split([slice(0, 1), slice(1, 6)]) is None
        x = np.arange(6.0)
        parts = f.split(triples)
        np.testing.assert_allclose(
            np.concatenate([g.grad(x[s]) for g, s in zip(parts, triples, strict=True)]), f.grad(x)
        )
    assert dapd.Quadratic(aslinearoperator(H), mu=0.5, L=7.0).split(pairs) is None


@pytest.fixture
def many_blocks():
    """Where blocks pay by the theorems: 200 of them, s_bar_max far below s_max."""
    rng = np.random.default_rng(0)
    M = rng.standard_normal((10, 2000)) + 20  # one large singular value, along no block
    return dapd.Problem(dapd.PseudoHuber.with_condition(1e4), M, M @ rng.standard_normal(2000), blocks=200)


def test_auto_weighs_blocks_by_measured_cost_and_says_so(many_blocks, monkeypatch):
    costs = {"x-DAPD": 1.0, "x-SBC-DAPD": 1e-3, "y-DAPD": 1.0, "y-SBC-DAPD": 1e-3}
    monkeypatch.setattr("dapd.ways.blocks._cost", lambda runner, steps, deadline: costs[runner.method.title])
    quick = dapd.solve(many_blocks, tol=1e-2, max_iterations=20, seed=0)
    assert quick.method in SEPARABLE
    assert "predicted" in quick.message
    assert "rounds of 200 block iterations" in quick.message
    assert quick.iterations % 200 == 0  # a limit of 20 is 20 rounds where the method was left open
    costs.update({"x-SBC-DAPD": 1e3, "y-SBC-DAPD": 1e3})
    slow = dapd.solve(many_blocks, tol=1e-2, max_iterations=20)
    assert slow.method not in dapd.METHODS
    assert "times as fast" in slow.message


def test_auto_measures_without_counting(many_blocks):
    result = dapd.solve(many_blocks, tol=0, max_iterations=3, seed=0)
    if result.method in SEPARABLE:
        assert result.block_products == 4 * result.iterations
    else:
        assert result.products <= 2 * result.iterations + 2
    again = dapd.solve(dapd.Problem(many_blocks.f, many_blocks.M, many_blocks.b), tol=0, max_iterations=3)
    assert again.method not in dapd.METHODS
    assert again.iterations == 3
    assert "block" not in again.message


def test_auto_considers_the_nonseparable_method(many_blocks, monkeypatch):
    rng = np.random.default_rng(0)
    A = rng.standard_normal((30, 2000))
    f = dapd.LeastSquares(A, rng.standard_normal(30), 1.0)
    problem = dapd.Problem(f, many_blocks.M, many_blocks.b, blocks=200)
    assert problem.parts is None
    costs = {"x-DAPD": 1.0, "y-DAPD": 1.0, "x-SBC-DAPD (nonseparable)": 1e-3}
    monkeypatch.setattr("dapd.ways.blocks._cost", lambda runner, steps, deadline: costs[runner.method.title])
    result = dapd.solve(problem, tol=1e-2, max_iterations=20, seed=0)
    assert result.method == "x-sbc-dapd-nonseparable"
    assert "Chose x-SBC-DAPD (nonseparable), predicted" in result.message
    assert dapd.explain(problem, tol=1e-2).choice == "x-sbc-dapd-nonseparable"
    # the constants with the smallest Π, not those that the named method has
    named = dapd.METHODS["x-sbc-dapd-nonseparable"].from_theory(problem, spectrum=result.spectrum)
    assert result.parameters.Pi < named.parameters.Pi
    costs["x-SBC-DAPD (nonseparable)"] = 1e3
    assert dapd.solve(problem, tol=1e-2, max_iterations=20).method not in dapd.METHODS
    # without partial gradients there is nothing to consider
    blind = dapd.Smooth(f.value, f.grad, f.mu, f.L)
    assert dapd.solve(dapd.Problem(blind, problem.M, problem.b, blocks=200), max_iterations=20).method != result.method
