"""Runs of restarts, and small linear programs."""

import itertools

import numpy as np

import dapd
from dapd.spectrum.estimate import estimate_norm
from dapd.ways.first_order import with_multipliers
from dapd.ways.restarts import restarts
from dapd.ways.tracks import Form

MANY = 300_000  # iterations


def judge_of(problem):
    """The greatest residual."""

    def judge(x, y):
        stationarity = problem.f.grad(x) + problem.M.adjoint(y)
        off = y - problem.phi.prox(y + problem.M.forward(x) - problem.b, 1.0)
        return float(max(abs(stationarity).max(initial=0.0), abs(off).max(initial=0.0)))

    return judge


def turns(problem, judge=None, *, s_max=None, s_min=None, start=None, **options):
    """Turns of both tracks: r²HPDHG takes bounds as they are, and the guesses take them as rows."""
    stacked = problem.stacked
    judge = judge or judge_of(stacked)
    s_max = s_max or 1.0001 * estimate_norm(problem.M).s_max
    s_stacked = s_max if stacked is problem else 1.0001 * estimate_norm(stacked.M).s_max

    def completed(x, y):
        return x, with_multipliers(problem, x, y)

    def anchored():
        return Form(
            problem, lambda x, y: judge(*completed(x, y)), s_max, s_min, lambda x, y: (x, y[: problem.rows]), completed
        )

    zero = np.zeros(stacked.columns), np.zeros(stacked.rows)
    guessed = Form(stacked, judge, s_stacked, s_min)
    return restarts(anchored, lambda: guessed, problem, start=zero if start is None else start, **options)


def run(problem, *, tol=1e-6, most=MANY, **options):
    """The turns until the best point is good enough, or there were so many iterations."""
    return list(itertools.takewhile(lambda turn: turn.iterations <= most, turns(problem, tol=tol, **options)))


def best_of(made):
    """The best point of all turns, in the variables that they share."""
    best = min((turn for turn in made), key=lambda turn: turn.best.error)
    return best.form.back(best.best.x, best.best.y)


def small_program(seed):
    """A linear program whose bounds and rows let x go about as far, in no particular units."""
    rng = np.random.default_rng(seed)
    rows, columns = rng.integers(1, 5), rng.integers(2, 9)
    M, c = rng.standard_normal((rows, columns)), rng.standard_normal(columns)
    return dapd.Problem(dapd.Quadratic(None, c), M, M @ rng.uniform(-1, 1, columns), dapd.L1(0.5), bounds=(-1.0, 1.0))
