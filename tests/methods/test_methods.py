"""Fast forms against those of the papers, counts of the oracle, and the same signs for all methods."""

from itertools import islice

import numpy as np
import pytest
from counting import Counting
from instances import PHIS, matrix, quadratic_problem
from textbook import METHODS as TEXTBOOK
from textbook import PAIRS, pd3o

import dapd

STEPS = 500


def close(a, b, tol=1e-10):
    return np.linalg.norm(a - b) <= tol * max(np.linalg.norm(b), 1e-3)


def by_the_book(name, problem, parameters, x, y):
    book = TEXTBOOK[name]
    return book(parameters, problem.f.grad, problem.M.matrix, problem.b, problem.phi.prox, x, y)


@pytest.mark.parametrize(("name", "phi"), PAIRS)
def test_fast_form_equals_textbook(name, phi):
    problem = quadratic_problem(PHIS[phi], kappa=100.0, ratio=10.0)
    rng = np.random.default_rng(5)
    x0, y0 = rng.standard_normal(problem.columns), PHIS[phi].prox(rng.standard_normal(problem.rows), 1.0)
    method = dapd.METHODS[name].from_theory(problem, x0=x0, y0=y0)
    book = by_the_book(name, problem, method.parameters, x0, y0)
    for state, (x, y) in zip(islice(method, STEPS + 1), book, strict=False):
        fast_x, fast_y = method.point(state)
        assert close(fast_x, x)
        assert close(fast_y, y)


def test_papc_is_pd3o_without_a_primal_prox():
    problem = quadratic_problem(PHIS["l1"])
    method = dapd.METHODS["papc"].from_theory(problem)
    p = method.parameters
    splitting = pd3o(
        p.t, p.s, problem.f.grad, problem.M.matrix, problem.b, problem.phi.prox, lambda z, t: z, method.x0, method.y0
    )
    for state, (x, y) in zip(islice(method, STEPS), splitting, strict=False):
        assert close(state.x, x)
        assert close(state.y, y)


@pytest.mark.parametrize(("name", "phi"), PAIRS)
def test_every_method_finds_the_known_solution_with_its_signs(name, phi):
    problem = quadratic_problem(PHIS[phi], seed=3)
    result = dapd.solve(problem, name, tol=1e-10, max_iterations=200_000)
    assert result.converged
    assert close(result.x, problem.x_star, 1e-7)
    assert close(result.y, problem.y_star, 1e-7)


@pytest.mark.parametrize("name", TEXTBOOK)
def test_one_gradient_and_one_product_each_way_per_iteration(name):
    rng = np.random.default_rng(0)
    operator = Counting(matrix(rng, 5.0))
    calls = 0

    def grad(x):
        nonlocal calls
        calls += 1
        return 2.0 * x

    problem = dapd.Problem(dapd.Smooth(lambda x: x @ x, grad, 2.0, 2.0), operator, rng.standard_normal(6))
    method = dapd.METHODS[name].from_theory(problem, spectrum=dapd.Spectrum(1.0, 0.2))
    per_step = method.iterations_per_step
    assert per_step == (method.parameters.N if name == "capd" else 1)
    state = method.init()
    assert (operator.forward, operator.backward, calls) == (0, 0, 0)
    method.run(state, 40)
    assert (operator.forward, operator.backward, calls) == (40 * per_step, 40 * per_step, 40)
    assert (method.oracle.products, method.oracle.gradients) == (80 * per_step, 40)


@pytest.mark.parametrize("name", TEXTBOOK)
def test_result_counts_what_the_method_spent(name):
    problem = quadratic_problem(dapd.Zero())
    result = dapd.solve(problem, name, tol=0, max_iterations=100)
    per_step = result.parameters.N if name == "capd" else 1
    assert result.iterations == 100 - 100 % per_step
    assert result.products == 2 * result.iterations
    assert result.gradients * per_step == result.iterations


def test_method_for_equations_rejects_another_phi_and_names_methods_that_accept_it():
    with pytest.raises(ValueError, match=r"needs phi = Zero\(\), found NonNegative.*apapc.*y-dapd"):
        dapd.solve(quadratic_problem(dapd.NonNegative()), "capd")
