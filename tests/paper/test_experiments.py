"""The paper's problems have the stated properties, and their references are right without any method under test."""

import sys

import numpy as np
import pytest

import dapd
from dapd.certificate.certify import certify
from dapd.experiments import compressed_sensing, qp_inequality, qp_l1, reference, system_identification
from dapd.paper.experiments import store
from dapd.paper.experiments.interior_point import GroupNorms
from dapd.paper.experiments.problems import disturbed_trajectory
from dapd.paper.reproduce.runs import EXPERIMENTS


def residuals(problem):
    certificate = certify(problem, problem.x_star, problem.y_star)
    return max(certificate.stationarity, certificate.feasibility)


MAKERS = {
    "compressed_sensing": lambda seed: compressed_sensing(seed, n=20, m=60, nonzeros=5),
    "system_identification": lambda seed: system_identification(seed, p=8, T=4),
    "qp_l1": lambda seed: qp_l1(seed, m=30, n=10),
    "qp_inequality": lambda seed: qp_inequality(seed, m=30, active=6, inactive=4),
}


@pytest.mark.parametrize("kind", MAKERS)
def test_one_seed_makes_one_instance(kind):
    first, again, other = MAKERS[kind](3), MAKERS[kind](3), MAKERS[kind](4)
    assert store.path(first) == store.path(again)
    assert store.path(first) != store.path(other)
    assert np.array_equal(first.b, again.b)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_reference_of_each_experiment_satisfies_kkt(name, tmp_path):
    problem = reference(EXPERIMENTS[name].make(0), cache=tmp_path)
    assert residuals(problem) < 1e-10


def test_large_compressed_sensing_has_the_setting_of_figure_2():
    problem = EXPERIMENTS["cst-blocks-1"].make(0)
    spectrum = dapd.estimate_spectrum(problem.M, problem.blocks)
    assert problem.M.shape == (100, 10_000)
    assert len(problem.blocks) == 200
    assert {block.stop - block.start for block in problem.blocks} == {50}
    assert problem.f.L / problem.f.mu == pytest.approx(1e5)
    assert (spectrum.s_max / spectrum.s_min) ** 2 == pytest.approx(1e4)
    assert spectrum.s_bar_max / spectrum.s_max == pytest.approx(0.11, abs=0.02)  # the paper says "about"


def test_system_identification_has_the_documented_objective():
    problem = system_identification(1, p=7, T=4, condition=1e3, penalty=5.0)
    S = disturbed_trajectory(np.random.default_rng(1), 7, 4, 0.7)
    X = np.random.default_rng(2).standard_normal((7, 7))
    residual = S[1:] - S[:-1] @ X.T
    x = X.T.ravel()  # the columns of X, one after the other
    assert np.allclose(problem.M.forward(x) - problem.b, residual.ravel())
    expected = problem.f.value(x) + 5.0 * np.linalg.norm(residual, axis=1).sum()
    assert problem.objective(x) == pytest.approx(expected)
    assert problem.f.L / problem.f.mu == pytest.approx(1e3)


def test_undisturbed_trajectory_obeys_a_system_of_unit_norm():
    S = disturbed_trajectory(np.random.default_rng(0), 30, 12, 0.0)
    X = np.linalg.lstsq(S[:-1], S[1:])[0]
    assert np.allclose(S[:-1] @ X, S[1:], atol=1e-8)
    lengths = np.linalg.norm(S, axis=1)
    assert (np.diff(lengths) <= 0).all()


def test_quadratic_programs_have_the_stated_spectra():
    for problem in (qp_l1(0), qp_inequality(0)):
        values = np.linalg.eigvalsh(problem.f.H)
        assert values[[0, -1]] == pytest.approx([1.0, 1000.0])
        assert (problem.f.mu, problem.f.L) == (1.0, 1000.0)
        assert problem.M.shape == (100, 300)
    whole = np.linalg.svd(qp_l1(0).M.matrix, compute_uv=False)
    assert whole[[-1, 0]] == pytest.approx([1.0, 1000.0])
    for part in np.split(qp_inequality(0).M.matrix, 2):
        assert np.linalg.svd(part, compute_uv=False)[[-1, 0]] == pytest.approx([1.0, 1000.0])


def test_inequalities_are_active_and_inactive_as_chosen():
    problem = qp_inequality(0)
    slack = problem.b - problem.M.forward(problem.x_star)
    assert np.allclose(slack[:50], 0.0, atol=1e-9)
    assert (slack[50:] > 0).all()
    assert (problem.y_star[:50] > 0).all()
    assert not problem.y_star[50:].any()


def test_group_reference_agrees_with_the_interior_point_and_has_both_kinds_of_groups(tmp_path):
    kinds = set()
    for penalty in (0.5, 2.0, 1000.0):
        problem = system_identification(0, p=10, T=5, condition=1e4, penalty=penalty)
        structure = GroupNorms(problem)
        rough = structure.cone_program()[0].ravel()
        exact = reference(problem, cache=tmp_path)
        assert np.allclose(rough, exact.x_star, atol=1e-5)
        assert residuals(exact) < 1e-10
        kinds |= set(np.isclose(np.linalg.norm(exact.y_star.reshape(5, 10), axis=1), penalty))
    assert kinds == {True, False}


def test_polish_recovers_from_a_wrong_guess_of_the_groups():
    problem = system_identification(0, p=10, T=5, condition=1e3, penalty=5.0)
    structure = GroupNorms(problem)
    x, y = structure.cone_program()
    # with shorter multipliers one of the two violated groups looks fitted
    x, y = structure.polish(x, 0.97 * y, 1e-10)
    assert residuals(problem.with_solution(x.ravel(), y.ravel())) < 1e-10


def test_reference_agrees_with_a_method_it_is_independent_of(tmp_path):
    problem = reference(qp_l1(0, m=30, n=10, s_max=10.0, L=10.0), cache=tmp_path)
    result = dapd.solve(problem, "y-dapd", tol=1e-11)
    assert result.converged
    assert np.allclose(result.x, problem.x_star, atol=1e-8)


def test_reference_is_stored_by_content_and_checked_when_read(tmp_path, monkeypatch):
    problem = qp_l1(0, m=30, n=10)
    solved = reference(problem, cache=tmp_path)
    [kept] = tmp_path.glob("references/*.npz")
    monkeypatch.setattr("dapd.paper.experiments.references._solve", lambda *_: pytest.fail("solved again"))
    assert np.array_equal(reference(qp_l1(0, m=30, n=10), cache=tmp_path).x_star, solved.x_star)
    monkeypatch.undo()
    for spoilt in (b"cut short", kept.read_bytes()[:-40]):
        kept.write_bytes(spoilt)
        assert np.array_equal(reference(problem, cache=tmp_path).x_star, solved.x_star)
    store.save(kept, solved.x_star + 1.0, solved.y_star)  # a wrong solution is detected
    assert np.array_equal(reference(problem, cache=tmp_path).x_star, solved.x_star)
    store.save(kept, solved.x_star[:5], solved.y_star)
    assert np.array_equal(reference(problem, cache=tmp_path).x_star, solved.x_star)


def test_cache_directory_can_be_chosen(tmp_path, monkeypatch):
    monkeypatch.setenv("DAPD_CACHE_DIR", str(tmp_path))
    assert store.path(qp_l1(0, m=30, n=10)).parent == tmp_path / "references"
    monkeypatch.delenv("DAPD_CACHE_DIR")
    assert store.directory().name == "dapd"


BAD = {
    "T must be <= p": lambda: system_identification(p=3, T=4),
    "disturbed must be a probability": lambda: system_identification(disturbed=1.5),
    "penalty must be > 0": lambda: system_identification(penalty=0.0),
    "n must be <= m": lambda: qp_l1(m=5, n=6),
    "active \\+ inactive must be <= m": lambda: qp_inequality(m=5, active=3, inactive=3),
    "L must be >= 1": lambda: qp_l1(L=0.5),
    "s_min must be > 0": lambda: qp_inequality(s_min=0.0),
    "no independent reference": lambda: reference(
        dapd.Problem(dapd.PseudoHuber(0.1), np.eye(2, 3), [1, 1], dapd.NonNegative())
    ),
    "group_norms solves PseudoHuber": lambda: reference(
        dapd.Problem(dapd.PseudoHuber(0.1), np.eye(2, 3), [1, 1], dapd.GroupBall(1.0, 2))
    ),
    "bounded_residual solves a dense Quadratic": lambda: reference(
        dapd.Problem(dapd.PseudoHuber(0.1), np.eye(2, 3), [1, 1], dapd.L1(1.0))
    ),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_input_is_named(message):
    with pytest.raises(ValueError, match=message):
        BAD[message]()


def test_a_reference_that_misses_its_tolerance_is_an_error(tmp_path):
    with pytest.raises(ArithmeticError, match="did not reach"):
        reference(qp_l1(0, m=30, n=10), tol=1e-30, cache=tmp_path)


def test_missing_clarabel_is_an_error_that_says_so(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "clarabel", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'dapd\[experiments\]'"):
        reference(qp_l1(0, m=30, n=10), cache=tmp_path)
