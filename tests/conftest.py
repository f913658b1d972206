import signal
import sys
import threading
from decimal import localcontext

import matplotlib
import pytest
from hypothesis import HealthCheck, settings

matplotlib.use("Agg")
if threading.current_thread() is threading.main_thread():
    # a shell that starts the tests in the background lets them ignore Ctrl-C, and those that send one would not end
    signal.signal(signal.SIGINT, signal.default_int_handler)
settings.register_profile(
    "fixed", derandomize=True, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("fixed")


@pytest.fixture(autouse=True, scope="session")
def private_cache(tmp_path_factory):
    """References are kept for the session, and leave the user's own cache alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DAPD_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def no_core(monkeypatch):
    """As if the package had been installed without a compiler."""
    from dapd.engines import native

    for name in native.VARIANTS:
        monkeypatch.setitem(sys.modules, f"dapd._core_{name}", None)  # importing it raises ModuleNotFoundError
    native.variants.cache_clear()
    native.load.cache_clear()
    yield
    native.variants.cache_clear()
    native.load.cache_clear()


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
