"""Batches: every problem gets the answer, the certificate and the status that it would get alone."""

import logging
import math
import pickle
import signal
import threading
from time import perf_counter
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from instances import PHIS, hessian, quadratic_problem

import dapd
from dapd.certificate.certify import certify
from dapd.engines.native.threads import available
from dapd.solving.batch.condensed import condensed
from dapd.solving.batch.family import family_of

VARIABLES, EQUATIONS, COUNT = 8, 3, 5


def control(rng):
    """A QP with equations, inequalities and bounds, of which b and c will change."""
    M = np.vstack([rng.standard_normal((EQUATIONS, VARIABLES)), rng.standard_normal((2, VARIABLES))])
    phi = dapd.Stack([dapd.Zero(), dapd.NonNegative()], sizes=[EQUATIONS, 2])
    return dapd.Problem(
        dapd.Quadratic(hessian(rng, 10.0, VARIABLES), np.zeros(VARIABLES)), M, np.zeros(5), phi, bounds=(-1.0, 1.0)
    )


def numbers(rng, problem):
    """Stacked b and c of problems that have a solution."""
    inside = rng.uniform(-0.9, 0.9, (COUNT, VARIABLES))
    slack = np.r_[np.zeros(EQUATIONS), np.full(2, 0.1)]
    return inside @ problem.M.matrix.T + slack, 3 * rng.standard_normal((COUNT, VARIABLES))


def agree(batch, problems, tol=1e-5):
    assert len(batch) == len(problems)
    for k, problem in enumerate(problems):
        alone = dapd.solve(problem, engine="python", tol=1e-9)
        assert batch.status[k] == batch[k].status == alone.status == "optimal"
        assert np.linalg.norm(batch.x[k] - alone.x) <= tol * (1 + np.linalg.norm(alone.x))
        truth = certify(problem, batch.x[k], batch.y[k])
        assert truth.error <= 1e-6
        np.testing.assert_allclose(batch.error[k], truth.error, rtol=1e-6, atol=1e-13)
        assert batch[k].objective == pytest.approx(alone.objective, abs=1e-4)


@pytest.mark.parametrize("engine", ["auto", "python", "jax"])
def test_a_family_is_solved_like_its_members(engine):
    rng = np.random.default_rng(0)
    problem = control(rng)
    b, c = numbers(rng, problem)
    batch = dapd.solve_batch(problem, b=b, c=c, engine=engine)
    assert batch.converged
    assert batch.x.shape == (COUNT, VARIABLES)
    assert batch.z.shape == (COUNT, VARIABLES)
    agree(batch, [problem.replaced(b=own, f=problem.f.replaced(c=c[k])) for k, own in enumerate(b)])
    again = pickle.loads(pickle.dumps(batch))
    assert repr(again) == repr(batch)
    np.testing.assert_array_equal(again.x, batch.x)
    assert [one.to_dict() for one in again] == [one.to_dict() for one in batch]


def test_stacked_bounds_and_the_same_problems_as_a_list():
    rng = np.random.default_rng(1)
    problem = control(rng)
    b, _ = numbers(rng, problem)
    upper = rng.uniform(0.9, 1.5, (COUNT, VARIABLES))
    batch = dapd.solve_batch(problem, b=b, bounds=(-1.0, upper), engine="jax")
    members = [problem.replaced(b=own, limits=(np.full(VARIABLES, -1.0), upper[k])) for k, own in enumerate(b)]
    agree(batch, members)
    agree(dapd.solve_batch(members, engine="jax"), members)
    agree(dapd.solve_batch(members, engine="python"), members)


def test_problems_with_their_own_matrices_run_in_lock_step():
    problems = [quadratic_problem(PHIS["l1"], seed=k) for k in range(4)]
    batch = dapd.solve_batch(problems, engine="jax")
    assert all(result.engine == "jax" for result in batch)
    agree(batch, problems)


def test_linear_programs_run_in_lock_step():
    rng = np.random.default_rng(7)
    problems = []
    for _ in range(3):
        M, x = rng.standard_normal((EQUATIONS, VARIABLES)), rng.uniform(0.2, 1.0, VARIABLES)
        cost = M.T @ rng.standard_normal(EQUATIONS) + rng.uniform(0.1, 1.0, VARIABLES)
        problems.append(dapd.Problem(dapd.Quadratic(None, -cost), M, M @ x, bounds=(0.0, 2.0)))
    batch = dapd.solve_batch(problems, engine="jax")
    assert batch.converged
    assert all(result.engine == "jax" for result in batch)
    agree(batch, problems)


def test_what_the_lock_step_cannot_solve_is_solved_alone_with_its_own_status():
    rng = np.random.default_rng(2)
    problem = control(rng)
    b, _ = numbers(rng, problem)
    b[1, 0] = 1e3  # no x within the bounds
    batch = dapd.solve_batch(problem, b=b, engine="jax", max_iterations=3000)
    assert batch.status[1] != "optimal"
    assert not batch.converged
    assert [status for k, status in enumerate(batch.status) if k != 1] == ["optimal"] * (COUNT - 1)
    assert f"{COUNT - 1} optimal" in repr(batch)


def test_the_new_variables_have_no_equations_and_lead_back():
    rng = np.random.default_rng(3)
    problem = control(rng)
    b, c = numbers(rng, problem)
    form = condensed(family_of(problem, b, c, None))
    v, y = rng.standard_normal((COUNT, VARIABLES - EQUATIONS)), rng.standard_normal((COUNT, 2 + VARIABLES))
    x, dual = form.back(v, y)
    M = problem.stacked.M.dense()
    np.testing.assert_allclose(x @ M[:EQUATIONS].T, b[:, :EQUATIONS], atol=1e-10)
    norms = np.linalg.norm(form.basis.M, axis=1)
    np.testing.assert_allclose(norms, 1.0, rtol=1e-9)
    # the gradient in the new variables is that of f along W
    slope = (x @ problem.f.H - c + dual @ M) @ form.basis.W
    np.testing.assert_allclose(slope, v + y @ form.basis.M, atol=1e-9)


def test_sparse_data_and_a_time_limit():
    rng = np.random.default_rng(4)
    problem = control(rng)
    sparse = dapd.Problem(
        dapd.Quadratic(sp.csr_array(problem.f.H), np.zeros(VARIABLES)),
        sp.csr_array(problem.M.matrix),
        problem.b,
        problem.phi,
        bounds=(-1.0, 1.0),
    )
    b, _ = numbers(rng, problem)
    assert dapd.solve_batch(sparse, b=b, engine="jax").converged
    late = dapd.solve_batch(sparse, b=b, engine="jax", time_limit=1e-6)
    assert set(late.status) <= {"time_limit", "optimal"}
    assert "time_limit" in late.status


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"b": np.ones((2, 4))}, r"b must have the shape \(problems, 5\), found \(2, 4\)"),
        ({"b": np.ones((2, 5)), "c": np.ones((3, VARIABLES))}, "one row per problem, all the same number; found b: 2"),
        ({}, "give b, c or bounds with a row for each"),
        ({"bounds": (np.ones((2, 3)), 1.0)}, r"the lower bounds must be .* found shape \(2, 3\)"),
        ({"bounds": (2.0, np.ones((2, VARIABLES)))}, r"lower bounds must not be above upper bounds; lower\[0, 0\] is"),
        ({"bounds": (0.0, np.diag(np.full(VARIABLES, np.nan))[3:])}, r"upper\[0, 3\] of the bounds is NaN"),
        ({"b": np.where(np.arange(10) == 7, np.nan, 1.0).reshape(2, 5)}, r"b holds NaN .* the first at b\[1, 2\]"),
        ({"b": np.ones((2, 5)), "enginee": "jax"}, "no argument 'enginee'; did you mean 'engine'"),
    ],
)
def test_wrong_stacks_are_named(changes, message):
    with pytest.raises((ValueError, TypeError), match=message):
        dapd.solve_batch(control(np.random.default_rng(0)), **changes)


def test_wrong_lists_are_named():
    problem = quadratic_problem(PHIS["zero"])
    with pytest.raises(ValueError, match="problems is empty"):
        dapd.solve_batch([])
    with pytest.raises(TypeError, match=r"problems\[1\] must be a dapd.Problem, found int"):
        dapd.solve_batch([problem, 3])
    with pytest.raises(TypeError, match="stacked for one problem"):
        dapd.solve_batch([problem], b=np.ones((1, 6)))
    with pytest.raises(ValueError, match=r"same numbers of rows .* but problems\[1\] has \d+ and"):
        dapd.solve_batch([problem, quadratic_problem(PHIS["zero"], rows=5)])
    batch = dapd.solve_batch([problem])
    with pytest.raises(IndexError, match="has 1 problems, and 1 was asked"):
        batch[1]


def test_a_second_batch_compiles_and_factorises_nothing(caplog, monkeypatch):
    jax = pytest.importorskip("jax")
    rng = np.random.default_rng(5)
    problem = control(rng)
    b, c = numbers(rng, problem)
    first = dapd.solve_batch(problem, b=b, c=c, engine="jax")
    monkeypatch.setattr("scipy.linalg.cholesky", None)
    with jax.log_compiles(), caplog.at_level(logging.WARNING):
        again = dapd.solve_batch(problem, b=b, c=c, engine="jax")
    assert not [record for record in caplog.records if "compil" in record.message.lower()]
    np.testing.assert_array_equal(again.x, first.x)


def test_a_batch_in_float32_is_measured_as_it_is_returned():
    rng = np.random.default_rng(6)
    problem = control(rng)
    b, _ = numbers(rng, problem)
    single = dapd.Problem(
        problem.f, problem.M.matrix.astype(np.float32), problem.b.astype(np.float32), problem.phi, bounds=(-1.0, 1.0)
    )
    batch = dapd.solve_batch(single, b=b.astype(np.float32), engine="jax", tol=1e-4)
    assert batch.x.dtype == np.float32
    for k, own in enumerate(b.astype(np.float32)):
        truth = certify(single.replaced(b=own), batch.x[k], batch.y[k])
        np.testing.assert_allclose(batch.error[k], truth.error, rtol=1e-6)


def test_a_time_limit_is_shared_by_problems_that_take_long():
    rng = np.random.default_rng(0)

    def problem():
        f = dapd.Quadratic(np.logspace(-6, 0, 400), rng.standard_normal(400))
        return dapd.Problem(f, rng.standard_normal((200, 400)), rng.standard_normal(200), dapd.NonNegative())

    found = dapd.solve_batch([problem() for _ in range(2)], tol=0, time_limit=0.5, direct=False)
    assert np.all(found.iterations > 0) or available() == 1


def long_problems(count):
    """Problems that take seconds each, to full precision."""
    rng = np.random.default_rng(1)
    f = dapd.Quadratic(np.logspace(-6, 0, 400), rng.standard_normal(400))
    return [
        dapd.Problem(f, rng.standard_normal((200, 400)), rng.standard_normal(200), dapd.NonNegative())
        for _ in range(count)
    ]


@pytest.mark.parametrize("engine", ["auto", "native", "python"])
@pytest.mark.parametrize("threads", [1, 2])
def test_ctrl_c_ends_all_solves_and_loses_none(engine, threads, monkeypatch):
    monkeypatch.setattr("dapd.solving.batch.alone.available", lambda: threads)
    problems, main = long_problems(6), threading.get_ident()
    timer = threading.Timer(0.5, lambda: signal.pthread_kill(main, signal.SIGINT))
    began = perf_counter()
    timer.start()
    batch = dapd.solve_batch(problems, tol=0, max_iterations=10**9, engine=engine, direct=False)
    assert perf_counter() - began < 30  # of hours
    assert set(batch.status) == {"interrupted"}
    assert batch.iterations[0] > 0
    first, last = batch[0], batch[5]
    assert first.message.startswith("Interrupted")
    assert 0 < first.solve_time + first.setup_time < 30
    assert first.certificate.error == batch.error[0] < math.inf
    assert "had its turn" in last.message
    assert batch.error[5] == math.inf
    assert last.certificate.error == certify(problems[5], last.x, last.y).error


def test_ctrl_c_ends_a_lock_step(monkeypatch):
    pytest.importorskip("jax")
    from dapd.engines.jax.batch import lockstep

    rng = np.random.default_rng(0)
    problem = control(rng)
    b, c = numbers(rng, problem)
    programs, calls = lockstep.programs, []

    def interrupted(*args):
        compiled = programs(*args)

        def some(*rest):
            calls.append(rest)
            if len(calls) > 2:
                raise KeyboardInterrupt
            return compiled.advance(*rest)

        return SimpleNamespace(begin=compiled.begin, advance=some)

    monkeypatch.setattr(lockstep, "programs", interrupted)
    batch = dapd.solve_batch(problem, b=b, c=c, engine="jax", tol=1e-13)
    assert len(calls) == 3
    assert set(batch.status) <= {"interrupted", "optimal"}
    assert "interrupted" in batch.status
    k = batch.status.index("interrupted")
    assert batch.iterations[k] == batch[k].iterations > 0
    assert batch[k].message.startswith("Interrupted")
    assert batch.error[k] < math.inf


@pytest.mark.parametrize("engine", ["auto", "native", "python", "jax"])
def test_limits_are_those_of_each_problem(engine):
    rng = np.random.default_rng(0)
    problem = control(rng)
    b, c = numbers(rng, problem)
    batch = dapd.solve_batch(problem, b=b, c=c, engine=engine, tol=1e-15, max_iterations=60, direct=False)
    for k, one in enumerate(batch):
        assert one.iterations == batch.iterations[k] <= 60
        assert one.status == batch.status[k]
        if one.status == "iteration_limit":
            assert one.message.startswith("Stopped at the iteration limit")
    if engine == "jax":
        assert "iteration_limit" in batch.status


def test_turns_that_come_too_late_are_told():
    rng = np.random.default_rng(0)
    problem = control(rng)
    b, _ = numbers(rng, problem)
    for engine in ("auto", "python"):
        batch = dapd.solve_batch(problem, b=b, engine=engine, time_limit=1e-9)
        assert set(batch.status) == {"time_limit"}
        assert "had its turn" in batch[2].message
        assert not batch.x.any()
        assert batch[2].certificate.error == certify(problem.replaced(b=b[2]), batch.x[2], batch.y[2]).error


def test_a_time_limit_shorter_than_compiling_takes_is_kept():
    pytest.importorskip("jax")
    rng = np.random.default_rng(0)
    M = rng.standard_normal((11, 23))  # of a shape that nothing was compiled for before
    problem = dapd.Problem(dapd.Quadratic(np.ones(23)), M, np.zeros(11), bounds=(-0.3, 0.3))
    b = rng.uniform(-0.2, 0.2, (9, 23)) @ M.T
    dapd.solve(problem.replaced(b=b[0]))  # imports what the first solve needs
    began = perf_counter()
    batch = dapd.solve_batch(problem, b=b, engine="jax", time_limit=0.1)
    assert perf_counter() - began < 1.0
    assert set(batch.status) <= {"optimal", "time_limit"}
    assert "optimal" in batch.status
    assert "too short to compile a lock step" in batch[batch.status.index("optimal")].message
    assert "in lock step" in dapd.solve_batch(problem, b=b, engine="jax")[0].message
    again = dapd.solve_batch(problem, b=b, engine="jax", time_limit=1.0)  # it is compiled now
    assert again.converged
    assert "in lock step" in again[0].message


@pytest.mark.parametrize("engine", ["auto", "python", "jax"])
def test_a_batch_of_jax_arrays_comes_back_as_such(engine):
    jax = pytest.importorskip("jax")
    rng = np.random.default_rng(0)
    problem = control(rng)
    b, c = numbers(rng, problem)
    with jax.enable_x64(True):
        given = jax.numpy.asarray(b)
    batch = dapd.solve_batch(problem, b=given, c=c, engine=engine)
    assert all(isinstance(v, jax.Array) for v in (batch.x, batch.y, batch.z, batch[1].x, batch[1].y))
    assert batch.x.dtype == np.float64
    assert batch[1].to_dict()["x"] == batch[1].x.tolist()
    plain = dapd.solve_batch(problem, b=b, c=c, engine=engine)
    assert isinstance(plain.x, np.ndarray)
    np.testing.assert_allclose(batch.x, plain.x, atol=1e-5)


@pytest.mark.parametrize("engine", ["auto", "jax"])
def test_no_bound_may_be_none(engine):
    rng = np.random.default_rng(0)
    problem = control(rng)
    upper = rng.uniform(0.2, 1.0, (COUNT, VARIABLES))
    batch = dapd.solve_batch(problem, bounds=(None, upper), engine=engine)
    expected = dapd.solve_batch(problem, bounds=(-np.inf, upper), engine=engine)
    assert batch.converged
    np.testing.assert_array_equal(batch.x, expected.x)


@pytest.mark.parametrize("engine", ["auto", "native", "python", "jax"])
def test_both_bounds_may_be_stacked(engine):
    problem = dapd.Problem(dapd.Quadratic(np.ones(3), np.ones(3)), np.ones((1, 3)), [1.0], bounds=(0, 1))
    batch = dapd.solve_batch(
        problem, bounds=(np.zeros((2, 3)), np.full((2, 3), [[0.2], [1.0]]).cumsum(1)), engine=engine
    )
    assert batch.converged
    np.testing.assert_allclose(batch.x, [[0.2, 0.4, 0.4], [1 / 3] * 3], atol=1e-4)


def test_linear_programs_that_share_M_run_in_lock_step_and_a_late_batch_has_no_turn():
    rng = np.random.default_rng(0)
    M, c = rng.standard_normal((4, 7)), rng.standard_normal(7)
    problem = dapd.Problem(dapd.Quadratic(None, c), M, np.ones(4), dapd.NonNegative(), bounds=(-1, 1))
    batch = dapd.solve_batch(problem, b=rng.uniform(-0.5, 1, (20, 4)), engine="jax")
    assert batch.converged
    assert all("lock step" in one.message for one in batch)
    curved = [dapd.Problem(dapd.Quadratic(np.ones(7), c), rng.standard_normal((4, 7)), np.ones(4)) for _ in range(3)]
    late = dapd.solve_batch(curved, engine="jax", time_limit=1e-9)
    assert set(late.status) == {"time_limit"}
    assert "had its turn" in late[0].message
