"""Bad input: each error names the argument, what was found and what to do."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, aslinearoperator

import dapd
from dapd.arguments import FAR, NO_BOUND

F = dapd.PseudoHuber(0.5)
M = np.eye(2, 3)
B = np.ones(2)
PROBLEM = dapd.Problem(F, M, B)


class Complex:
    shape = (2, 3)

    def matvec(self, x):
        return 1j * (M @ x)

    def rmatvec(self, y):
        return 1j * (M.T @ y)


def nan(array):
    array = np.array(array, float)
    array.flat[0] = np.nan
    return array


def beyond(array):
    matrix = sp.csr_array(np.asarray(array, float))
    matrix.indices[-1] = 9
    return matrix


class Mistaken:
    """M with one mistake."""

    shape, dtype = (2, 3), np.float64

    def __init__(self, mistake):
        self.mistake = mistake

    def matvec(self, x):
        if self.mistake == "in place":
            x[0] = 1.0
        return M @ x

    def rmatvec(self, y):
        if self.mistake == "in place, too":
            y *= 2
        return M.T @ y * {"sign": -1.0, "factor": 2.0}.get(self.mistake, 1.0)


class Adjointless(LinearOperator):
    """M without its adjoint."""

    def __init__(self):
        super().__init__(np.float64, (2, 3))

    def _matvec(self, x):
        return M @ x


CASES = {
    "adjoint of the wrong sign": (
        lambda: dapd.solve(dapd.Problem(F, Mistaken("sign"), B)),
        ValueError,
        r"M.rmatvec is not the adjoint of M.matvec: .* differ by 2 of their size; .*dapd.testing.check_adjoint",
    ),
    "adjoint of the wrong sign for a named method": (
        lambda: dapd.solve(dapd.Problem(F, Mistaken("sign"), B), "x-dapd"),
        ValueError,
        r"M.rmatvec is not the adjoint of M.matvec",
    ),
    "adjoint of A times two": (
        lambda: dapd.LeastSquares(Mistaken("factor"), B),
        ValueError,
        r"A.rmatvec is not the adjoint of A.matvec",
    ),
    "adjoint of a block of the wrong sign": (
        lambda: dapd.solve(dapd.Problem(F, dapd.RowBlocks([M, Mistaken("sign")]), [-1.0] * 4, dapd.NonNegative())),
        ValueError,
        r"rmatvec is not the adjoint of ",
    ),
    "M that changes its argument": (
        lambda: dapd.solve(dapd.Problem(F, Mistaken("in place"), B)),
        ValueError,
        r"M.matvec changes its argument; let it compute in a new array",
    ),
    "adjoint that changes its argument": (
        lambda: dapd.solve(dapd.Problem(F, Mistaken("in place, too"), B), "papc", spectrum=dapd.Spectrum(1.0, 1.0)),
        ValueError,
        r"M.rmatvec changes its argument",
    ),
    "M without an adjoint": (
        lambda: dapd.solve(dapd.Problem(F, Adjointless(), B)),
        TypeError,
        r"M has no rmatvec; give it one",
    ),
    "b of another length": (lambda: dapd.Problem(F, M, np.ones(3)), ValueError, r"b has 3 entries, expected 2"),
    "f of another size": (
        lambda: dapd.Problem(dapd.Quadratic(np.ones(4)), M, B),
        ValueError,
        r"f has 4 variables, but M has 3 columns",
    ),
    "NaN in M": (lambda: dapd.Problem(F, nan(M), B), ValueError, r"M holds NaN"),
    "indices of sparse M": (
        lambda: dapd.Problem(F, beyond(M), B),
        ValueError,
        r"M.indices must lie in 0 … \d+, found 0 … 9",
    ),
    "NaN in sparse M": (lambda: dapd.Problem(F, sp.csr_array(nan(M)), B), ValueError, r"M.data holds NaN"),
    "NaN in b": (lambda: dapd.Problem(F, M, nan(B)), ValueError, r"b holds NaN"),
    "infinite b": (lambda: dapd.Problem(F, M, B * np.inf), ValueError, r"b holds NaN or infinite"),
    "NaN in c": (lambda: dapd.Quadratic(np.ones(2), nan(B)), ValueError, r"c holds NaN"),
    "complex M": (lambda: dapd.Problem(F, M * 1j, B), TypeError, r"M must be real numbers, found dtype complex"),
    "complex operator": (lambda: dapd.Problem(F, aslinearoperator(M * 1j), B), TypeError, r"M must be real, found"),
    "complex b": (lambda: dapd.Problem(F, M, B * 1j), TypeError, r"b must be real numbers"),
    "words in b": (lambda: dapd.Problem(F, M, ["a", "b"]), TypeError, r"b must be real numbers"),
    "M without columns": (
        lambda: dapd.Problem(F, np.zeros((3, 0)), np.ones(3)),
        ValueError,
        r"M is empty \(shape \(3, 0\)\)",
    ),
    "sparse M without columns": (lambda: dapd.Problem(F, sp.csr_array((3, 0)), np.ones(3)), ValueError, r"M is empty"),
    "empty A": (lambda: dapd.LeastSquares(np.zeros((0, 3)), [], 1.0), ValueError, r"A is empty"),
    "empty Kronecker factor": (lambda: dapd.Kronecker(np.zeros((0, 3)), 2), ValueError, r"A is empty"),
    "masked b": (lambda: dapd.Problem(F, M, np.ma.array(B, mask=[0, 1])), TypeError, r"b is a masked array; fill"),
    "masked bound": (lambda: dapd.Box(np.ma.array(B, mask=[0, 1]), 2.0), TypeError, r"lower is a masked array"),
    "b too large": (lambda: dapd.Problem(F, M, 1e155 * B), ValueError, r"b holds entries of 1e\+155, too large"),
    "c too large": (lambda: dapd.Quadratic([3.0, 3.0], 1e308 * B), ValueError, r"c holds entries of 1e\+308"),
    "x0 too large": (lambda: dapd.solve(PROBLEM, x0=np.full(3, 1e155)), ValueError, r"x0 holds entries of 1e\+155"),
    "x0 beyond float32": (
        lambda: dapd.solve(dapd.Problem(F, M.astype("f"), B.astype("f")), x0=np.full(3, 1e60)),
        ValueError,
        r"x0 holds entries of 1e\+60, too large for float32",
    ),
    "mu too small": (lambda: dapd.Quadratic([1e-300, 1.0]), ValueError, r"mu must be between 1e-150 and 1e\+150"),
    "mu denormal": (lambda: dapd.Quadratic([1e-320, 1.0]), ValueError, r"mu must be between .* found 1e-320; rescale"),
    "box at infinity": (lambda: dapd.Box(np.inf, np.inf), ValueError, r"lower must be below \+inf"),
    "value a vector": (
        lambda: dapd.solve(dapd.Problem(dapd.Smooth(np.sign, np.sign, 1.0, 1.0), M, B)),
        TypeError,
        r"f.value returned shape \(3,\), expected a real number",
    ),
    "bounds not a pair": (
        lambda: dapd.Problem(F, M, B, bounds=3.0),
        TypeError,
        r"bounds must be a pair \(lower",
    ),
    "bounds by entry": (lambda: dapd.Problem(F, M, B, bounds=[(0, 1)] * 5), TypeError, r"pair .*found list of 5"),
    "no M": (lambda: dapd.Problem(F, None, B), TypeError, r"M must be real numbers, found None"),
    "short x": (lambda: dapd.certify(PROBLEM, np.ones(1), B), ValueError, r"x must be a vector of"),
    "long y": (lambda: dapd.certify(PROBLEM, np.ones(3), np.ones(99)), ValueError, r"y must be a vector of"),
    "bounds of three": (lambda: dapd.Problem(F, M, B, bounds=(0, 1, 2)), TypeError, r"bounds must be a pair"),
    "bounds too short": (
        lambda: dapd.Problem(F, M, B, bounds=(B, 3.0)),
        ValueError,
        r"lower bound has 2 entries, expected 3",
    ),
    "a vector of NaN in bounds": (
        lambda: dapd.Problem(F, M, B, bounds=(nan(np.zeros(3)), 1)),
        ValueError,
        r"the lower bound holds NaN; use ±inf",
    ),
    "NaN in bounds": (lambda: dapd.Problem(F, M, B, bounds=(0.0, np.nan)), ValueError, r"the upper bound holds NaN"),
    "crossed bounds on x": (
        lambda: dapd.Problem(F, M, B, bounds=([0.0, 2.0, 0.0], 1.0)),
        ValueError,
        r"lower bounds must not be above upper bounds; x\[1\] has 2 and 1",
    ),
    "bounds at infinity": (
        lambda: dapd.Problem(F, M, B, bounds=(-np.inf, [1.0, -np.inf, 1.0])),
        ValueError,
        r"lower bounds must be below \+inf",
    ),
    "lower bound so high that it means infinity": (
        lambda: dapd.Problem(F, M, B, bounds=(NO_BOUND, None)),
        ValueError,
        r"lower bounds must be below \+inf .*; 1e20 or more is infinite",
    ),
    "upper end so low that it means infinity": (
        lambda: dapd.Interval(-np.inf, -NO_BOUND),
        ValueError,
        r"upper above -inf in every row; 1e20 or more",
    ),
    "limit so low that it means infinity": (
        lambda: dapd.problems.qp(np.ones(3), B[:1].repeat(3), M, u=-NO_BOUND),
        ValueError,
        r"l must be below \+inf and u above -inf",
    ),
    "nu so great that it means infinity": (lambda: dapd.L1(NO_BOUND), ValueError, r"nu must be finite .*Interval\(-np"),
    "method bound to a problem with bounds": (
        lambda: dapd.METHODS["papc"].from_theory(dapd.Problem(F, M, B, bounds=(0, 1))),
        ValueError,
        r"bind it to problem.stacked",
    ),
    "empty b": (lambda: dapd.Problem(F, M, []), ValueError, r"b is empty"),
    "M a vector": (lambda: dapd.Problem(F, B, B), ValueError, r"M must be a matrix, found shape \(2,\)"),
    "M a function": (lambda: dapd.Problem(F, lambda x: x, B), TypeError, r"M is a function; give an object with"),
    "mu negative": (lambda: dapd.Smooth(np.sum, np.sign, -1.0, 1.0), ValueError, r"mu must be >= 0, found -1"),
    "L below mu": (
        lambda: dapd.Smooth(np.sum, np.sign, 2.0, 1.0),
        ValueError,
        r"L must be >= mu, found L = 1 and mu = 2",
    ),
    "L not a number": (lambda: dapd.Smooth(np.sum, np.sign, 1.0, "big"), TypeError, r"L must be a real number"),
    "grad not callable": (lambda: dapd.Smooth(np.sum, 3, 1.0, 1.0), TypeError, r"grad must be callable"),
    "H indefinite": (lambda: dapd.Quadratic(np.diag([1.0, -1.0])), ValueError, r"f is not convex: H has the eigenv"),
    "H slightly indefinite": (lambda: dapd.Quadratic([1.0, -1e-9]), ValueError, r"not convex.* eigenvalue -1e-09"),
    "neither H nor c": (lambda: dapd.Quadratic(None), ValueError, r"H and c are both absent"),
    "mu zero for a method that needs it": (
        lambda: dapd.solve(dapd.Problem(dapd.Quadratic([1.0, 1.0, 0.0]), M, B), "y-dapd"),
        ValueError,
        r"method 'y-dapd' needs mu > 0 .*Quadratic it is 0.*method='auto'",
    ),
    "mu zero for a block method": (
        lambda: dapd.solve(dapd.Problem(dapd.Quadratic([1.0, 1.0, 0.0]), M, B, blocks=3), "x-sbc-dapd"),
        ValueError,
        r"method 'x-sbc-dapd' needs mu > 0 .*method='auto'",
    ),
    "L unknown for a method that needs it": (
        lambda: dapd.solve(dapd.Problem(dapd.Smooth(np.sum, np.sign), M, B), "papc"),
        ValueError,
        r"method 'papc' needs L > 0, .*Smooth it is unknown.*method='auto'",
    ),
    "L zero for a method that needs it": (
        lambda: dapd.solve(dapd.Problem(dapd.Quadratic(np.zeros(3)), M, B), "condat-vu"),
        ValueError,
        r"method 'condat-vu' needs L > 0, .*Quadratic it is 0",
    ),
    "H not symmetric": (lambda: dapd.Quadratic([[1.0, 0.5], [0.0, 1.0]]), ValueError, r"H must be symmetric"),
    "H not square": (lambda: dapd.Quadratic(np.ones((2, 3))), ValueError, r"H must be .* square matrix, found shape"),
    "labels not signs": (lambda: dapd.Logistic(M, [0.0, 1.0], 1.0), ValueError, r"labels must be \+1 or -1"),
    "phi too short": (
        lambda: dapd.Problem(F, M, B, dapd.L1([1.0, 1.0, 1.0])),
        ValueError,
        r"phi is made for 3 rows, but M has 2",
    ),
    "groups that do not divide": (
        lambda: dapd.Problem(F, np.eye(3), np.ones(3), dapd.GroupBall(1.0, 2)),
        ValueError,
        r"groups of 2 rows, which do not divide the 3 rows",
    ),
    "groups with a gap": (
        lambda: dapd.GroupBall(1.0, [slice(0, 2), slice(3, 4)]),
        ValueError,
        r"groups must follow one another without gap",
    ),
    "radius negative": (lambda: dapd.GroupBall(-1.0, 2), ValueError, r"radius must be finite and > 0"),
    "nu negative": (lambda: dapd.L1(-1.0), ValueError, r"nu must be finite and >= 0"),
    "bounds crossed": (lambda: dapd.Box(1.0, 0.0), ValueError, r"lower must not be above upper"),
    "interval at infinity": (lambda: dapd.Interval(np.inf, np.inf), ValueError, r"lower must be below \+inf"),
    "bound NaN": (lambda: dapd.Interval(np.nan, 1.0), ValueError, r"lower holds NaN; use ±inf"),
    "stack without sizes": (
        lambda: dapd.Stack([dapd.Zero(), dapd.NonNegative()]),
        ValueError,
        r"2 of the parts have no size; give sizes",
    ),
    "stack too long": (
        lambda: dapd.Problem(F, M, B, dapd.Stack([dapd.L1([1.0, 1.0]), dapd.Zero()])),
        ValueError,
        r"the parts of phi take 2 rows or more, but M has 2",
    ),
    "g without prox": (
        lambda: dapd.Conjugate(object()),
        TypeError,
        r"g must have a method value\(z\).*prox\(v, step\) =",
    ),
    "f not a function": (lambda: dapd.Problem(np.sum, M, B), TypeError, r"f must be a dapd function.*dapd.Smooth"),
    "phi not a phi": (lambda: dapd.Problem(F, M, B, abs), TypeError, r"phi must be a dapd.Phi"),
    "more blocks than columns": (lambda: dapd.Problem(F, M, B, blocks=4), ValueError, r"blocks = 4 is more than the 3"),
    "blocks that do not cover": (
        lambda: dapd.Problem(F, M, B, blocks=[slice(0, 2)]),
        ValueError,
        r"blocks cover 2 of 3 entries",
    ),
    "blocks a fraction": (
        lambda: dapd.Problem(F, M, B, blocks=3.0),
        TypeError,
        r"blocks must be a whole number, found 3",
    ),
    "blocks that reach too far": (
        lambda: dapd.Problem(F, M, B, blocks=[slice(0, 2), slice(2, 4)]),
        ValueError,
        r"blocks must end with the 3 entries, but slice\(2, 4, None\) goes on",
    ),
    "engine a number": (lambda: dapd.solve(PROBLEM, engine=3), TypeError, r"engine must be one of auto.*found 3"),
    "tol a bool": (lambda: dapd.solve(PROBLEM, tol=True), TypeError, r"tol must be a real number, found True"),
    "tol_absolute a bool": (
        lambda: dapd.solve(PROBLEM, tol_absolute=False),
        TypeError,
        r"tol_absolute must be a real number, found False",
    ),
    "ridge a NumPy bool": (
        lambda: dapd.LeastSquares(M, B, np.True_),
        TypeError,
        r"ridge must be a real number, found",
    ),
    "separable without sizes": (
        lambda: dapd.Problem(dapd.Separable([F, F]), M, B),
        ValueError,
        r"blocks of unknown size: give Separable sizes",
    ),
    "separable against blocks": (
        lambda: dapd.Problem(dapd.Separable([F, F], sizes=[1, 2]), M, B, blocks=[slice(0, 2), slice(2, 3)]),
        ValueError,
        r"f has other blocks than the problem",
    ),
    "x_star of another length": (lambda: dapd.Problem(F, M, B, x_star=B), ValueError, r"x_star has 2 entries"),
    "unknown option": (
        lambda: dapd.solve(PROBLEM, max_iter=3),
        TypeError,
        r"solve\(\) has no argument 'max_iter'; did you mean 'max_iterations'\?",
    ),
    "unknown option of a problem": (
        lambda: dapd.Problem(F, M, B, block=2),
        TypeError,
        r"Problem\(\) has no argument 'block'; did you mean 'blocks'\?",
    ),
    "unknown constant": (
        lambda: dapd.theory.x_dapd(L=1.0, mu=1.0, s_max=1.0, smin=1.0),
        TypeError,
        r"x_dapd\(\) has no argument 'smin'; did you mean 's_min'\?",
    ),
    "unknown method": (
        lambda: dapd.solve(PROBLEM, "ydapd"),
        ValueError,
        r"unknown method 'ydapd'; did you mean 'y-dapd'\?",
    ),
    "unknown engine": (
        lambda: dapd.solve(PROBLEM, engine="cuda"),
        ValueError,
        r"engine must be one of auto, native, python, jax, found 'cuda'",
    ),
    "tol negative": (lambda: dapd.solve(PROBLEM, tol=-1.0), ValueError, r"tol must be >= 0, found -1"),
    "tol NaN": (lambda: dapd.solve(PROBLEM, tol=np.nan), ValueError, r"tol must be finite"),
    "max_iterations a fraction": (
        lambda: dapd.solve(PROBLEM, max_iterations=1e3),
        TypeError,
        r"max_iterations must be a whole number, found 1000.0",
    ),
    "time_limit zero": (lambda: dapd.solve(PROBLEM, time_limit=0), ValueError, r"time_limit must be > 0"),
    "x0 of another length": (lambda: dapd.solve(PROBLEM, x0=B), ValueError, r"x0 has 2 entries, expected 3"),
    "y0 NaN": (lambda: dapd.solve(PROBLEM, y0=nan(B)), ValueError, r"y0 holds NaN"),
    "seed negative": (lambda: dapd.solve(PROBLEM, seed=-1), ValueError, r"seed must be >= 0"),
    "callback not callable": (lambda: dapd.solve(PROBLEM, callback=3), TypeError, r"callback must be callable"),
    "not a problem": (lambda: dapd.solve(M), TypeError, r"problem must be a dapd.Problem, found ndarray"),
    "spectrum a tuple": (lambda: dapd.solve(PROBLEM, spectrum=(1, 1)), TypeError, r"spectrum must be a dapd.Spectrum"),
    "spectrum upside down": (lambda: dapd.Spectrum(1.0, 2.0), ValueError, r"s_min must not exceed s_max"),
    "parameters without a method": (
        lambda: dapd.solve(PROBLEM, parameters=dapd.theory.papc(L=1.0, mu=1.0, s_max=1.0)),
        ValueError,
        r"parameters belong to one method; name it",
    ),
    "parameters of another method": (
        lambda: dapd.solve(PROBLEM, "x-dapd", parameters=dapd.theory.papc(L=1.0, mu=1.0, s_max=1.0)),
        TypeError,
        r"parameters must be a dapd.theory.XDapd for x-dapd, found Papc",
    ),
    "s_max below s_min": (
        lambda: dapd.theory.y_dapd(L=1.0, mu=1.0, s_max=1.0, s_min=2.0),
        ValueError,
        r"s_max must be >= s_min, found",
    ),
    "no blocks": (
        lambda: dapd.theory.x_sbc(L=1.0, mu=1.0, s_bar_max=1.0, s_min=1.0, N=0),
        ValueError,
        r"N must be >= 1, found 0",
    ),
    "scalar gradient": (
        lambda: dapd.solve(dapd.Problem(dapd.Smooth(np.sum, lambda x: 1.0, 1.0, 2.0), M, B), "papc"),
        ValueError,
        r"f.grad returned float, expected an array of shape \(3,\)",
    ),
    "column gradient": (
        lambda: dapd.solve(dapd.Problem(dapd.Smooth(np.sum, lambda x: x[:, None], 1.0, 2.0), M, B), "papc"),
        ValueError,
        r"f.grad returned shape \(3, 1\), expected",
    ),
    "function without a gradient": (
        lambda: dapd.solve(
            dapd.Problem(dapd.Function(), M, B), parameters=dapd.theory.papc(L=1, mu=0, s_max=1), method="papc"
        ),
        TypeError,
        r"Function has no grad",
    ),
    "complex products": (
        lambda: dapd.estimate_spectrum(Complex()),
        TypeError,
        r"M must give 3 real numbers, found .* complex",
    ),
    "last group without an end": (
        lambda: dapd.GroupBall(1.0, [slice(0, 2), slice(2, None)]),
        ValueError,
        r"groups must be a list of slices, the last with a stop",
    ),
    "separable of a matrix": (lambda: dapd.Separable([M]), TypeError, r"functions must be dapd functions, found nd"),
    "empty part of a stack": (
        lambda: dapd.Stack([dapd.Zero(), dapd.Zero()], sizes=[0, 3]),
        ValueError,
        r"sizes must be >= 1, found 0",
    ),
    "papc with L below mu": (lambda: dapd.theory.papc(L=1, mu=5, s_max=1), ValueError, r"L must be >= mu"),
    "tol a word": (lambda: dapd.solve(PROBLEM, tol="1e-3"), TypeError, r"tol must be a real number, found '1e-3'"),
    "unknown option of a spectrum": (
        lambda: dapd.Spectrum(s_mx=1.0, s_min=1.0),
        TypeError,
        r"Spectrum\(\) has no argument 's_mx'; did you mean 's_max'\?",
    ),
    "unknown option of a checker": (
        lambda: dapd.testing.check_prox(dapd.Zero(), 3, trial=2),
        TypeError,
        r"check_prox\(\) has no argument 'trial'; did you mean 'trials'\?",
    ),
    "kappa one": (lambda: dapd.PseudoHuber.with_condition(1.0), ValueError, r"kappa must be > 1"),
    "engine of a method": (
        lambda: dapd.METHODS["papc"].from_theory(PROBLEM, engine="native"),
        TypeError,
        r"from_theory\(\) has no argument 'engine'",
    ),
    "near miss of an engine": (
        lambda: dapd.solve(PROBLEM, engine="pyhton"),
        ValueError,
        r"found 'pyhton'; did you mean 'python'\?",
    ),
    "BlockDiagonal of nothing": (lambda: dapd.BlockDiagonal([]), ValueError, r"blocks is empty; give at least one"),
    "BlockDiagonal of a vector": (lambda: dapd.BlockDiagonal([M, B]), ValueError, r"blocks\[1\] must be a matrix"),
    "BlockDiagonal of sparse blocks": (
        lambda: dapd.BlockDiagonal([sp.eye_array(3)]),
        TypeError,
        r"blocks must be dense; for sparse ones give scipy.sparse.block_diag",
    ),
    "Kronecker of a vector": (lambda: dapd.Kronecker(B, 2), ValueError, r"A must be a matrix"),
    "column blocks of different heights": (
        lambda: dapd.ColumnBlocks([M, np.eye(3)]),
        ValueError,
        r"blocks have different numbers of rows: \[2, 3\]",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_bad_input_is_an_error_that_names_the_argument(case):
    call, error, message = CASES[case]
    with pytest.raises(error, match=message):
        call()


WITH_BOUNDS = dapd.Problem(F, M, B, bounds=(-1.0, 1.0))
OF_BOUNDS = {  # what takes a bound, by the names of its lower and upper one; the lower one is an upper one less
    "bounds": (lambda low, high: dapd.Problem(F, M, B, bounds=(low, high)), "lower", "upper"),
    "vectors": (lambda low, high: dapd.Problem(F, M, B, bounds=(np.full(3, low), [high, 1.0, 1.0])), "lower", "upper"),
    "Interval": (dapd.Interval, "lower", "upper"),
    "Box": (dapd.Box, "lower", "upper"),
    "rows of qp": (lambda low, high: dapd.problems.qp(np.ones(3), np.ones(3), M, low, high), "l", "u"),
    "bounds of qp": (lambda low, high: dapd.problems.qp(np.ones(3), None, lb=low, ub=high), "lb", "ub"),
    "projection": (lambda low, high: dapd.problems.projection(np.ones(3), M, low, high), "l", "u"),
    "flow": (lambda low, high: dapd.problems.flow([[0, 1]], [1.0, -1.0], capacity=(low, high)), "lower", "upper"),
    "Solver": (lambda low, high: dapd.Solver(WITH_BOUNDS).update(bounds=(low, high)), "lower", "upper"),
    "batch": (
        lambda low, high: dapd.solve_batch(WITH_BOUNDS, bounds=(low, np.full((2, 3), high)), max_iterations=1),
        "lower",
        "upper",
    ),
    "lsq_linear": (lambda low, high: dapd.lsq_linear(M, B, (low, high)), "lower", "upper"),
    "minimize": (
        lambda low, high: dapd.minimize(lambda x: x @ x, np.ones(3), bounds=[(low, high)] * 3),
        "lower",
        "upper",
    ),
}


@pytest.mark.parametrize("place", OF_BOUNDS)
def test_a_far_bound_warns_once_with_its_name_and_one_at_1e20_is_none(place):
    call, lower, upper = OF_BOUNDS[place]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call(-2 * FAR, 3 * FAR)
    assert [warning.category for warning in caught] == [dapd.BoundWarning]
    message = str(caught[0].message)
    assert "3e+15 in " in message
    assert "1e20 or more" in message
    assert lower in message
    assert upper in message
    assert caught[0].filename == __file__
    call(-NO_BOUND, NO_BOUND)  # without a warning, which would be an error here
    call(-0.99 * FAR, 0.99 * FAR)


def test_ends_of_1e20_are_infinite():
    for phi in (dapd.Interval([-1e20, -3e30], 1.0), dapd.Box([-np.inf, -1e21], 1.0)):
        assert np.all(np.isneginf(phi.lower))
        assert phi.upper == 1.0
    problem = dapd.Problem(F, M, B, bounds=([-1e20, -1.0, -1e25], np.float32(1e20)))
    assert problem.lower.tolist() == [-np.inf, -1.0, -np.inf]
    assert np.all(np.isposinf(problem.upper))
    assert dapd.Problem(F, M, B, bounds=(-1e20, 1e20)).lower is None
    assert dapd.Problem(F, M, B, bounds=(np.nextafter(-1e20, 0), 1e20)).lower is None  # 1e20 may be computed
    updated = dapd.Solver(WITH_BOUNDS)
    updated.update(bounds=(-1e20, 1.0))
    assert np.all(np.isneginf(updated.problem.lower))


def test_weights_are_no_bounds():
    assert dapd.GroupBall(1e20, 2).radius == 1e20
    assert dapd.problems.lasso(M, B, 1e20).phi.upper == 1e20


@pytest.mark.parametrize("engine", ["auto", "python", "native"])
def test_an_interval_of_1e20_leaves_x_where_it_is(engine):
    problem = dapd.Problem(dapd.Quadratic(np.ones(3), 2.0 * np.ones(3)), M, B, dapd.Interval(-1e20, [1e20, -2.0]))
    result = dapd.solve(problem, engine=engine)
    assert result.converged
    assert result.x == pytest.approx([2.0, -1.0, 2.0], abs=1e-5)


def test_no_rows_may_have_intervals():
    empty = dapd.Interval([], [])
    problem = dapd.Problem(dapd.Quadratic(np.ones(3), np.ones(3)), np.zeros((0, 3)), [], empty)
    assert dapd.solve(problem).x == pytest.approx(np.ones(3), abs=1e-5)
