"""What a result shows, and what it and a problem survive: JSON and pickle."""

import json
import pickle
import xml.etree.ElementTree as ET

import matplotlib.pyplot as plt
import numpy as np
import pytest
import scipy.sparse as sp
from instances import quadratic_problem

import dapd
from dapd import problems
from dapd.solving.result import sparkline

RNG = np.random.default_rng(0)
M = RNG.standard_normal((4, 10))


def infeasible():
    return dapd.Problem(dapd.Quadratic(np.ones(2)), np.ones((2, 2)), [0.0, 1.0])


def results():
    problem = quadratic_problem(dapd.NonNegative())
    yield dapd.solve(problem)
    yield dapd.solve(problem, "y-dapd", history=True)
    yield dapd.solve(problem, "y-dapd", tol=0, max_iterations=3)
    yield dapd.solve(infeasible())
    yield dapd.solve(dapd.Problem(dapd.PseudoHuber(0.5), M, np.ones(4), blocks=2), "x-sbc-dapd", seed=0)
    yield dapd.solve(problems.flow([(0, 1), (1, 2), (0, 2)], [1.0, 0.0, -1.0], capacity=(None, None)), "capd", tol=1e-3)
    yield dapd.solve(problem, time_limit=1e-9)


RESULTS = list(results())


@pytest.mark.parametrize("k", range(len(RESULTS)))
def test_to_dict_is_json_and_has_every_field(k):
    result = RESULTS[k]
    told = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert told["status"] == result.status
    assert told["converged"] is result.converged
    assert told["engine"] == {"name": result.engine.name, "reason": result.engine.reason}
    assert np.array_equal(told["x"], result.x)
    assert np.array_equal(told["y"], result.y)
    assert np.array_equal(told["z"], result.z)
    assert told["certificate"]["stationarity"] == result.certificate.stationarity
    assert {*vars(result), "converged"} == told.keys()


def test_to_dict_keeps_parameters_spectrum_and_ray():
    named = RESULTS[1].to_dict()
    assert named["parameters"]["Pi"] == RESULTS[1].parameters.Pi
    assert named["spectrum"]["s_max"] == RESULTS[1].spectrum.s_max
    assert named["history"]["iterations"] == RESULTS[1].history.iterations.tolist()
    assert RESULTS[3].status == "infeasible"
    assert np.array_equal(RESULTS[3].to_dict()["ray"], RESULTS[3].ray)


def test_html_is_well_formed_and_shows_the_sparkline():
    for result in RESULTS:
        page = ET.fromstring(result._repr_html_())
        assert result.status in "".join(page.itertext())
        lines = page.findall(".//polyline")
        assert len(lines) == (len(result.errors) > 1)


def test_sparkline_falls_with_the_error():
    drawn = ET.fromstring(sparkline(np.array([[0, 1.0], [10, np.inf], [20, 1e-3], [40, 1e-6]])))
    points = [tuple(map(float, pair.split(","))) for pair in drawn.find("polyline").get("points").split()]
    assert len(points) == 3
    assert [x for x, _ in points] == sorted(x for x, _ in points)
    assert points[0][1] < points[1][1] < points[2][1]
    assert "from 1e+00 to 1e-06 in 40 iterations" in drawn.find("title").text
    assert sparkline(np.zeros((0, 2))) == sparkline(np.ones((1, 2))) == ""


def test_errors_are_those_of_the_looks():
    for result in RESULTS[:3]:
        assert result.errors[0, 0] == 0
        assert result.errors[-1, 0] == result.iterations
        assert result.errors[-1, 1] == result.certificate.error


def test_plot_shows_iterations_and_seconds_with_the_predicted_rate():
    result = RESULTS[1]
    left, right = result.plot()
    names = ["stationarity", "feasibility", "relative error", "predicted rate"]
    assert [line.get_label() for line in left.get_lines()] == names
    assert (left.get_xlabel(), right.get_xlabel()) == ("iterations", "seconds")
    assert left.get_yscale() == right.get_yscale() == "log"
    rate = left.get_lines()[-1].get_ydata()
    k, Pi = result.history.iterations, result.parameters.Pi
    shown = np.isfinite(rate)
    assert shown.sum() > 2
    np.testing.assert_allclose(rate[shown] / rate[0], (1 - 1 / Pi) ** (k[shown] / 2), rtol=1e-9)
    assert np.array_equal(right.get_lines()[0].get_xdata(), result.history.time)


def test_plot_takes_axes_and_needs_a_history():
    ax = plt.subplots()[1]
    result = dapd.solve(quadratic_problem(dapd.NonNegative()), history=True)
    assert result.plot(ax) == (ax,)
    assert [line.get_label() for line in ax.get_lines()] == ["stationarity", "feasibility", "relative error"]
    pair = plt.subplots(1, 2)[1]
    assert result.plot(pair) == tuple(pair)
    with pytest.raises(ValueError, match="history=True"):
        RESULTS[0].plot()


FUNCTIONS = {
    "diagonal": dapd.Quadratic(np.ones(10), np.ones(10)),
    "dense": dapd.Quadratic(M.T @ M + np.eye(10), np.ones(10)),
    "sparse": dapd.Quadratic(sp.eye_array(10, format="csr"), np.ones(10)),
    "pseudo-huber": dapd.PseudoHuber(0.5),
    "least squares": dapd.LeastSquares(RNG.standard_normal((12, 10)), np.ones(12), 0.1),
    "logistic": dapd.Logistic(RNG.standard_normal((12, 10)), np.tile([1.0, -1.0], 6), 0.1),
    "separable": dapd.Separable([dapd.PseudoHuber(0.5), dapd.Quadratic(np.ones(4))], sizes=[6, 4]),
    "smooth": dapd.Smooth(np.linalg.norm, np.copy, 1.0, 1.0, size=10),  # of functions that pickle themselves
}
PHIS = {
    "zero": dapd.Zero(),
    "nonnegative": dapd.NonNegative(),
    "l1": dapd.L1(0.5),
    "groups": dapd.GroupBall(0.5, [slice(0, 1), slice(1, 4)]),
    "box": dapd.Box(-1.0, np.ones(4)),
    "interval": dapd.Interval(-1.0, 1.0),
    "conjugate": dapd.Conjugate(dapd.L1(0.5)),
    "stack": dapd.Stack([dapd.Zero(), dapd.L1(1.0)], sizes=[2, 2]),
}
MATRICES = {
    "dense": M,
    "sparse": sp.csr_array(M),
    "kronecker": dapd.Kronecker(M[:2, :5], 2),
    "block-diagonal": dapd.BlockDiagonal([M[:2, :4], M[2:, 4:]]),
    "columns": dapd.ColumnBlocks([M[:, :4], sp.csr_array(M[:, 4:])]),
    "rows": dapd.RowBlocks([M[:2], dapd.Identity(10, rows=2)]),
    "identity": dapd.Identity(10, rows=4),
}


def same(problem):
    """The problem after a pickle, which must be solved in the same way."""
    options = {"max_iterations": 200, "direct": False, "engine": "python"}
    first = dapd.solve(problem, **options)  # before the pickle, so what a solve stores is pickled too
    copy = pickle.loads(pickle.dumps(problem))
    again = dapd.solve(copy, **options)
    assert repr(copy) == repr(problem)
    np.testing.assert_allclose(again.x, first.x, rtol=1e-12, atol=1e-12)
    loaded = pickle.loads(pickle.dumps(again))
    assert np.array_equal(loaded.x, again.x)
    assert loaded.certificate == again.certificate
    assert (loaded.status, loaded.engine, loaded.message) == (again.status, again.engine, again.message)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_f_pickles(name):
    same(dapd.Problem(FUNCTIONS[name], M, np.ones(4), dapd.NonNegative(), bounds=(-5, 5)))


@pytest.mark.parametrize("name", PHIS)
def test_every_phi_pickles(name):
    same(dapd.Problem(FUNCTIONS["diagonal"], M, np.ones(4), PHIS[name]))


@pytest.mark.parametrize("name", MATRICES)
def test_every_matrix_pickles(name):
    same(dapd.Problem(FUNCTIONS["diagonal"], MATRICES[name], np.ones(4), x_star=np.ones(10)))


@pytest.mark.parametrize("k", range(len(RESULTS)))
def test_every_kind_of_result_pickles(k):
    result = RESULTS[k]
    loaded = pickle.loads(pickle.dumps(result))
    assert loaded.to_dict() == result.to_dict()
    assert loaded.summary() == result.summary()
    assert type(loaded.parameters) is type(result.parameters)


@pytest.mark.parametrize("name", ["affine", "block"])
def test_hard_instances_pickle(name):
    made = getattr(dapd.lower_bounds, name)(
        L=10.0, mu=1.0, s_max=3.0, s_min=1.0, n=16, **{"block": {"N": 2}}.get(name, {})
    )
    loaded = pickle.loads(pickle.dumps(made))
    assert np.array_equal(loaded.y_star, made.y_star)
    assert loaded.bound(5) == made.bound(5)
