"""How the documentation is built: `make docs`, with warnings as errors."""

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
    "ignore_pattern": r"run\.py$",
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
    """Bars are absolute values and norms here, not reStructuredText substitutions."""
    app.connect("autodoc-process-docstring", lambda app, what, name, obj, options, lines: _escape_bars(lines))


def _escape_bars(lines):
    lines[:] = [line.replace("|", r"\|") for line in lines]
