"""Every f, φ and M with 4 rows and 6 columns, and problems in any unit, for `test_accuracy.py`."""

import itertools

import numpy as np
import scipy.sparse as sp

import dapd
from peers.with_dapd import opaque

ROWS, COLUMNS = 4, 6
_RNG = np.random.default_rng(0)
_ROOT, _TALL = _RNG.standard_normal((COLUMNS, COLUMNS)), _RNG.standard_normal((8, COLUMNS))
_SPARSE = sp.csr_array(np.diag(np.arange(1.0, 7)) + np.diag(np.full(5, 0.3), 1) + np.diag(np.full(5, 0.3), -1))
_SLOPE = _RNG.standard_normal(COLUMNS)
_SIGNS = np.array([1.0, -1, 1, 1, -1, -1, 1, -1])

FUNCTIONS = {
    "dense": dapd.Quadratic(_ROOT @ _ROOT.T, _SLOPE),
    "diagonal": dapd.Quadratic(np.array([1.0, 2, 0, 1e3, 1e-3, 5]), _SLOPE),
    "sparse": dapd.Quadratic(_SPARSE, _SLOPE),
    "linear": dapd.Quadratic(np.zeros(COLUMNS), _SLOPE),
    "squares": dapd.LeastSquares(_TALL, _TALL[:, 0] + 1.0, 0.1),
    "logistic": dapd.Logistic(_TALL, _SIGNS, 0.1),
    "pseudo-huber": dapd.PseudoHuber(0.3),
    "separable": dapd.Separable([dapd.PseudoHuber(0.5), dapd.Quadratic(np.ones(2), np.array([1.0, -3]))], sizes=[4, 2]),
    "smooth": dapd.Smooth(lambda x: np.sum(np.cosh(x - 1)), lambda x: np.sinh(x - 1), mu=1.0),
}

PHIS = {
    "zero": dapd.Zero(),
    "nonnegative": dapd.NonNegative(),
    "l1": dapd.L1(0.3),
    "l1 by rows": dapd.L1([0.1, 0.2, 0.0, 3.0]),
    "box": dapd.Box([-np.inf, -0.5, 0.0, -1.0], [0.7, np.inf, 0.2, 0.0]),
    "interval": dapd.Interval([-1.0, 0.2, -np.inf, -np.inf], [1.0, 0.2, 0.5, np.inf]),
    "group ball": dapd.GroupBall(0.8, 2),
    "uneven groups": dapd.GroupBall([0.8, 1.2], [slice(0, 1), slice(1, 4)]),
    "conjugate": dapd.Conjugate(dapd.L1([0.5, 0.1, 0.2, 2.0])),
    "conjugate of a ball": dapd.Conjugate(dapd.GroupBall(0.8, 2)),
    "stack": dapd.Stack([dapd.Zero(), dapd.GroupBall(0.5, 2), dapd.NonNegative()], sizes=[1, 2, 1]),
}

_M = _RNG.standard_normal((ROWS, COLUMNS)) * 10.0 ** _RNG.uniform(-2, 2, (ROWS, 1))
_A, _B = _RNG.standard_normal((2, 3)), _RNG.standard_normal((2, 2))
_BLOCKS = [_RNG.standard_normal((1, 2)), _RNG.standard_normal((3, 4))]
_THIN = np.where(_RNG.random(_M.shape) < 0.5, _M, 0.0)

MAPS = {  # with the same as an array
    "dense": (_M, _M),
    "Fortran order": (np.asfortranarray(_M), _M),
    "csr": (sp.csr_array(_THIN), _THIN),
    "kronecker": (dapd.Kronecker(_A, _B), np.kron(_A, _B)),
    "block diagonal": (dapd.BlockDiagonal(_BLOCKS), sp.block_diag(_BLOCKS).toarray()),
    "row blocks": (dapd.RowBlocks([_M[:1], sp.csr_array(_M[1:])]), _M),
    "column blocks": (dapd.ColumnBlocks([_M[:, :4], sp.csr_array(_M[:, 4:])]), _M),
    "matrix-free": (opaque(_M), _M),
}

BOUNDS = {
    "free": None,
    "bounds": ([-0.5, 0.0, -np.inf, 0.3, -np.inf, 1e-3], [0.5, np.inf, 0.7, 0.3, np.inf, 2e3]),
}


def instances():
    """(name, problem, M as an array) for every φ, M and bounds, and every f with each of these in turns."""
    functions = itertools.cycle(FUNCTIONS)
    for phi, kind, bounds in itertools.product(PHIS, MAPS, BOUNDS):
        f = next(functions)
        if kind == "column blocks" and f == "separable":  # its blocks are those of f
            f = next(functions)
        M, matrix = MAPS[kind]
        b = np.array([1.0, -2.0, 0.0, 1e-2])
        yield (
            f"{f}, {phi}, {kind}, {bounds}",
            dapd.Problem(FUNCTIONS[f], M, b, PHIS[phi], bounds=BOUNDS[bounds]),
            matrix,
        )


def points(problem, rng):
    """(x, y): anywhere, near zero, and within the bounds and dom φ."""
    x, y = rng.standard_normal(problem.columns), rng.standard_normal(problem.rows)
    yield x, y
    yield 1e-6 * x, 1e-6 * y
    yield np.clip(x, *problem.bounds), problem.phi.prox(y, 1.0)
    yield np.zeros_like(x), np.zeros_like(y)


def in_units_of(size):
    """The issue's problems, whose small numbers are all `size`, with their solutions."""
    M, b = np.array([[1.0, 1, 0], [0, 1, 1]]), size * np.array([1.0, 2])
    nearest, half = np.linalg.pinv(M) @ b, dapd.Quadratic(np.ones(3), np.zeros(3))
    four = np.array([[2.0, 1, 0, 0], [0, 2, 1, 0], [0, 0, 2, 1], [1, 0, 0, 2]])
    known = np.array([1.0, -2, 3, 0.5])
    steep = dapd.Quadratic(np.full(4, 1e4), np.full(4, -1e4 * size))
    flat, limits = dapd.Quadratic(np.zeros(4), np.zeros(4)), np.full(4, max(1.0, 10 * size))
    return {
        "equations": (dapd.Problem(half, M, b), nearest),
        "in a box": (dapd.Problem(half, M, b, bounds=(-5 * size, 5 * size)), nearest),
        "small slopes": (dapd.Problem(steep, four, limits, dapd.NonNegative()), np.full(4, -size)),
        "one number": (dapd.Problem(dapd.Quadratic([6640.0], [6640.0 * size]), np.zeros((0, 1)), []), np.array([size])),
        "small penalty": (dapd.Problem(flat, four, four @ known, dapd.Box(-size, size)), known),
        "bounds on y": (dapd.Problem(flat, four, size * four @ known, dapd.Box(-1e-8, 1e-8)), size * known),
    }


def flow(nodes=2_000, edges=10_000, seed=0):
    """A min-cost flow with capacities of 1, and its costs."""
    rng = np.random.default_rng(seed)
    i = rng.integers(nodes, size=edges)
    j = (i + rng.integers(1, nodes, size=edges)) % nodes
    ends = np.concatenate([i, j]), np.tile(np.arange(edges), 2)
    M = sp.csr_array((np.repeat([1.0, -1.0], edges), ends), shape=(nodes, edges))
    x, costs = rng.uniform(0, 1, edges), rng.uniform(0, 10, edges)
    return dapd.Problem(dapd.Quadratic(np.zeros(edges), -costs), M, M @ x, bounds=(0.0, 1.0)), costs


def vertex(rng, rows=6, columns=15, dtype=np.float64):
    """A linear program with a nondegenerate vertex as its solution, built backwards, and that vertex."""
    M = rng.standard_normal((rows, columns)).astype(dtype)
    lower, upper = -rng.uniform(0.1, 1.0, columns), rng.uniform(0.1, 1.0, columns)
    side = np.r_[np.zeros(rows), rng.choice([-1.0, 1.0], columns - rows)]
    x = np.select([side < 0, side > 0], [lower, upper], 0.5 * (lower + upper))
    y, z = rng.standard_normal(rows), side * rng.uniform(0.5, 1.5, columns)
    f = dapd.Quadratic(np.zeros(columns), (M.T @ y + z).astype(dtype))
    return dapd.Problem(f, M, (M @ x).astype(dtype), bounds=(lower, upper)), x, side
