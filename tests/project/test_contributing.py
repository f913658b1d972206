"""The diffs of CONTRIBUTING.md, applied to a copy of the sources and run."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import dapd

ROOT = Path(__file__).parents[2]
DIFFS = re.findall(r"```diff\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), re.S)


def files(diff):
    """Path, the class it is put before (empty: a new file) and the text of each file of a diff."""
    for part in re.split(r"^--- .*\n", diff, flags=re.M)[1:]:
        head, place, *lines = part.splitlines()
        assert all(line.startswith("+") for line in lines)
        after = place.rpartition("@@")[2].strip()
        yield head.removeprefix("+++ b/"), after, "\n".join(line[1:] for line in lines) + "\n"


@pytest.mark.parametrize("diff", DIFFS, ids=lambda diff: next(iter(files(diff)))[0])
def test_a_diff_of_one_source_file_and_one_test_is_enough(diff, tmp_path):
    changed = list(files(diff))
    assert [path.split("/")[0] for path, _, _ in changed] == ["src", "tests"]
    package = Path(dapd.__file__).parent
    shutil.copytree(package, tmp_path / "src/dapd", ignore=shutil.ignore_patterns("__pycache__", "reproduce"))
    for core in {path.parent for path in map(Path, _core_files())} - {
        package
    }:  # an editable install has them elsewhere
        for module in core.glob("_core_*"):
            shutil.copy(module, tmp_path / "src/dapd")
    (tmp_path / "tests").mkdir()
    shutil.copy(ROOT / "tests/support/instances.py", tmp_path / "tests")
    for path, before, text in changed:
        target = tmp_path / path
        if before:
            old = target.read_text(encoding="utf-8")
            assert old.count(before) == 1
            text = old.replace(before, text + before)
        target.write_text(text, encoding="utf-8")
    # -S leaves out an editable install, which would come before PYTHONPATH; the libraries stay
    paths = [tmp_path / "src", tmp_path / "tests", sysconfig.get_path("purelib")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))}
    command = [sys.executable, "-S", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, "tests"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def _core_files():
    from dapd.machine.core import load, variants

    return [load(variant).__file__ for variant in variants()]
