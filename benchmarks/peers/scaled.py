"""Generated problems in random units, and how accurate an answer is."""

from __future__ import annotations

from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

import dapd
from dapd.functions import Composite
from dapd.functions.terms import Part
from dapd.presolve.maps import scaled_map
from dapd.presolve.terms import parts_of, scaled_function
from peers import draw, generated
from peers import model as m
from peers.extended import definition
from peers.with_dapd import problem_of

TOL = 1e-6
FINE = 1e-8  # for pairs: an error of TOL may move x by 1e-3, as ill-conditioned as they are
LIMIT = 10.0  # seconds per solve
ROUNDING = 1e-11  # between a certificate in float64 and in extended precision
LEAST, GREATEST = 1e-12, 1e12  # of all data that are not zero
WIDEST = 20  # factors of rows and columns are 2^−20 to 2^20, if the data then stay in that range
# of solves, in turns
OPTIONS: tuple[dict[str, Any], ...] = ({}, {"direct": False}, {"engine": "native"}, {}, {"engine": "python"})


class Scales(NamedTuple):
    """Powers of two: x = columns·x̂, rows of M and b times `rows`, objective times `objective`."""

    rows: Any
    columns: Any
    objective: float


class Verdict(NamedTuple):
    """How a solve ended, and how accurate its answer is."""

    name: str
    status: str
    error: float  # of the certificate, recomputed from the definition
    objective: float  # distance from the known one, relative to its terms
    seconds: float
    faults: list[str]


class Pair(NamedTuple):
    """Two solves of one problem in different units."""

    statuses: tuple[str, str]
    difference: float  # of x in the same units, relative to max|x|


def scaled(problem: dapd.Problem, scales: Scales) -> dapd.Problem:
    """The same problem in other units; the objective is scaled only if f is made of squares."""
    rows, columns, objective = scales
    phi, M, b = problem.phi, problem.M, problem.b
    if problem.rows:
        table = problem.phi_table
        phi = table.scaled(rows, objective).phi()
        M, b = scaled_map(M, rows, columns), rows * b
    f = scaled_function(problem, parts_of(problem), columns) if np.any(columns != 1) else problem.f
    if objective != 1:
        f = f.joined([multiplied(part, objective) for part in parts_of(problem.replaced(f=f))])
    bounds = None if problem.lower is None else (problem.lower / columns, problem.upper / columns)
    return dapd.Problem(f, M, b, phi, bounds=bounds, blocks=problem.blocks)


def multiplied(part: Part, factor: float) -> Composite:
    """A multiple of f, which is quadratic or a sum of squares."""
    terms, root = part.terms, factor**0.5
    new: dict[str, Any] = {"ridge": factor * terms.ridge}
    for name in ("H", "c"):
        old = getattr(terms, name)
        new[name] = None if old is None else factor * old
    if terms.loss is not None:
        new["A"] = scaled_map(terms.A, np.full(terms.A.shape[0], root), np.ones(terms.A.shape[1]))
        new["d"] = root * terms.d
    L = None if part.L is None else factor * part.L
    return Composite(terms._replace(**new), part.size, factor * part.mu, L)


def drawn_scales(rng: np.random.Generator, problem: dapd.Problem, exponent: int) -> Scales:
    """Random powers of two, ones where the problem cannot be written in other units."""

    def powers(size: int) -> Any:
        return 2.0 ** rng.integers(-exponent, exponent + 1, size)

    rows, columns, objective = powers(problem.rows), powers(problem.columns), float(powers(1)[0]) ** 2
    parts = parts_of(problem) or []
    if problem.rows and problem.M.probes:  # only products are known
        rows, columns = np.ones(problem.rows), np.ones(problem.columns)
    if not all(part.terms.is_scalable and (part.terms.loss is None or part.terms.A is not None) for part in parts):
        columns = np.ones(problem.columns)
    if any(not part.terms.is_quadratic for part in parts):
        objective = 1.0
    table = problem.phi_table if problem.rows else None
    return Scales(rows if table is None else rows[table.unit], columns, objective)


def data_in_range(problem: dapd.Problem) -> bool:
    """Whether all numbers of a problem that are not zero are neither too small nor too large."""
    values = [problem.M.dense(), problem.b, *problem.bounds, *problem.phi.ends(problem.rows)]
    for part in parts_of(problem) or []:
        H = part.terms.H
        values += [H.toarray() if hasattr(H, "toarray") else H, part.terms.c, part.terms.d]
        values += [] if part.terms.A is None else [part.terms.A.dense()]
    sizes = abs(np.concatenate([np.ravel(v) for v in values if v is not None]))
    sizes = sizes[np.isfinite(sizes) & (sizes > 0)]
    return bool(np.all((sizes >= LEAST) & (sizes <= GREATEST)))


def in_random_units(rng: np.random.Generator, problem: dapd.Problem) -> tuple[dapd.Problem, Scales]:
    """The problem in units as different as the range of its data allows."""
    exponent = WIDEST
    while True:
        scales = drawn_scales(rng, problem, exponent)
        found = scaled(problem, scales)
        if exponent == 0 or data_in_range(found):
            return found, scales
        exponent = exponent * 3 // 4


def judge(seed: int) -> Verdict:
    """Solve a generated problem in random units, and measure its answer."""
    made = generated.feasible(seed)
    original = problem_of(made.model)
    problem, scales = in_random_units(np.random.default_rng(seed), original)
    options = OPTIONS[seed % len(OPTIONS)]
    name, began = f"{made.model.name} {options}", perf_counter()
    result = solved(problem, options)
    seconds = perf_counter() - began
    faults = []
    lower, upper = problem.bounds
    if not all(np.isfinite(v).all() for v in (result.x, result.y, result.certificate.error)):
        faults.append("NaN")
    if not np.all((lower <= result.x) & (result.x <= upper)):
        faults.append("outside the bounds")
    if result.status != "optimal":
        return Verdict(name, str(result.status), np.nan, np.nan, seconds, faults)
    error = definition(problem, result.x, result.y).error()
    if not error / 2 - ROUNDING <= result.certificate.error <= 2 * error + ROUNDING:  # a gap may be rounding itself
        faults.append(f"the certificate says {result.certificate.error:.6e}")
    known, terms = known_objective(original, made)
    away = abs(result.objective / scales.objective - known) / terms
    if not np.isfinite(away):
        faults.append("no objective")
    return Verdict(name, "optimal", error, away, seconds, faults)


def solved(problem: dapd.Problem, options: dict[str, Any], tol: float = TOL) -> dapd.Result:
    """The result; by NumPy if the core does not know M."""
    try:
        return dapd.solve(problem, tol=tol, time_limit=LIMIT, **options)
    except dapd.CannotRun:
        return dapd.solve(problem, tol=tol, time_limit=LIMIT, engine="python")


def known_objective(problem: dapd.Problem, made: generated.Solved) -> tuple[float, float]:
    """The least objective, and the size of its terms before they cancel."""
    x, f = made.x, problem.f.value(made.x)
    residual = problem.M.forward(x) - problem.b
    terms = abs(f) + abs(x) @ (abs(problem.f.grad(x)) + problem.slopes + abs(made.z)) + abs(made.y) @ abs(problem.b)
    return f + problem.phi.conjugate(problem.phi.project_conjugate(residual)), terms


def strongly_convex(rng: np.random.Generator) -> dapd.Problem:
    """A random problem with one solution, of moderate condition."""
    n = int(rng.integers(4, 30))
    rows = int(rng.integers(2, max(3, n // 2) + 1)) // 2 * 2
    M, x = rng.standard_normal((rows, n)), rng.standard_normal(n)
    parts = draw.drawn_parts(rng, str(rng.choice(generated.PARTS)), rows)
    y, g = draw.dual_pair(rng, parts)
    lower, upper, z = draw.spread_bounds(rng, x) if rng.random() < 0.5 else generated.free(n)
    Q, spectrum = draw.orthogonal(rng, n), np.geomspace(1.0, 10 ** -rng.uniform(0.0, 2.0), n)
    costs = {
        "diagonal": m.Quadratic(spectrum, np.zeros(n)),
        "dense": m.Quadratic((Q * spectrum) @ Q.T, np.zeros(n)),
        "squares": m.Squares(rng.standard_normal((2 * n, n)), np.zeros(2 * n), 0.1),
    }
    cost = draw.with_linear_term(costs[str(rng.choice(list(costs)))], x, M.T @ y + z)
    return problem_of(m.make("strongly convex", "feasible", cost, M, M @ x - g, parts, (lower, upper)))


def compare(seed: int) -> Pair:
    """Solve a strongly convex problem, and the same in random units."""
    rng = np.random.default_rng(seed)
    problem = strongly_convex(rng)
    other, scales = in_random_units(rng, problem)
    one, two = (solved(p, OPTIONS[seed % len(OPTIONS)], FINE) for p in (problem, other))
    difference = np.max(abs(one.x - scales.columns * two.x)) / np.max(abs(one.x))
    return Pair((str(one.status), str(two.status)), float(difference))
