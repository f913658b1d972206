"""Columns in a random order are sorted for the jax engine, which the device undoes, and only if it pays off."""

from collections import Counter

import jax
import numpy as np
import pytest
import scipy.sparse as sp
from device_calls import calls
from jax.sharding import Mesh

import dapd
from dapd.arrays import EPSILON
from dapd.certificate.certify import certify
from dapd.engines import precision
from dapd.operators.structured import Identity
from dapd.presolve import STACKING, Presolve, SortedColumns
from dapd.problem.way_back import WayBack
from dapd.problems.network import incidence
from dapd.ways import first_order
from dapd.ways.search import OnHost, judge_of

NODES, EDGES = 300, 600  # so many that equations are not made orthonormal


@pytest.fixture(autouse=True)
def all_are_large(monkeypatch):
    monkeypatch.setattr("dapd.engines.jax.runner.LARGE", 0)
    monkeypatch.setattr("dapd.presolve.sorted_columns.MANY", EDGES)
    with precision("jax"):
        yield


def flow(*, shuffled=True):
    """A flow along a cycle and across it; its edges by their smaller end or shuffled, and where each edge is."""
    rng = np.random.default_rng(5)
    around = np.column_stack([np.arange(NODES), (np.arange(NODES) + 1) % NODES])
    across = [rng.choice(NODES, 2, replace=False) for _ in range(EDGES - NODES)]
    pairs = np.concatenate([around, across])
    pairs = pairs[np.argsort(pairs.min(axis=1), kind="stable")]
    cost, curvature, upper = rng.random(EDGES), 1 + rng.random(EDGES), 0.5 + rng.random(EDGES)
    order = rng.permutation(EDGES) if shuffled else np.arange(EDGES)
    supply = incidence(pairs, NODES) @ (0.4 * upper)
    how = {"cost": cost[order], "curvature": curvature[order], "capacity": (0.0, upper[order])}
    return dapd.problems.flow(pairs[order], supply, **how), order


def some_points(problem):
    rng = np.random.default_rng(1)
    return [(rng.standard_normal(problem.columns), rng.standard_normal(problem.multipliers)) for _ in range(3)]


def transforms_of(solver):
    return [type(transform) for transform in kept_by(solver)]


def kept_by(solver):
    """The transforms of the track that began."""
    return next(found for kind, (_, found) in solver.kept.transforms.items() if kind).transforms


@pytest.mark.parametrize("with_b", [False, True])
def test_it_is_undone_exactly_and_keeps_bounds_bounds(with_b):
    given = flow()[0]
    problem = given.replaced(b=np.linspace(0.0, 1.0, given.rows))  # bounds around b
    transform = SortedColumns.apply(given).with_b(problem.b) if with_b else SortedColumns.apply(problem)
    new, order = transform.problem, transform.order
    for x, y in some_points(problem):
        near = transform.start(x, y)
        for found, given in zip(transform.back(*near), (x, y), strict=True):
            assert np.array_equal(found, given)
        assert np.array_equal(near[0], x[order])
        assert np.array_equal(near[1], np.concatenate([y[:NODES], y[NODES:][order]]))  # y, and z with x
        np.testing.assert_allclose(certify(new, *near)[:8], certify(problem, x, y)[:8], rtol=1e-12)
        np.testing.assert_allclose(certify(new.stacked, *near)[:8], certify(problem.stacked, x, y)[:8], rtol=1e-12)
    matrix = new.M
    assert all(np.array_equal(*pair) for pair in zip(new.bounds, np.array(problem.bounds)[:, order], strict=True))
    assert matrix.matrix.has_canonical_format
    assert np.array_equal(matrix.dense(), problem.M.dense()[:, order])
    assert np.all(np.diff(np.argmax(matrix.dense() != 0, axis=0)) >= 0)
    assert (new.f.mu, new.f.L) == (problem.f.mu, problem.f.L)


@pytest.mark.parametrize("f", [dapd.PseudoHuber(0.3), dapd.Quadratic(None, np.arange(EDGES) % 7)])
def test_a_problem_without_bounds_keeps_its_rows(f):
    M = flow()[0].M
    problem = dapd.Problem(f, M, np.ones(NODES), dapd.Box(-1.0, np.linspace(1.0, 2.0, NODES)))
    transform = SortedColumns.apply(problem)
    for x, y in some_points(problem):
        near = transform.start(x, y)
        assert near[1] is y
        np.testing.assert_allclose(certify(transform.problem, *near)[:8], certify(problem, x, y)[:8], rtol=1e-12)


def test_ways_back_are_composed_whichever_comes_first():
    rng = np.random.default_rng(0)

    def permutation():
        return WayBack(x_places=rng.permutation(5), y_places=rng.permutation(4))

    def factors():
        return WayBack(2.0 ** rng.integers(-3, 3, 5), 2.0 ** rng.integers(-3, 3, 4))

    kinds = [WayBack(), WayBack(columns=2.0), factors(), permutation(), factors()._replace(x_places=rng.permutation(5))]
    point = rng.standard_normal(5), rng.standard_normal(4)
    for first in kinds:
        for last in kinds:
            for found, wanted in zip(first.after(last).of(*point), first.of(*last.of(*point)), strict=True):
                assert np.array_equal(found, wanted)


def test_the_device_takes_points_back_as_the_host_does():
    problem = flow()[0]
    transform = Presolve.apply(problem, (*first_order.TRANSFORMS, SortedColumns.apply, *STACKING))
    done = {step.name for step in transform.transforms}
    assert done >= {"change of variables", "row scaling", "sorted columns", "bounds as rows"}
    here, there = OnHost(problem, transform, "solution"), judge_of(problem, "jax", transform)
    before = None
    for x, y in some_points(problem):
        point = here.start(x, y)
        for found, expected in zip(there.start(x, y), point, strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-14)
        checks = there.check(*point), here.check(*point)
        for k, given in enumerate((problem.within_bounds(x, y), y)):
            np.testing.assert_allclose(checks[0][k], checks[1][k], rtol=1e-14)
            np.testing.assert_allclose(checks[1][k], given, rtol=1e-14)
        np.testing.assert_allclose(checks[0].certificate[:8], checks[1].certificate[:8], rtol=1e-12)
        before = before or point
        for found, expected in zip(there.move(point, before), here.move(point, before), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def test_a_shuffled_flow_takes_the_iterations_of_the_sorted_one_and_stays_on_the_device(monkeypatch, tmp_path):
    def on_the_host(*_):
        raise AssertionError("a point went through the host")

    monkeypatch.setattr(Presolve, "back", on_the_host)
    monkeypatch.setattr(Presolve, "start", on_the_host)
    results, programs = {}, {}
    for shuffled in (False, True):
        problem, order = flow(shuffled=shuffled)
        solver = dapd.Solver(problem, engine="jax", tol=1e-9)
        solver.solve()
        with jax.profiler.trace(tmp_path / str(shuffled)):
            found = solver.solve(x0=np.zeros(problem.columns), y0=np.zeros(problem.rows))
        results[shuffled], programs[shuffled] = found, Counter(calls(tmp_path / str(shuffled)))
        assert found.status == "optimal"
        assert (SortedColumns in transforms_of(solver)) == shuffled
        dual = np.concatenate([found.y, found.z])
        expected = certify(problem, found.x, dual)  # of the problem that was given
        rounding = np.full(8, 1e-14)
        rounding[2] = 64 * EPSILON * expected.gap / expected.gap_error  # of the sums whose difference is the gap
        off = np.abs(np.subtract(found.certificate[:8], expected[:8]))
        assert (off <= 1e-6 * np.array(expected[:8]) + rounding).all()
    plain, moved = results[False], results[True]
    assert moved.iterations == plain.iterations
    for name in ("x", "z"):
        np.testing.assert_allclose(getattr(moved, name), getattr(plain, name)[order], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(moved.y, plain.y, rtol=1e-9, atol=1e-9)
    checks = ("PjitFunction(checked_point)", "PjitFunction(checked_completed)")
    assert sum(programs[True][check] for check in checks) > 10
    for counts in programs.values():  # how often a direction is checked depends on the clock
        counts.pop("PjitFunction(difference)", None)
        counts.pop("PjitFunction(may_be_ray)", None)
    # nothing else runs; into how many chunks steps are cut depends on the clock, too
    assert programs[True].keys() == programs[False].keys()
    assert all(programs[True][check] == programs[False][check] for check in checks)


def test_the_order_is_kept_for_another_b():
    problem, _ = flow()
    solver = dapd.Solver(problem, engine="jax")
    solver.solve()
    (first,) = (step for step in kept_by(solver) if isinstance(step, SortedColumns))
    solver.update(b=0.9 * problem.b)
    assert solver.solve().status == "optimal"
    (again,) = (step for step in kept_by(solver) if isinstance(step, SortedColumns))
    assert again is not first
    assert again.order is first.order
    assert again.problem.M is first.problem.M


def test_singular_values_that_are_given_are_those_of_the_sorted_M(monkeypatch):
    def estimate(*_, **__):
        raise AssertionError("they are known")

    monkeypatch.setattr(first_order, "estimate_norm", estimate)
    nodes = np.random.default_rng(0).permutation(EDGES)
    M = incidence(np.column_stack([nodes, (nodes + 1) % EDGES]), EDGES)  # a cycle
    problem = dapd.Problem(dapd.PseudoHuber(0.5), M, M @ np.arange(EDGES))
    solver = dapd.Solver(problem, engine="jax", spectrum=dapd.Spectrum(2.0, 0.0), max_iterations=50)
    solver.solve()
    assert transforms_of(solver) == [SortedColumns]


def test_other_engines_and_a_mesh_leave_the_order_alone():
    problem, _ = flow()
    solver = dapd.Solver(problem, engine="jax")
    mesh = Mesh(np.array(jax.devices()[:1]), "x")
    for how, applied in (({}, True), ({"engine": "native"}, False), ({}, True), ({"mesh": mesh}, False)):
        solver.solve(x0=np.zeros(problem.columns), y0=np.zeros(problem.rows), **how)
        assert (SortedColumns in transforms_of(solver)) == applied


def test_a_single_solve_does_not_sort(monkeypatch):
    def sorts(problem):
        raise AssertionError("it takes longer than it saves")

    monkeypatch.setattr(SortedColumns, "apply", sorts)
    problem, _ = flow()
    assert dapd.solve(problem, engine="jax").status == "optimal"


def test_it_is_left_out_if_it_does_not_pay_off_or_cannot_be_done(monkeypatch):
    given = flow()[0]
    problem = given.stacked
    assert SortedColumns.apply(given) is not None
    assert SortedColumns.apply(flow(shuffled=False)[0]) is None
    M, phi = given.M.matrix, problem.phi
    H = sp.csr_array(
        np.diag(np.ones(EDGES)) + np.diag(np.full(EDGES - 1, 0.1), 1) + np.diag(np.full(EDGES - 1, 0.1), -1)
    )
    half = dapd.RowBlocks([M, Identity(EDGES, rows=EDGES // 2)])
    both = dapd.RowBlocks([M, Identity(EDGES)])
    zero, sizes = np.zeros(NODES + EDGES), [NODES, EDGES]
    others = [
        dapd.Problem(problem.f, M.toarray(), given.b, bounds=(0.0, 1.0)),
        dapd.Problem(problem.f, dapd.RowBlocks([M, M]), np.tile(given.b, 2)),
        dapd.Problem(problem.f, half, zero[: NODES + EDGES // 2], dapd.Interval(0.0, 1.0)),
        dapd.Problem(dapd.Quadratic(H), both, problem.b, phi),
        dapd.Problem(dapd.LeastSquares(M, np.ones(NODES), 0.1), both, problem.b, phi),
        dapd.Problem(dapd.Smooth(lambda x: x @ x, lambda x: 2 * x, 2.0, 2.0), both, problem.b, phi),
        dapd.Problem(dapd.Separable([dapd.PseudoHuber(0.1)] * 2, sizes=[EDGES // 2] * 2), both, problem.b, phi),
        dapd.Problem(problem.f, both, zero, dapd.Stack([dapd.Zero(), dapd.GroupBall(1.0, 2)], sizes=sizes)),
        dapd.Problem(
            problem.f,
            both,
            zero,
            dapd.Stack([dapd.Zero(), dapd.L1(1.0), dapd.Box(0.0, 1.0)], sizes=[NODES, EDGES // 2, EDGES // 2]),
        ),
    ]
    assert [SortedColumns.apply(other) for other in others] == [None] * len(others)
    monkeypatch.setattr("dapd.presolve.sorted_columns.MANY", EDGES + 1)
    assert SortedColumns.apply(given) is None
