"""Derivatives of problems that are large, have products only, or come in batches, as of small ones one by one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp
from derivative_cases import FUNCTIONS, PHIS, TARGETS, B, check, dj_model, portfolio, problem_for
from instances import COLUMNS, ROWS, matrix

import dapd
import dapd.jax as dj
from dapd.derivatives import data as convert
from dapd.derivatives import host, linearised, systems
from dapd.derivatives.front import check_options

pytestmark = pytest.mark.usefixtures("float64")


def nearly_singular(apart):
    """H, B and C of a singular system, nearly so in one more direction, and a right-hand side out of its range."""
    draw = np.random.default_rng(1)
    H, B = np.diag([1.0, 0.5, 2.0, 0.0, 1.0]), draw.standard_normal((4, 5))
    B[:, 3] = 0.0
    B[3] = B[2] + apart * B[3]
    return H, B, np.diag([0.0, 0.1, 0.0, 0.0]), draw.standard_normal(9)


def by_products(H, B, C):
    K = np.block([[H, B.T], [B, -C]])
    return systems.Iterated(K.__matmul__, abs(K).max(axis=0))


@pytest.mark.parametrize("apart", [1.0, 1e-2, 1e-3, 0.0])
@pytest.mark.parametrize("make", ["dense", "sparse", "products"])
def test_linear_systems_have_the_solution_of_least_norm_whatever_their_condition(apart, make, monkeypatch):
    monkeypatch.setattr(systems, "DENSE_SIZE", 0 if make == "sparse" else 100)
    H, B, C, rhs = nearly_singular(apart)
    system = by_products(H, B, C) if make == "products" else systems.Factorised(*map(sp.csr_array, (H, B, C)))
    K, scale = np.block([[H, B.T], [B, -C]]), system.scale
    inverse = scale[:, None] * np.linalg.pinv(scale[:, None] * K * scale, rcond=1e-12) * scale
    expected = inverse @ rhs
    if make == "products" and apart == 1e-3:
        with pytest.raises(dj.NotSolved, match="neither MINRES nor LSMR"):
            system.solve(rhs)
    else:
        assert np.linalg.norm(system.solve(rhs) - expected) <= 1e-6 * np.linalg.norm(expected)


class Small(sp.linalg.LinearOperator):
    """A matrix that only shows its products."""

    def __init__(self, matrix):
        self.matrix = matrix
        super().__init__(np.float64, matrix.shape)

    def _matvec(self, v):
        return self.matrix @ v.ravel()

    def _rmatvec(self, v):
        return self.matrix.T @ v.ravel()


@pytest.fixture
def never_factorised(monkeypatch):
    """No linear system of a derivative is factorised."""
    monkeypatch.setattr(linearised, "QUICK", -1.0)
    monkeypatch.setattr(linearised, "LONGEST", -1.0)
    monkeypatch.setattr(linearised, "Factorised", None)


def linear(name, f):
    """The linearised conditions of a problem with this φ and bounds, at a point where some rows bind."""
    (b, c, H, M), parameters, phi = problem_for(name)
    f = dapd.Quadratic(H, c) if f is None else dj_model(FUNCTIONS[f][1](*FUNCTIONS[f][0]))
    problem = dapd.Problem(f, M, b, dj_model(phi(np, *parameters)), bounds=(-2.0, 2.0))
    draw = np.random.default_rng(1)
    x, w = draw.standard_normal(COLUMNS), 0.4 * draw.standard_normal(ROWS + COLUMNS)
    return linearised.Conditions(problem).at(x, w, np.full(w.size, 0.3))


@pytest.mark.parametrize(("name", "f"), [*((name, None) for name in PHIS), *(("l1", f) for f in list(FUNCTIONS)[:5])])
def test_products_alone_find_what_the_factorisation_does(name, f, request):
    draw = np.random.default_rng(0)
    r, q = draw.standard_normal(COLUMNS), draw.standard_normal(ROWS + COLUMNS)
    factorised = linear(name, f)
    expected = [*factorised.solve(r, q), *factorised.solve_transpose(r, q)]
    request.getfixturevalue("never_factorised")
    by_products = linear(name, f)
    for found, right in zip([*by_products.solve(r, q), *by_products.solve_transpose(r, q)], expected, strict=True):
        assert np.linalg.norm(found - right) <= 1e-7 * np.linalg.norm(right)


def test_derivatives_through_products_only_match_central_differences(never_factorised, monkeypatch):
    monkeypatch.setattr(linearised, "MEMORY", 0)  # nor may entries be found by products
    monkeypatch.setattr(convert, "MOST_ENTRIES", 0)
    (b, c, H, M), _, _ = problem_for("l1")
    A = dapd.Kronecker(matrix(np.random.default_rng(2), 3.0, 2, 3), 2)

    def solution(b, c, nu, high):
        f = dj.Separable([dj.LeastSquares(A, TARGETS[:4], 0.5), dj.Quadratic(Small(H[6:, 6:]), c)], [6, 4])
        return jnp.concatenate(dj.solve(f, Small(M), b, dj.L1(nu), bounds=(None, high)))

    slopes = check(solution, [b, c[6:], 0.3, np.full(COLUMNS, 1.2)])
    assert all(jnp.linalg.norm(slope) > 1e-3 for slope in slopes)


def test_large_sparse_systems_are_factorised_only_if_they_stay_sparse():
    draw = np.random.default_rng(0)
    band = sp.diags_array([1.0, 0.3, 0.2], offsets=[0, 1, 2], shape=(2500, 4000), format="csr")
    spread = sp.csr_array(band + sp.random_array((2500, 4000), density=0.002, rng=draw))
    right = draw.standard_normal(6500)
    for M, factorised in ((band, True), (spread, False)):
        conditions = linearised.Conditions(dapd.Problem(dapd.Quadratic(np.linspace(1, 2, 4000)), M, np.ones(2500)))
        linear = conditions.at(np.zeros(4000), np.zeros(2500), np.ones(2500))
        assert (linear.factors is not None) == factorised
        dx, dw = linear.solve(right[:4000], right[4000:])
        assert np.allclose(np.linspace(1, 2, 4000) * dx + M.T @ dw, right[:4000], atol=1e-8)
        assert np.allclose(-M @ dx, right[4000:], atol=1e-8)


def test_a_derivative_that_products_do_not_find_is_factorised_or_refused(monkeypatch, torch):
    (b, c, H, M), _, _ = problem_for("l1")

    def loss(c, failures="raise"):
        return jnp.sum(dj.solve(dj.Quadratic(H, c), M, b, dj.L1(0.3), failures=failures).x ** 2)

    c, expected = jnp.asarray(c), jax.grad(loss)(jnp.asarray(c))
    value = loss(c)
    monkeypatch.setattr(systems, "LIMIT", 3)
    monkeypatch.setattr(linearised, "QUICK", -1.0)
    assert jnp.allclose(jax.grad(loss)(c), expected, rtol=1e-9)
    monkeypatch.setattr(linearised, "LONGEST", -1.0)
    assert loss(c) == pytest.approx(float(value), rel=1e-6)  # without Newton steps
    with pytest.raises((ValueError, jax.errors.JaxRuntimeError), match="neither MINRES nor LSMR solved it"):
        jax.grad(loss)(c)
    assert jnp.isnan(jax.grad(loss)(c, "nan")).all()
    tensor = torch.tensor(np.asarray(c), requires_grad=True)
    dt = dapd.torch
    for failures in ("nan", "raise"):
        total = dt.solve(dt.Quadratic(H, tensor), M, b, dt.L1(0.3), failures=failures).x.sum()
        if failures == "nan":
            total.backward()
            assert torch.isnan(tensor.grad).all()
        else:
            with pytest.raises(dt.NotSolved, match="MINRES"):
                total.backward()


def family(draw, stacked):
    """Five problems like those of a vmap: the named arguments are stacked, and the others are the same objects."""
    M, limits = matrix(draw, 5.0), np.full(COLUMNS, 0.8)
    b, c = M @ draw.uniform(-0.5, 0.5, COLUMNS), 3 * draw.standard_normal(COLUMNS)
    given = {"M": M, "b": b, "c": c, "nu": np.full(ROWS, 0.1), "H": np.linspace(1, 2, COLUMNS)}
    given |= {"lower": -limits, "upper": limits}
    for k in range(5):
        own = {name: value * (1 + 0.05 * k) if name in stacked else value for name, value in given.items()}
        f, phi = dj.Quadratic(own["H"], own["c"]), dj.L1(own["nu"])
        yield convert.Data(f, own["M"], own["b"], phi, own["lower"], own["upper"])


@pytest.fixture
def batches(monkeypatch):
    """The lists of problems that are solved as batches."""
    asked = []

    def spied(problems, **options):
        asked.append(problems)
        return dapd.solve_batch(problems, **options)

    monkeypatch.setattr(host, "solve_batch", spied)
    return asked


@pytest.mark.parametrize(
    ("stacked", "engine"),
    [("b", "auto"), ("b c lower", "auto"), ("b c lower", "jax"), ("M b", "auto"), ("nu", "auto"), ("H c", "auto")],
)
def test_a_batch_is_solved_at_once_and_as_one_by_one(stacked, engine, batches):
    datas = list(family(np.random.default_rng(0), stacked.split()))
    settings = check_options("raise", {"engine": engine})
    together = list(host.solutions(datas, settings))
    ((first, *others),) = batches
    shared = {"b", "b c lower"} & {stacked}
    assert all((other.M is first.M) == bool(shared) for other in others)
    direction = np.random.default_rng(1).standard_normal(sum(datas[0].lengths))
    solvers = host.linear_solvers(datas, together, settings, transpose=True)
    for data, found, solve in zip(datas, together, solvers, strict=True):
        (alone,) = host.solutions([data], check_options("raise", {}))
        (solve_alone,) = host.linear_solvers([data], [alone], settings, transpose=True)
        pairs = zip([*found, solve(direction)], [*alone, solve_alone(direction)], strict=True)
        assert all(np.allclose(one, other, rtol=1e-7, atol=1e-9) for one, other in pairs)
    assert len(batches) == 1


def test_vmap_makes_one_batch_and_one_system_per_problem(batches, monkeypatch):
    made = []
    monkeypatch.setattr(
        linearised, "Factorised", lambda *parts, make=systems.Factorised: made.append(1) or make(*parts)
    )
    several = jnp.stack([jnp.asarray(B), 1.5 * jnp.asarray(B), -jnp.asarray(B)])
    _, transposed = jax.vjp(jax.vmap(lambda b: portfolio(b, 0.1)), several)
    assert [len(batch) for batch in batches] == [3]
    made.clear()
    (slopes,) = jax.vmap(transposed)(jnp.ones((4, 3, COLUMNS)))
    assert slopes.shape == (4, 3, 4)
    assert len(made) == 3


def test_an_empty_batch_has_an_empty_derivative():
    none = jnp.zeros((0, 4))
    assert jax.vmap(jax.grad(lambda b: portfolio(b, 0.1).sum()))(none).shape == (0, 4)


def test_a_batch_of_tensors_is_solved_at_once_and_as_one_by_one(torch, batches):
    dt, draw = dapd.torch, np.random.default_rng(0)
    M = torch.tensor(matrix(draw, 5.0), requires_grad=True)
    c = torch.tensor(draw.standard_normal((4, COLUMNS)), requires_grad=True)

    def loss(c):
        return (dt.solve(dt.Quadratic(np.ones(COLUMNS), c), M, np.zeros(ROWS), dt.L1(0.1)).x ** 3).sum()

    together = torch.autograd.grad(loss(c), (M, c))
    assert [len(batch) for batch in batches] == [4]
    assert len({id(problem.M) for problem in batches[0]}) == 1
    alone = torch.autograd.grad(sum(loss(own) for own in c), (M, c))
    assert len(batches) == 1
    assert all(torch.allclose(one, other, rtol=1e-8, atol=1e-10) for one, other in zip(together, alone, strict=True))
