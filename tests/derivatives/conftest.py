"""What tests of derivatives may ask for."""

import jax
import pytest


@pytest.fixture
def float64():
    with jax.enable_x64(True):
        yield


@pytest.fixture
def torch():
    return pytest.importorskip("torch")
