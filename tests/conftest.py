import os
import signal
import sys
import threading
from decimal import localcontext
from importlib.metadata import distributions

import matplotlib
import pytest
from hypothesis import HealthCheck, settings

matplotlib.use("Agg")
# what the tests compile runs for a moment, so it is compiled quickly; only how XLA generates code changes
QUICKLY = ["--xla_backend_optimization_level=0", "--xla_llvm_disable_expensive_passes=true"]
# XLA ends the process if it does not know a flag
if any(found.version.startswith(("0.8.", "0.9.", "0.10.")) for found in distributions(name="jaxlib")):
    QUICKLY += ["--xla_cpu_use_fusion_emitters=false", "--xla_cpu_parallel_codegen_split_count=1"]
os.environ.setdefault("XLA_FLAGS", " ".join(QUICKLY))
if threading.current_thread() is threading.main_thread():
    # a shell that starts the tests in the background lets them ignore Ctrl-C, and those that send one would not end
    signal.signal(signal.SIGINT, signal.default_int_handler)
# new examples on every run, so the search goes on; the same ones in CI, where a failure must be that of the change
settings.register_profile("search", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("fixed", settings.get_profile("search"), derandomize=True, database=None)
settings.load_profile("fixed" if os.environ.get("CI") else "search")


LONG = {
    "test_contract",
    "test_derivatives",
    "test_examples",
    "test_lower_bounds_report",
    "test_mesh",
    "test_native",
    "test_published_table",
    "test_report",
    "test_reproduce",
    "test_running",
    "test_theorems",
}


def pytest_collection_modifyitems(items):
    """Files that take long come first, so no worker has one left when the others are done."""
    items.sort(key=lambda item: item.path.stem not in LONG)


@pytest.fixture(autouse=True, scope="session")
def private_cache(tmp_path_factory):
    """Store references for the session only, not in the user's cache; workers that run side by side share them."""
    own = tmp_path_factory.getbasetemp()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DAPD_CACHE_DIR", str((own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "cache"))
        yield


@pytest.fixture
def no_core(monkeypatch):
    """As if the package had been installed without a compiler."""
    from dapd.machine import core

    for name in core.VARIANTS:
        monkeypatch.setitem(sys.modules, f"dapd._core_{name}", None)  # importing it raises ModuleNotFoundError
    core.variants.cache_clear()
    core.load.cache_clear()
    yield
    core.variants.cache_clear()
    core.load.cache_clear()


@pytest.fixture(autouse=True)
def close_figures():
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


@pytest.fixture(scope="session")
def many_digits():
    from exact import DIGITS

    with localcontext() as context:
        context.prec = DIGITS
        yield
