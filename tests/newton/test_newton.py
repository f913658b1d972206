"""Second-order steps: prox and derivatives by rows, the systems, and Newton itself on problems built backwards."""

from itertools import islice

import numpy as np
import pytest
import scipy.sparse as sp
from instances import COLUMNS, PHIS, ROWS, dual_pair, hessian
from scipy.sparse.linalg import aslinearoperator

import dapd
from dapd.certificate.certify import certify
from dapd.kinds.table import Table
from dapd.newton.matrices import TooExpensive, slacks_of, split
from dapd.newton.newton import Newton
from dapd.newton.parts import Curvature, Unsuitable, ruiz
from dapd.newton.systems import DualSystem, NormalSystem, SparseSystem
from dapd.newton.weights import Groups, weigh

ALL_PHIS = PHIS | {
    "ball constraint": dapd.Conjugate(dapd.GroupBall(0.8, 3)),
    "mixed": dapd.Stack([dapd.GroupBall(0.8, 2), dapd.NonNegative(), dapd.Box(-0.5, 0.5)], sizes=[2, 2, 2]),
}
STEPS = 3.0 ** np.linspace(-1, 1, ROWS)


def rows_of(phi):
    return Table.of(phi, ROWS)


def functions(rng):
    """Every built-in f, also without strong convexity."""
    tall, labels = rng.standard_normal((14, COLUMNS)), rng.choice([-1.0, 1.0], 14)
    half = COLUMNS // 2
    return {
        "diagonal": dapd.Quadratic(np.linspace(0.0, 3.0, COLUMNS), rng.standard_normal(COLUMNS)),
        "dense": dapd.Quadratic(hessian(rng, 100.0), rng.standard_normal(COLUMNS)),
        "sparse": dapd.Quadratic(sp.csr_array(np.diag(np.arange(1.0, COLUMNS + 1)) + 0.1), np.ones(COLUMNS)),
        "least squares": dapd.LeastSquares(tall[:4], rng.standard_normal(4)),
        "logistic": dapd.Logistic(tall, labels, 0.1),
        "pseudo-Huber": dapd.PseudoHuber(0.2),
        "separable": dapd.Separable(
            [dapd.LeastSquares(sp.csr_array(tall[:, :half]), np.ones(14)), dapd.PseudoHuber(0.5)],
            sizes=[half, COLUMNS - half],
        ),
    }


FUNCTIONS = list(functions(np.random.default_rng(0)))


def backwards(f, phi, rng, form=np.asarray):
    """A problem that (x*, y*) solves: Mᵀy* = −∇f(x*) by a change of rank one of a random M."""
    x, (y, g) = rng.standard_normal(COLUMNS), dual_pair(phi, rng, ROWS)
    while not y.any():
        y, g = dual_pair(phi, rng, ROWS)
    M = rng.standard_normal((ROWS, COLUMNS))
    M -= np.outer(y, M.T @ y + f.grad(x)) / (y @ y)
    return dapd.Problem(f, form(M), M @ x - g, phi, x_star=x, y_star=y)


def least_error(problem, x, y, *, looks=60, enough=1e-9):
    """The best error within a number of proximal steps from (x, y)."""

    def judge(x, y):
        return certify(problem, x, y).error

    error = np.inf
    for look in islice(filter(None, Newton(problem).run(x, y, judge)), looks):
        assert judge(look.x, look.y) == look.error
        assert look.error <= error
        error = look.error
        if error <= enough:
            break
    return error


# rows


def prox(rows, v, steps):
    return rows.prox_and_derivative(v, steps)[0]


@pytest.mark.parametrize("phi", ALL_PHIS)
def test_prox_by_rows_is_that_of_phi(phi):
    rng = np.random.default_rng(0)
    rows = rows_of(ALL_PHIS[phi])
    for size in (0.1, 1.0, 10.0):
        v = size * rng.standard_normal(ROWS)
        for step in (0.3, 1.0, 7.0):
            np.testing.assert_allclose(prox(rows, v, np.full(ROWS, step)), ALL_PHIS[phi].prox(v, step), atol=1e-14)
        # one step per row, pooled if rows belong together
        steps = rows.averaged(STEPS)
        p = prox(rows, v, steps)
        np.testing.assert_allclose(prox(rows, p + (v - p), steps), p, atol=1e-14)
        g = (v - p) / steps  # ∈ ∂φ(p), so p is the prox at any other step too
        np.testing.assert_allclose(ALL_PHIS[phi].prox(p + 2.0 * g, 2.0), p, atol=1e-13)


@pytest.mark.parametrize("phi", ALL_PHIS)
def test_derivative_of_the_prox_is_that_of_finite_differences(phi):
    rng = np.random.default_rng(1)
    rows = rows_of(ALL_PHIS[phi])
    steps = rows.averaged(STEPS)
    for size in (0.1, 1.0, 10.0):
        v, direction = size * rng.standard_normal(ROWS), rng.standard_normal(ROWS)
        found = rows.prox_and_derivative(v, steps)[1]
        D = np.diag(found.across)
        if rows.members.size:
            for k, start in enumerate(rows.starts):
                of_group = np.flatnonzero(rows.owner == k)
                at, unit = rows.members[of_group], found.unit[of_group]
                assert of_group[0] == start
                D[np.ix_(at, at)] += (found.along[k] - found.across[at[0]]) * np.outer(unit, unit)
        h = 1e-7 * size
        numeric = (prox(rows, v + h * direction, steps) - prox(rows, v - h * direction, steps)) / (2 * h)
        np.testing.assert_allclose(D @ direction, numeric, atol=1e-6)
        eigenvalues = np.linalg.eigvalsh(D)
        assert eigenvalues.min() >= -1e-12
        assert eigenvalues.max() <= 1 + 1e-12


@pytest.mark.parametrize("phi", ALL_PHIS)
def test_piece_is_the_prox_nearby(phi):
    rng = np.random.default_rng(2)
    rows = rows_of(ALL_PHIS[phi])
    steps = rows.averaged(STEPS)
    v = 2.0 * rng.standard_normal(ROWS)
    near = rows.piece(v, steps, rows.prox_and_derivative(v, steps)[1])
    for shift in (0.0, 1e-6, -1e-6):
        np.testing.assert_allclose(near(v + shift), prox(rows, v + shift, steps), atol=1e-13)


@pytest.mark.parametrize("phi", ALL_PHIS)
def test_project_is_that_of_phi(phi):
    y = 3.0 * np.random.default_rng(3).standard_normal(ROWS)
    np.testing.assert_allclose(rows_of(ALL_PHIS[phi]).project(y), ALL_PHIS[phi].project(y), atol=1e-14)


@pytest.mark.parametrize("phi", ALL_PHIS)
def test_scaled_rows_have_the_scaled_prox(phi):
    # rows e·M and f·cost: ŷ = cost·y/e, so its prox at steps σ̂ is that of y at σ = σ̂·e²/cost
    rng = np.random.default_rng(4)
    rows = rows_of(ALL_PHIS[phi])
    e, cost, steps = rows.averaged(2.0 ** rng.uniform(-2, 2, ROWS)), 3.7, rows.averaged(STEPS)
    v = 2.0 * rng.standard_normal(ROWS)
    found = prox(rows.scaled(e, cost), cost * v / e, steps)
    np.testing.assert_allclose(e * found / cost, prox(rows, v, steps * e * e / cost), atol=1e-13)


# f


@pytest.mark.parametrize("name", FUNCTIONS)
def test_curvature_has_the_gradient_and_the_hessian_of_f_also_scaled(name):
    rng = np.random.default_rng(5)
    f = functions(rng)[name]
    curvature = Curvature(f.parts(COLUMNS))
    d, cost = 2.0 ** rng.uniform(-2, 2, COLUMNS), 0.3
    x, direction, h = rng.standard_normal(COLUMNS), rng.standard_normal(COLUMNS), 1e-6
    for own, columns, factor in ((curvature, np.ones(COLUMNS), 1.0), (curvature.scaled(d, cost), d, cost)):
        image, image_of_d = own.A @ x, own.A @ direction
        np.testing.assert_allclose(own.gradient(x, image), factor * columns * f.grad(columns * x), atol=1e-12)
        hessian_of_d = own.times(direction) + own.A.T @ (own.curvatures(image) * image_of_d)
        ahead, behind = (columns * f.grad(columns * (x + t * direction)) for t in (h, -h))
        np.testing.assert_allclose(hessian_of_d, factor * (ahead - behind) / (2 * h), rtol=1e-6, atol=1e-6)
        first, second = own.along(x, image, direction, image_of_d)(0.7)
        at = x + 0.7 * direction
        assert first == pytest.approx(direction @ own.gradient(at, own.A @ at))
        if own.quadratic:
            assert second == pytest.approx(direction @ hessian_of_d)


# systems


def system_of(kind, P, matrix, phi, rng):
    """A system with random weights of losses and rows; with it h, and T as a matrix."""
    losses = 3
    rows = rows_of(phi)
    groups = Groups(losses + rows.members, rows.starts, rows.owner)
    keep = np.zeros(losses + ROWS, bool)
    keep[groups.rows] = True
    h, steps = rng.uniform(0.1, 1.0, COLUMNS), rows.averaged(STEPS)
    derivative = rows.prox_and_derivative(2.0 * rng.standard_normal(ROWS), steps)[1]
    weights = weigh(rng.uniform(0.0, 2.0, losses), derivative, steps, rows, groups)
    system = kind(P, split(matrix, keep), groups)
    system.factor(h, weights)
    return system, h, weights.times(np.eye(losses + ROWS))


@pytest.mark.parametrize("phi", ["interval", "box", "uneven group ball", "ball constraint", "mixed"])
@pytest.mark.parametrize("form", ["dense", "sparse"])
@pytest.mark.parametrize("kind", [NormalSystem, DualSystem, SparseSystem])
def test_systems_solve_their_equations(kind, form, phi):
    rng = np.random.default_rng(6)
    dense = rng.standard_normal((3 + ROWS, COLUMNS))
    if form == "sparse":
        dense[rng.uniform(size=dense.shape) < 0.6] = 0.0
        dense[[1, 4, 6]] = 0.0
        dense[[1, 4, 6], [2, 2, 5]] = rng.standard_normal(3)  # rows with one entry
    curved = rng.uniform(0.0, 1.0, COLUMNS)
    forms = [curved] if kind is DualSystem else [curved, hessian(rng, 10.0), sp.csr_array(hessian(rng, 10.0))]
    for P in forms:
        matrix = sp.csr_array(dense) if form == "sparse" else dense
        system, h, T = system_of(kind, P, matrix, ALL_PHIS[phi], rng)
        whole = np.diag(P) if P.ndim == 1 else P.toarray() if sp.issparse(P) else P
        B = T @ dense
        K = np.block([[whole + np.diag(h), B.T], [B, -np.eye(3 + ROWS)]])
        for _ in range(2):
            r, q = rng.standard_normal(COLUMNS), rng.standard_normal(3 + ROWS)
            np.testing.assert_allclose(
                np.concatenate(system.solve(r, q)), np.linalg.solve(K, np.concatenate([r, -q])), atol=1e-10
            )


@pytest.mark.parametrize("phi", ["box", "mixed"])
@pytest.mark.parametrize("kind", [NormalSystem, DualSystem, SparseSystem])
def test_columns_with_one_entry_are_eliminated(kind, phi):
    rng = np.random.default_rng(8)
    count = 3 + ROWS
    slack = np.arange(COLUMNS - 5, COLUMNS)
    dense = rng.standard_normal((count, COLUMNS))
    dense[:, slack] = 0.0
    dense[[0, 1, 1, 7, 8], slack] = rng.standard_normal(5)  # two in one row, two in the last rows, which are boxes
    curved = rng.uniform(0.5, 1.0, COLUMNS)
    coupled = np.diag(curved)
    coupled[1, slack[0]] = coupled[slack[0], 1] = 0.1  # no slack column, since P couples it
    for P, expected in [(curved, slack)] + [(sp.csr_array(coupled), slack[1:])] * (kind is not DualSystem):
        system, h, T = system_of(kind, P, sp.csr_array(dense), ALL_PHIS[phi], rng)
        np.testing.assert_array_equal(np.sort(system.slacks.columns), expected)
        whole = np.diag(P) if P.ndim == 1 else P.toarray()
        B = T @ dense
        K = np.block([[whole + np.diag(h), B.T], [B, -np.eye(count)]])
        r, q = rng.standard_normal(COLUMNS), rng.standard_normal(count)
        np.testing.assert_allclose(
            np.concatenate(system.solve(r, q)), np.linalg.solve(K, np.concatenate([r, -q])), atol=1e-10
        )


def test_rows_of_groups_keep_their_columns():
    matrix = sp.csr_array(np.eye(3, 5) + np.eye(3, 5, k=2))
    found = slacks_of(np.ones(5), matrix, np.array([1, 2]))
    np.testing.assert_array_equal(found.columns, [0])
    np.testing.assert_array_equal(found.matrix.toarray(), matrix.toarray()[:, 1:])


def test_sparse_system_is_factorised_again_on_the_same_pattern():
    rng = np.random.default_rng(7)
    matrix = sp.csr_array(rng.standard_normal((3 + ROWS, COLUMNS)))
    system, _, _ = system_of(SparseSystem, np.ones(COLUMNS), matrix, ALL_PHIS["mixed"], rng)
    rows = rows_of(ALL_PHIS["mixed"])
    first = system.factors
    for seed in range(3):
        own = np.random.default_rng(seed)
        derivative = rows.prox_and_derivative(3.0 * own.standard_normal(ROWS), rows.averaged(STEPS))[1]
        groups = Groups(3 + rows.members, rows.starts, rows.owner)
        weights = weigh(own.uniform(0.0, 2.0, 3), derivative, rows.averaged(STEPS), rows, groups)
        h = own.uniform(0.1, 1.0, COLUMNS)
        system.factor(h, weights)
        assert system.factors is first
        B = weights.times(np.eye(3 + ROWS)) @ matrix.toarray()
        r = own.standard_normal(COLUMNS)
        d, _ = system.solve(r, np.zeros(3 + ROWS))
        np.testing.assert_allclose(np.diag(1 + h) @ d + B.T @ (B @ d), r, atol=1e-10)


# scaling


def test_scaling_brings_entries_of_bad_data_to_about_one():
    rng = np.random.default_rng(8)
    M = rng.standard_normal((ROWS, COLUMNS)) * 10.0 ** rng.uniform(-4, 4, ROWS)[:, None]
    f = dapd.Quadratic(10.0 ** rng.uniform(-2, 2, COLUMNS))
    for form in (np.asarray, sp.csr_array):
        d, e, cost = ruiz(Curvature(f.parts(COLUMNS)), form(M), rows_of(PHIS["interval"]))
        assert cost > 0
        scaled = abs(e[:, None] * M * d)
        assert scaled.max(axis=1).min() > 0.1
        assert scaled.max() < 10
        e = ruiz(Curvature(f.parts(COLUMNS)), form(M), rows_of(PHIS["group ball"])).rows
        np.testing.assert_allclose(e[::2], e[1::2])


@pytest.mark.parametrize("phi", ALL_PHIS)
def test_scaling_is_undone_exactly(phi):
    # the solution of the given problem is a fixed point of the steps, which are taken in other units
    rng = np.random.default_rng(9)
    f = dapd.Quadratic(10.0 ** rng.uniform(-2, 2, COLUMNS), rng.standard_normal(COLUMNS))
    problem = backwards(f, ALL_PHIS[phi], rng)
    x, y = problem.x_star, problem.y_star
    look = next(Newton(problem).run(x, y, lambda x, y: certify(problem, x, y).error))
    assert look.error < 1e-10
    np.testing.assert_allclose(look.x, x, rtol=1e-9, atol=1e-9)


# Newton


@pytest.mark.parametrize("phi", ALL_PHIS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_newton_solves_every_f_with_every_phi_from_any_start(name, phi):
    rng = np.random.default_rng(FUNCTIONS.index(name))
    for form, size in ((np.asarray, 1e3), (sp.csr_array, 0.0)):
        problem = backwards(functions(rng)[name], ALL_PHIS[phi], rng, form)
        start = size * rng.standard_normal(COLUMNS), size * rng.standard_normal(ROWS)
        assert least_error(problem, *start) <= 1e-9


def test_newton_reaches_rounding():
    rng = np.random.default_rng(10)
    for phi in ("nonnegative", "interval", "l1"):
        problem = backwards(dapd.Quadratic(hessian(rng, 100.0), np.ones(COLUMNS)), PHIS[phi], rng)
        assert least_error(problem, np.zeros(COLUMNS), np.zeros(ROWS), enough=1e-13) <= 1e-12


def test_newton_keeps_to_its_limits():
    rng = np.random.default_rng(11)
    problem = backwards(dapd.PseudoHuber(1e-3), PHIS["interval"], rng)
    newton = Newton(problem)
    newton.most_factorizations = 3
    start = 1e3 * rng.standard_normal(COLUMNS), np.zeros(ROWS)
    for _ in islice(newton.run(*start, lambda x, y: 1.0), 4):
        assert newton.factorizations <= 3
    assert not list(newton.run(*start, lambda x, y: 1.0, deadline=0.0))


def test_newton_says_why_it_cannot():
    M = np.eye(ROWS, COLUMNS)
    own = dapd.Smooth(lambda x: x @ x / 2, lambda x: x, 1.0, 1.0)
    with pytest.raises(Unsuitable, match="f is only available in Python"):
        Newton(dapd.Problem(own, M, np.zeros(ROWS)))
    f = dapd.Quadratic(aslinearoperator(np.eye(COLUMNS)), mu=1.0, L=1.0)
    with pytest.raises(Unsuitable, match="LinearOperator"):
        Newton(dapd.Problem(f, M, np.zeros(ROWS)))
    with pytest.raises(TooExpensive, match="would take more than"):
        Newton(dapd.Problem(dapd.PseudoHuber(1.0), M, np.zeros(ROWS)), seconds=1e-9)
