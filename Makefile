# Two commands do everything: `make demo` and `make test`. Both set up .venv first, with what they need (an extra of
# pyproject.toml), and again only if what it is made of has changed. `make setup` installs everything.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
PIP := $(RUN) -m pip --quiet --disable-pip-version-check install --no-compile
CORE := CMakeLists.txt $(wildcard src/core/*.hpp src/core/*.cpp src/core/*/*.hpp src/core/*/*.cpp)
# Nothing is compiled to bytecode before it is imported, so what was must be kept.
unexport PYTHONDONTWRITEBYTECODE
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1

# With a compiler, an error in the core stops the build; without one, the package is pure Python.
export DAPD_REQUIRE_CORE ?= $(if $(shell command -v c++ || command -v g++ || command -v clang++),1,0)

.PHONY: compile setup demo reproduction test lint docs sanitize clean

setup: $(VENV)/.dev

# The tools first and then without isolation, so that build/ is used again and only changed files are compiled.
$(VENV)/.build: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "dapd needs Python 3.11 or newer; try: make PYTHON=python3.12")'
	test -x $(RUN) || $(PYTHON) -m venv $(VENV)
	$(PIP) $$($(RUN) tools/needs.py build)
	touch $@

# What the package needs is fetched while its core is compiled.
$(VENV)/.%: $(VENV)/.build $(CORE)
	$(MAKE) --no-print-directory -j2 fetch-$* compile
	touch $@

fetch-%:
	$(PIP) $$($(RUN) tools/needs.py dapd $*)

compile:
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" $(PIP) --no-build-isolation --no-deps --config-settings=build-dir=build/{wheel_tag} --editable .

demo: $(VENV)/.examples
	$(RUN) examples/demo.py --out report

# The paper's budgets, about half an hour on two cores; what is kept of it is docs/reproduction.
reproduction: $(VENV)/.examples
	$(VENV)/bin/dapd reproduce all --full --out report
	rm -rf docs/reproduction
	cp -r report/outcome docs/reproduction

test: $(VENV)/.test
	$(ONE_THREAD) $(RUN) -m pytest -n auto --dist loadfile --no-loadscope-reorder

# Warnings are errors; then every link is followed and, if there is a Chromium, every page opened.
docs: $(VENV)/.docs
	rm -rf docs/gallery docs/_build
	$(RUN) -m sphinx -q -W --keep-going -b html docs docs/_build
	$(RUN) tests/check_site.py docs/_build

lint: $(VENV)/.lint
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

# The core's tests under sanitizers, which stop at the first finding. Each has an environment of its own with a core built for
# it, and everything else from .venv. What a sanitizer reports must not be captured, and it must
# find libstdc++ when it starts, to see exceptions. Tests of long runs and of memory say nothing more here, and would take hours.
CORE_TESTS := tests/engines/test_native.py tests/engines/test_bindings.py tests/certificate/test_sums.py tests/engines/test_programs.py tests/newton/test_costs.py tests/engines/test_epochs.py tests/engines/test_running.py tests/engines/test_block_kernels.py tests/engines/test_callbacks.py
SANITIZED := not jax and not factors_may_change and not million and not memory_flat and not no_memory and not joblib and not ctrl_c_while
ASAN_OPTIONS := detect_leaks=0:halt_on_error=1
UBSAN_OPTIONS := print_stacktrace=1:halt_on_error=1
TSAN_OPTIONS := halt_on_error=1:die_after_fork=0:suppressions=$(CURDIR)/tests/sanitize/thread.supp
export ASAN_OPTIONS UBSAN_OPTIONS TSAN_OPTIONS

sanitize: $(VENV)/.test
	$(call sanitized,address,address$(comma)undefined,asan)
	$(call sanitized,thread,thread,tsan)

comma := ,
define sanitized
	$(RUN) -m venv --without-pip build/$(1)/venv
	$(RUN) -c 'import sysconfig; print(sysconfig.get_path("purelib"))' > $$(build/$(1)/venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/dependencies.pth
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" $(RUN) -m pip --quiet --disable-pip-version-check --python build/$(1)/venv/bin/python install \
	  --no-build-isolation --no-deps --force-reinstall --config-settings=build-dir=build/$(1)/core --config-settings=cmake.define.DAPD_SANITIZE=$(2) .
	$(ONE_THREAD) LD_PRELOAD="$$($(CXX) -print-file-name=lib$(3).so) $$($(CXX) -print-file-name=libstdc++.so.6)" PYTHONMALLOC=malloc \
	  build/$(1)/venv/bin/python -m pytest -q -p no:cacheprovider --capture=sys -k "$(SANITIZED)" $(CORE_TESTS)
endef

clean:
	rm -rf $(VENV) build report examples/out
