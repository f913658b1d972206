"""Every example runs, agrees with an independent solver and draws a picture."""

import dataclasses
import importlib
import re
import runpy
import sys
from pathlib import Path
from types import SimpleNamespace

import matplotlib.image
import pytest

from dapd.paper.reproduce import catalogue

EXAMPLES = Path(__file__).parents[2] / "examples"
run = SimpleNamespace(**runpy.run_path(str(EXAMPLES / "run.py")))


@pytest.mark.parametrize("name", run.NAMES)
@pytest.mark.filterwarnings("ignore::DeprecationWarning:cvxpy")
def test_example_agrees_and_draws(name, tmp_path):
    outcome = run.run(name, tmp_path)  # its own assertions compare the objectives
    assert 0 <= outcome.difference < 1e-4
    assert outcome.times["dapd"] > 0
    assert outcome.other != "dapd"
    assert outcome.text.endswith(".")
    assert ":math:" not in outcome.text  # the page of the demo shows it as it is
    assert outcome.pictures == [tmp_path / f"{name}.png"]
    picture = matplotlib.image.imread(outcome.pictures[0])[..., :3]
    assert min(picture.shape[:2]) > 300
    assert picture.std() > 0.05  # not blank


def test_examples_are_written_for_the_gallery():
    for name in run.NAMES:
        text = (EXAMPLES / f"plot_{name}.py").read_text(encoding="utf-8")
        title, rule = text.splitlines()[1:3]
        assert rule == "=" * len(title)
        assert text.count("\n# %%\n") >= 3
        assert "\nassert difference < " in text
        assert max(map(len, text.splitlines())) <= 120


def test_runner_names_its_examples(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["run.py", "nothing"])
    with pytest.raises(SystemExit):
        runpy.run_path(str(EXAMPLES / "run.py"), run_name="__main__")
    assert "unknown example nothing; known: " in capsys.readouterr().err


def test_demo_makes_one_page_with_the_pictures_first(tmp_path, monkeypatch, capsys):
    figure = catalogue.ITEMS["figure-qp"]
    panels = tuple(dataclasses.replace(panel, quick=200) for panel in figure.panels)
    monkeypatch.setitem(catalogue.ITEMS, "figure-qp", dataclasses.replace(figure, panels=panels))
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.setattr(sys, "argv", ["demo.py", "--out", str(tmp_path)])
    demo = importlib.import_module("demo")
    for name in ("demo", "run"):
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(demo, "NAMES", ["portfolio", "fair_classification"])
    monkeypatch.setattr(demo, "ITEMS", ["figure-qp"])
    demo.main()
    page = (tmp_path / "demo.html").read_text(encoding="utf-8")
    assert str(tmp_path / "demo.html") in capsys.readouterr().out
    places = [
        page.index(part) for part in ("data:image/png", "Beside other solvers", "objectives differ by", "figure-qp")
    ]
    assert places == sorted(places)
    assert page.count("data:image/png") == 2
    assert 'src="data:image/svg' in page
    sources = re.findall(r"(?:src|href)=\"([^\"]{1,40})", page)
    assert all(source.startswith(("data:", "#")) for source in sources)  # self-contained
    inner = {source[1:] for source in sources if source.startswith("#")}
    assert inner <= set(re.findall(r"id=\"([^\"]+)\"", page))
