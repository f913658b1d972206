from decimal import localcontext

import matplotlib
import pytest
from hypothesis import HealthCheck, settings

matplotlib.use("Agg")
settings.register_profile(
    "fixed", derandomize=True, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("fixed")


@pytest.fixture(autouse=True, scope="session")
def private_cache(tmp_path_factory):
    """Store references for the session only, not in the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DAPD_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


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
