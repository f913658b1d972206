"""The meter and the report: rounds are counted right, and iterations grow as the theorems say."""

import math

import matplotlib
import numpy as np
import pytest

import dapd
from dapd.lower_bounds import affine, block, convex_concave, extragradient, landscape, report, rounds

matplotlib.use("Agg")
ROOT = 5**0.5


def dual_ascent(problem):
    """A user's own method: gradient ascent on the dual function, a product each way."""
    step = problem.f.mu / problem.spectrum.s_max**2
    y = np.zeros(problem.rows)
    while True:
        x = (problem.f.c - problem.M.adjoint(y)) / problem.f.H
        yield x, y
        y = y + step * problem.M.forward(x)


@pytest.mark.parametrize("name", ["x-dapd", "y-dapd", "papc", "apapc", "capd", "condat-vu"])
def test_an_iteration_is_two_rounds_as_its_products_are(name):
    assert rounds(name) == 2
    assert rounds(name, block(L=10.0, mu=1.0, s_max=3.0, s_min=1.0, n=200, N=4)) == 2 * 4
    result = dapd.solve(affine(L=10.0, mu=1.0, s_max=3.0, s_min=1.0, n=50), name, tol=0.0, max_iterations=30)
    assert result.products == 2 * result.iterations


@pytest.mark.parametrize("name", ["x-dapd", "y-dapd", "papc", "apapc", "condat-vu"])
def test_zeros_tell_the_rounds_that_products_tell(name):
    def as_function(problem):
        method = dapd.METHODS[name].from_theory(problem)
        return (method.point(state) for state in method)

    assert rounds(as_function) == rounds(name)


def test_rounds_are_measured_for_a_function_too():
    assert rounds(dual_ascent) == 2
    assert rounds(dual_ascent, block(L=10.0, mu=1.0, s_max=ROOT, s_min=1.0, n=60, N=3)) == 2 * 3
    assert rounds(extragradient, convex_concave(L_x=1.0, L_y=1.0, s_max=ROOT, s_min=1.0, l=40)) == 2


def test_meter_says_what_it_cannot_measure():
    small = affine(L=10.0, mu=1.0, s_max=3.0, s_min=1.0, n=2)
    with pytest.raises(ValueError, match="instance has 2 coordinates, too few to watch two iterations of dual_ascent"):
        rounds(dual_ascent, small)
    with pytest.raises(ValueError, match="unknown method 'xdapd'; did you mean 'x-dapd'"):
        rounds("xdapd")
    with pytest.raises(TypeError, match="method must be a name or a function"):
        rounds(3)
    with pytest.raises(TypeError, match="give extragradient"):
        report(["papc"], convex_concave(L_x=1.0, L_y=1.0, s_max=3.0, s_min=1.0, l=99))


def test_report_holds_methods_against_the_bound():
    instance = affine(L=100.0, mu=1.0, s_max=5.0, s_min=1.0)
    found = report(["y-dapd", "x-dapd", dual_ascent], instance, eps=1e-4)
    assert [run.method for run in found.runs] == ["x-dapd", "y-dapd", "dual_ascent"]
    assert found.needed == instance.iterations_needed(1e-4 * np.linalg.norm(instance.y_star))
    for run in found.runs:
        assert run.times == 2 * run.iterations / found.needed > 1
        assert run.error[-1] <= 1e-4 < run.error[-2]
        floor = [instance.tail(int(k)) / np.linalg.norm(instance.y_star) for k in run.at]
        assert np.all(run.error >= np.array(floor) * (1 - 1e-9))
    text = str(found)
    assert "times the optimum" in text
    assert f"{found.needed:,}" in text


def test_block_methods_are_counted_in_block_rounds_and_repeat():
    instance = block(L=20.0, mu=1.0, s_max=ROOT, s_min=1.0, N=3)
    assert rounds("x-sbc-dapd", instance) == 4
    assert 4 < rounds("y-sbc-dapd", instance) < 8
    first, again = (report(["x-sbc-dapd", "x-dapd"], instance, eps=1e-3) for _ in range(2))
    assert [run[:4] for run in first.runs] == [run[:4] for run in again.runs]
    assert all(run.times > 1 for run in first.runs)


def test_report_says_what_did_not_arrive():
    found = report(["x-dapd", "papc"], max_iterations=50, eps=1e-5)
    assert all(run.iterations is None and math.isnan(run.times) for run in found.runs)
    assert "not reached" in str(found)
    assert "not reached" in found.plot().get_legend().get_texts()[0].get_text()


def test_report_covers_the_convex_concave_instance():
    instance = convex_concave(L_x=1.0, L_y=1.0, s_max=4.0, s_min=1.0, l=120)
    found = report([extragradient], instance, eps=1e-6)
    assert 1 < found.runs[0].times < 10
    labels = [line.get_label() for line in found.plot().get_lines()]
    assert labels[0].startswith("extragradient: ")
    assert labels[1:] == ["the theorem's bound", "the part of y* not yet seen"]


def test_each_side_wins_where_its_theorem_says():
    found = report(["x-dapd", "y-dapd"], eps=1e-3, grid=([1.0, 1000.0], [ROOT, 30.0])).landscape
    assert found.methods[found.winner[1, 0]] == "x-dapd"
    assert found.methods[found.winner[0, 1]] == "y-dapd"
    assert np.all(found.best > 1)
    assert np.all(found.best < 6)
    assert "x-dapd" in str(found)
    axes = found.plot()
    assert [text.get_text().split("\n")[0] for text in axes.texts] == [found.methods[m] for m in found.winner.ravel()]


def test_landscape_says_where_none_arrived():
    found = landscape(["x-dapd"], [10.0], [ROOT], max_iterations=2)
    assert np.isinf(found.best).all()
    assert "none" in str(found)
    with pytest.raises(ValueError, match="x-dapd arrived at 0 points of this line"):
        found.exponent("x-dapd", "condition")
    with pytest.raises(ValueError, match="no method 'papc' in this landscape"):
        found.exponent("papc", "condition")
    with pytest.raises(ValueError, match="along must be 'condition' or 'ratio'"):
        found.exponent("x-dapd", "kappa")


def test_methods_must_be_a_sequence():
    with pytest.raises(TypeError, match="methods must be a sequence, found 'papc'"):
        report("papc")


# (s_max/s_min)·√(L/μ) grows by three decades; each side is fitted where it is the favoured one


def test_x_dapd_grows_as_the_root_of_the_condition():
    found = landscape(["x-dapd"], np.geomspace(3.0, 3e6, 7), [ROOT], eps=1e-2)
    assert found.exponent("x-dapd", "condition") == pytest.approx(0.5, abs=0.05)
    assert np.all(found.times < 5)


def test_y_dapd_grows_as_the_ratio_of_singular_values():
    found = landscape(["y-dapd"], [1.0], ROOT * np.geomspace(1, 1000, 7), eps=1e-2)
    assert found.exponent("y-dapd", "ratio") == pytest.approx(1.0, abs=0.1)
    assert np.all(found.times < 5)


def test_papc_grows_as_the_sum_of_both_conditions():
    in_f = landscape(["papc"], np.geomspace(10, 1e4, 4), [ROOT])
    in_M = landscape(["papc"], [1.0], ROOT * np.geomspace(1, 1e3, 4) ** 0.5)
    assert in_f.exponent("papc", "condition") == pytest.approx(1.0, abs=0.1)
    assert in_M.exponent("papc", "ratio") == pytest.approx(2.0, abs=0.1)
