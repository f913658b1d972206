"""The report: complete, well formed, and shown without an error by a browser where there is one."""

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

from dapd.reproduce import Outcome, complete, write_report
from dapd.reproduce.catalogue import ITEMS, Figure
from dapd.reproduce.plots import COLOURS, DASHES, MARKERS, style

VOID = {"meta", "img", "br"}


def shortened(item, budget=30):
    """The same figure or table with a tiny budget."""
    if isinstance(item, Figure):
        return dataclasses.replace(item, panels=tuple(dataclasses.replace(p, quick=budget) for p in item.panels))
    return dataclasses.replace(item, quick=budget)


class Page(HTMLParser):
    """What the tests ask of a page: balanced tags, images, ids, links, text."""

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
    return Outcome(items, records, quick=True, seeds=1, jobs=2)


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
    assert {"references", "times", "machine"} <= set(page.ids)
    assert len(page.ids) == len(set(page.ids))


def test_page_needs_nothing_but_itself(page, folder):
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


def test_curves_have_the_method_s_colour_everywhere(outcome, folder):
    for figure in (item for item in outcome.items if isinstance(item, Figure)):
        for panel in figure.panels:
            for axis in figure.axes:
                svg = (folder / f"{figure.name}_{panel.experiment}_{axis}.svg").read_text(encoding="utf-8")
                for method in panel.methods:
                    assert style(method).color.lower() in svg.lower()


def test_methods_can_be_told_apart_without_colour():
    assert len(set(COLOURS.values())) == len(COLOURS) == len(MARKERS) == len(set(MARKERS.values()))
    assert set(DASHES) < set(COLOURS)
    assert style("x-sbc-dapd-i").color == style("x-sbc-dapd").color
    assert style("x-sbc-dapd-i").linestyle != style("x-sbc-dapd").linestyle


def test_page_says_what_the_paper_says_and_what_was_found(page, outcome):
    for figure in (item for item in outcome.items if isinstance(item, Figure)):
        for panel in figure.panels:
            for verdict in outcome.verdicts(figure, panel):
                assert verdict.claim in page.text
                assert verdict.evidence in page.text
    assert "2.30e-04 … 5.62e-04" in page.text  # the paper's interval for PAPC
    assert "13,7" in page.text  # the paper's total time
    assert "4.2e-04, 1.7e-11" in page.text  # the residuals of its reference
    assert "quick report" in page.text
    marks = [mark for mark in page.classes if mark in ("good", "bad", "open")]
    assert len(marks) == len(outcome.judgements())


def test_data_lies_beside_the_pictures_as_tidy_csv(folder, outcome):
    for item in outcome.items:
        name = f"{item.name}.csv" if isinstance(item, Figure) else f"{item.name}_runs.csv"
        with (folder / name).open(encoding="utf-8", newline="") as file:
            lines = list(csv.DictReader(file))
        assert {line["method"] for line in lines} == {run.method for run in outcome.runs(item)}
        assert all(float(line["error"]) > 0 for line in lines)
        if not isinstance(item, Figure):
            with (folder / f"{item.name}.csv").open(encoding="utf-8", newline="") as file:
                assert [line["method"] for line in csv.DictReader(file)] == list(item.methods)


def test_same_records_give_the_same_files(outcome, folder, tmp_path):
    items = [item for item in outcome.items if item.name in ("figure-qp", "table-cst-1")]
    write_report(dataclasses.replace(outcome, items=items), tmp_path)
    again = [path for path in tmp_path.iterdir() if path.name != "index.html"]
    assert len(again) == 4 + 1 + 2  # pictures, a figure's data, a table and its data
    for path in again:
        assert path.read_bytes() == (folder / path.name).read_bytes()


def test_full_report_of_the_same_records_says_so(outcome, tmp_path):
    items = [dataclasses.replace(item, full=item.quick) for item in outcome.items if not isinstance(item, Figure)]
    write_report(dataclasses.replace(outcome, items=items, quick=False), tmp_path)
    assert "This is the full report" in (tmp_path / "index.html").read_text(encoding="utf-8")


@pytest.mark.skipif(
    not (shutil.which("chromium") or shutil.which("google-chrome")),
    reason="no browser; the tests above parse the page and every image in it",
)
def test_browser_shows_the_report_without_an_error(folder, tmp_path):
    browser = shutil.which("chromium") or shutil.which("google-chrome")
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
    for width in (1200, 500):  # a desk and, as narrow as a headless window gets, a phone
        command = [browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
        command += [f"--window-size={width},900", "--enable-logging=stderr", "--v=0"]
        environment = {**os.environ, "HOME": str(tmp_path)}
        dump = [*command, "--dump-dom", probed.as_uri()]
        shown = subprocess.run(dump, capture_output=True, text=True, timeout=120, env=environment, check=True)
        assert f"<title>shown {count} of {count}, overflow false</title>" in shown.stdout
        assert "CONSOLE" not in shown.stderr
        picture = tmp_path / f"{width}.png"
        shot = [*command, f"--screenshot={picture}", (folder / "index.html").as_uri()]
        subprocess.run(shot, capture_output=True, timeout=120, env=environment, check=True)
        assert picture.stat().st_size > 10_000
