"""dapd.explain: the comparison that `auto` makes, printed without solving."""

import math
from time import perf_counter

import numpy as np
import pytest
import scipy.sparse as sp

import dapd
from dapd import theory
from dapd.experiments import system_identification
from dapd.solving.choice import AutoChoice
from dapd.ways.clarabel import candidate as direct
from dapd.ways.newton import SecondOrder
from dapd.ways.search import Search


def equations(m=20, n=60, **options):
    rng = np.random.default_rng(0)
    M = rng.standard_normal((m, n))
    return dapd.Problem(dapd.Quadratic(1 + rng.random(n), np.ones(n)), M, M @ np.ones(n), **options)


def opaque(n=5):
    return dapd.Smooth(lambda x: 0.5 * x @ x, lambda x: x, 1.0, 1.0, size=n)


def prospect(explanation, name):
    (found,) = (one for one in explanation.prospects if one.name == name)
    return found


def test_what_is_returned_is_shown_as_a_table_and_printed_once(capsys):
    explanation = dapd.explain(equations())
    assert capsys.readouterr().out == ""
    assert repr(explanation) == str(explanation)
    assert str(explanation).startswith("Problem(Quadratic")
    assert str(explanation).endswith(explanation.sentence)


def test_an_identity_has_no_dtype_of_its_own():
    shown = str(dapd.explain(dapd.Problem(dapd.Quadratic(np.ones(3)), dapd.Identity(3), np.zeros(3), dapd.L1(1.0))))
    assert shown.startswith("Problem(Quadratic(mu=1, L=1), Identity(3 × 3), L1)")


def test_nothing_is_solved(monkeypatch):
    problem = equations()
    monkeypatch.setattr("dapd.newton.newton.Newton.run", None)
    monkeypatch.setattr("dapd.ways.clarabel.candidate.attempts", None)
    monkeypatch.setattr("dapd.ways.first_order.restarts", None)
    assert dapd.explain(problem).choice


def problems():
    rng = np.random.default_rng(1)
    M = sp.csr_array(sp.random_array((30, 80), density=0.1, rng=rng) + sp.eye_array(30, 80))
    yield equations()
    yield dapd.Problem(dapd.Quadratic(np.ones(80), np.ones(80)), M, np.zeros(30), bounds=(-1, 1))
    yield dapd.Problem(dapd.PseudoHuber(0.1), M, np.ones(30), dapd.NonNegative())
    yield dapd.Problem(opaque(), np.ones((1, 5)), [1.0])


@pytest.mark.parametrize("options", [{}, {"direct": False}, {"engine": "python"}])
@pytest.mark.parametrize("k", range(4))
def test_the_choice_is_what_solve_tries_first(k, options):
    problem = list(problems())[k]
    explanation = dapd.explain(problem, **options)
    assert dapd.solve(problem, **options).method == explanation.choice
    times = [one.seconds for one in explanation.prospects if not math.isnan(one.seconds)]
    assert times == sorted(times)


def test_theorem_constants_are_those_of_the_theory():
    problem = equations()
    explanation = dapd.explain(problem, tol=1e-4)
    spectrum = dapd.estimate_spectrum(problem.M)
    side = theory.favoured(L=problem.f.L, mu=problem.f.mu, s_max=spectrum.s_max, s_min=spectrum.s_min)
    for name, parameters in (("x-DAPD", side.x), ("y-DAPD", side.y)):
        why = prospect(explanation, f"{name}, theorem constants").why
        assert f"Π = {parameters.Pi:.3g}" in why
        assert f"{theory.iterations(parameters, 1e-4):,.0f} iterations" in why


def test_reasons_are_given_for_what_is_impossible(monkeypatch):
    explanation = dapd.explain(dapd.Problem(opaque(), np.ones((1, 5)), [1.0]))
    assert prospect(explanation, "second-order steps").why == "f is only available in Python"
    assert "no conic form" in prospect(explanation, "Clarabel").why
    assert prospect(dapd.explain(equations(), direct=False), "Clarabel").why == "direct=False"
    assert "only first-order" in prospect(dapd.explain(equations(), engine="python"), "second-order steps").why
    assert "time limit" in prospect(dapd.explain(equations(), time_limit=1e-9), "Clarabel").why
    free = dapd.Problem(dapd.Quadratic(None, np.ones(3)), np.ones((1, 3)), [1.0], bounds=(0, 1))
    assert "not strongly convex" in prospect(dapd.explain(free), "x-DAPD, theorem constants").why
    bounded = equations(bounds=(-3, 3))
    why = prospect(dapd.explain(bounded), "y-DAPD, theorem constants").why
    assert why == "the theorems have no bounds, and bounds as rows depend on the rows of M: s_min = 0"
    twice = dapd.Problem(dapd.Quadratic(np.ones(3)), np.ones((2, 3)), np.ones(2), dapd.NonNegative())
    assert "rows of M depend" in prospect(dapd.explain(twice), "y-DAPD, theorem constants").why
    monkeypatch.setattr(direct, "is_installed", lambda: False)
    assert prospect(dapd.explain(equations()), "Clarabel").why == "clarabel is not installed"


def test_a_short_time_limit_rules_out_second_order_steps_only_if_they_take_long_to_examine():
    rng = np.random.default_rng(0)
    for M, possible in ((np.ones((4_000, 300)), True), (sp.random_array((4_000, 3_000), density=0.1, rng=rng), False)):
        problem = dapd.Problem(dapd.Quadratic(np.ones(M.shape[1])), M, np.ones(4_000), dapd.NonNegative())
        search = Search(problem, (1e-6, 0.0), 1000, perf_counter() + 0.5, None)
        assert (SecondOrder.name in AutoChoice(search, "auto", use_direct=True).waiting) == possible


def test_second_order_steps_tell_their_linear_algebra():
    assert "Dense Cholesky" in prospect(dapd.explain(equations()), "second-order steps").why
    n = 2000
    D = sp.csr_array(sp.diags_array([np.ones(n - 1), -np.ones(n - 1)], offsets=(0, 1), shape=(n - 1, n)))
    chain = dapd.Problem(dapd.Quadratic(np.ones(n), np.ones(n)), D, np.zeros(n - 1), dapd.NonNegative())
    assert "Banded Cholesky" in prospect(dapd.explain(chain, direct=False), "second-order steps").why
    ring = sp.csr_array(sp.vstack([D, sp.csr_array(([1.0, -1.0], ([0, 0], [0, n - 1])), shape=(1, n))]))
    ring = dapd.Problem(dapd.Quadratic(np.ones(n), np.ones(n)), ring, np.zeros(n), dapd.NonNegative())
    assert "qdldl" in prospect(dapd.explain(ring, direct=False), "second-order steps").why


# in between, Clarabel is chosen although it would usually take longer, since its iterations vary less
@pytest.mark.parametrize(
    ("seconds", "choice", "examined"), [(0.5, "newton", True), (0.05, "clarabel", True), (0.02, "clarabel", False)]
)
def test_second_order_steps_are_examined_if_clarabel_is_forecast_to_take_long(seconds, choice, examined, monkeypatch):
    rng = np.random.default_rng(2)
    samples, features = 400, 20
    F = sp.random_array((samples, features), density=0.2, rng=rng, data_sampler=rng.standard_normal)
    M = sp.hstack([F, -sp.eye_array(samples)], format="csr")  # without a set-up, a factorisation seems to be large
    f = dapd.Quadratic(np.r_[np.full(features, 0.1), np.ones(samples)])
    problem = dapd.Problem(f, M, rng.standard_normal(samples), bounds=(-1, 1))
    monkeypatch.setattr(direct, "is_installed", lambda: True)
    monkeypatch.setattr("dapd.ways.newton.COMPARED", 0.03)
    monkeypatch.setattr(direct, "predict", lambda *_, **__: direct.Forecast(seconds, True))
    assert dapd.explain(problem).choice == choice
    search = Search(problem, (1e-6, 0.0), 1000, math.inf, None)
    choice = AutoChoice(search, "auto", use_direct=True)
    choice.add_all()
    (second,) = (one for one in choice.active if isinstance(one, SecondOrder))
    assert second.is_set_up == examined


@pytest.mark.parametrize(("times", "choice"), [(1.2, "clarabel"), (2.0, "restarts")])
def test_clarabel_begins_if_restarts_are_hardly_faster(times, choice, monkeypatch):
    problem = system_identification()
    restarts = prospect(dapd.explain(problem, direct=False), "restarted first-order steps").seconds
    monkeypatch.setattr(direct, "is_installed", lambda: True)
    monkeypatch.setattr(direct, "predict", lambda *_, **__: direct.Forecast(times * restarts, True))
    assert dapd.explain(problem).choice == choice


def test_transforms_are_named():
    assert "orthonormal" in " ".join(dapd.explain(equations()).transforms)


def test_blocks_are_compared():
    assert prospect(dapd.explain(equations(blocks=4)), "blocks").why


def test_wrong_options_are_refused():
    with pytest.raises(TypeError, match="did you mean 'engine'"):
        dapd.explain(equations(), engin="python")
    with pytest.raises(TypeError, match=r"must be a dapd\.Problem"):
        dapd.explain(None)
