"""The report: complete, well formed, and shown without an error by a browser if there is one."""

import base64
import csv
import dataclasses
import os
import re
import shutil
import subprocess
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import pytest
from short_items import shortened

from dapd.paper.reproduce import Outcome, complete, is_full, published, report, write_report
from dapd.paper.reproduce.catalogue import ITEMS, Figure
from dapd.paper.reproduce.plots import COLOURS, DASHES, MARKERS, style
from dapd.paper.reproduce.runs import EXPERIMENTS
from dapd.paper.reproduce.sessions import Session

VOID = {"meta", "img", "br"}


class Page(HTMLParser):
    """What the tests need from a page: balanced tags, images, ids, links, text."""

    def __init__(self, text):
        super().__init__()
        self.open, self.images, self.ids, self.links, self.classes = [], [], [], [], []
        self.text = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if tag == "img":
            self.images.append(attributes)
        if "id" in attributes:
            self.ids.append(attributes["id"])
        if "class" in attributes:
            self.classes.append(attributes["class"])
        for name in ("href", "src"):
            if name in attributes:
                self.links.append(attributes[name])
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    items = [shortened(item) for item in ITEMS.values()]
    runs = [run for item in items for run in item.runs(quick=True, seeds=1)]
    records = complete(runs, tmp_path_factory.mktemp("runs"), jobs=2)
    return Outcome(items, records, quick=True, seeds=1)


@pytest.fixture(scope="module")
def folder(outcome, tmp_path_factory):
    out = tmp_path_factory.mktemp("report")
    assert write_report(outcome, out) == out / "index.html"
    return out


@pytest.fixture(scope="module")
def page(folder):
    return Page((folder / "index.html").read_text(encoding="utf-8"))


def test_every_figure_and_table_is_there(page):
    assert set(ITEMS) <= set(page.ids)
    assert {"predictions", "references", "times", "machine"} <= set(page.ids)
    assert len(page.ids) == len(set(page.ids))


def test_page_is_self_contained(page, folder):
    for link in page.links:
        assert link.startswith(("#", "data:"))
        if link.startswith("#"):
            assert link[1:] in page.ids
    assert not re.search(r"https?://(?!www\.w3\.org|purl\.org|creativecommons\.org)", page.text)
    assert "@import" not in (folder / "index.html").read_text(encoding="utf-8")


def test_every_image_is_present_and_well_formed(page, folder):
    expected = sum(len(item.panels) * len(item.axes) for item in ITEMS.values() if isinstance(item, Figure))
    assert len(page.images) == expected == len(list(folder.glob("*.svg")))
    for image in page.images:
        kind, _, data = image["src"].partition(",")
        assert kind == "data:image/svg+xml;base64"
        root = ET.fromstring(base64.b64decode(data, validate=True))
        assert root.tag.endswith("svg")
        assert root.get("viewBox")
        assert "DAPD" in image["alt"]


def test_curves_have_the_colour_of_their_method_everywhere(outcome, folder):
    for figure in (item for item in outcome.items if isinstance(item, Figure)):
        for panel in figure.panels:
            for axis in figure.axes:
                svg = (folder / f"{figure.name}_{panel.experiment}_{axis}.svg").read_text(encoding="utf-8")
                for method in panel.methods:
                    assert style(method).color.lower() in svg.lower()


def test_methods_can_be_distinguished_without_colour():
    assert len(set(COLOURS.values())) == len(COLOURS) == len(MARKERS) == len(set(MARKERS.values()))
    assert set(DASHES) < set(COLOURS)
    assert style("x-sbc-dapd-i").color == style("x-sbc-dapd").color
    assert style("x-sbc-dapd-i").linestyle != style("x-sbc-dapd").linestyle


def test_page_shows_the_claims_of_the_paper_and_what_was_found(page, outcome):
    for figure in (item for item in outcome.items if isinstance(item, Figure)):
        for panel in figure.panels:
            for verdict in outcome.verdicts(figure, panel):
                assert verdict.claim in page.text
                assert verdict.evidence in page.text
    assert "2.30e-04 … 5.62e-04" in page.text  # the paper's interval for PAPC
    assert "13,7" in page.text  # the paper's total time
    assert "4.2e-04, 1.7e-11" in page.text  # the residuals of its reference
    assert "quick report" in page.text
    marks = [mark for mark in page.classes if mark in ("good", "better", "bad", "open")]
    assert len(marks) == sum(kind.total() for kind in outcome.tally())  # what is repeated is marked and not counted


def test_same_evidence_is_counted_once(outcome, page):
    again = [mark for mark in page.classes if mark.endswith(" again")]
    checks = [check for figure in outcome.figures for panel in outcome.checks(figure) for check in panel]
    claims, _, _ = outcome.tally()
    assert claims.total() == len([check for check in checks if not check.own]) - len(again)
    # in the quick report the long run equals Figure 1; of each panel of Figure 2 three claims reappear with j = i; and
    # so does CAPD's number of inner iterations
    assert len(again) == 4 + 6 + 4
    assert page.text.count("counted there") == len(again)


def test_checks_of_our_own_means_are_counted_apart(outcome, page):
    claims, intervals, own = outcome.tally()
    orders = [check for figure in outcome.figures for panel in outcome.checks(figure) for check in panel if check.own]
    assert len(orders) == 2  # the order by KKT residuals, which the paper does not state
    assert own.total() == len(orders) + len(outcome.references()) + len(outcome.predictions())
    assert intervals.total() == 12
    cards = f"{claims[True]}claims of the paper hold, {claims[False]} differ, {claims[None]} are undecided"
    assert cards in page.text
    assert "12 undecided" in page.text
    assert page.text.count("Our own check, not a claim of the paper.") == len(orders)


def test_a_budget_that_is_too_small_decides_no_claim(outcome):
    claims, intervals, _ = outcome.tally()
    assert claims[False] == 0
    assert claims[True] == 4  # CAPD's number of inner iterations, which needs no budget
    assert set(intervals) == {"undecided"}


def test_a_claim_that_is_known_to_fail_is_shown_in_red(tmp_path):
    """The paper calls y-DAPD similar to PAPC in the left panel of Figure 3; it takes four times as long here."""
    figure = ITEMS["figure-3"]
    panel = dataclasses.replace(figure.panels[0], quick=90_000)
    figure = dataclasses.replace(figure, panels=(panel,))
    records = complete(figure.runs(quick=True, seeds=1), tmp_path / "runs", jobs=2)
    outcome = Outcome([figure], records, quick=True, seeds=1)
    [checks] = outcome.checks(figure)
    [failed] = [check.verdict for check in checks if check.verdict.holds is False]
    assert failed.claim == "y-DAPD is slightly slower than PAPC, and similar."
    assert "The paper's own table separates them too" in failed.evidence
    assert outcome.tally().claims[False] == 1
    write_report(outcome, tmp_path)
    text = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert f'<li class="bad"><span class="mark">✗ differs</span> {failed.claim}' in text
    assert "1 differ" in text
    assert f"| {failed.claim} | **differs** |" in (tmp_path / "outcome/README.md").read_text(encoding="utf-8")


def test_intervals_that_are_better_or_worse_are_not_shown_as_equal(outcome, tmp_path):
    table = dataclasses.replace(ITEMS["table-cst-1"], full=30)
    template = next(record for run, record in outcome.records.items() if run.experiment == "cst-1")
    records = {}
    scales = dict(zip(table.methods, (1.0, 1e-3, 1e3), strict=True))
    for run in table.runs(quick=False, seeds=20):
        low, high = published.INTERVALS[table.name][run.method]
        error = scales[run.method] * (low * high) ** 0.5 * (1 + 0.01 * run.seed)
        records[run] = dataclasses.replace(template, run=run, error=[error] * len(template.error))
    whole = Outcome([table], records, quick=False, seeds=20)
    assert whole.tally().intervals == {"overlaps": 1, "better": 1, "worse": 1}
    write_report(whole, tmp_path)
    page = Page((tmp_path / "index.html").read_text(encoding="utf-8"))
    assert [kind for kind in page.classes if kind in ("good", "better", "bad")][:3] == ["good", "better", "bad"]
    for mark in ("✓ overlaps", "▲ better", "✗ worse"):
        assert page.text.count(mark) == 1
    text = (tmp_path / "outcome/README.md").read_text(encoding="utf-8")
    assert "1 overlap ours, 1 are better here, 1 worse, 0 undecided" in text


def test_page_explains_how_counts_and_measures_differ_from_the_paper(page):
    count = "takes 4 products with blocks per iteration here, since MMᵀ is stored, and 6 in the paper"
    assert page.text.count(count) == 4
    assert page.text.count("s̄_max/s_max = 0.124 (in the paper about 0.11)") == 4
    # twice in Figure 1 and the long run, or in Figure 2 and its variant with j = i; 1,000 on both right panels
    assert [page.text.count(f"CAPD's N = {N}.") for N in ("317", "100", "1,000")] == [2, 2, 4]
    assert page.text.count("BMM = 2 × iterations here") == 10
    assert "in the paper's figure 2.7e+05" in page.text
    assert "in the paper's figure 1.3e+09" in page.text
    assert "in the paper's figure 1.51e+06" in page.text
    assert "(seed 27)" in page.text
    assert "(seed 61)" in page.text
    assert "CAPD ends after 0 of 30 iterations, with its last complete outer iteration" in page.text


def test_papers_count_of_products_makes_only_y_sbc_slower(outcome):
    figure = next(item for item in outcome.items if item.name == "figure-2")
    seen = {}

    class Watch(type(figure.panels[0].claims[0])):
        def judge(self, curves, unit):
            seen[len(seen)] = curves
            return None, ""

    panel = dataclasses.replace(figure.panels[0], claims=(Watch("", "x-dapd", 0.3, 0.3),))
    for count in (False, True):
        outcome.verdicts(figure, panel, papers_count=count)
    for method, curve in seen[0].items():
        if method == "y-sbc-dapd":
            assert seen[1][method].at[1] == pytest.approx(1.5 * curve.at[1])
            assert seen[1][method].at[-1] <= curve.at[-1]
        else:
            assert seen[1][method] == curve


def test_references_are_checked(outcome):
    assert [one.experiment for one in outcome.references()] == list(EXPERIMENTS)
    assert all(one.holds for one in outcome.references())
    run, record = next(iter(outcome.records.items()))
    for bad in (2e-10, float("nan")):
        worse = {**outcome.records, run: dataclasses.replace(record, reference=(bad, 0.0))}
        found = dataclasses.replace(outcome, records=worse)
        assert sum(not one.holds for one in found.references()) == 1
        assert found.tally().own[False] == outcome.tally().own[False] + 1
        assert found.tally().claims == outcome.tally().claims


def test_wall_clock_time_is_only_checked_in_a_full_report_of_everything(outcome):
    items = [shortened(item, full=True) for item in ITEMS.values()]
    records = {}
    for item in items:
        for run in item.runs(quick=False, seeds=20):
            same = dataclasses.replace(run, seed=run.seed if isinstance(item, Figure) else 0)
            records[run] = dataclasses.replace(outcome.records[same], run=run)
    whole = dataclasses.replace(outcome, items=items, records=records, quick=False, seeds=20)
    runs = len(whole.all_runs())
    assert not outcome.complete
    assert whole.complete
    assert whole.clock() is None
    for wall, holds in ((published.TOTAL_SECONDS - 1, True), (published.TOTAL_SECONDS + 1, False)):
        timed = dataclasses.replace(whole, sessions=[Session("", True, 2, runs, wall)])
        assert timed.faster() is holds
        assert timed.tally().own[holds] == whole.tally().own[holds] + 1
    assert "13,750 s here with --jobs 2, 13,749 s in the paper" in report._clock(timed)
    assert "does not cover every run" in report._clock(whole)
    assert report._clock(outcome) == ""


def test_data_is_stored_next_to_the_plots_as_tidy_csv(folder, outcome):
    for item in outcome.items:
        name = f"{item.name}.csv" if isinstance(item, Figure) else f"{item.name}_runs.csv"
        with (folder / name).open(encoding="utf-8", newline="") as file:
            lines = list(csv.DictReader(file))
        assert {line["method"] for line in lines} == {run.method for run in outcome.runs(item)}
        assert all(float(line["error"]) > 0 for line in lines)
        assert "seconds" not in lines[0]
        times = (folder / name.replace(".csv", "_seconds.csv")).read_text(encoding="utf-8")
        assert times.count("\n") == len(lines) + 1
        if not isinstance(item, Figure):
            with (folder / f"{item.name}.csv").open(encoding="utf-8", newline="") as file:
                assert [line["method"] for line in csv.DictReader(file)] == list(item.methods)


def test_same_records_give_the_same_files(outcome, folder, tmp_path):
    items = [item for item in outcome.items if item.name in ("figure-qp", "table-cst-1")]
    write_report(dataclasses.replace(outcome, items=items), tmp_path)
    again = [path for path in tmp_path.glob("*.*") if path.name != "index.html"]
    assert len(again) == 4 + 2 + 3  # plots, the data of a figure, a table and its data; times apart
    for path in again:
        assert path.read_bytes() == (folder / path.name).read_bytes()


def test_full_report_of_the_same_records_says_so(outcome, tmp_path):
    items = [dataclasses.replace(item, full=item.quick) for item in outcome.items if not isinstance(item, Figure)]
    write_report(dataclasses.replace(outcome, items=items, quick=False), tmp_path)
    assert "This is the full report" in (tmp_path / "index.html").read_text(encoding="utf-8")
    assert is_full(tmp_path / "index.html")
    assert not is_full(tmp_path / "none.html")


BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
needs_browser = pytest.mark.skipif(not BROWSER, reason="no browser; the tests above parse the page and every image")


def browse(path, folder, *options, width=1200):
    """Open a page in a headless browser."""
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'profile'}"]
    command += [f"--window-size={width},900", "--enable-logging=stderr", "--v=0", *options, path.as_uri()]
    environment = {**os.environ, "HOME": str(folder)}
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment, check=True)


@needs_browser
def test_browser_shows_the_report_without_an_error(folder, tmp_path):
    probe = (
        "<script>addEventListener('error', e => document.title = 'error ' + e.message, true);"
        "addEventListener('load', () => { const images = [...document.images];"
        "document.title = `shown ${images.filter(i => i.complete && i.naturalWidth > 0).length} of ${images.length}, "
        "overflow ${document.documentElement.scrollWidth > innerWidth}`; });</script>"
    )
    text = (folder / "index.html").read_text(encoding="utf-8")
    probed = tmp_path / "probed.html"
    probed.write_text(text.replace("<head>", "<head>" + probe), encoding="utf-8")
    count = text.count("<img ")
    shown = browse(probed, tmp_path, "--dump-dom")
    assert f"<title>shown {count} of {count}, overflow false</title>" in shown.stdout
    assert "CONSOLE" not in shown.stderr
    picture = tmp_path / "shot.png"
    browse(folder / "index.html", tmp_path, f"--screenshot={picture}")
    assert picture.stat().st_size > 10_000


@needs_browser
@pytest.mark.parametrize(("media", "width"), [("screen", 375), ("print", 680)])
def test_nothing_is_clipped_on_a_phone_or_on_paper(folder, tmp_path, media, width):
    """A window cannot be as narrow as a phone, so a frame is used; the style for paper is shown on screen, A4 wide."""
    text = (folder / "index.html").read_text(encoding="utf-8")
    if media == "print":
        text = text.replace("@media screen", "@media none").replace("@media print", "@media all")
    (tmp_path / "page.html").write_text(text, encoding="utf-8")
    probe = (
        f"<iframe src='page.html' style='width:{width}px;height:900px;border:0'></iframe><script>"
        "addEventListener('load', () => { const d = document.querySelector('iframe').contentDocument;"
        "const out = e => e.getBoundingClientRect().right > d.documentElement.clientWidth + 0.5;"
        "const told = [...d.querySelectorAll('.mark, .claims li, td, th, img, p')];"
        "const rolls = [...d.querySelectorAll('*')].filter(e => e.scrollWidth > e.clientWidth + 1 && e.clientWidth);"
        "document.title = `width ${d.documentElement.clientWidth}, ${told.length > 100}, "
        "out ${told.filter(out).length}, rolls ${rolls.length}`; });</script>"
    )
    framed = tmp_path / "framed.html"
    framed.write_text(probe, encoding="utf-8")
    shown = browse(framed, tmp_path, "--dump-dom", "--allow-file-access-from-files")
    found = re.search("<title>(.*)</title>", shown.stdout)
    assert found, shown.stderr
    assert re.fullmatch(rf"width ({width}|{width - 15}), true, out 0, rolls 0", found[1])
