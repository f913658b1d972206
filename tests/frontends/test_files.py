"""Problems in files, and the commands `dapd solve` and `dapd explain`."""

import contextlib
import dataclasses
import gzip
import json
import re
import subprocess
import sys
import tracemalloc
import warnings
import zipfile

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from command_line import run
from typer.testing import CliRunner

import dapd
from dapd.cli import app
from dapd.frontends import files
from dapd.frontends.lines import WrongLine
from dapd.frontends.mps_format import SECTIONS, read_mps

P = np.array([[8.0, 2.0, 0.0], [2.0, 10.0, 0.0], [0.0, 0.0, 0.0]])
Q = np.array([1.5, -2.0, 0.0])
A = np.array([[2.0, 1.0, 0.0], [-1.0, 2.0, 0.0], [0.0, 1.0, 1.0]])
L, U = np.array([2.0, -np.inf, 1.0]), np.array([5.0, 6.0, 1.0])
LB, UB = np.array([0.0, 0.0, -np.inf]), np.array([20.0, np.inf, np.inf])
FIELDS = {"P": P, "q": Q, "A": A, "l": L, "u": U, "lb": LB, "ub": UB, "r": 4.0}
OPTIMUM = dapd.solve(dapd.problems.qp(P, Q, A, L, U, LB, UB), tol=1e-10).objective + 4.0

QPS = """\
* a comment
NAME          TINY
ROWS
 N  obj
 G  r1
 L  r2
 E  r3
COLUMNS
    x1        obj       1.5        r1        2.0
    x1        r2        -1.0
    x2        obj       -2.0       r1        1.0
    x2        r2        2.0        r3        1.0
    x3        r3        1.0
RHS
    rhs       obj       -4.0
    rhs       r1        2.0        r2        6.0
    rhs       r3        1.0
RANGES
    rng       r1        3.0
BOUNDS
 UP bnd       x1        20.0
 FR bnd       x3
QUADOBJ
    x1        x1        8.0
    x1        x2        2.0
    x2        x2        10.0
ENDATA
"""


LP = r"""\ a comment
Minimize
 obj: 1.5 x1 - 2 x2 + 4
 + [ 8 x1 ^2 + 4 x1 * x2 + 10 x2^2 ] / 2
Subject To
 r1: 2 <= 2x1 + x2 <= 5
 r2: - x1 + 2 x2 <= 6 \ another one
 1 = x2 + x3
Bounds
 0 <= x1 <= 20
 x2 <= 1e30
 x3 free
Generals
End
"""


def parts(name, matrix):
    """A sparse matrix as .npz files have it."""
    matrix = sp.csc_array(matrix)
    return {f"{name}_{part}": getattr(matrix, part) for part in ("data", "indices", "indptr", "shape")}


def entries(matrix):
    """A sparse matrix as .json files have it."""
    matrix = sp.coo_array(matrix)
    return {
        "data": matrix.data.tolist(),
        "row": matrix.row.tolist(),
        "col": matrix.col.tolist(),
        "shape": list(matrix.shape),
    }


def listed(vector, missing):
    return [missing if np.isinf(entry) else entry for entry in vector]


def write(path, kind):
    """The same problem in a file of each kind."""
    if kind == "npz":
        np.savez(path, **FIELDS)
    elif kind == "sparse npz":
        np.savez(path, **{**{k: v for k, v in FIELDS.items() if k not in "PA"}, **parts("P", P), **parts("A", A)})
    elif kind == "mat":
        scipy.io.savemat(path, {**FIELDS, "P": sp.csc_array(P), "A": sp.csc_array(A), "n": 3, "anything": "else"})
    elif kind == "packed mat":
        scipy.io.savemat(path, {**FIELDS, "A": sp.csc_array(A), "text": "else"}, do_compression=True)
    elif kind == "old mat":
        scipy.io.savemat(path, {name: np.atleast_2d(value) for name, value in FIELDS.items()}, format="4")
    elif kind == "json":
        stored = {"P": P.tolist(), "q": Q.tolist(), "r": 4, "A": A.tolist(), "lb": listed(LB, None)}
        path.write_text(json.dumps({**stored, "l": listed(L, -1e20), "u": U.tolist(), "ub": [20.0, 1e20, 1e30]}))
    elif kind == "sparse json":
        stored = {"P": entries(P), "q": Q.tolist(), "r": 4, "A": entries(A), "lb": listed(LB, None)}
        path.write_text(json.dumps({**stored, "l": listed(L, None), "u": U.tolist(), "ub": listed(UB, None)}))
    else:
        path.write_text(LP if kind == "lp" else QPS)
    return path


KINDS = ["npz", "sparse npz", "mat", "packed mat", "old mat", "json", "sparse json", "qps", "mps", "lp"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_file_gives_the_same_problem(kind, tmp_path):
    loaded = files.load(write(tmp_path / f"tiny.{kind.split()[-1]}", kind))
    problem = loaded.problem
    np.testing.assert_allclose(problem.M.dense(), A)
    np.testing.assert_allclose(problem.bounds, (LB, UB))
    np.testing.assert_allclose((problem.phi.lower, problem.phi.upper), (L, U))
    x = np.array([0.3, 0.2, 0.8])
    assert problem.f.value(x) == pytest.approx(0.5 * x @ P @ x + Q @ x)
    assert (loaded.name, loaded.constant, loaded.sign) == ("tiny", 4.0, 1.0)
    assert loaded.objective(dapd.solve(problem)) == pytest.approx(OPTIMUM, rel=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_file_may_be_packed(kind, tmp_path):
    path = write(tmp_path / f"tiny.{kind.split()[-1]}", kind)
    packed = tmp_path / f"again.{kind.split()[-1]}.GZ"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    loaded = files.load(packed)
    assert loaded.name == "again"
    np.testing.assert_allclose(loaded.problem.M.dense(), A)
    packed.write_bytes(packed.read_bytes()[:-9])
    with pytest.raises(files.FileError, match="this is not a whole"):
        files.load(packed)
    packed.write_bytes(path.read_bytes())
    with pytest.raises(files.FileError, match="this is not a whole"):
        files.load(packed)


@pytest.mark.parametrize("indent", ["    ", ""])
def test_maximisation_is_the_minimisation_of_the_negative(indent, tmp_path):
    path = tmp_path / "max.qps"
    negative = QPS.replace("ROWS\n", f"OBJSENSE\n{indent}MAX\nROWS\n", 1)
    for old, new in (("obj       1.5", "obj       -1.5"), ("obj       -2.0", "obj       2.0"), ("-4.0", "4.0")):
        negative = negative.replace(old, new)
    for old in ("x1        8.0", "x2        2.0\n    x2", "x2        10.0"):
        negative = negative.replace(old, old.replace("8.0", "-8.0").replace("2.0", "-2.0").replace("10.0", "-10.0"))
    path.write_text(negative)
    loaded = files.load(path)
    assert loaded.sign == -1.0
    assert loaded.objective(dapd.solve(loaded.problem)) == pytest.approx(-OPTIMUM, rel=1e-6)


@pytest.mark.parametrize("section", ["QMATRIX", "QSECTION      obj", "QUADOBJ"])
def test_every_section_for_the_quadratic_part_is_read(section, tmp_path):
    path = tmp_path / "tiny.qps"
    both = "    x2        x1        2.0\n" if section == "QMATRIX" else ""
    path.write_text(QPS.replace("QUADOBJ\n", f"{section}\n{both}"))
    x = np.array([0.3, 0.2, 0.8])
    assert files.load(path).problem.f.value(x) == pytest.approx(0.5 * x @ P @ x + Q @ x)


def test_limits_may_be_numbers_and_absent(tmp_path):
    path = tmp_path / "box.json"
    path.write_text('{"q": [1, 2], "lb": 0, "ub": 5}')
    problem = files.load(path).problem
    assert problem.rows == 0
    np.testing.assert_array_equal(problem.bounds, ([0, 0], [5, 5]))
    np.savez(tmp_path / "free.npz", P=np.eye(2))
    assert files.load(tmp_path / "free.npz").problem.lower is None


BAD_LINES = [  # (what, instead of what, line, message)
    ("    x1        r2        abc", "    x1        r2        -1.0", 10, "'abc' is not a number"),
    ("    x1        r9        -1.0", "    x1        r2        -1.0", 10, "there is no row 'r9'"),
    ("    x1        r2        -1.0 r1", "    x1        r2        -1.0", 10, "one or two pairs"),
    ("    x1        x9        2.0", "    x1        x2        2.0", 25, "there is no variable 'x9'"),
    ("    x1        x2", "    x1        x2        2.0", 25, "two variables and a number"),
    (" QQ bnd       x1        20.0", " UP bnd       x1        20.0", 21, "a bound is of type"),
    (" UP bnd       x7        20.0", " UP bnd       x1        20.0", 21, "there is no variable 'x7'"),
    (" UP bnd       x1        nan", " UP bnd       x1        20.0", 21, "not a finite number"),
    (" BV bnd       x1", " UP bnd       x1        20.0", 21, "integer variables are not supported"),
    (" FR bnd       x1 x2 x3 x1", " UP bnd       x1        20.0", 21, "has a variable"),
    ("RANGEZ", "RANGES", 18, "unknown section 'RANGEZ'; did you mean 'RANGES'"),
    (" X  r3", " E  r3", 7, "a row is of type N, G, L or E, found 'X'"),
    (" E  r2", " E  r3", 7, "two rows 'r2'"),
    (" E", " E  r3", 7, "a type and a name"),
    ("    rhs       r3        inf", "    rhs       r3        1.0", 17, "not a finite number"),
    ("    M1  'MARKER'  'INTORG'", "    x1        r2        -1.0", 10, "integer variables are not supported"),
    ("", "ENDATA\n", 26, "ends without ENDATA"),
    ("OBJSENSE MOST", "* a comment", 1, "MIN or MAX"),
    ("QCMATRIX r1", "* a comment", 1, "quadratic constraints are not supported"),
    ("hello world", "* a comment", 1, "unknown section 'hello'"),
    ("COLUMNS", "* a comment", 1, "comes before any row"),
    ("    rhs       r3        1e20", "    rhs       r3        1.0", 17, "row 'r3' is an equation, and its right side"),
    ("    rhs       r1        1.0", "    rhs       r3        1.0", 17, "row 'r1' has two right sides"),
    ("    other     r3        1.0", "    rhs       r3        1.0", 17, "RHS has several vectors, 'rhs' and 'other'"),
    (" UP bnd       x1        7.0", " FR bnd       x3", 22, "'x1' has two upper bounds"),
    (
        "    x1        r3        1.0        r1        1.0",
        "    x2        obj       -2.0       r1        1.0",
        11,
        "two numbers",
    ),
    ("    x2        x1        2.0", "    x2        x2        10.0", 26, "two numbers for 'x2' and 'x1'; QUADOBJ"),
    ("QSECTION r1", "QUADOBJ", 23, "QSECTION r1: quadratic constraints are not supported"),
]


def named_line(path, text, new, old, line, message):
    """The error that names the line of a file in which `old` became `new`."""
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(files.FileError, match=rf"^{re.escape(path.name)}, line {line}: .*{message}") as caught:
        files.load(path)
    return caught.value


@pytest.mark.parametrize("k", range(len(BAD_LINES)))
def test_a_wrong_line_of_a_qps_file_is_named(k, tmp_path):
    assert "\n" not in str(named_line(tmp_path / "bad.qps", QPS, *BAD_LINES[k]))


def test_names_with_spaces_are_read_in_fixed_columns():
    rows = [" N  the cost", " G  row one"]
    column = f"    {'var a':<10}{'the cost':<10}{'1.5':<15}{'row one':<10}{'2.0':<12}"
    side = f"    {'rhs':<10}{'row one':<10}{'3.0':<12}"
    text = "\n".join(["NAME", "ROWS", *rows, "COLUMNS", column, "RHS", side, "ENDATA"])
    fields, _ = read_mps(text)
    assert (fields["q"], fields["A"].toarray(), fields["l"], fields["u"]) == (1.5, 2, 3, np.inf)
    with pytest.raises(WrongLine):
        read_mps(text.replace("1.5", "abc"))


def test_sections_are_those_that_are_read():
    with pytest.raises(WrongLine) as caught:
        read_mps("\n".join(["NAME", *(s for s in SECTIONS if s not in ("NAME", "OBJSENSE")), "ENDATA"]))
    assert caught.value.line == 3


RANGE = "    rng       r1        3.0"
AGREEING = {  # what is put in place of what
    "a range of an L row": (RANGE, "    rng       r2        -3.0"),
    "ranges of E rows": (RANGE, "    rng       r3        -3.0"),
    "a positive range of an E row": (RANGE, "    rng       r3        3.0"),
    "a range that is none": (RANGE, "    rng       r1        1e30"),
    "no name of the right sides": (
        "    rhs       r1        2.0        r2        6.0",
        "    r1        2.0        r2        6.0",
    ),
    "two rows N": (" N  obj\n G", " N  obj\n N  obj2\n G"),
    "no upper bound": ("20.0", "1e20"),
    "no lower bound": (" FR bnd       x3", " MI bnd       x3\n UP bnd       x3        3.0"),
    "a negative upper bound": ("20.0", "-20.0\n LO bnd       x1        -30.0"),
    "a fixed variable": (" FR bnd       x3", " FX bnd       x3        2.0"),
    "a maximum": ("ROWS", "OBJSENSE\n    MAXIMIZE\nROWS"),
    "the other triangle": ("    x1        x2        2.0", "    x2        x1        2.0"),
    "tabs": ("    ", "\t"),
}


@pytest.mark.parametrize("what", AGREEING)
def test_mps_files_mean_what_highs_takes_them_for(what, tmp_path):
    highspy = pytest.importorskip("highspy")
    text = QPS.replace(*AGREEING[what])
    assert text != QPS
    (tmp_path / "model.mps").write_text(text)
    reader = highspy.Highs()
    reader.setOptionValue("log_to_console", False)
    assert reader.readModel(str(tmp_path / "model.mps")) == highspy.HighsStatus.kOk
    lp, hessian = reader.getModel().lp_, reader.getModel().hessian_
    fields, sign = read_mps(text)
    assert (sign < 0) == (lp.sense_ == highspy.ObjSense.kMaximize)
    for name, theirs in (("q", sign * np.array(lp.col_cost_)), ("r", sign * lp.offset_), ("lb", lp.col_lower_)):
        np.testing.assert_array_equal(fields[name], theirs)
    for name, theirs in (("ub", lp.col_upper_), ("l", lp.row_lower_), ("u", lp.row_upper_)):
        np.testing.assert_array_equal(np.where(fields[name] >= 1e20, np.inf, fields[name]), theirs)
    A = sp.csc_array((lp.a_matrix_.value_, lp.a_matrix_.index_, lp.a_matrix_.start_), shape=(3, 3))
    np.testing.assert_array_equal(fields["A"].toarray(), A.toarray())
    lower = sp.csc_array((hessian.value_, hessian.index_, hessian.start_), shape=(3, 3))
    np.testing.assert_array_equal(np.tril(fields["P"].toarray()), sign * lower.toarray())


@pytest.mark.parametrize("far", ["1e20", "1e30"])
def test_nothing_is_computed_with_a_side_that_means_none(far, tmp_path):
    path = tmp_path / "far.mps"
    path.write_text(QPS.replace("r2        6.0", f"r2        {far}").replace(RANGE, "    rng       r2        3.0"))
    assert np.isinf(files.load(path).problem.phi.lower[1])
    assert np.isinf(files.load(path).problem.phi.upper[1])
    path = tmp_path / "far.lp"
    path.write_text(LP.replace("2 <= 2x1 + x2 <= 5", f"-{far} <= 2x1 + x2 + 3 <= {far}"))
    assert np.isinf(files.load(path).problem.phi.lower[0])
    assert np.isinf(files.load(path).problem.phi.upper[0])
    (tmp_path / "far.json").write_text(
        f'{{"q": [1], "A": [[1]], "l": -{far}, "u": [{far}], "lb": [-{far}], "ub": {far}}}'
    )
    problem = files.load(tmp_path / "far.json").problem
    assert np.all(np.isinf([problem.phi.lower, problem.phi.upper]))
    assert problem.lower is None


LP_LINES = [  # (what, instead of what, line, message)
    ("minimise", "Minimize", 2, "expected Minimize or Maximize, found 'minimise'"),
    ("max: x1;", "Minimize", 2, "only the LP format of CPLEX is read, not that of lp_solve"),
    ("", "Minimize\n", 2, "expected Minimize or Maximize"),
    ("2 * x1", "- x1", 7, r"expected <=, >= or =, found '\*'"),
    ("x1 2 x2", "x1 + 2 x2", 7, "expected <=, >= or =, found '2'"),
    ("x1 ^ 2", "- x1", 7, r"expected <=, >= or =, found '\^'"),
    ("2x1 x2", "2x1 + x2", 6, "'x2' does not belong here: terms are joined by"),
    ("[ x1 ^ 2 ]", "2x1", 6, "quadratic constraints are not supported"),
    ("r1: - x1", "r2: - x1", 7, "two rows 'r1'"),
    ("<= 6 x1", "<= 6", 7, "'x1' does not belong here: .* the right side of a row is one number"),
    ("<= nan", "<= 6", 7, "expected a number, found 'nan'"),
    ("<= x1", "<= 6", 7, "expected a number, found 'x1'"),
    (">= 5", "<= 5", 6, "two limits has <= twice"),
    ("1 = 1", "1 = x2 + x3", 8, "a row without variables"),
    ("x2 = 1 -> x3 <= 1", "1 = x2 + x3", 8, "indicator constraints are not supported"),
    ("x2 + x3", "1 = x2 + x3", 8, "expected <=, >= or =, found the end of the section"),
    ("x2 + <= 3", "1 = x2 + x3", 8, "expected a number or a variable, found '<='"),
    ("x2 ± 3 <= 1", "1 = x2 + x3", 8, "'±' is neither a number nor a name"),
    ("] / 3", "] / 2", 4, r"squares and products in the objective are \[ … \]/2"),
    ("]", "] / 2", 4, "expected /2 after ]"),
    ("x1^3", "x1 ^2", 4, "a power is 2, found 3"),
    ("x7 free", "x3 free", 12, "there is no variable 'x7'; did you mean 'x"),
    ("x3 free x2 free", "x3 free", 12, "each bound has a line of its own"),
    ("x3", "x3 free", 12, "expected <=, >=, = or free"),
    ("Generals\n x1", "Generals", 13, "generals: integer variables are not supported"),
    ("SOS\n s1: S1:: x1:1", "Generals", 13, "sos: special ordered sets are not supported"),
    ("", "End\n", 13, "the file ends without End"),
    ("Subject To", "Bounds", 9, "there are two sections subject to"),
]


@pytest.mark.parametrize("k", range(len(LP_LINES)))
def test_a_wrong_line_of_an_lp_file_is_named(k, tmp_path):
    named_line(tmp_path / "bad.lp", LP, *LP_LINES[k])


def read_rows(tmp_path, rows, bounds="", objective="x + y"):
    path = tmp_path / "some.lp"
    path.write_text(f"maximize {objective}\nst\n{rows}\nbounds\n x >= -inf\n y free\n{bounds}\nend")
    return files.load(path)


def test_rows_of_an_lp_file_are_what_they_say(tmp_path):
    rows = " -3 <= x + 2 y <= 6\n 6 >= 4 x >= 1\n x + 2\n - y + x =< 7\n c: +2 x - -y = - .5e1\n 3 <= y"
    problem = read_rows(tmp_path, rows).problem
    np.testing.assert_array_equal(problem.M.dense(), [[1, 2], [4, 0], [2, -1], [2, 1], [0, 1]])
    np.testing.assert_array_equal(problem.phi.lower, [-3, 1, -np.inf, -5, 3])
    np.testing.assert_array_equal(problem.phi.upper, [6, 6, 5, -5, np.inf])
    rows = "c: <= 3\n 3001: x + .y >= 1\n 2 <= .y"
    np.testing.assert_array_equal(read_rows(tmp_path, rows).problem.M.dense(), [[0, 0, 0], [1, 0, 1], [0, 0, 1]])


def test_the_objective_of_an_lp_file_is_what_it_says(tmp_path):
    objective = "obj: x + 2 - 3 y + 2 x[1,a] + x - [ x^2 + 2 y*y ]/2 + 1"
    loaded = read_rows(tmp_path, "x[1,a] <= 1", "-1 <= x[1,a]", objective)
    x = np.array([0.5, 2.0, -1.0])
    assert loaded.sign == -1
    assert loaded.constant == -3
    assert loaded.problem.f.value(x) == -(2 * 0.5 - 3 * 2 + 2 * -1 - (0.25 + 2 * 4) / 2)
    np.testing.assert_array_equal(loaded.problem.bounds, [[-np.inf, -np.inf, -1], [np.inf] * 3])


@pytest.mark.parametrize("row", ["c: <= 3", "c: 0 x <= 3"])
def test_a_linear_program_whose_rows_are_empty_is_read(tmp_path, row):
    (tmp_path / "empty.lp").write_text(f"Minimize\n x\nSubject To\n {row}\nBounds\n x >= 1\nEnd\n")
    result = dapd.solve(files.load(tmp_path / "empty.lp").problem)
    assert result.status == "optimal"
    np.testing.assert_allclose(result.x, [1.0])


def test_a_name_without_a_type_is_told(tmp_path):
    (tmp_path / "problem.gz").write_bytes(b"")
    with pytest.raises(files.FileError, match="does not say of which type"):
        files.load(tmp_path / "problem.gz")


def test_a_negative_upper_bound_needs_a_lower_one(tmp_path):
    (tmp_path / "up.lp").write_text("min x\nst\n x <= 1\nbounds\n x <= -1\nend")
    with pytest.raises(files.FileError, match="'x' has the upper bound -1 and no lower one"):
        files.load(tmp_path / "up.lp")
    (tmp_path / "up.mps").write_text(QPS.replace("20.0", "-20.0"))
    with pytest.raises(files.FileError, match="'x1' has the upper bound -20 and no lower one"):
        files.load(tmp_path / "up.mps")


BAD_JSON = [
    ('{"q": [1, 2],\n "lb": [0,, 0]}', r"bad.json, line 2: .* \(column 11\)"),
    ('{"q": [1, 2]', "bad.json, line 1: "),
    ("[1, 2]", "expected an object"),
    ('{"q": [1, 2], "ldb": [0, 0]}', "unknown field 'ldb'; did you mean 'lb'"),
    ('{"A": [[1]]}', "there is no P and no q"),
    ('{"q": "text"}', "q must hold numbers"),
    ('{"q": [1, null]}', "q holds NaN"),
    ('{"q": [[1, 2], [3, 4]]}', "q must be a vector"),
    ('{"q": [1, 2], "P": [[1, 2], [3]]}', "P must hold numbers, in rows of equal lengths"),
    ('{"q": [1, 2], "P": [1, 2]}', "P must be a matrix"),
    ('{"q": [1, 2], "P": [[1, 0, 0]]}', r"P has shape \(1, 3\), expected \(2, 2\)"),
    ('{"q": [1, 2], "P": [[1, 1], [0, 1]]}', "P has only its upper triangle"),
    ('{"q": [1, 2], "P": [[1, 1], [0.5, 1]]}', "P must be symmetric"),
    ('{"q": [1, 2], "P": [[-1, 0], [0, 1]]}', "the objective is not convex"),
    ('{"q": [1, 2], "A": [[1, 2, 3]]}', "A has 3 columns for 2 variables"),
    ('{"q": [1, 2], "A": [[1, NaN]]}', "A holds NaN"),
    ('{"q": [1, 2], "A": {"data": [1], "row": [0], "shape": [1, 2]}}', "A is sparse and lacks indices, indptr"),
    ('{"q": [1, 2], "A": {"data": [1], "row": [5], "col": [0], "shape": [1, 2]}}', "A is not a valid sparse matrix"),
    ('{"q": [1, 2], "A": {"data": [1]}}', "its shape must be stored"),
    ('{"q": [1, 2], "A": [[1, 2]], "l": [1, 2]}', "l has 2 entries, expected 1"),
    ('{"q": [1, 2], "lb": [1, 2, 3]}', "lb has 3 entries, expected 2"),
    ('{"q": [1, 2], "lb": [1, NaN]}', "lb holds NaN"),
    ('{"q": [1, 2], "lb": 1, "ub": 0}', r"lb must not be above ub; lb\[0\] is 1 and ub\[0\] is 0"),
    ('{"q": [1, 2], "l": [1]}', "l is given without A"),
    ('{"q": [1, 2], "r": [1, 2]}', "r must be one number"),
    ('{"q": [1, 2], "r": Infinity}', "r must be finite, found inf"),
    ('{"q": [1, 2], "r": 1' + "0" * 400 + "}", "r must be finite, found inf"),
    ('{"q": [1, 2], "r": true, "lb": "0"}', "lb must hold numbers, found text"),
    ('{"q": [1, "2"]}', "q must hold numbers, found text"),
    ('{"q": [null, "2"]}', "q must hold numbers, found something else"),
    ('{"q": [1, 1' + "0" * 400 + "]}", "q holds NaN or infinite entries"),
    ('{"q": ' + "[" * 5000 + "]" * 5000 + "}", "nested too deeply"),
    ('{"q": ' + "[" * 100 + "1" + "]" * 100 + "}", "q must"),
    ('{"q": [1], "A": {"data": [1], "row": [0], "col": [0], "shape": [1e30, 1]}}', "A.shape must hold whole numbers"),
    ('{"q": [1], "A": {"data": [1], "row": [0], "col": [0], "shape": [1.5, 1]}}', "A.shape must hold whole numbers"),
    ('{"q": [1], "A": {"data": [1], "row": [0], "col": [0], "shape": ["1", 1]}}', "A.shape must hold .* found text"),
    ('{"q": [1], "A": {"data": [1], "row": [0], "col": [0], "shape": [2800000000, 1]}}', "max_bytes is 4e"),
    ('{"q": [1], "A": {"data": [1], "row": [0.5], "col": [0], "shape": [1, 1]}}', "A.row must hold whole numbers"),
    ('{"q": [1], "A": {"data": [1], "row": [-1], "col": [0], "shape": [1, 1]}}', "A.row must hold whole numbers"),
    ('{"q": [1], "A": {"data": [1], "row": [NaN], "col": [0], "shape": [1, 1]}}', "A.row must hold whole numbers"),
    ('{"q": [1], "A": {"data": [1], "row": [true], "col": [0], "shape": [1, 1]}}', "A.row must hold whole numbers"),
    ('{"q": [1], "A": {"data": ["1"], "row": [0], "col": [0], "shape": [1, 1]}}', "A.data must hold .* found text"),
    ('{"q": [1], "A": {"data": [1], "indices": [0], "indptr": [0, 9], "shape": [1, 1]}}', "A is not a valid sparse"),
    ('{"q": [1], "A": {"data": [], "indices": [], "indptr": [], "shape": [1, 1]}}', "A is not a valid sparse"),
    ('{"q": [1], "A": {"data": [1, 2], "row": [0], "col": [0], "shape": [1, 1]}}', "A is not a valid sparse"),
    ('{"q": []}', "q"),
]


@pytest.mark.parametrize("k", range(len(BAD_JSON)))
def test_a_wrong_json_file_names_the_line_or_the_field(k, tmp_path):
    text, message = BAD_JSON[k]
    path = tmp_path / "bad.json"
    path.write_text(text)
    with pytest.raises(files.FileError, match=message) as caught:
        files.load(path)
    assert str(caught.value).startswith("bad.json")
    assert "\n" not in str(caught.value)


def test_files_that_are_something_else_are_errors(tmp_path):
    for name in ("a.npz", "a.mat", "a.json", "a.qps"):
        (tmp_path / name).write_bytes(b"\x93\xff\x00 not what it says")
        with pytest.raises(files.FileError, match=f"^{name}: this is not"):
            files.load(tmp_path / name)
        (tmp_path / name).write_bytes(b"")
        with pytest.raises(files.FileError, match=f"^{name}"):
            files.load(tmp_path / name)
    np.savez(tmp_path / "objects.npz", q=np.array([{}], dtype=object))
    with pytest.raises(files.FileError, match=r"objects\.npz: this is not"):
        files.load(tmp_path / "objects.npz")
    with pytest.raises(files.FileError, match=r"'.txt' are not known; known: .npz, .mat"):
        files.load(tmp_path / "a.txt")
    with pytest.raises(FileNotFoundError, match="no such file"):
        files.load(tmp_path / "none.npz")


BAD_ARRAYS = {
    "complex": ({"q": np.array([1, 2j])}, "q must hold numbers, found complex numbers"),
    "complex matrix": ({"q": np.ones(2), "A": np.eye(2) * 1j}, "A must hold numbers, found complex numbers"),
    "date": ({"q": np.array(["2020-01-01"], "M8[D]")}, "q must hold numbers, found dates"),
    "duration": ({"q": np.array([1, 2], "m8[s]")}, "q must hold numbers, found durations"),
    "text": ({"q": np.array(["1", "2"])}, "q must hold numbers, found text"),
    "bytes": ({"q": np.array([b"1", b"2"])}, "q must hold numbers, found text"),
    "twice": ({"q": np.ones(1), "A": np.eye(1), **parts("A", np.eye(1))}, "A is stored twice, as A and as A_"),
    "fraction": ({"q": np.ones(1), **parts("A", np.eye(1)), "A_indices": np.array([0.5])}, "A.indices must hold whole"),
    "complex data": (
        {"q": np.ones(1), **parts("A", np.eye(1)), "A_data": np.array([1j])},
        "A.data must hold .* complex",
    ),
    "shape": ({"q": np.ones(1), **parts("A", np.eye(1)), "A_shape": np.array([1e30, 1])}, "A.shape must hold whole"),
    "indices": (
        {"q": np.ones(1), **parts("A", np.eye(1)), "A_indptr": np.array([0, 2**40])},
        "A is not a valid sparse",
    ),
    "r": ({"q": np.ones(1), "r": np.inf}, "r must be finite"),
}


@pytest.mark.parametrize("what", BAD_ARRAYS)
def test_what_is_no_real_number_is_refused(what, tmp_path):
    stored, message = BAD_ARRAYS[what]
    np.savez(tmp_path / "bad.npz", **stored)
    with pytest.raises(files.FileError, match=rf"^bad\.npz: {message}"):
        files.load(tmp_path / "bad.npz")
    if what in ("complex", "complex matrix", "text", "r"):
        scipy.io.savemat(tmp_path / "bad.mat", stored)
        with pytest.raises(files.FileError, match=rf"^bad\.mat: {message}"):
            files.load(tmp_path / "bad.mat")


def test_complex_sparse_matrices_and_other_matlab_types_are_refused(tmp_path):
    for stored in (sp.csc_array([[1j]]), np.array([[1, "a"]], dtype=object), {"field": 1.0}):
        scipy.io.savemat(tmp_path / "bad.mat", {"q": np.ones(1), "A": stored})
        with pytest.raises(files.FileError, match=r"^bad\.mat: A must hold numbers, found (complex|something else)"):
            files.load(tmp_path / "bad.mat")
    scipy.io.savemat(tmp_path / "good.mat", {"q": sp.csc_array([[1.0], [0.0]]), "A": np.array([[True, False]]), "l": 1})
    np.testing.assert_array_equal(files.load(tmp_path / "good.mat").problem.M.dense(), [[1, 0]])


def npy(shape, content=b"", kind="<f8"):
    """An array as it is stored, with any shape in its header."""
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + content


def bombs(folder):
    """Small files that ask for a lot of memory."""
    with zipfile.ZipFile(folder / "claims.npz", "w") as archive:
        archive.writestr("q.npy", npy("(2800000000,)"))
    with zipfile.ZipFile(folder / "zeros.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("q.npy", npy("(20000000,)", bytes(160_000_000)))
    scipy.io.savemat(folder / "zeros.mat", {"q": np.zeros(20_000_000)}, do_compression=True)
    scipy.io.savemat(folder / "rows.mat", {"q": np.zeros(1), "A": sp.csc_array((2**31 - 1, 1))})
    scipy.io.savemat(folder / "wide.mat", {"q": sp.csc_array((1_000_000, 10_000))})
    (folder / "zeros.json.gz").write_bytes(gzip.compress(b'{"q": [' + b" " * 160_000_000 + b"1]}"))
    (folder / "rows.json").write_text(
        '{"q": [1], "A": {"data": [1], "row": [0], "col": [0], "shape": [2800000000, 1]}}'
    )
    (folder / "columns.json").write_text('{"P": {"data": [], "row": [], "col": [], "shape": [10000000, 10000000]}}')
    return sorted(folder.iterdir())


def test_sizes_are_checked_before_memory_is_taken(tmp_path):
    for path in bombs(tmp_path):
        tracemalloc.start()
        with pytest.raises(files.FileError, match=r"load\(path, max_bytes=…\) or by --max-bytes|is incomplete"):
            files.load(path, max_bytes=30_000_000)
        assert tracemalloc.get_traced_memory()[1] < 100_000_000, path
        tracemalloc.stop()


def test_the_limit_can_be_raised(tmp_path):
    path = write(tmp_path / "tiny.json", "json")
    with pytest.raises(files.FileError, match="max_bytes is 100;"):
        files.load(path, max_bytes=100)
    assert run("solve", path, "-q", "--max-bytes", 100).exit_code == 2
    assert run("solve", path, "-q", "--max-bytes", 1000).exit_code == 0
    assert run("explain", path, "--max-bytes", 100).exit_code == 2
    with pytest.raises(TypeError, match="max_bytes must be a whole number"):
        files.load(path, max_bytes=1e9)


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_files_are_errors_of_their_own_kind(kind, tmp_path):
    path = write(tmp_path / f"tiny.{kind.split()[-1]}", kind)
    whole, rng = path.read_bytes(), np.random.default_rng(0)
    for _ in range(150):
        damaged = bytearray(whole)
        for at in rng.integers(len(whole), size=rng.integers(1, 4)):
            damaged[at] ^= 1 << rng.integers(8)
        path.write_bytes(damaged[: rng.choice([len(whole), rng.integers(1, len(whole))])])
        with contextlib.suppress(files.FileError), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what remains may be a poor problem
            files.load(path, max_bytes=10**8)


def test_a_folder_is_named_as_one(tmp_path):
    with pytest.raises(files.FileError, match="this is a folder; give a file in it"):
        files.load(tmp_path)
    (tmp_path / "model.mps").mkdir()
    assert "model.mps: this is a folder" in run("solve", tmp_path / "model.mps").stderr
    assert ".: this is a folder" in run("solve", ".").stderr


# the commands


@pytest.fixture(autouse=True)
def wide(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")


def test_solve_prints_banner_table_and_footer_and_writes_the_answer(tmp_path):
    path, answer = write(tmp_path / "tiny.qps", "qps"), tmp_path / "answer.npz"
    done = run("solve", path, "-o", answer, "--tol", "1e-8", "--explain")
    assert done.exit_code == 0, done.output
    for text in (
        "dapd ",
        "tiny.qps, minimise",
        "3, of which 2 bounded",
        "tolerance relative 1e-08",
        "way ",
        "iteration",
    ):
        assert text in done.output
    assert "optimal: The certificate meets the tolerance" in done.output
    (shown,) = [line.split()[1] for line in done.output.splitlines() if "objective" in line]
    assert float(shown) == pytest.approx(OPTIMUM, rel=1e-6)
    with np.load(answer) as stored:
        assert str(stored["status"]) == "optimal"
        assert stored["objective"] == pytest.approx(OPTIMUM, rel=1e-6)
        gradient = P @ stored["x"] + Q + A.T @ stored["y"] + stored["z"]
    np.testing.assert_allclose(gradient, 0.0, atol=1e-6)


def test_solve_writes_json_and_plots_and_may_be_quiet(tmp_path):
    path, answer, plot = write(tmp_path / "tiny.npz", "npz"), tmp_path / "answer.json", tmp_path / "plot.png"
    done = run("solve", path, "--quiet", "--output", answer, "--plot", plot, "--tol-absolute", "1e-7")
    assert done.exit_code == 0, done.output
    assert done.output.split() == ["optimal", f"{json.loads(answer.read_text())['objective']:.12g}"]
    assert json.loads(answer.read_text())["status"] == "optimal"
    assert plot.read_bytes().startswith(b"\x89PNG")


ENDS = [
    ('{"P": [[1, 0], [0, 1]], "A": [[1, 1], [1, 1]], "l": [0, 1], "u": [0, 1]}', [], "infeasible", 3),
    ('{"q": [1, 0], "A": [[0, 1]], "u": 1}', [], "unbounded", 4),
    ('{"P": [[1, 0], [0, 1]], "q": [-1, 2], "lb": 0}', ["--max-iterations", 0], "iteration_limit", 5),
    ('{"P": [[1, 0], [0, 1]], "q": [-1, 2], "lb": 0}', ["--time-limit", 1e-9], "time_limit", 5),
]


@pytest.mark.parametrize(("text", "options", "status", "code"), ENDS)
def test_exit_status_tells_how_it_ended(text, options, status, code, tmp_path):
    path = tmp_path / "some.json"
    path.write_text(text)
    done = run("solve", path, "-q", *options)
    assert done.exit_code == code, done.output
    assert done.output.split()[0] == status


@pytest.mark.parametrize(("cause", "code"), [(dapd.Cause.ctrl_c, 130), (dapd.Cause.rounding, 6)])
def test_ctrl_c_and_rounding_have_their_own_exit_status(cause, code, tmp_path, monkeypatch):
    real = dapd.solve

    def solve(*args, **options):
        found = real(*args, **options)
        return dataclasses.replace(found, status=cause.status, cause=cause)

    monkeypatch.setattr(dapd, "solve", solve)
    assert run("solve", write(tmp_path / "tiny.npz", "npz"), "-q").exit_code == code


def test_errors_are_one_line_and_exit_status_two(tmp_path):
    good, bad = write(tmp_path / "tiny.npz", "npz"), tmp_path / "bad.qps"
    bad.write_text(QPS.replace("-1.0", "abc", 1))
    for words, message in (
        (("solve", bad), "Error: bad.qps, line 10: 'abc' is not a number"),
        (("explain", bad), "Error: bad.qps, line 10"),
        (("solve", tmp_path / "none.npz"), "none.npz: no such file"),
        (("solve", good, "--method", "y-dap"), "unknown method 'y-dap'; did you mean 'y-dapd'?"),
        (("solve", good, "-q", "--method", "y-dapd"), "needs mu > 0"),
        (("solve", good, "-o", tmp_path / "answer.txt"), "answer.txt: answers are written as .npz or .json"),
        (("solve", good, "-o", tmp_path / "no" / "answer.npz"), "there is no such folder"),
        (("solve", good, "--tol", "-1"), "tol must be >= 0"),
        (("solve", good, "--plot", tmp_path / "plot.what"), "plot.what: Format 'what' is not supported"),
    ):
        done = run(*words)
        assert done.exit_code == 2, done.output
        assert message in done.stderr
        assert len(done.stderr.splitlines()) == 1


def test_plots_need_matplotlib(tmp_path, monkeypatch):
    monkeypatch.setattr("dapd.cli.files.find_spec", lambda name: None)
    done = run("solve", write(tmp_path / "tiny.npz", "npz"), "--plot", tmp_path / "plot.png")
    assert done.exit_code == 2
    assert "pip install 'dapd[plot]'" in done.stderr


def test_explain_shows_the_ways(tmp_path):
    done = run("explain", write(tmp_path / "tiny.mat", "mat"))
    assert done.exit_code == 0, done.output
    assert "restarted first-order steps" in done.output
    assert "tries" in done.output


def test_named_methods_and_completion(tmp_path):
    path = tmp_path / "strong.json"
    path.write_text('{"P": [[2, 0], [0, 1]], "q": [1, 2], "A": [[1, 1]], "u": [-3]}')
    done = run("solve", path, "--method", "y-dapd")
    assert done.exit_code == 0, done.output
    assert "y-dapd, tolerance relative 1e-06" in done.output
    shown = run("--help").output
    assert "--install-completion" in shown
    completing = {"_DAPD_COMPLETE": "complete_bash", "COMP_WORDS": "dapd solve --method y-", "COMP_CWORD": "3"}
    offered = CliRunner().invoke(app, prog_name="dapd", env=completing).output.split()
    assert offered == [name for name in dapd.METHODS if name.startswith("y-")]


def test_solving_a_file_imports_no_plots():
    code = "import sys, dapd.cli.files; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert {"matplotlib", "highspy", "cvxpy"}.isdisjoint(loaded)
