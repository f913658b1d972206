"""The command `dapd`."""

import dataclasses
import os
import re
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest
import rich.console
from command_line import run
from cores import needs_core

import dapd
from dapd.cli import paper
from dapd.engines import ENGINES
from dapd.engines.native.threads import available
from dapd.machine import core
from dapd.paper.reproduce import Progress, catalogue, sessions
from dapd.paper.reproduce.runs import Run

PYPROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """One figure and one table with tiny budgets under their own names."""
    figure = catalogue.ITEMS["figure-qp"]
    panels = tuple(dataclasses.replace(panel, quick=200, full=300) for panel in figure.panels)
    table = dataclasses.replace(catalogue.ITEMS["table-nse-1"], quick=100, full=200)
    monkeypatch.setitem(catalogue.ITEMS, "figure-qp", dataclasses.replace(figure, panels=panels))
    monkeypatch.setitem(catalogue.ITEMS, "table-nse-1", table)
    monkeypatch.setenv("COLUMNS", "200")


def test_reproduce_writes_a_report_and_does_not_repeat_itself(tmp_path):
    out = tmp_path / "out"
    first = run("reproduce", "figure-qp", "table-nse-1", "--out", out, "--seeds", 3, "--jobs", 2)
    assert first.exit_code == 0, first.output
    assert f"Report: {out / 'index.html'}" in first.output
    assert re.search(r"\d+ hold, \d+ differ, \d+ are undecided", first.output)
    assert re.search(r"\d+ overlap ours, \d+ are better here, \d+ worse, 3 undecided", first.output)
    assert "table-nse-1" in first.output
    assert "s left)" in first.output
    table = (out / "table-nse-1.csv").read_bytes()
    assert len(list((out / "runs").iterdir())) == 7 + 9 + 1
    [session] = sessions.read(out / "runs")
    assert (session.full, session.jobs, session.computed) == (False, 2, 16)
    assert session.wall > 0
    again = run("reproduce", "figure-qp", "table-nse-1", "--out", out, "--seeds", 3)
    assert again.exit_code == 0
    assert "s left)" not in again.output
    assert (out / "table-nse-1.csv").read_bytes() == table
    assert sessions.read(out / "runs") == [session]  # nothing was computed


def test_quick_does_not_overwrite_a_full_report(tmp_path):
    assert run("reproduce", "figure-qp", "--full", "--out", tmp_path, "--jobs", 1).exit_code == 0
    page = (tmp_path / "index.html").read_bytes()
    assert b"This is the full report" in page
    quick = run("reproduce", "figure-qp", "--out", tmp_path, "--jobs", 1)
    assert f"is a full report and is kept; the quick one goes to {tmp_path / 'quick'}" in quick.output
    assert (tmp_path / "index.html").read_bytes() == page
    assert b"This is the quick report" in (tmp_path / "quick" / "index.html").read_bytes()


def test_full_uses_twenty_seeds_and_the_budgets_of_the_paper(tmp_path, monkeypatch):
    asked = []

    def complete(runs, *_, **__):
        asked.extend(runs)
        raise KeyboardInterrupt

    monkeypatch.setattr("dapd.reproduce.complete", complete)
    stopped = run("reproduce", "table-nse-1", "--full", "--out", tmp_path)
    assert stopped.exit_code == 130
    assert "Run the same command to continue" in stopped.output
    assert {one.seed for one in asked} == set(range(20))
    assert {one.iterations for one in asked} == {200}


def test_unknown_names_and_bad_options_are_errors(tmp_path):
    unknown = run("reproduce", "figure-9", "--out", tmp_path)
    assert unknown.exit_code == 2
    assert "no figure or table 'figure-9'" in unknown.output
    file = tmp_path / "file"
    file.write_text("")
    taken = run("reproduce", "figure-qp", "--out", file)
    assert taken.exit_code == 2
    assert "is a file; give a folder" in taken.output
    assert run("reproduce", "figure-qp", "--seeds", 0, "--out", tmp_path).exit_code == 2


def test_missing_extras_are_reported_before_any_computing(tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    lacking = run("reproduce", "figure-qp", "--out", tmp_path)
    assert lacking.exit_code == 2
    assert "needs clarabel and matplotlib; run pip install 'dapd[experiments]'" in lacking.output


def test_help_lists_the_figures_and_tables():
    shown = run("reproduce", "--help").output
    for name in ("figure-1", "table-nse-2", "--full", "--seeds", "--jobs", "--out"):
        assert name in shown


def test_info_shows_versions_threads_and_engine():
    shown = run("info")
    assert shown.exit_code == 0
    for word in ("dapd", "numpy", "scipy", "Python", "cores", "threads", "engines", "native core", "device"):
        assert word in shown.output
    assert re.search(rf"threads\s+native {available()}, \w+ \d+", shown.output)
    assert re.search(rf"dapd\s+({re.escape(dapd.__version__)}|not installed)", shown.output)


@needs_core
def test_info_names_the_variant_of_the_core_that_runs(monkeypatch):
    shown, able = run("info").output, core.variants()
    assert re.search(rf"engines\s+{', '.join(ENGINES)}\s", shown)
    assert re.search(rf"native core\s+{able[0]}; this processor runs {', '.join(able)}", shown)
    core.load.cache_clear()
    monkeypatch.setenv("DAPD_SIMD", "baseline")
    assert re.search(r"native core\s+baseline;", run("info").output)
    core.load.cache_clear()
    monkeypatch.setenv("DAPD_SIMD", "sse9")
    wrong = run("info")
    assert wrong.exit_code == 0
    assert "DAPD_SIMD must be one of" in wrong.output


def test_info_says_what_to_do_if_the_core_was_not_built(no_core):
    shown = run("info").output
    assert re.search(r"engines\s+auto, python, jax\s", shown)
    assert re.search(r"native core\s+not built, .* install a C\+\+20 compiler", shown)


def test_ctrl_c_stops_the_workers_and_says_how_to_continue(tmp_path):
    command = [sys.executable, "-c", "from dapd.cli import app; app()"]
    command += ["reproduce", "table-nse-2", "--full", "--out", str(tmp_path), "--jobs", "1"]
    cache = tmp_path / "cache"
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "DAPD_CACHE_DIR": str(cache)},
    )
    # a stored reference shows that a worker is running
    deadline = time.monotonic() + 60
    while not list(cache.glob("references/*.npz")) and time.monotonic() < deadline:
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Run the same command to continue" in output
    assert "Traceback" not in errors


@pytest.mark.parametrize("name", ["dapd", "scipy.sparse", "dapd.cli.versions"])
def test_ctrl_c_during_imports_is_quiet_and_has_its_exit_status(name):
    module, function = PYPROJECT["project"]["scripts"]["dapd"].split(":")
    code = f"""
import os, signal, sys

class Interrupts:
    def find_spec(self, name, *_):
        if name == {name!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupts())
signal.signal(signal.SIGINT, signal.default_int_handler)
from {module} import {function} as main
main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


@pytest.mark.parametrize("command", ["solve", "explain"])
def test_ctrl_c_while_a_file_is_read_has_its_exit_status(command, monkeypatch):
    def load(path, **_):
        raise KeyboardInterrupt

    monkeypatch.setattr("dapd.cli.files.load", load)
    done = run(command, "some.npz")
    assert done.exit_code == 130
    assert "Traceback" not in done.output


def test_bar_moves_with_the_work_done():
    with open("/dev/null", "w") as sink:
        console = rich.console.Console(force_terminal=True, width=120, file=sink)
        with paper._display(console) as shown:
            shown.show(Progress(None, 1, 4, 2.0, 8.0))
            task = shown.bar.tasks[0]
            assert (task.completed, task.total) == (2.0, 8.0)
            assert task.fields["text"] == "1/4 runs"


def test_few_progress_lines_are_printed(capsys):
    lines = paper._Lines(rich.console.Console())
    for k in range(100):
        lines.show(Progress(Run("qp-l1", "papc", k, 10), k + 1, 100, k + 1.0, 100.0))
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 2  # the first and the last
    assert printed[-1].startswith("100/100  qp-l1, PAPC, seed 99")
