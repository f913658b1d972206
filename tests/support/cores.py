"""The variants of the native core that were built and that this machine can run."""

import pytest

from dapd.machine.core import load, variants

CORES = {variant: load(variant) for variant in variants()}
needs_core = pytest.mark.skipif(not CORES, reason="the native core was not built")
