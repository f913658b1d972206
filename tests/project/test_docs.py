"""The code in README and docs runs as it stands."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCKS = [
    pytest.param(block, id=f"{page.name}-{k}")
    for page in PAGES
    for k, block in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL))
]


@pytest.mark.parametrize("block", BLOCKS)
def test_example_runs(block, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "example", "exec"), {"__name__": "example"})


def test_no_page_contains_a_placeholder():
    for page in PAGES:
        assert not re.findall(r"^[A-Z]{4,}$", page.read_text(encoding="utf-8"), re.MULTILINE), page.name


def test_links_in_the_documentation_exist():
    for page in PAGES:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", page.read_text(encoding="utf-8")):
            made_of = ROOT / "examples" / Path(target).with_suffix(".py").name.replace("index.py", "GALLERY_HEADER.rst")
            place = made_of if target.startswith("gallery/") else page.parent / target  # the site has the gallery
            assert place.exists(), f"{page.name} links to {target}"
