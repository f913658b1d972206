"""`dapd info`: versions and the machine."""

from __future__ import annotations

import threadpoolctl
from rich.console import Console
from rich.table import Table

from dapd.engines import installed
from dapd.engines.native.threads import available, cores
from dapd.machine import core
from dapd.paper.reproduce import sources


def info() -> None:
    """Show versions, cores, threads and engines, and which build of the native core runs."""
    table = Table(show_header=False, box=None)
    for name, text in sources.versions().items():
        table.add_row(name, text)
    table.add_row("processor", f"{sources.processor()}, {cores()} cores")
    # several libraries may come with their own BLAS
    limits = {pool["internal_api"]: pool["num_threads"] for pool in threadpoolctl.threadpool_info()}
    threads = {"native": available(), **limits}
    table.add_row("threads", ", ".join(f"{name} {count}" for name, count in threads.items()))
    table.add_row("engines", ", ".join(installed()))
    table.add_row("native core", _core())
    table.add_row("device", "CPU")
    Console().print(table, soft_wrap=True)


def _core() -> str:
    """The build of the native core that a solve loads and the others that it could load, or why there is none."""
    found = core.variants()
    if not found:
        return (
            "not built, so the slower python engine runs; install a C++20 compiler (g++ or clang++) and reinstall: "
            "pip install --force-reinstall --no-deps --no-cache-dir dapd"
        )
    try:
        loaded = core.load()
    except ValueError as error:
        return str(error)
    name = loaded.__name__.removeprefix("dapd._core_") if loaded else ""
    return f"{name}; this processor runs {', '.join(found)} (DAPD_SIMD chooses)"
