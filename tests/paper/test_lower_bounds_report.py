"""Rounds and the report: rounds are counted correctly, and iterations grow as the theorems say."""

import itertools
import math

import matplotlib
import numpy as np
import pytest

import dapd
from dapd.lower_bounds import affine, block, convex_concave, extragradient, landscape, report, rounds
from dapd.paper.lower_bounds.meter import counted

matplotlib.use("Agg")
ROOT = 5**0.5


def dual_ascent(problem):
    """A user's own method: gradient ascent on the dual function, one product with M and one with Mᵀ."""
    step = problem.f.mu / problem.spectrum.s_max**2
    y = np.zeros(problem.rows)
    while True:
        x = (problem.f.c - problem.M.adjoint(y)) / problem.f.H
        yield x, y
        y = y + step * problem.M.forward(x)


@pytest.mark.parametrize("name", ["x-dapd", "y-dapd", "papc", "apapc", "capd", "condat-vu"])
def test_an_iteration_counts_two_rounds_for_its_two_products(name):
    assert rounds(name) == 2
    assert rounds(name, block(L=10.0, mu=1.0, s_max=3.0, s_min=1.0, n=200, N=4)) == 2 * 4
    result = dapd.solve(affine(L=10.0, mu=1.0, s_max=3.0, s_min=1.0, n=50), name, tol=0.0, max_iterations=30)
    assert result.products == 2 * result.iterations


def by_hand(name, **options):
    """A method of the package as a user's function."""

    def run(problem):
        method = dapd.METHODS[name].from_theory(problem, **options)
        return (method.point(state) for state in method)

    return run


@pytest.mark.parametrize("name", ["x-dapd", "y-dapd", "papc", "apapc", "condat-vu"])
def test_a_function_has_the_same_count_as_the_method_it_wraps(name):
    assert rounds(by_hand(name)) == rounds(name) == 2


@pytest.mark.parametrize(("name", "spent"), [("x-sbc-dapd", 4), ("y-sbc-dapd", 6), ("x-sbc-dapd-nonseparable", 4)])
def test_rounds_of_a_block_method_are_its_expectation(name, spent):
    assert rounds(name) == spent
    for N in (1, 2, 3, 8, 32):
        assert rounds(name, block(L=10.0, mu=1.0, s_max=3.0, s_min=1.0, n=N, N=N)) == pytest.approx(spent, rel=1e-12)


def test_a_block_method_costs_the_same_by_name_and_as_a_function():
    instance = block(L=10.0, mu=1.0, s_max=ROOT, s_min=1.0, N=4)
    found = report(["y-sbc-dapd", by_hand("y-sbc-dapd", seed=0)], instance, eps=1e-2)
    by_name, as_function = found.runs
    assert by_name[1:4] == as_function[1:4]
    np.testing.assert_array_equal(by_name.at, as_function.at)


@pytest.mark.parametrize("name", ["x-sbc-dapd", "y-sbc-dapd", "x-sbc-dapd-nonseparable"])
@pytest.mark.parametrize("N", [1, 3])
def test_reported_rounds_are_the_products_spent(name, N):
    instance = block(L=10.0, mu=1.0, s_max=ROOT, s_min=1.0, N=N)
    run = report([name], instance, eps=1e-2).runs[0]
    result = dapd.solve(instance, name, tol=0.0, max_iterations=run.iterations, seed=0)
    assert run.rounds == run.at[-1] == result.block_products


def test_every_product_of_a_function_counts():
    def wasteful(problem):
        for x, y in dual_ascent(problem):
            for _ in range(9):
                problem.M.adjoint(y), problem.M.forward(x)
            yield x, y

    assert rounds(dual_ascent) == 2
    assert rounds(wasteful) == 20
    copies = block(L=10.0, mu=1.0, s_max=ROOT, s_min=1.0, n=60, N=3)
    assert rounds(dual_ascent, copies) == 2 * 3
    assert rounds(extragradient, convex_concave(L_x=1.0, L_y=1.0, s_max=ROOT, s_min=1.0, l=40)) == 4


def test_products_count_the_blocks_that_they_use():
    instance = block(L=10.0, mu=1.0, s_max=3.0, s_min=1.0, n=12, N=3)  # x has three blocks of eight
    twin, tally = counted(instance)
    x, y = np.arange(24.0), np.arange(12.0)
    for block_of_x, spent in [(slice(8, 16), 1), (slice(0, 16), 2), (slice(7, 9), 2), (slice(None), 3)]:
        part, own = twin.M.columns(block_of_x), instance.M.columns(block_of_x)
        before = tally.rounds
        np.testing.assert_array_equal(part.forward(x[block_of_x]), own.forward(x[block_of_x]))
        np.testing.assert_array_equal(part.adjoint(y), own.adjoint(y))
        assert tally.rounds - before == 2 * spent
    before = tally.rounds
    twin.M.columns(slice(4, 20)).columns(slice(0, 4)).adjoint(y)
    assert tally.rounds - before == 1
    twin.M.dual_step(x, y, instance.phi, 1.0)
    assert tally.rounds - before == 1 + 6


def test_block_methods_run_on_one_block():
    assert dapd.solve(block(L=10.0, mu=1.0, s_max=3.0, s_min=1.0, n=20, N=1), "x-sbc-dapd").converged
    assert np.isfinite(landscape(["x-sbc-dapd"], [10.0], [3.0], eps=1e-2).times).all()


def test_report_counts_gradients_next_to_the_classical_bound():
    found = report(["x-dapd", "capd", dual_ascent], affine(L=100.0, mu=1.0, s_max=10.0, s_min=1.0), eps=1e-3)
    # k gradients leave ((√κ − 1)/(√κ + 1))^k of the error
    least = found.gradients_needed
    assert (9 / 11) ** least <= 1e-3 < (9 / 11) ** (least - 1)
    by_name = {run.method: run for run in found.runs}
    assert by_name["x-dapd"].gradients == by_name["x-dapd"].iterations
    assert by_name["capd"].gradients == by_name["capd"].iterations / 10
    assert math.isnan(by_name["dual_ascent"].gradients)
    assert f"fewer than {least:,} gradients" in str(found)
    # a gradient of one block is 1/N of one; the start takes one of each
    run = report(["x-sbc-dapd"], block(L=10.0, mu=1.0, s_max=ROOT, s_min=1.0, N=4), eps=1e-2).runs[0]
    assert run.gradients == 1 + run.iterations / 4
    assert report(["x-dapd"], affine(L=1.0, mu=1.0, s_max=3.0, s_min=1.0), eps=1e-2).gradients_needed == 1
    free = report([extragradient], convex_concave(L_x=1.0, L_y=1.0, s_max=ROOT, s_min=1.0, l=40), eps=3e-2)
    assert free.gradients_needed is None


def three_points(problem):
    return itertools.islice(dual_ascent(problem), 3)


def start_alone(problem):
    return itertools.islice(dual_ascent(problem), 1)


def nothing(problem):
    return iter(())


def no_iterator(problem):
    return None


def y_alone(problem):
    return (y for _, y in dual_ascent(problem))


def swapped(problem):
    return ((y, x) for x, y in dual_ascent(problem))


def without_products(problem):
    while True:
        yield np.zeros(problem.columns), np.zeros(problem.rows)


def oracle_of_delphi(problem):
    yield problem.x_star, problem.y_star


@pytest.mark.parametrize(
    ("method", "kind", "words"),
    [
        (start_alone, ValueError, "start_alone ended at its start"),
        (nothing, ValueError, "nothing must yield pairs .* it yielded none"),
        (no_iterator, TypeError, "no_iterator must yield pairs .* it returned NoneType"),
        (
            y_alone,
            TypeError,
            r"y_alone must yield pairs \(x, y\) of 128 and 64 entries.* found ndarray of shape \(64,\)",
        ),
        (swapped, ValueError, r"swapped must yield pairs .* found shapes \(64,\) and \(128,\)"),
        (without_products, ValueError, "without_products made no product with instance.M in 100 iterations"),
        ("xdapd", ValueError, "unknown method 'xdapd'; did you mean 'x-dapd'"),
        (3, TypeError, "method must be a name or a function"),
    ],
)
def test_rounds_that_cannot_be_counted_are_an_error(method, kind, words):
    with pytest.raises(kind, match=words):
        rounds(method)


def test_report_rejects_what_it_cannot_run():
    with pytest.raises(TypeError, match="use extragradient"):
        report(["papc"], convex_concave(L_x=1.0, L_y=1.0, s_max=3.0, s_min=1.0, l=99))
    with pytest.raises(TypeError, match="y_alone must yield pairs"):
        report([y_alone])
    with pytest.raises(ValueError, match="oracle_of_delphi reached eps without a product"):
        report([oracle_of_delphi])


def test_report_shows_which_method_ended_early():
    found = report([three_points, dual_ascent], eps=1e-2, max_iterations=10)
    early, late = found.runs
    assert early.ended
    assert not late.ended
    assert early.iterations is None
    assert early.at[-1] == 5  # the start takes one product
    assert "ended early" in str(found)
    assert "> 5" in str(found)
    assert "ended early" in found.plot().get_legend().get_texts()[0].get_text()


def test_methods_with_the_same_name_are_numbered():
    found = report([dual_ascent, "x-dapd", dual_ascent], eps=0.1, max_iterations=2, grid=([10.0], [ROOT]))
    labels = ["dual_ascent (1)", "x-dapd", "dual_ascent (2)"]
    assert [run.method for run in found.runs] == labels
    assert list(found.landscape.methods) == labels


@pytest.mark.parametrize("eps", [0.354, 0.5, 2.0])
def test_an_accuracy_outside_the_range_of_the_bound_is_an_error(eps):
    with pytest.raises(ValueError, match=f"eps must be < 0.354 on this instance, found {eps:g}"):
        report(["x-dapd"], eps=eps)
    with pytest.raises(ValueError, match=r"eps must be < 0\.354"):
        landscape(["x-dapd"], [10.0], [ROOT], eps=eps)
    with pytest.raises(ValueError, match=r"eps must be < 0.02\d* on this instance"):
        report([extragradient], convex_concave(L_x=1.0, L_y=1.0, s_max=10.0, s_min=1.0, l=99), eps=0.1)


@pytest.mark.parametrize("eps", [0.0, -1.0])
def test_eps_must_be_positive(eps):
    with pytest.raises(ValueError, match="eps must be > 0"):
        report(["x-dapd"], eps=eps)
    with pytest.raises(ValueError, match="eps must be > 0"):
        landscape(["x-dapd"], [10.0], [ROOT], eps=eps)


def test_the_default_instance_reaches_eps():
    found = report(["x-dapd"], eps=1e-8, max_iterations=1)
    assert 1 <= found.needed <= found.instance.reach
    assert report(["x-dapd"], eps=0.35, max_iterations=1).needed >= 1


def test_report_compares_methods_with_the_bound():
    instance = affine(L=100.0, mu=1.0, s_max=5.0, s_min=1.0)
    found = report(["y-dapd", "x-dapd", dual_ascent], instance, eps=1e-4)
    assert [run.method for run in found.runs] == ["x-dapd", "y-dapd", "dual_ascent"]
    assert found.needed == instance.iterations_needed(1e-4 * np.linalg.norm(instance.y_star))
    for run in found.runs:
        first = 1 if run.method == "dual_ascent" else 0  # it multiplies before its start
        assert run.times == (2 * run.iterations + first) / found.needed > 1
        assert run.error[-1] <= 1e-4 < run.error[-2]
        floor = [instance.tail(int(k)) / np.linalg.norm(instance.y_star) for k in run.at]
        assert np.all(run.error >= np.array(floor) * (1 - 1e-9))
    text = str(found)
    assert "times the optimum" in text
    assert f"{found.needed:,}" in text


def test_block_methods_repeat():
    instance = block(L=20.0, mu=1.0, s_max=ROOT, s_min=1.0, N=3)
    first, again = (report(["x-sbc-dapd", "x-dapd"], instance, eps=1e-3) for _ in range(2))
    assert [run[:4] for run in first.runs] == [run[:4] for run in again.runs]
    assert all(run.times > 1 for run in first.runs)


def test_report_shows_methods_that_did_not_reach_eps():
    found = report(["x-dapd", "papc"], max_iterations=50, eps=1e-5)
    assert all(run.iterations is None and math.isnan(run.times) for run in found.runs)
    assert "not reached" in str(found)
    assert "not reached" in found.plot().get_legend().get_texts()[0].get_text()


def test_report_covers_the_convex_concave_instance():
    instance = convex_concave(L_x=1.0, L_y=1.0, s_max=4.0, s_min=1.0, l=120)
    found = report([extragradient], instance, eps=1e-6)
    assert 1 < found.runs[0].times < 20
    assert found.runs[0].rounds == 4 * found.runs[0].iterations
    labels = [line.get_label() for line in found.plot().get_lines()]
    assert labels[0].startswith("extragradient: ")
    assert labels[1:] == ["the theorem's bound", "the part of y* not yet seen"]


def test_each_side_wins_if_its_theorem_says_so():
    found = report(["x-dapd", "y-dapd"], eps=1e-3, grid=([1.0, 300.0], [ROOT, 20.0])).landscape
    assert found.methods[found.winner[1, 0]] == "x-dapd"
    assert found.methods[found.winner[0, 1]] == "y-dapd"
    assert np.all(found.best > 1)
    assert np.all(found.best < 6)
    assert "x-dapd" in str(found)
    axes = found.plot()
    assert [text.get_text().split("\n")[0] for text in axes.texts] == [found.methods[m] for m in found.winner.ravel()]


def test_landscape_shows_points_that_no_method_reaches():
    found = landscape(["x-dapd"], [10.0], [ROOT], max_iterations=2)
    assert np.isinf(found.best).all()
    assert "none" in str(found)
    with pytest.raises(ValueError, match="x-dapd reached eps at 0 points of this line"):
        found.exponent("x-dapd", "condition")
    with pytest.raises(ValueError, match="no method 'papc' in this landscape"):
        found.exponent("papc", "condition")
    with pytest.raises(ValueError, match="along must be 'condition' or 'ratio'"):
        found.exponent("x-dapd", "kappa")


def test_methods_must_be_a_sequence():
    with pytest.raises(TypeError, match="methods must be a sequence, found 'papc'"):
        report("papc")


# (s_max/s_min)·√(L/μ) grows by three decades; each side is fitted in its favoured range


def test_x_dapd_grows_as_the_root_of_the_condition():
    # with a smaller eps the longest chain has coordinates so small that arithmetic becomes slow
    found = landscape(["x-dapd"], np.geomspace(3.0, 3e6, 7), [ROOT], eps=0.05)
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
