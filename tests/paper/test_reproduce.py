"""The machinery of `dapd reproduce`: runs that resume, intervals, and the claims of the paper as checks."""

import dataclasses
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st
from short_items import shortened

import dapd
from dapd import theory
from dapd.methods.block import BlockMethod
from dapd.paper.reproduce import Outcome, published, sessions, sources, write_report
from dapd.paper.reproduce.catalogue import FIGURES, ITEMS, TABLES, Figure, Table, choose
from dapd.paper.reproduce.claims import FAR, Alike, CatchesUp, Curve, FallsLinearly, First, Order
from dapd.paper.reproduce.intervals import ENOUGH, log_interval, rows, runs_csv, seconds_csv, table_csv
from dapd.paper.reproduce.runs import EXPERIMENTS, Run, compute, load, run_cost, save, title
from dapd.paper.reproduce.schedule import complete

THREADS_BEFORE = os.environ.get("OMP_NUM_THREADS")


def curve(rate, at=range(0, 101, 5)):
    return Curve(list(at), [10.0 ** (-rate * k) for k in at])


def test_first_needs_every_level_to_be_reached_before_the_others():
    claim = First("y is fastest", "y-dapd", 1e-1, 1e-4)
    assert claim.check({"y-dapd": curve(0.1), "papc": curve(0.05)}, "iterations").holds is True
    assert claim.check({"y-dapd": curve(0.05), "papc": curve(0.1)}, "iterations").holds is False
    # ahead at first, overtaken later
    bent = Curve([0, 10, 20, 100], [1.0, 1e-2, 1e-3, 1e-4])
    verdict = claim.check({"y-dapd": bent, "papc": curve(0.08)}, "iterations")
    assert verdict.holds is False
    assert "y-DAPD does not lead at 5.6e-04; iterations to 1e-01: y-DAPD 10, PAPC 15" in verdict.evidence
    # behind at first, ahead below 2e-3
    late = {"y-dapd": curve(0.1), "papc": Curve([0, 5, 100], [1.0, 2e-3, 1e-3])}
    assert claim.check(late, "iterations").holds is False
    assert First("", "y-dapd", 1e-3, 1e-4).check(late, "iterations").holds is True
    # ahead, but stuck while a rival makes progress
    stuck = {"y-dapd": Curve([0, 10, 100], [1.0, 2e-4, 2e-4]), "papc": curve(0.08)}
    assert claim.check(stuck, "iterations").holds is False
    with pytest.raises(ValueError, match="down_to must be in"):
        First("", "y-dapd", 1e-3, 1e-2)


def test_first_does_not_decide_if_no_method_gets_far_enough():
    claim = First("y is fastest", "y-dapd", 1e-3, 1e-9)
    verdict = claim.check({"y-dapd": curve(0.05), "papc": curve(0.02)}, "iterations")
    assert verdict.holds is None
    assert "iterations to 1e-09: y-DAPD not in 100, PAPC not in 100" in verdict.evidence
    # but a rival that gets there decides
    assert claim.check({"y-dapd": curve(0.05), "papc": curve(0.5)}, "iterations").holds is False


def test_first_may_be_limited_to_some_of_the_others():
    curves = {"x-dapd": curve(0.1), "papc": curve(0.05), "x-sbc-dapd": curve(0.3)}
    assert First("", "x-dapd", 1e-1, 1e-2, over=("papc",)).check(curves, "").holds is True
    assert First("", "x-dapd", 1e-1, 1e-2).check(curves, "").holds is False


def test_first_by_far_requires_the_factor_at_every_level():
    claim = First("", "y-dapd", 1e-1, 1e-4, factor=FAR)
    assert claim.check({"y-dapd": curve(0.1), "papc": curve(0.03)}, "").holds is True
    assert claim.check({"y-dapd": curve(0.1), "papc": curve(0.07)}, "").holds is False
    # far ahead at first, not later
    bent = Curve([0, 10, 100], [1.0, 1e-2, 1e-6])
    assert claim.check({"y-dapd": bent, "papc": curve(0.05)}, "").holds is False
    # a rival that has not had twice as long may still get there in time
    late = {"y-dapd": Curve([0, 70, 100], [1.0, 1e-4, 1e-5]), "papc": Curve([0, 100], [1.0, 0.5])}
    assert claim.check(late, "").holds is None
    assert dataclasses.replace(claim, factor=1.0).check(late, "").holds is True


def test_order_ranks_by_arrival():
    claim = Order("", (("y-dapd",), ("papc", "x-dapd"), ("capd",)), 1e-3)
    curves = {"y-dapd": curve(0.1), "papc": curve(0.05), "x-dapd": curve(0.045), "capd": curve(0.01)}
    verdict = claim.check(curves, "iterations")
    assert verdict.holds is True
    assert verdict.evidence == (
        "iterations to 1e-03: y-DAPD 30, PAPC 60, x-DAPD 70, CAPD not in 100; at the end CAPD 1.0e-01"
    )
    # a smaller error at the end of the budget decides nothing
    assert claim.check({**curves, "papc": curve(0.02), "x-dapd": curve(0.02)}, "").holds is None
    assert claim.check({**curves, "papc": curve(0.005)}, "").holds is None
    assert claim.check({**curves, "capd": curve(0.2)}, "").holds is False
    assert claim.check({**curves, "capd": curve(0.044)}, "").holds is None  # not separated
    assert claim.check({name: curve(0.01 * (k + 1)) for k, name in enumerate(curves)}, "").holds is False
    slow = {name: curve(0.02 / (k + 1)) for k, name in enumerate(curves)}
    assert claim.check(slow, "").holds is None  # no method is at the level yet


def test_alike_compares_when_one_error_is_reached():
    claim = Alike("x is like PAPC", "x-dapd", "papc", 1e-2)
    assert claim.check({"x-dapd": curve(0.1), "papc": curve(0.07)}, "").holds is True  # errors: 1e3, counts: 1.5
    assert claim.check({"x-dapd": curve(0.1), "papc": curve(0.02)}, "").holds is False
    # near the start all curves are alike: not decided
    assert claim.check({"x-dapd": curve(0.003), "papc": curve(0.001)}, "").holds is None
    flat = Curve([0, 100], [1.0, 0.99])
    assert claim.check({"x-dapd": curve(0.035), "papc": flat}, "").holds is None
    assert claim.check({"x-dapd": curve(0.1), "papc": flat}, "").holds is False
    # reached at the start, or exact
    assert claim.check({"x-dapd": Curve([0, 1], [0.0, 0.0]), "papc": Curve([0, 1], [1.0, 0.0])}, "").holds is True
    with pytest.raises(ValueError, match="level must be in"):
        Alike("", "x-dapd", "papc", 0.9)


@given(st.floats(1e-3, 1.0), st.floats(1e-3, 1.0), st.sampled_from([3e-1, 1e-2, 1e-5]))
def test_methods_far_apart_are_not_alike(rate, other, level):
    curves = {"y-dapd": curve(rate), "papc": curve(other)}
    if First("", "y-dapd", level, level, factor=FAR).check(curves, "").holds:
        assert Alike("", "y-dapd", "papc", level).check(curves, "").holds is False
        assert Order("", (("y-dapd",), ("papc",)), level).check(curves, "").holds is True


def test_catches_up_requires_a_lag_and_then_a_lead():
    claim = CatchesUp("", "capd", "papc", 5, 100)
    late = Curve([0, 5, 100], [1.0, 0.9, 1e-6])
    early = Curve([0, 5, 100], [1.0, 0.1, 1e-3])
    assert claim.check({"capd": late, "papc": early}, "").holds is True
    assert claim.check({"capd": early, "papc": late}, "").holds is False
    never = Curve([0, 5, 100], [1.0, 0.9, 1e-2])
    assert claim.check({"capd": never, "papc": early}, "").holds is False
    assert dataclasses.replace(claim, end=200).check({"capd": never, "papc": early}, "").holds is None
    assert dataclasses.replace(claim, start=150, end=200).check({"capd": late, "papc": early}, "").holds is None


def test_falls_linearly_does_not_decide_before_the_end():
    claim = FallsLinearly("", "y-dapd", 1e-3, 1e-11, 100)
    assert claim.check({"y-dapd": curve(0.2)}, "").holds is True
    slower = Curve([0, 10, 20, 100], [1.0, 1e-3, 1e-7, 1e-11])
    assert claim.check({"y-dapd": slower}, "").holds is False
    assert claim.check({"y-dapd": curve(0.05)}, "").holds is False
    assert dataclasses.replace(claim, end=200).check({"y-dapd": curve(0.05)}, "").holds is None


CURVES = st.lists(st.floats(-3.0, 0.3), min_size=4, max_size=30)
CLAIMS = [
    First("", "y-dapd", 1e-1, 1e-3),
    First("", "y-dapd", 3e-1, 1e-2, factor=FAR),
    Order("", (("y-dapd",), ("papc", "x-dapd"), ("capd",)), 1e-1),
    Alike("", "papc", "capd", 1e-1),
    CatchesUp("", "capd", "papc", 5, 60),
    FallsLinearly("", "y-dapd", 1e-1, 1e-4, 60),
]


@given(st.tuples(CURVES, CURVES, CURVES, CURVES), st.integers(1, 30))
def test_a_longer_run_never_reverses_a_verdict(falls, budget):
    """Each curve falls or rises by some decades per point; a budget cuts all of them at the same count."""

    def cut(steps, end):
        at = range(0, 2 * len(steps) + 1, 2)
        return Curve(list(at)[: end + 1], np.cumprod([1.0, *10.0 ** np.array(steps)]).tolist()[: end + 1])

    longest = min(len(fall) for fall in falls)
    short, long = (
        dict(zip(("y-dapd", "papc", "x-dapd", "capd"), (cut(fall, end) for fall in falls), strict=True))
        for end in (min(budget, longest), longest)
    )
    for claim in CLAIMS:
        early, final = claim.check(short, "").holds, claim.check(long, "").holds
        assert early is None or early is final


def test_interval_is_students_t_interval_of_the_logarithm():
    errors = [1e-3, 1e-4, 1e-5]
    low, high = log_interval(errors)
    half = 4.30265 / math.sqrt(3)  # the 97.5 % quantile with two degrees of freedom, deviation one
    assert low == pytest.approx(10 ** (-4 - half), rel=1e-4)
    assert high == pytest.approx(10 ** (-4 + half), rel=1e-4)
    assert log_interval(errors[:2]) is None


@pytest.fixture(scope="module")
def template():
    return compute(Run("qp-inequality", "papc", 0, 50), EXPERIMENTS["qp-inequality"])


@pytest.mark.parametrize(("scale", "verdict"), [(1.0, "overlaps"), (1e-4, "better"), (1e4, "worse")], ids=str)
def test_interval_overlaps_the_papers_or_is_better_or_worse(template, scale, verdict):
    table = TABLES[0]
    rng = np.random.default_rng(0)
    records = {}
    for run in table.runs(quick=False, seeds=20):
        low, high = published.INTERVALS[table.name][run.method]
        error = scale * math.sqrt(low * high) * 10 ** rng.normal(0, 0.1)
        records[run] = dataclasses.replace(template, run=run, error=[1.0, error])
    found = rows(table, records, quick=False, seeds=20)
    assert [row.method for row in found] == ["papc", "capd", "y-dapd"]
    for row in found:
        assert row.verdict == verdict
        assert row.remark == "" if verdict == "overlaps" else verdict in row.remark
    assert table_csv(found).splitlines()[0] == "method,seeds,low,high,paper_low,paper_high,verdict"
    assert all(line.endswith(verdict) for line in table_csv(found).splitlines()[1:])


def test_table_is_not_compared_with_other_budgets_or_too_few_seeds(template):
    few = [(TABLES[0], False, seeds, f"{ENOUGH} in the paper") for seeds in (1, 2, 3, ENOUGH - 1)]
    for table, quick, seeds, word in ((ITEMS["table-nse-1"], True, ENOUGH, "in the paper"), *few):
        records = {
            run: dataclasses.replace(template, run=run, error=[0.1]) for run in table.runs(quick=quick, seeds=seeds)
        }
        for row in rows(table, records, quick=quick, seeds=seeds):
            assert row.verdict == "undecided"
            assert word in row.remark
            assert (row.ours is not None) == (seeds >= 3)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("seeds", [1, ENOUGH])
def test_table_is_red_if_an_error_is_not_finite(template, bad, seeds):
    table = TABLES[0]
    errors = {run: 1e-9 if run.seed else bad for run in table.runs(quick=False, seeds=seeds)}
    records = {run: dataclasses.replace(template, run=run, error=[error]) for run, error in errors.items()}
    for row in rows(table, records, quick=False, seeds=seeds):
        assert row.verdict == "worse"
        assert "not finite" in row.remark


def test_note_appears_only_in_rows_that_it_can_explain():
    for table in TABLES:
        told = {method for method, note in table.notes.items() if "Gurobi" in note}
        assert told == ({"y-dapd"} if "cst" in table.name else set())
        assert all("possible" in note or "Gurobi" in note for note in table.notes.values())


def test_catalogue_covers_the_paper():
    assert set(ITEMS) == set(published.SECONDS)
    assert {table.name for table in TABLES} == set(published.INTERVALS)
    assert sum(sum(seconds) for seconds in published.SECONDS.values()) == pytest.approx(
        published.TOTAL_SECONDS, abs=0.2
    )
    for item in ITEMS.values():
        assert item.runs(quick=True, seeds=1)
        if isinstance(item, Figure):
            assert len(item.panels) == len(published.SECONDS[item.name]) == 2
            for panel in item.panels:
                assert sum(isinstance(claim, Order) for claim in panel.claims) == 1
                assert all(claim.about(panel.methods) <= set(panel.methods) for claim in panel.claims)
        else:
            assert isinstance(item, Table)
            assert set(item.methods) == set(published.INTERVALS[item.name])
    for run in ITEMS["figure-shared-sample"].runs(quick=False, seeds=20):
        assert run.iterations * (4 if "sbc" in run.method else 400) == 80_000_000
        assert title(run.method)
        assert run_cost(run) > 0


def test_names_are_checked_and_sorted_as_in_the_catalogue():
    assert [item.name for item in choose(["table-cst-1", "figure-1"])] == ["figure-1", "table-cst-1"]
    assert choose([]) == choose(["all"]) == list(ITEMS.values())
    with pytest.raises(ValueError, match="did you mean 'figure-1'"):
        choose(["figure1"])


def test_record_is_read_back_only_if_complete(template, tmp_path):
    save(template, tmp_path)
    assert load(template.run, tmp_path) == template
    [path] = tmp_path.iterdir()
    path.write_text(path.read_text()[:-30])
    assert load(template.run, tmp_path) is None
    for part in (dapd.__version__, sources.digest(), np.__version__, scipy.__version__):
        assert part in template.made_by
    save(dataclasses.replace(template, made_by=template.made_by.replace(sources.digest(), "0")), tmp_path)
    assert load(template.run, tmp_path) is None  # computed from other sources
    for text in (runs_csv, seconds_csv):
        assert text([template.run], {template.run: template}).count("\n") == len(template.iterations) + 1


PACKAGE = Path(dapd.__file__).parent
DEFINING = (
    "dapd/theory/constants.py",
    "dapd/methods/capd.py",
    "dapd/methods/oracle.py",
    "dapd/paper/experiments/references.py",
    "dapd/functions/smooth.py",
    "dapd/kinds/by_rows.py",
    "dapd/operators/structured.py",
    "dapd/spectrum/lanczos.py",
    "dapd/solving/race.py",
    "dapd/ways/named.py",
    "dapd/certificate/certify.py",
    "dapd/engines/native/runner.py",
    "dapd/engines/native/tracer.py",
    "dapd/arrays.py",
)


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """A copy of the real sources."""
    out = tmp_path_factory.mktemp("tree")
    shutil.copytree(PACKAGE, out / "dapd", ignore=shutil.ignore_patterns("__pycache__", "_core_*"))
    (out / "core").mkdir()
    (out / "core/module.cpp").write_text("int main();")
    return out, sources.fingerprint(out / "dapd")


def changes(tree, name):
    """Whether a changed file changes the digest of the sources."""
    folder, before = tree
    path = folder / name
    text = path.read_text(encoding="utf-8")
    path.write_text(text + "\n# changed\n", encoding="utf-8")
    after = sources.fingerprint(folder / "dapd")
    path.write_text(text, encoding="utf-8")
    return after != before


@pytest.mark.parametrize("name", [*DEFINING, "core/module.cpp"])
def test_digest_covers_what_defines_a_result(tree, name):
    assert changes(tree, name)


@pytest.mark.parametrize(
    "name", ["paper/reproduce/report.py", "cli/__init__.py", "solving/choice.py", "newton/newton.py", "__init__.py"]
)
def test_digest_leaves_out_what_a_named_method_never_reaches(tree, name):
    assert not changes(tree, f"dapd/{name}")


def test_digest_follows_every_import_of_a_run(tmp_path):
    """Whatever of the package a run loads and the digest leaves out is behind a front door."""
    defining = {path.relative_to(PACKAGE).as_posix() for path in sources.defining(PACKAGE)}
    script = (
        "import sys, types\n"
        "package = types.ModuleType('dapd')\n"  # without the imports of the front door
        f"package.__path__ = [{str(PACKAGE)!r}]\n"
        "sys.modules['dapd'] = package\n"
        "import dapd.methods, dapd.paper.experiments, dapd.engines.python\n"
        "import dapd.solving.race, dapd.solving.answer, dapd.ways.named\n"
        "import dapd.engines.native.runner, dapd.engines.native.blocks\n"
        "print(*(m.__file__ for n, m in sys.modules.items() if n.startswith('dapd') and getattr(m, '__file__', 0)))\n"
    )
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=tmp_path)
    loaded = {Path(name).relative_to(PACKAGE).as_posix() for name in shown.stdout.split()}
    loaded = {name for name in loaded if not name.startswith("_core_")}
    assert len(loaded) > 40
    # an empty __init__.py defines nothing
    rest = {name for name in loaded - defining if (PACKAGE / name).read_text(encoding="utf-8").count("import")}
    assert rest <= set(sources.FRONT_DOORS)
    (tree := tmp_path / "dapd").mkdir()
    (tree / "_core_any.so").write_bytes(b"1")
    before = sources.fingerprint(tree)
    (tree / "_core_any.so").write_bytes(b"2")
    assert sources.fingerprint(tree) != before  # an installation without the sources of the core
    assert len(sources.digest()) == 16


def test_stale_drafts_are_removed(tmp_path):
    stale, fresh = tmp_path / "a.json.1.draft", tmp_path / "b.json.2.draft"
    for path in (stale, fresh):
        path.write_text("")
    os.utime(stale, (time.time() - 3600,) * 2)
    complete([], tmp_path, jobs=1)
    assert not stale.exists()
    assert fresh.exists()


def test_sessions_add_up_to_the_wall_clock_time(tmp_path):
    assert sessions.read(tmp_path) == []
    for full, count in ((True, 2), (False, 3), (True, 1)):
        log = sessions.Log(tmp_path, full=full, jobs=2)
        for _ in range(count):
            log.count()
    logged = sessions.read(tmp_path)
    assert [(one.full, one.computed) for one in logged] == [(True, 2), (False, 3), (True, 1)]
    assert sessions.total(logged, 3) == pytest.approx(logged[0].wall + logged[2].wall)
    assert sessions.total(logged, 4) is None  # some runs are not in the log


def test_run_counts_products_with_blocks(template):
    assert template.products == [2 * k for k in template.iterations]
    assert template.iterations[-1] == 50
    blocks = compute(Run("cst-blocks-1", "papc", 0, 3), EXPERIMENTS["cst-blocks-1"])
    assert blocks.products[-1] == 3 * 2 * 200
    for method, shared in (("y-sbc-dapd", "y-sbc-dapd-i"), ("x-sbc-dapd", "x-sbc-dapd-i")):
        pair = [compute(Run("cst-blocks-1", name, 0, 300), EXPERIMENTS["cst-blocks-1"]) for name in (method, shared)]
        assert all(record.products[-1] == 1200 for record in pair)
        assert pair[0].error != pair[1].error
        assert title(shared) == title(method) + "-i"


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_predicted_and_counted_products_and_gradients_agree(name):
    """Every method that can solve the problem, also those that no figure shows."""
    experiment = EXPERIMENTS[name]
    problem = experiment.make(0)
    spectrum = None
    for key, method in dapd.METHODS.items():
        if not method.any_phi and not problem.phi.is_zero:
            continue
        for shared in (False, True) if issubclass(method, BlockMethod) else (False,):
            if issubclass(method, BlockMethod) and experiment.blocks == 1:
                continue
            # CAPD needs a whole outer iteration; a block method as many as make its start negligible
            limit = 2_000 if key == "capd" else 100 * experiment.blocks if issubclass(method, BlockMethod) else 200
            options = {"shared_sample": shared} if issubclass(method, BlockMethod) else {}
            result = dapd.solve(problem, key, tol=0, max_iterations=limit, spectrum=spectrum, seed=0, **options)
            spectrum = result.spectrum
            predicted = theory.counts(result.parameters, result.iterations, **options)
            counted = result.gradients, result.products, result.block_products
            assert result.iterations > 0
            assert counted == pytest.approx(tuple(predicted), rel=0.02)


def test_two_runs_with_one_seed_give_identical_tables_verdicts_and_pictures(tmp_path):
    items = [shortened(item) for item in choose(["figure-qp", "table-nse-1"])]
    runs = [run for item in items for run in item.runs(quick=True, seeds=1)]
    written = []
    for name, jobs in (("one", 1), ("two", 2)):
        records = complete(runs, tmp_path / name / "runs", jobs=jobs)
        write_report(Outcome(items, records, quick=True, seeds=1), tmp_path / name)
        files = [*(tmp_path / name / "outcome").iterdir(), *(tmp_path / name).glob("*.csv")]
        written.append({path.name: path.read_bytes() for path in files if "seconds" not in path.name})
    timed = {name for name in written[0] if name.startswith("machine")}
    assert timed == {"machine.md"}
    assert len(written[0]) == 7
    for name in written[0].keys() - timed:
        assert written[0][name] == written[1][name]


RUNS = [Run("qp-inequality", method, seed, 2_000) for seed in (0, 1) for method in ("papc", "x-dapd", "y-dapd")]


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """The folder and the records of RUNS by one process, and the progress that was told."""
    folder, told = tmp_path_factory.mktemp("stored"), []
    return folder, complete(RUNS, folder, jobs=1, show=told.append), told


def test_runs_with_the_same_seed_are_identical_for_any_number_of_jobs(stored, tmp_path):
    _, first, _ = stored
    again = complete(RUNS, tmp_path, jobs=2)
    assert list(first) == list(again) == RUNS
    for run in RUNS:
        assert first[run].error == again[run].error
        assert first[run].kkt == again[run].kkt
    assert first[RUNS[0]].error != first[RUNS[3]].error


def test_finished_runs_are_not_repeated_and_progress_is_reported(stored):
    folder, _, told = stored
    stamps = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert told[-1].runs_done == told[-1].runs == len(stamps) == 6
    assert told[-1].done == pytest.approx(told[-1].total)
    assert [step.done for step in told] == sorted(step.done for step in told)
    complete([*RUNS, Run("qp-inequality", "papc", 2, 10)] * 2, folder, jobs=1)
    assert len(list(folder.iterdir())) == 7
    assert all((folder / name).stat().st_mtime_ns == stamp for name, stamp in stamps.items())
    assert os.environ.get("OMP_NUM_THREADS") == THREADS_BEFORE


def test_an_error_in_a_run_is_raised_and_leaves_no_process(tmp_path):
    with pytest.raises(ValueError, match="unknown method"):
        complete([Run("qp-inequality", "no-such", 0, 10)], tmp_path, jobs=1)
    assert not list(tmp_path.glob("*.json"))


def test_a_killed_run_continues_from_its_stored_runs(tmp_path):
    """Kill the command in the middle, by a signal that cannot be caught, and start it again."""
    script = (
        "from pathlib import Path\n"
        "from dapd.paper.reproduce.runs import Run\n"
        "from dapd.paper.reproduce.schedule import complete\n"
        "if __name__ == '__main__':\n"
        "    runs = [Run('qp-inequality', 'papc', 0, 500), Run('qp-inequality', 'x-dapd', 0, 100_000_000)]\n"
        f"    complete(runs, Path({str(tmp_path)!r}), jobs=2)\n"
    )
    path = tmp_path / "script.py"
    path.write_text(script)
    process = subprocess.Popen([sys.executable, str(path)], start_new_session=True)
    try:
        deadline = time.monotonic() + 60
        while not list(tmp_path.glob("*.json")) and time.monotonic() < deadline:
            time.sleep(0.1)
        children = _children(process.pid)
        process.send_signal(signal.SIGKILL)
        process.wait()
        # the workers end with their parent
        while any(map(_alive, children)) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert not any(map(_alive, children))
    finally:
        process.kill()
    [kept] = tmp_path.glob("*.json")
    before = kept.stat().st_mtime_ns
    runs = [Run("qp-inequality", "papc", 0, 500), Run("qp-inequality", "x-dapd", 0, 500)]
    records = complete(runs, tmp_path, jobs=1)
    assert kept.stat().st_mtime_ns == before
    assert json.loads(kept.read_text())["error"] == records[runs[0]].error
    assert len(list(tmp_path.glob("*.json"))) == 2


def _children(pid):
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False)
    return [int(line) for line in found.stdout.split()]


def _alive(pid):
    found = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return bool(found.stdout.strip()) and not found.stdout.strip().startswith("Z")


# budgets just large enough to decide some claim of each panel
ORDER = {
    ("figure-1", "cst-1"): 19_000,
    ("figure-1", "cst-2"): 5_000,
    ("figure-2", "cst-blocks-1"): 2_500,
    ("figure-2", "cst-blocks-2"): 500,
    ("figure-3", "nse-1"): 8_000,
    ("figure-3", "nse-2"): 36_000,
    ("figure-long-run", "cst-1"): 19_000,
    ("figure-long-run", "cst-2"): 5_000,
    ("figure-kkt", "cst-1"): 19_000,
    ("figure-kkt", "cst-2"): 5_000,
    ("figure-shared-sample", "cst-blocks-1"): 2_500,
    ("figure-shared-sample", "cst-blocks-2"): 500,
    ("figure-qp", "qp-l1"): 20_000,
    ("figure-qp", "qp-inequality"): 40_000,
}
# claims that so few iterations cannot decide
UNDECIDED = {
    ("figure-1", "cst-2"),
    ("figure-long-run", "cst-2"),
    ("figure-2", "cst-blocks-2"),
    ("figure-kkt", "cst-1"),
    ("figure-kkt", "cst-2"),
    ("figure-shared-sample", "cst-blocks-2"),
}


def test_every_panel_has_a_claim_about_the_order():
    assert set(ORDER) == {(figure.name, panel.experiment) for figure in FIGURES for panel in figure.panels}


@pytest.fixture(scope="module")
def performed():
    kept = {}

    def once(run):
        if run not in kept:
            kept[run] = compute(run, EXPERIMENTS[run.experiment])
        return kept[run]

    return once


@pytest.mark.parametrize(("figure", "experiment"), ORDER)
def test_order_of_the_methods_agrees_with_the_paper(figure, experiment, performed):
    [panel] = [panel for panel in ITEMS[figure].panels if panel.experiment == experiment]
    panel = dataclasses.replace(panel, quick=ORDER[figure, experiment])
    axis = ITEMS[figure].axes[0]
    curves = {}
    for run in panel.runs(quick=True):
        record = performed(run)
        curves[run.method] = Curve(getattr(record, axis), getattr(record, ITEMS[figure].measure))
    # so few iterations only show who is the first to reach the first of the levels
    claims = [
        dataclasses.replace(claim, down_to=claim.below) if isinstance(claim, First) else claim for claim in panel.claims
    ]
    verdicts = [claim.check(curves, axis) for claim in claims]
    assert not [verdict for verdict in verdicts if verdict.holds is False]
    assert any(verdict.holds for verdict in verdicts) == ((figure, experiment) not in UNDECIDED)
    for claim, verdict in zip(claims, verdicts, strict=True):
        if isinstance(claim, First) and claim.factor >= FAR and verdict.holds:
            for other in claim.about(panel.methods) - {claim.winner}:
                assert Alike("", claim.winner, other, claim.down_to).check(curves, axis).holds is False


def test_a_run_that_ends_early_is_an_error(monkeypatch):
    def interrupted(*args, **kwargs):
        return dataclasses.replace(solve(*args, **kwargs), status=dapd.Status.diverged)

    solve = dapd.solve
    monkeypatch.setattr(dapd, "solve", interrupted)
    with pytest.raises(ArithmeticError, match="qp-inequality, PAPC, seed 0 ended early"):
        compute(Run("qp-inequality", "papc", 0, 20), EXPERIMENTS["qp-inequality"])
