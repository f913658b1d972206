# Two commands do everything: `make demo` and `make test`. Both set up .venv first, and again only when what it is made from changed.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python

.PHONY: setup demo test lint sanitize clean

setup: $(VENV)/.ready

$(VENV)/.ready: pyproject.toml CMakeLists.txt $(wildcard src/core/*.hpp src/core/*.cpp src/core/*/*.hpp src/core/*/*.cpp)
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "dapd needs Python 3.11 or newer; try: make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	$(RUN) -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

demo: setup
	$(RUN) examples/compressed_sensing.py --out report
	$(VENV)/bin/dapd reproduce all --quick --out report

test: setup
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(RUN) -m pytest -n auto --dist loadfile

lint: setup
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

clean:
	rm -rf $(VENV) report
