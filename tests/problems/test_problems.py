"""dapd.problems: each call against the same formula in CVXPY, solved by Clarabel."""

import inspect

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
import scipy.stats
from scipy.optimize import isotonic_regression

import dapd
from dapd import problems
from dapd.problems.signal import differences

RNG = np.random.default_rng(0)
A, TALL = RNG.standard_normal((20, 30)), RNG.standard_normal((40, 6))
TRUTH = RNG.standard_normal(30) * (RNG.random(30) < 0.2)
D, TALL_D = A @ TRUTH + 0.1 * RNG.standard_normal(20), TALL @ np.arange(6.0) + RNG.standard_normal(40)
LABELS = np.where(TALL @ np.ones(6) + RNG.standard_normal(40) > 0, 1.0, -1.0)
C, CAPS = RNG.standard_normal((3, 6)), np.array([0.1, 0.2, 0.3])
IMAGE = RNG.standard_normal((7, 5)) + np.add.outer(np.arange(7) > 3, np.arange(5) > 2)
SIGNAL = np.cumsum(RNG.standard_normal(25))
EDGES = np.array([(0, 1), (1, 2), (2, 3), (3, 0), (0, 2), (3, 1)])
SUPPLY = np.array([1.0, 0.5, -0.7, -0.8])
FACTORS, SPECIFIC, MEAN = RNG.standard_normal((12, 3)), RNG.uniform(0.1, 0.5, 12), RNG.standard_normal(12)
PREVIOUS = np.full(12, 1 / 12)
DYNAMICS, INPUT = np.array([[1.0, 0.1], [0.0, 1.0]]), np.array([[0.0], [0.1]])
POINTS = RNG.standard_normal((9, 2))
HALF_PLANES = np.vstack([np.eye(2), -np.eye(2), [[1.0, 1.0]]])


def half_square(r):
    return 0.5 * cp.sum_squares(r)


def gradient_lengths(x):
    right = cp.vstack([x[1:] - x[:-1], np.zeros((1, x.shape[1]))])
    down = cp.hstack([x[:, 1:] - x[:, :-1], np.zeros((x.shape[0], 1))])
    return cp.sum(cp.norm(cp.vstack([cp.vec(right, order="C"), cp.vec(down, order="C")]), 2, axis=0))


def logistic_loss(x):
    return cp.sum(cp.logistic(cp.multiply(-LABELS, TALL @ x)))


def portfolio_cost(x, aversion=1.0):
    risk = cp.sum_squares(FACTORS.T @ x) + cp.sum(cp.multiply(SPECIFIC, x**2))
    return 0.5 * aversion * risk - MEAN @ x


def control(s, u):
    cost = sum(half_square(s[t] - [1.0, 0.0]) + 0.05 * cp.sum_squares(u[t]) for t in range(8))
    rules = [s[0] == [0.0, 0.0], cp.abs(u) <= 2.0, cp.abs(s[1:]) <= 0.7]
    rules += [s[t + 1] == DYNAMICS @ s[t] + INPUT @ u[t] for t in range(8)]
    return cost + 1.5 * cp.sum_squares(s[8] - [1.0, 0.0]), rules


CASES = {}


def compared(*shapes):
    """Register a function of CVXPY variables that returns a problem, its cost, its constraints and the answer."""

    def register(case):
        CASES[case.__name__] = case, shapes
        return case

    return register


@compared((6,))
def qp(x):
    P, q = TALL.T @ TALL, -np.arange(6.0)
    rules = [C @ x <= CAPS, C @ x >= -1, x >= -0.2]
    return problems.qp(P, q, C, -1.0, CAPS, lb=-0.2), half_square(TALL @ x) + q @ x, rules, x


@compared((6,))
def ridge(x):
    return (
        problems.ridge(TALL, TALL_D, 0.5, C=C, u=CAPS),
        half_square(TALL @ x - TALL_D) + 0.25 * cp.sum_squares(x),
        [C @ x <= CAPS],
        x,
    )


@compared((6,))
def ridge_equal(x):
    made = problems.ridge(sp.csr_array(TALL), TALL_D, C=C, l=CAPS, u=CAPS, bounds=(None, 3.0))
    return made, half_square(TALL @ x - TALL_D), [C @ x == CAPS, x <= 3], x


@compared((30,))
def nnls(x):
    return problems.nnls(A, D), half_square(A @ x - D), [x >= 0], None


@compared((30,))
def lasso(x):
    return problems.lasso(A, D, 0.7), half_square(A @ x - D) + 0.7 * cp.norm1(x), [], x


@compared((30,))
def weighted_lasso(x):
    weights = np.r_[0.0, np.full(29, 1.5)]
    return problems.lasso(A, D, weights), half_square(A @ x - D) + weights @ cp.abs(x), [], x


@compared((30,))
def elastic_net(x):
    return (
        problems.elastic_net(A, D, 0.7, 0.3),
        half_square(A @ x - D) + 0.7 * cp.norm1(x) + 0.3 * half_square(x),
        [],
        x,
    )


@compared((30,))
def group_lasso(x):
    penalty = 2.0 * cp.sum(cp.norm(cp.reshape(x, (10, 3), order="C"), 2, axis=1))
    return problems.group_lasso(A, D, 2.0, 3), half_square(A @ x - D) + penalty, [], x


@compared((6,))
def uneven_groups(x):
    made = problems.group_lasso(TALL, TALL_D, [30.0, 40.0], [slice(0, 2), slice(2, 6)])
    return made, half_square(TALL @ x - TALL_D) + 30 * cp.norm(x[:2]) + 40 * cp.norm(x[2:]), [], x


@compared((6,))
def logistic(x):
    made = problems.logistic(TALL, LABELS, 0.3, C=C, l=-CAPS, u=CAPS, bounds=(-1, 1))
    return made, logistic_loss(x) + 0.3 * half_square(x), [cp.abs(C @ x) <= CAPS, cp.abs(x) <= 1], x


@compared((6,))
def sparse_logistic(x):
    return problems.logistic(TALL, LABELS, l1=2.0), logistic_loss(x) + 2 * cp.norm1(x), [], x


@compared((6,))
def absolute(x):
    return problems.least_absolute_deviations(TALL, TALL_D), cp.norm1(TALL @ x - TALL_D), [], x


@compared((6,))
def quantile(x):
    r = TALL_D - TALL @ x
    return (
        problems.quantile(TALL, TALL_D, 0.8, 0.1),
        cp.sum(cp.maximum(0.8 * r, -0.2 * r)) + 0.1 * half_square(x),
        [],
        x,
    )


@compared((6,))
def huber(x):
    return problems.huber(TALL, TALL_D, 0.5), 0.5 * cp.sum(cp.huber(TALL @ x - TALL_D, 0.5)), [], x


@compared((6,))
def chebyshev_fit(x):
    return problems.chebyshev_fit(TALL, TALL_D), cp.norm_inf(TALL @ x - TALL_D), [], x


@compared((30,))
def basis_pursuit(x):
    return problems.basis_pursuit(A, D), cp.norm1(x), [A @ x == D], x


@compared((30,))
def noisy_basis_pursuit(x):
    made = problems.basis_pursuit(A, D, noise=0.1, weight=0.01)
    return made, cp.norm1(x) + 0.01 * half_square(x), [cp.abs(A @ x - D) <= 0.1], x


@compared((7, 5))
def total_variation(x):
    return problems.total_variation(IMAGE, 0.4), half_square(x - IMAGE) + 0.4 * gradient_lengths(x), [], x


@compared((7, 5))
def anisotropic(x):
    made = problems.total_variation(IMAGE, 0.4, isotropic=False, bounds=(0, 1))
    steps = cp.sum(cp.abs(x[1:] - x[:-1])) + cp.sum(cp.abs(x[:, 1:] - x[:, :-1]))
    return made, half_square(x - IMAGE) + 0.4 * steps, [x >= 0, x <= 1], x


@compared((7, 5))
def masked(x):
    mask = (np.arange(35) % 3 > 0).astype(float)
    made = problems.total_variation(IMAGE * mask.reshape(7, 5), 0.1, A=sp.diags_array(mask))
    misfit = half_square(cp.multiply(mask.reshape(7, 5), x - IMAGE))
    return made, misfit + 0.1 * gradient_lengths(x), [], None


@compared((25,))
def signal(x):
    return problems.total_variation(SIGNAL, 1.5), half_square(x - SIGNAL) + 1.5 * cp.norm1(cp.diff(x)), [], x


@compared((25,))
def trend(x):
    return problems.trend_filter(SIGNAL, 3.0), half_square(x - SIGNAL) + 3 * cp.norm1(cp.diff(x, 2)), [], x


@compared((25,))
def cubic_trend(x):
    made = problems.trend_filter(SIGNAL, 3.0, order=3)
    return made, half_square(x - SIGNAL) + 3 * cp.norm1(cp.diff(x, 3)), [], x


@compared((25,))
def isotonic(x):
    weights = 0.5 + np.arange(25) / 10
    made = problems.isotonic(SIGNAL, weights=weights, increasing=False)
    return made, 0.5 * weights @ (x - SIGNAL) ** 2, [cp.diff(x) <= 0], x


@compared((6,))
def svm(x):
    return (
        problems.svm(TALL, LABELS, 0.5),
        half_square(x) + 0.5 * cp.sum(cp.pos(1 - cp.multiply(LABELS, TALL @ x))),
        [],
        x,
    )


@compared((7,))
def svm_with_intercept(x):
    margins = cp.multiply(LABELS, TALL @ x[:6] + x[6])
    made = problems.svm(sp.csr_array(TALL), LABELS, intercept=True)
    return made, half_square(x[:6]) + cp.sum(cp.pos(1 - margins)), [], x


@compared((12,))
def portfolio(x):
    return (
        problems.portfolio(MEAN, FACTORS, SPECIFIC, aversion=2.0),
        portfolio_cost(x, 2.0),
        [cp.sum(x) == 1, x >= 0],
        x,
    )


@compared((12,))
def turnover(x):
    made = problems.portfolio(
        MEAN, FACTORS, SPECIFIC, bounds=(-0.1, 0.3), previous=PREVIOUS, trading_cost=0.4, budget=1.2
    )
    return made, portfolio_cost(x) + 0.4 * cp.norm1(x - PREVIOUS), [cp.sum(x) == 1.2, x >= -0.1, x <= 0.3], x


@compared((9, 2), (8, 1))
def mpc(s, u):
    made = problems.mpc(
        DYNAMICS,
        INPUT,
        np.ones(2),
        [[0.1]],
        horizon=8,
        start=[0.0, 0.0],
        final=3 * np.eye(2),
        target=[1.0, 0.0],
        state_bounds=(-0.7, [0.7, 0.7]),
        input_bounds=(-2.0, 2.0),
    )
    cost, rules = control(s, u)
    goal = 0.5 * (8 + 3.0)  # the constant ½rᵀQr of all stages
    return made, cost - goal, rules, cp.hstack([cp.vec(s, order="C"), cp.vec(u, order="C")])


@compared((6,))
def flow(x):
    cost, curvature = np.arange(6.0), 1 + np.arange(6.0)
    made = problems.flow(EDGES, SUPPLY, cost=cost, curvature=curvature, capacity=(0.0, 0.8))
    rules = [x >= 0, x <= 0.8]
    for node in range(4):
        out, into = np.flatnonzero(EDGES[:, 0] == node), np.flatnonzero(EDGES[:, 1] == node)
        rules.append(cp.sum(x[out]) - cp.sum(x[into]) == SUPPLY[node])
    return made, cost @ x + 0.5 * curvature @ x**2, rules, x


@compared((4, 5))
def transport(x):
    cost = np.subtract.outer(np.linspace(0, 1, 4), np.linspace(0, 1, 5)) ** 2
    source, target = np.full(4, 0.25), np.full(5, 0.2)
    rules = [x >= 0, cp.sum(x, axis=1) == source, cp.sum(x, axis=0) == target]
    return problems.transport(cost, source, target, 0.1), cp.sum(cp.multiply(cost, x)) + 0.1 * half_square(x), rules, x


@compared((3,))
def consensus(x):
    pieces = [(RNG.standard_normal((2, 3)), RNG.standard_normal(2)) for _ in range(4)]
    made = problems.consensus([dapd.LeastSquares(B, d, 0.1) for B, d in pieces], EDGES)
    cost = sum(half_square(B @ x - d) + 0.1 * half_square(x) for B, d in pieces)
    return made, cost, [], cp.hstack([x, x, x, x])


@compared((6,))
def projection(x):
    made = problems.projection(np.arange(6.0), C, u=CAPS, bounds=(None, 2))
    return made, half_square(x - np.arange(6.0)), [C @ x <= CAPS, x <= 2], x


@compared((6,))
def box_projection(x):
    return problems.projection(np.arange(6.0), bounds=(1, 3)), half_square(x - np.arange(6.0)), [x >= 1, x <= 3], x


@compared((3,))
def chebyshev_centre(x):
    sides, lengths = np.array([1.0, 1.0, 1.0, 1.0, 0.5]), np.linalg.norm(HALF_PLANES, axis=1)
    return problems.chebyshev_centre(HALF_PLANES, sides), -x[2], [HALF_PLANES @ x[:2] + lengths * x[2] <= sides], x


@compared((2,))
def geometric_median(x):
    weights = 1 + np.arange(9.0)
    made = problems.geometric_median(POINTS, weights=weights)
    return made, sum(w * cp.norm(x - p) for w, p in zip(weights, POINTS, strict=True)), [], x


@pytest.mark.parametrize("name", CASES)
def test_agrees_with_the_formula(name):
    case, shapes = CASES[name]
    problem, cost, rules, answer = case(*map(cp.Variable, shapes))
    reference = cp.Problem(cp.Minimize(cost), rules)
    reference.solve(solver=cp.CLARABEL)
    result = dapd.solve(problem, tol=1e-9, direct=False)
    assert result.converged
    assert result.objective == pytest.approx(reference.value, rel=1e-6, abs=1e-6)
    if answer is not None:
        expected = np.ravel(answer.value, order="C")
        np.testing.assert_allclose(result.x[: expected.size], expected, atol=2e-4)


def test_every_problem_is_compared_and_states_its_mathematics():
    bodies = "".join(inspect.getsource(case) for case, _ in CASES.values())
    for name in problems.__all__:
        call = getattr(problems, name)
        assert call.__doc__, name
        if inspect.signature(call).return_annotation == "Problem":
            assert f"problems.{name}(" in bodies, name


def test_isotonic_is_that_of_scipy():
    z = np.sort(RNG.standard_normal(300)) + RNG.standard_normal(300)
    result = dapd.solve(problems.isotonic(z), tol=1e-9)
    np.testing.assert_allclose(result.x, isotonic_regression(z).x, atol=1e-6)


def test_differences_annihilate_polynomials():
    for order in (1, 2, 3):
        D = differences(12, order)
        assert D.shape == (12 - order, 12)
        np.testing.assert_allclose(D @ np.arange(12.0) ** (order - 1), 0.0, atol=1e-12)
        assert abs(D @ np.arange(12.0) ** order).min() > 0.5


def test_quantile_leaves_that_part_of_the_data_below():
    d = RNG.standard_normal(400)
    result = dapd.solve(problems.quantile(np.ones((400, 1)), d, 0.9), tol=1e-9)
    assert np.mean(d <= result.x[0] + 1e-6) == pytest.approx(0.9, abs=0.01)
    assert result.x[0] == pytest.approx(scipy.stats.scoreatpercentile(d, 90), abs=0.1)


def test_large_sparse_problems_store_no_dense_matrix():
    n = 200
    made = [
        problems.total_variation(np.zeros((n, n)), 1.0),
        problems.trend_filter(np.arange(n * n), 1.0),
        problems.transport(np.ones((n, n)), np.ones(n), np.ones(n), 1.0),
        problems.flow(np.column_stack([np.arange(n * n - 1), np.arange(1, n * n)]), np.zeros(n * n)),
        problems.portfolio(np.ones(n * n), sp.eye_array(n * n, 5), np.ones(n * n), trading_cost=0.1),
        problems.lasso(sp.eye_array(n, n * n), np.ones(n), 0.1),
        problems.huber(sp.eye_array(n * n, n), np.ones(n * n)),
    ]
    assert all(problem.M.work < 10 * n * n for problem in made)


def test_mpc_takes_a_new_start_in_b():
    options = {"horizon": 5, "input_bounds": (-1, 1)}
    problem = problems.mpc(DYNAMICS, INPUT, np.ones(2), np.ones(1), start=[1.0, 0.0], **options)
    solver = dapd.Solver(problem, tol=1e-9)
    solver.solve()
    b = problem.b.copy()
    b[:2] = [0.5, -0.2]
    solver.update(b=b)
    fresh = dapd.solve(problems.mpc(DYNAMICS, INPUT, np.ones(2), np.ones(1), start=[0.5, -0.2], **options), tol=1e-9)
    states, inputs = problems.trajectory(solver.solve().x, 2, 1)
    assert (states.shape, inputs.shape) == ((6, 2), (5, 1))
    np.testing.assert_allclose(states[0], [0.5, -0.2], atol=1e-7)
    np.testing.assert_allclose(states[1], DYNAMICS @ states[0] + INPUT @ inputs[0], atol=1e-7)
    np.testing.assert_allclose(np.r_[states.ravel(), inputs.ravel()], fresh.x, atol=1e-6)


WRONG = [
    (lambda: problems.lasso(A, D, -1.0), "must be >= 0"),
    (lambda: problems.lasso(A, D[1:], 1.0), "d has 19 entries, expected 20"),
    (lambda: problems.lasso(A, D, 1.0, weigth=2), "did you mean 'weight'"),
    (lambda: problems.quantile(TALL, TALL_D, 1.5), "level must be between 0 and 1"),
    (lambda: problems.huber(TALL, TALL_D, 0.0), "delta must be > 0"),
    (lambda: problems.ridge(TALL, TALL_D, u=1.0), "u is given without C"),
    (lambda: problems.ridge(TALL, TALL_D, C=C, u=[1.0]), "u has 1 entries, but C has 3 rows"),
    (lambda: problems.logistic(TALL, LABELS, l1=1.0, C=C), "l1 and C"),
    (lambda: problems.total_variation(3.0, 1.0), "at least one axis"),
    (lambda: problems.total_variation(IMAGE, 0.0), "weight must be > 0"),
    (lambda: problems.trend_filter([1.0, 2.0], 1.0), "order must be below the length of z"),
    (lambda: problems.isotonic([1.0, 2.0], weights=[1.0, 0.0]), "weights must be > 0"),
    (lambda: problems.svm(TALL, np.arange(40.0)), "labels must be"),
    (lambda: problems.svm(TALL, LABELS, 0.0), "penalty must be > 0"),
    (lambda: problems.portfolio(MEAN, FACTORS[1:], SPECIFIC), "factors has 11 rows for 12 assets"),
    (lambda: problems.portfolio(MEAN, FACTORS, SPECIFIC, bounds=(np.zeros(5), None)), "bounds has 5 entries"),
    (lambda: problems.portfolio(MEAN, FACTORS, -SPECIFIC), "specific holds variances"),
    (lambda: problems.portfolio(MEAN, FACTORS, SPECIFIC, trading_cost=-1.0), "trading_cost must be >= 0"),
    (lambda: problems.mpc(np.eye(3), INPUT, [1, 1], [1], horizon=3, start=[0, 0]), "A has shape"),
    (lambda: problems.mpc(DYNAMICS, INPUT.T, [1, 1], [1], horizon=3, start=[0, 0]), "B has shape"),
    (lambda: problems.mpc(DYNAMICS, INPUT, [1, 1, 1], [1], horizon=3, start=[0, 0]), "Q has shape"),
    (lambda: problems.mpc(DYNAMICS, INPUT, [1, 1], [1], horizon=0, start=[0, 0]), "horizon must be >= 1"),
    (lambda: problems.trajectory(np.zeros(9), 2, 1), "no trajectory"),
    (lambda: problems.flow([(0, 9)], SUPPLY), r"edges\[0\] is \(0, 9\)"),
    (lambda: problems.flow([(0, 0)], SUPPLY), "to itself"),
    (lambda: problems.flow([0.5, 1.0], SUPPLY), "pairs of whole numbers"),
    (lambda: problems.flow(EDGES, np.ones(4)), "supply must sum to zero"),
    (lambda: problems.flow(EDGES, SUPPLY, cost=np.ones(2)), "cost has 2 entries for 6 edges"),
    (lambda: problems.transport(np.ones(3), [1], [1], 1), "cost must be a matrix"),
    (lambda: problems.transport(np.ones((2, 2)), [1, 1], [1, 2], 1), "the same sum"),
    (lambda: problems.transport(np.ones((2, 2)), [1, 1], [1, 1 + 1e-8], 1), "differ by 1e-08; divide each by its sum"),
    (lambda: problems.consensus([dapd.PseudoHuber(1.0)] * 4, EDGES), "size= must say"),
    (lambda: problems.chebyshev_centre([1.0], [1.0]), "C must be a matrix"),
    (lambda: problems.geometric_median([1.0]), "one row per point"),
]


@pytest.mark.parametrize("k", range(len(WRONG)))
def test_wrong_arguments_are_named(k):
    call, message = WRONG[k]
    with pytest.raises((ValueError, TypeError), match=message):
        call()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (([[1, 2], [0, 1.0]], [1, 1]), r"P must be symmetric; use \(P \+ P.T\)/2"),
        ((np.eye(2), [1, 1, 1]), "q has 3 entries, expected 2"),
        ((-np.eye(2), [1, 1]), "P has the eigenvalue -1"),
        ((np.eye(2), [1, 1], np.ones((1, 3)), None, 1), "A has 3 columns, expected 2"),
        ((np.eye(2), [1, 1], np.ones((1, 2)), [1, 2]), "l has 2 entries, expected 1"),
        ((np.eye(2), [1, 1], np.ones((1, 2)), 2, 1), r"l must not be above u; l\[0\] is 2 and u\[0\] is 1"),
        ((np.eye(2), [1, 1], None, None, None, [0, 3], 1), r"lb must not be above ub; lb\[1\] is 3 and ub\[1\] is 1"),
    ],
)
def test_errors_of_qp_name_its_own_arguments(given, message):
    with pytest.raises(ValueError, match=message):
        dapd.problems.qp(*given)


def test_a_qp_may_have_a_matrix_without_rows():
    none = np.zeros(0)
    result = dapd.solve(problems.qp(np.eye(2), [-1.0, -3.0], np.zeros((0, 2)), none, none, ub=2.0))
    np.testing.assert_allclose(result.x, [1.0, 2.0], atol=1e-6)
