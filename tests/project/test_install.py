"""Installing: with a core, without a compiler, and what `import dapd` loads."""

import os
import subprocess
import sys
import sysconfig
import tomllib
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest

import dapd
from dapd.machine.core import variants

ROOT = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

SOLVE = """
import numpy as np
import dapd

rng = np.random.default_rng(0)
M, x = rng.standard_normal((5, 20)), rng.standard_normal(20)
result = dapd.solve(dapd.Problem(dapd.PseudoHuber(1.0), M, M @ x), direct=False)
assert result.converged
print(result.summary())
"""


def problem():
    rng = np.random.default_rng(0)
    M, x = rng.standard_normal((5, 20)), rng.standard_normal(20)
    return dapd.Problem(dapd.PseudoHuber(1.0), M, M @ x)


def run(*command, **environment):
    """What a command prints; its errors are shown if it fails."""
    words = list(map(str, command))
    done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, **environment}, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_import_loads_no_command_line_and_nothing_loads_plots_or_an_optimizer():
    script = "import dapd, sys; print(*sys.modules); import dapd.cli; print(*sys.modules)"
    package, command = (line.split() for line in run(sys.executable, "-c", script).splitlines())
    heavy = {"matplotlib", "clarabel", "jax", "scipy.optimize", "scipy.stats"}
    assert heavy.isdisjoint(command), heavy.intersection(command)
    assert {"typer", "rich", "click"}.isdisjoint(package)


@pytest.mark.skipif(not variants(), reason="the native core was not built")
def test_what_is_run_on_every_wheel_passes_here():
    assert run(sys.executable, ROOT / "tests" / "check_wheel.py").split()[::2] == list(variants())


def test_first_result_says_that_the_core_is_missing(no_core):
    result = dapd.solve(problem(), direct=False)
    assert result.converged
    assert result.engine == "python"
    assert "the native core was not built; install a C++ compiler and reinstall dapd" in result.engine.reason
    assert result.engine.reason in result.summary()


def test_native_engine_is_refused_if_the_core_is_missing(no_core):
    with pytest.raises(ValueError, match="the native core was not built"):
        dapd.solve(problem(), engine="native")


def test_block_methods_run_without_the_core(no_core):
    given = problem()
    blocks = dapd.Problem(given.f, given.M, given.b, blocks=4)
    result = dapd.solve(blocks, "x-sbc-dapd", seed=0)
    assert result.converged
    assert "the native core was not built" in result.engine.reason


@pytest.fixture(scope="module")
def wheel_without_compiler(tmp_path_factory):
    """The wheel that pip builds if no compiler is on the PATH."""
    place = tmp_path_factory.mktemp("wheel")
    clean = {name: "" for name in os.environ if name.startswith(("CMAKE", "SKBUILD", "DAPD"))}
    pip = (sys.executable, "-m", "pip", "wheel", "--no-index", "--no-deps", "--no-build-isolation")
    run(*pip, "--wheel-dir", place, ROOT, **clean, PATH=str(place / "nothing"), CC="", CXX="")
    [wheel] = place.glob("*.whl")
    return wheel


def test_without_a_compiler_the_wheel_is_pure_python(wheel_without_compiler):
    assert wheel_without_compiler.name == f"dapd-{dapd.__version__}-py3-none-any.whl"


def test_without_a_compiler_the_package_installs_and_solves(wheel_without_compiler, tmp_path):
    place = tmp_path / "venv"
    run(sys.executable, "-m", "venv", "--without-pip", place)
    python = place / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", python, "install", "--no-index", "--no-deps", wheel_without_compiler)
    # NumPy and the other dependencies come from this environment; its own dapd stays out, as paths in a path file are
    # not searched for further ones
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    shown = run(python, "-c", SOLVE, PYTHONPATH="")
    assert "python: the native core was not built; install a C++ compiler and reinstall dapd" in shown
    info = run(place / "bin" / "dapd", "info", COLUMNS="300", PYTHONPATH="")
    assert "not built, so the slower python engine runs" in info


def test_a_compiler_that_fails_can_be_made_an_error(tmp_path):
    pip = (sys.executable, "-m", "pip", "wheel", "--no-index", "--no-deps", "--no-build-isolation", "--wheel-dir")
    with pytest.raises(AssertionError, match="compiler"):
        run(*pip, tmp_path, ROOT, PATH=str(tmp_path / "nothing"), CC="", CXX="", DAPD_REQUIRE_CORE="1")


def test_version_is_the_same_everywhere():
    assert dapd.__version__ == PYPROJECT["project"]["version"] == version("dapd")


def test_extra_build_has_what_the_build_requires():
    assert set(PYPROJECT["build-system"]["requires"]) <= set(PYPROJECT["project"]["optional-dependencies"]["build"])
