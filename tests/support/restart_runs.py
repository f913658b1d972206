"""Runs of restarts, and small linear programs."""

import itertools

import numpy as np

import dapd
from dapd.spectrum.estimate import estimate_norm
from dapd.ways.restarts import restarts

MANY = 300_000  # iterations


def judge_of(problem):
    """The greatest residual."""

    def judge(x, y):
        stationarity = problem.f.grad(x) + problem.M.adjoint(y)
        off = y - problem.phi.prox(y + problem.M.forward(x) - problem.b, 1.0)
        return float(max(abs(stationarity).max(initial=0.0), abs(off).max(initial=0.0)))

    return judge


def run(problem, *, tol=1e-6, most=MANY, **options):
    s_max = estimate_norm(problem.M).s_max
    epochs = restarts(problem, judge_of(problem), s_max=s_max, tol=tol, **options)
    return list(itertools.takewhile(lambda epoch: epoch.iterations <= most, epochs))


def small_program(seed):
    """A linear program whose bounds and rows let x go about as far, in no particular units."""
    rng = np.random.default_rng(seed)
    rows, columns = rng.integers(1, 5), rng.integers(2, 9)
    M, c = rng.standard_normal((rows, columns)), rng.standard_normal(columns)
    return dapd.Problem(dapd.Quadratic(None, c), M, M @ rng.uniform(-1, 1, columns), dapd.L1(0.5), bounds=(-1.0, 1.0))
