"""How front ends are reached, and the quadratic programs that they share."""

import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp

import dapd

HEAVY = ("cvxpy", "qpsolvers", "sklearn", "pandas", "pylops", "pyproximal")


def run(code):
    """What a new interpreter prints, in which nothing was imported yet."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_dapd_alone_imports_no_other_library():
    assert run(f"import sys, dapd; dir(dapd); print([name for name in {HEAVY} if name in sys.modules])") == "[]"


MODULES = {
    "cvxpy": "DAPD",
    "experiments": "newton",
    "files": "load",
    "jax": "solve",
    "lower_bounds": "affine",
    "problems": "qp",
    "qpsolvers": "register",
    "reproduce": "choose",
    "sklearn": "LinearSVM",
    "testing": "check_prox",
    "theory": "x_dapd",
}


@pytest.mark.parametrize("name", MODULES)
def test_modules_are_imported_as_well_as_reached_as_attributes(name):
    found = MODULES[name]
    code = f"import dapd.{name}; from dapd.{name} import {found}; print(dapd.{name}.{found} is {found})"
    assert run(code) == "True"


@pytest.mark.parametrize("use", ["dapd.{}", "import dapd.{}"])
@pytest.mark.parametrize("name", ["cvxpy", "qpsolvers", "sklearn"])
def test_a_missing_library_is_named_with_the_command_that_installs_it(name, use):
    code = f"""
import sys, dapd
sys.modules[{name!r}] = None  # importing it raises ModuleNotFoundError
try:
    {use.format(name)}
except ModuleNotFoundError as error:
    print(error)
"""
    assert run(code) == f"dapd.{name} needs {name}: pip install 'dapd[{name}]'"


def test_names_are_listed():
    assert {"cvxpy", "qpsolvers", "sklearn", "minimize", "lsq_linear", "problems", "files"} <= set(dir(dapd))


def test_only_public_names_are_listed():
    code = "import dapd, dapd.cli, dapd.frontends.scipy; print(*(name for name in dir(dapd) if name[:2] != '__'))"
    listed = set(run(code).split())
    assert listed == {*dapd.__all__, "cvxpy", "jax", "qpsolvers", "reproduce", "sklearn", "torch"}


@pytest.mark.parametrize("make", [np.asarray, sp.csc_array])
def test_qp_has_the_signs_of_other_solvers(make):
    rng = np.random.default_rng(0)
    root, A, q = rng.standard_normal((6, 6)), rng.standard_normal((4, 6)), rng.standard_normal(6)
    P = root @ root.T
    limits = np.array([0.1, -np.inf, -0.1, -0.2]), np.array([0.1, 0.05, np.inf, 0.2])
    problem = dapd.problems.qp(make(P), q, make(A), *limits, lb=-0.3, ub=[0.2, np.inf, 1, 1, 1, 1])
    result = dapd.solve(problem, tol=1e-9)
    assert result.converged
    assert abs(P @ result.x + q + A.T @ result.y + result.z).max() < 1e-7
    assert result.objective == pytest.approx(result.x @ (0.5 * P @ result.x + q))


def test_qp_without_some_parts():
    assert dapd.solve(dapd.problems.qp(np.ones(3), None)).converged
    assert dapd.solve(dapd.problems.qp(None, np.ones(3), lb=-1)).x == pytest.approx(-np.ones(3))
    assert dapd.solve(dapd.problems.qp(None, np.ones(3), np.eye(3), u=1)).status == "unbounded"
    with pytest.raises(ValueError, match="u is given without A"):
        dapd.problems.qp(np.ones(3), None, u=1)
    with pytest.raises(TypeError, match="did you mean 'lb'"):
        dapd.problems.qp(np.ones(3), None, lbs=1)
    with pytest.raises(ValueError, match="P must be symmetric"):
        dapd.problems.qp(np.triu(np.ones((3, 3))), None)
