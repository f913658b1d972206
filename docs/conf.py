"""How the documentation is built: `make docs`, with warnings as errors."""

from docutils.nodes import SkipNode
from latex2mathml.converter import convert

import dapd

project = "dapd"
author = "the dapd developers"
copyright = "2026, the dapd developers"
version = release = dapd.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_gallery.gen_gallery",
]
myst_heading_anchors = 3
myst_enable_extensions = ["dollarmath"]
html_math_renderer = "mathml"  # what browsers show by themselves: no script, and no network
root_doc = "index"
exclude_patterns = ["_build", "gallery/**/*.ipynb", "gallery/**/*.py"]
nitpicky = False

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # docstrings say it
napoleon_google_docstring = False
napoleon_use_rtype = False

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": "/plot_",
    "ignore_pattern": r"(run|demo)\.py$",
    "write_computation_times": False,
    "download_all_examples": False,
    "show_memory": False,
    "remove_config_comments": True,
    "abort_on_example_error": True,
    "min_reported_time": 0,
}

html_theme = "furo"
html_title = "dapd"
html_theme_options = {"navigation_with_keys": True}


def setup(app):
    """Formulas become MathML; bars are absolute values and norms here, not reStructuredText substitutions."""
    app.add_html_math_renderer("mathml", (_inline_formula, None), (_formula, None))
    app.connect("autodoc-process-docstring", lambda app, what, name, obj, options, lines: _escape_bars(lines))


def _inline_formula(writer, node):
    writer.body.append(convert(node.astext()))
    raise SkipNode


def _formula(writer, node):
    text = node.astext()
    if "\\\\" in text or "&" in text:
        text = rf"\begin{{aligned}}{text}\end{{aligned}}"
    writer.body.append(f'<div class="math" style="overflow-x: auto">{convert(text, display="block")}</div>')
    raise SkipNode


def _escape_bars(lines):
    lines[:] = [line.replace("|", r"\|") for line in lines]
