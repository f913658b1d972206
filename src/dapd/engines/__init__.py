"""How steps are repeated; what they compute is in `dapd.methods`."""

from __future__ import annotations

import importlib.util
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from dapd.arguments import near_miss
from dapd.arrays import on_device
from dapd.engines.native.blocks import BlockRunner
from dapd.engines.native.maps import FEW
from dapd.engines.native.runner import NativeRunner
from dapd.engines.protocol import CannotRun, NotNative, Runner
from dapd.engines.python import PythonRunner
from dapd.machine.core import variants
from dapd.methods.base import Method
from dapd.methods.block import BlockMethod
from dapd.operators.base import FORMED, Operator

ENGINES = ("auto", "native", "python", "jax")
WITHOUT_JAX = "engine='jax' needs JAX, which is not installed; pip install jax, or jax[cuda13] for NVIDIA GPUs"


def installed() -> list[str]:
    """The engines that can run here."""
    missing = {"native"} if not variants() else set()
    if importlib.util.find_spec("jax") is None:
        missing.add("jax")
    return [name for name in ENGINES if name not in missing]


def check_engine(engine: str) -> None:
    """Raise if the engine name is unknown, listing the valid names."""
    if not isinstance(engine, str):
        raise TypeError(f"engine must be one of {', '.join(ENGINES)}, found {engine!r}")
    if engine not in ENGINES:
        raise ValueError(f"engine must be one of {', '.join(ENGINES)}, found {engine!r}{near_miss(engine, ENGINES)}")


def precision(engine: str) -> AbstractContextManager[Any]:
    """The context of a solve: JAX computes in float64 in it, whatever its configuration is outside."""
    return _import_jax().enable_x64(True) if engine == "jax" else nullcontext()


def as_jax(*arrays: Any) -> list[Any]:
    """The arrays as those of JAX, in its float64."""
    with precision("jax"):
        return [importlib.import_module("jax.numpy").asarray(array) for array in arrays]


def on_mesh(mesh: Any, M: Operator) -> AbstractContextManager[Any]:
    """The context of a solve whose M is divided among several devices."""
    if mesh is None:
        return nullcontext()
    from dapd.engines.jax.layout import using
    from dapd.engines.jax.mesh.rows import divided_shape

    return using(mesh, divided_shape(M, mesh))


def is_on_mesh() -> bool:
    """Whether the solve in progress divides M among several devices."""
    known = sys.modules.get("dapd.engines.jax.layout")
    return known is not None and known.layout() is not None


def _import_jax() -> Any:
    try:
        with nullcontext() if "jax" in sys.modules else _ctrl_c_afterwards():  # half imported, JAX crashes
            return importlib.import_module("jax")
    except ModuleNotFoundError as error:
        if error.name != "jax":  # it is installed, and something that it needs is not
            raise
        raise ImportError(WITHOUT_JAX) from None


@contextmanager
def _ctrl_c_afterwards() -> Iterator[None]:
    """Let Ctrl-C take effect at the end, if it is handled as usual."""
    in_main_thread = threading.current_thread() is threading.main_thread()
    if not in_main_thread or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    pressed: list[bool] = []
    signal.signal(signal.SIGINT, lambda *_: pressed.append(True))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if pressed:
        raise KeyboardInterrupt


def in_one_program(function: Callable[..., Any], *args: Any) -> Any:
    """function(*args), compiled if the first of them is on a device: it would run one operation after another."""
    if not on_device(args[0]):
        return function(*args)
    from dapd.engines.jax.program import plain

    with precision("jax"):
        return plain(function)(*args)


def bind(method: Method, engine: str = "auto") -> Runner:
    """A runner for the method: native if the core can run it, else python with the reason."""
    if engine == "python":
        return PythonRunner(method)
    try:
        if engine == "jax":
            return _on_device(method)
        if isinstance(method, BlockMethod):
            return BlockRunner(method)
        return NativeRunner(method, most_stored=FORMED if engine == "native" else FEW)
    except NotNative as reason:
        if engine == "auto":
            return PythonRunner(method, reason=str(reason))
        raise CannotRun(f"engine={engine!r} cannot run this: {reason}; use engine='auto' or 'python'") from None


def _on_device(method: Method) -> Runner:
    """A runner on the device of JAX, which is imported only if it is asked for."""
    _import_jax()
    from dapd.engines.jax.runner import JaxRunner

    if isinstance(method, BlockMethod):
        raise NotNative(f"{method.name} takes one block at a time, which would leave an accelerator idle")
    return JaxRunner(method)
