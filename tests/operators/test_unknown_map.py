"""A kind of M that nobody knows, with `forward` and `adjoint` alone, is solved by everything that can use products."""

import numpy as np
import pytest
from instances import quadratic_problem

import dapd


class Hidden(dapd.Operator):
    """A matrix that only its products show; its attributes have names that others might ask for."""

    def __init__(self, entries):
        self.matrix, self.operators, self.start, self.blocks = None, entries, 7, entries
        self.shape, self.dtype = entries.shape, entries.dtype

    def forward(self, x):
        """Mx."""
        return self.operators @ x

    def adjoint(self, y):
        """Mᵀy."""
        return self.operators.T @ y


PHIS = {"zero": dapd.Zero(), "nonnegative": dapd.NonNegative(), "l1": dapd.L1(0.4), "ball": dapd.GroupBall(0.5, 2)}


def hidden_problem(phi, wrap=Hidden):
    known = quadratic_problem(phi)
    return dapd.Problem(known.f, wrap(known.M.dense()), known.b, phi, x_star=known.x_star)


def halves(entries):
    return dapd.RowBlocks([Hidden(entries[:2]), entries[2:]])


@pytest.mark.parametrize("phi", PHIS.values(), ids=PHIS)
@pytest.mark.parametrize("wrap", [Hidden, halves], ids=["alone", "in a stack"])
@pytest.mark.parametrize(
    ("method", "engine"), [("auto", "auto"), ("x-dapd", "auto"), ("y-dapd", "python"), ("y-dapd", "jax")]
)
def test_an_unknown_map_is_solved(phi, wrap, method, engine):
    problem = hidden_problem(phi, wrap)
    result = dapd.solve(problem, method, engine=engine, tol=1e-8)
    assert result.converged
    assert abs(result.x - problem.x_star).max() < 1e-6


@pytest.mark.parametrize("engine", ["auto", "jax"])
def test_an_unknown_map_is_solved_in_a_batch(engine):
    problem = hidden_problem(dapd.NonNegative())
    results = dapd.solve_batch(problem, b=np.stack([problem.b, problem.b]), engine=engine, tol=1e-8)
    assert all(result.converged and abs(result.x - problem.x_star).max() < 1e-6 for result in results)


def test_the_native_engine_names_an_unknown_map():
    with pytest.raises(dapd.CannotRun, match=r"M has Hidden\(.*whose products are only available in Python"):
        dapd.solve(hidden_problem(dapd.Zero()), "y-dapd", engine="native")
