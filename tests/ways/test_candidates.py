"""Candidates take part by existing, wherever their class stands, and let go of what they hold."""

import gc
import weakref

import numpy as np
import pytest

import dapd
from dapd.arguments import TimeUp
from dapd.engines.protocol import Engine
from dapd.ways.base import CANDIDATES, Candidate, Progress
from dapd.ways.named import Named


def problem():
    rng = np.random.default_rng(0)
    return dapd.Problem(dapd.Quadratic(np.ones(9), np.arange(9.0)), rng.random((6, 9)), np.ones(6), dapd.NonNegative())


@pytest.fixture
def asked():
    """A candidate of one's own that promises much and finds nothing."""
    made = []

    class Hopeful(Candidate):
        name, title = "hopeful", "a hopeful guess"

        @property
        def ran(self):
            return Engine("python")

        def estimate(self):
            return 1e-9

        def start(self):
            made.append(weakref.ref(self))
            self.search.judge(np.zeros(9), np.ones(6))
            yield Progress()

    yield made
    del CANDIDATES["hopeful"]


def test_a_candidate_from_outside_takes_part_and_others_solve_what_it_cannot(asked):
    result = dapd.solve(problem(), direct=False)
    assert len(asked) == 1
    assert result.converged
    assert result.method != "hopeful"
    assert "a hopeful guess" in result.message


def test_nothing_of_a_candidate_is_left_after_a_solve(asked):
    gc.collect()
    gc.disable()
    try:
        dapd.solve(problem(), direct=False)
        assert asked[0]() is None
    finally:
        gc.enable()


def test_time_that_is_up_before_there_is_a_point_gives_the_start(monkeypatch):
    def late(self):
        raise TimeUp

    monkeypatch.setattr(Named, "begin", late)
    result = dapd.solve(problem(), "papc")
    assert result.status == "time_limit"
    assert result.cause == "deadline"
    assert result.message == "The time limit passed during the set-up, so this is the start."


def test_no_form_is_kept_with_data_that_are_not_small():
    M, f = np.ones((5, 20)), dapd.LeastSquares(np.eye(2000, 20), np.ones(2000), 0.1)
    problem = dapd.Problem(f, M, np.ones(5), dapd.NonNegative())
    assert dapd.solve(problem).method == "clarabel"
    seen, map_of_rows = weakref.ref(f), problem.M
    del f, problem
    gc.collect()
    assert seen() is None
    assert map_of_rows.shape == (5, 20)
