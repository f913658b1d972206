"""What the core is given is checked once, when it is bound: what does not fit is an error, and never a crash."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import dapd
from dapd.kinds.native import BALL
from dapd.machine.core import load, variants

DUAL, PRIMAL = True, False
COPY = (0, 1, -1, [(0, 1.0, 0.0)], 0.0)
GRADIENT = (1, 1, -1, [(0, 1.0, 0.0)], 0.0)
DUAL_STEP = (2, 2, 1, [(0, 1.0, 0.0), (3, 1.0, 0.0)], 1.0)
REGISTERS = [PRIMAL, PRIMAL, DUAL, DUAL]
ZERO = np.zeros(0, np.int64), np.zeros(1, np.uint8), np.zeros(1), np.zeros(1)
RIDGE = 3, None, None, 0, None, 1.0, None, None, None
DENSE = "dense", np.ones((2, 3)), False
INT = np.int32

pytestmark = pytest.mark.skipif(not variants(), reason="the native core was not built")


@pytest.fixture(params=variants())
def core(request):
    return load(request.param)


def csr(indptr=(0, 2, 3), indices=(0, 2, 1), values=(1.0, 2.0, 3.0), kind="csr"):
    return kind, np.array(indptr, INT), np.array(indices, INT), np.array(values)


def bound(core, *, steps=(GRADIENT, DUAL_STEP), dual=REGISTERS, after=(1, 0, 3, 2), M=DENSE, phi=ZERO, f=RIDGE,
          prox=(None,) * 4, ahead=1.0, rows=2, columns=3):  # fmt: skip
    return core.Runner64((dual, list(steps), list(after), ahead), M, phi, f, prox, rows, columns)


def table(first=(), code=(0,), lower=(0.0,), upper=(0.0,)):
    return np.array(first, np.int64), np.array(code, np.uint8), np.array(lower), np.array(upper)


WRONG = {
    "columns": ({"columns": 10**6}, "f has another number of variables|M has another length"),
    "rows": ({"rows": 10**6}, "M has another length"),
    "negative rows": ({"rows": -1}, "rows is not a number"),
    "no columns": ({"columns": 0}, "f has another number of variables|columns is not a number"),
    "rows beyond memory": ({"rows": 2**62}, "rows is not a number"),
    "f for other columns": ({"f": (4, *RIDGE[1:])}, "f has another number of variables"),
    "diagonal": ({"f": (*RIDGE[:6], np.ones(2), None, None)}, "diagonal has another length: 2 entries, expected 3"),
    "c": ({"f": (*RIDGE[:8], np.ones(4))}, "c has another length"),
    "H": ({"f": (*RIDGE[:7], ("dense", np.ones((2, 2))), None)}, "M has another length"),
    "parts of f": ({"f": [(2, *RIDGE[1:])]}, "f has fewer variables"),
    "short record of f": ({"f": RIDGE[:5]}, "f has 5 parts, expected 9"),
    "short record of M": ({"M": ("csr",)}, "csr has 1 parts, expected 4"),
    "kind of M": ({"M": ("diamond",)}, "rows of kind diamond"),
    "short indptr": ({"M": csr(indptr=(0, 3))}, "indptr has another length"),
    "falling indptr": ({"M": csr(indptr=(0, 3, 2))}, "indptr must begin with 0 and never fall"),
    "indptr beyond the entries": ({"M": csr(indptr=(0, 2, 4))}, "indptr ends after the last"),
    "values": ({"M": csr(values=(1.0, 2.0))}, "indptr ends after the last"),
    "an index beyond the columns": ({"M": csr(indices=(0, 3, 1))}, "indices must be those of columns"),
    "a negative index": ({"M": csr(indices=(0, -1, 1))}, "indices must be those of columns"),
    "an index of tiles": ({"M": ("two-way", csr(indices=(0, 9, 1), kind="tiles"))}, "indices must be those of columns"),
    "parts of M": ({"M": ("stacked", (1, csr((0, 3))), (2, DENSE)), "rows": 2}, "parts with more rows"),
    "identity": ({"M": ("identity", 2, 2)}, "identity has rows beyond the last column"),
    "groups that overlap": ({"phi": table((0, 2, 1, 2), [BALL] * 3, [1.0] * 2, [1.0] * 2)}, "first must rise"),
    "a group beyond the rows": ({"phi": table((0, 3), [BALL], [1.0] * 2, [1.0] * 2)}, "first must rise"),
    "codes": ({"phi": table(code=[1, 1, 1])}, "code has another length"),
    "bounds of rows": ({"phi": table(lower=[0.0] * 3)}, "lower has another length"),
    "a ball of a row": ({"phi": table(code=[BALL])}, "a ball without groups"),
    "a group in two parts": (
        {"M": ("stacked", (1, csr((0, 3))), (1, csr((0, 3)))), "phi": table((0, 2), [BALL], [1.0] * 2, [1.0] * 2)},
        "a group with rows in two parts",
    ),
    "a register": ({"steps": [(0, 9, -1, [(0, 1.0, 0.0)], 0.0)]}, "a wrong combination"),
    "a negative register": ({"steps": [(0, 1, -1, [(-1, 1.0, 0.0)], 0.0)]}, "combines wrong registers"),
    "registers of two lengths": ({"steps": [(0, 2, -1, [(0, 1.0, 0.0)], 0.0)]}, "combines wrong registers"),
    "too many terms": ({"steps": [(0, 1, -1, [(0, 1.0, 0.0)] * 65, 0.0)]}, "a wrong combination"),
    "an unknown instruction": ({"steps": [(7, 1, -1, [(0, 1.0, 0.0)], 0.0)]}, "unknown instruction"),
    "a gradient of nothing": ({"steps": [(1, 1, -1, [], 0.0)]}, "a gradient with wrong registers"),
    "a gradient in place": ({"steps": [(1, 0, -1, [(0, 1.0, 0.0)], 0.0)]}, "a gradient with wrong registers"),
    "a dual step for x": (
        {"steps": [(2, 0, 1, [(0, 1.0, 0.0), (3, 1.0, 0.0)], 1.0)]},
        "a dual step with wrong registers",
    ),
    "a dual step without Mᵀy": ({"steps": [(2, 2, -1, [(0, 1.0, 0.0), (3, 1.0, 0.0)], 1.0)]}, "a dual step with wrong"),
    "a primal step for y": ({"steps": [(3, 2, -1, [(2, 1.0, 0.0)], 1.0)]}, "a primal step with wrong registers"),
    "a primal step of two": ({"steps": [(3, 1, -1, [(0, 1.0, 0.0)] * 2, 1.0)]}, "a primal step with wrong registers"),
    "a division by zero": ({"ahead": 0.0}, "divides by the number of a step that may be zero"),
    "a division by no number": ({"ahead": float("nan")}, "divides by the number of a step that may be zero"),
    "bounds of x": ({"prox": (None, None, np.zeros(2), None)}, "lower has another length"),
    "a curvature": ({"prox": (np.zeros(4), None, None, None)}, "the curvature has another length"),
    "places after a step": ({"after": [1, 0, 3, 9]}, "wrong places after a step"),
    "one place for two": ({"after": [0, 0, 3, 2]}, "wrong places after a step"),
    "places for few": ({"after": [1, 0]}, "another number of registers"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_does_not_fit_is_an_error_when_it_is_bound(core, name):
    changed, message = WRONG[name]
    assert bound(core).run(10, 1, 1.0) == 10
    with pytest.raises(ValueError, match=message):
        bound(core, **changed)


def test_another_type_is_a_type_error(core):
    for changed in (
        {"M": ("dense", np.ones((2, 3), INT), False)},
        {"M": ("dense", [[1.0]], False)},
        {"M": ("dense", np.ones((4, 6))[::2, ::2], False)},
        {"phi": (None, *ZERO[1:])},
        {"f": (*RIDGE[:5], "one", None, None, None)},
        {"steps": [None]},
        {"steps": [("copy", *COPY[1:])]},
    ):
        with pytest.raises(TypeError):
            bound(core, **changed)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((10, 0, 1.0), "threads must be between 1 and 4,096"),
        ((10, -3, 1.0), "threads"),
        ((10, 10**9, 1.0), "threads"),
        ((-1, 1, 1.0), "steps must be at least 0"),
        ((10, 1, float("nan")), "seconds must be a number"),
    ],
)
def test_a_run_needs_steps_threads_and_seconds(core, arguments, message):
    runner = bound(core)
    with pytest.raises(ValueError, match=message):
        runner.run(*arguments)
    assert runner.run(0, 1, 1.0) == 0
    assert runner.run(10, 2, 1.0) == 10


def test_registers_that_do_not_exist_are_not_read(core):
    runner, x = bound(core), np.zeros(3)
    for reg in (-1, 4, 10**6):
        with pytest.raises(ValueError, match="the register is none of the program's"):
            runner.get(reg, x)
        with pytest.raises(ValueError, match="the register is none of the program's"):
            runner.set(reg, x)
    with pytest.raises(TypeError):
        runner.get(0, x.astype(np.float32))  # what is written to a copy is lost
    with pytest.raises(ValueError, match="wrong places"):
        runner.use((REGISTERS, [GRADIENT], [9, 9, 9, 9], 1.0))
    assert runner.run(3, 1, 1.0) == 3  # with the program that it had


def test_an_epoch_needs_its_numbers_and_its_places(core):
    runner = bound(core)
    rule, progress, forever = [5, 50, 20, 1, 1, 1, 0, -1, -1, 0, np.inf], [1.0, 1.0, np.inf, 5], (1, 1.0, ())
    places = [[0, 1, 0], [1, 0, 1], [2, 3, 2]]
    made = runner.run_epoch(20, *forever, rule, progress, places)
    assert (runner.number, runner.taken, made[3]) == (20, 20, 25)
    runner.number = 0
    for some, message in (
        ((rule[:-1], progress, places), "must have 11 and 4 numbers"),
        ((rule, progress[1:], places), "must have 11 and 4 numbers"),
        (([0, *rule[1:]], progress, places), "must be at least 1"),
        (([np.nan, *rule[1:]], progress, places), "a number of steps that is none"),
        (([*rule[:1], 1e300, *rule[2:]], progress, places), "a number of steps that is none"),
        ((rule, [*progress[:3], -1], places), "a number of steps that is none"),
        ((rule, progress, [places[0], [2, 0, 1], places[2]]), "places are registers of other lengths"),
        ((rule, progress, [places[2], *places[1:]]), "places are registers of other lengths"),
        ((rule, progress, [places[0], [9, 0, 1], places[2]]), "is none of the program's"),
    ):
        with pytest.raises(ValueError, match=message):
            runner.run_epoch(20, *forever, *some)
    with pytest.raises(ValueError, match="have other lengths"):
        runner.copy([(0, 2)])
    with pytest.raises(ValueError, match="is none of the program's"):
        runner.copy([(0, 4)])
    for number in (-1, 2**60):
        with pytest.raises(ValueError, match="number must be at least 0, and at most 1e15"):
            runner.number = number
    assert runner.run(3, 1, 1.0) == runner.number == 3


def test_the_other_functions_check_theirs(core):
    indptr, indices = np.array([0, 1, 2], np.int64), np.array([1, 0], INT)
    assert core.symbolic_cost(indptr, indices, np.inf, np.inf)[2]
    for starts, columns in ((indptr[:0], indices), (indptr * 9, indices), (indptr, indices + 9), (indptr, indices - 1)):
        with pytest.raises(ValueError, match=r"indptr|indices"):
            core.symbolic_cost(starts, columns, np.inf, np.inf)
    for threads, times in ((0, 1), (10**9, 1), (1, 0)):
        with pytest.raises(ValueError, match=r"threads|times"):
            core.meeting(threads, times)


def test_a_sparse_matrix_with_wrong_indices_is_an_error_of_the_solve():
    M = sp.csr_array(np.eye(3, 5))
    problem = dapd.Problem(dapd.PseudoHuber(1.0), M, np.ones(3))
    problem.M.matrix.indices[1] = 10**6  # after SciPy and `Problem` have looked at it
    with pytest.raises(ValueError, match="indices must be those of columns"):
        dapd.solve(problem, "y-dapd", engine="native", spectrum=dapd.Spectrum(1.0, 1.0))


@pytest.mark.parametrize("variant", variants())
def test_one_thing_wrong_in_records_of_every_kind_never_ends_the_process(variant):
    program = Path(__file__).parents[1] / "support" / "hostile_records.py"
    done = subprocess.run([sys.executable, str(program), variant], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    refused, ran = map(int, done.stdout.split())
    assert refused > 4 * ran > 0
