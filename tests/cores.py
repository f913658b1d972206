"""The variants of the native core that were built and that this machine can run."""

import importlib
import importlib.util


def _runnable():
    names = [n for n in ("baseline", "avx2", "avx512") if importlib.util.find_spec(f"dapd._core_{n}") is not None]
    if not names:
        return {}
    supported = importlib.import_module(f"dapd._core_{names[0]}").supported()
    return {name: importlib.import_module(f"dapd._core_{name}") for name in names if name in supported}


CORES = _runnable()
