"""What a solve by the jax engine does on the device besides its steps: certificates, norms, and ways back."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from dapd.arrays import Array, on_host
from dapd.model.problem import Problem
from dapd.solving.certificate import Certificate, certify
from dapd.spectrum.estimate import Spectrum

if TYPE_CHECKING:
    from dapd.solving.jax_certificate import Device

Certify = Callable[[Array, Array, Spectrum | None], Certificate]


def certifier(problem: Problem, engine: str) -> Certify:
    """`certify` for this problem: on the device if the jax engine keeps its points there."""
    device = on_the_device(problem, engine)
    if device is not None and device.can_certify:
        return device.certify
    return lambda x, y, spectrum: certify(problem, on_host(x), on_host(y), spectrum=spectrum)


def on_the_device(problem: Problem, engine: str) -> Device | None:
    """The problem on the device of the jax engine; None if it is small, or if another engine runs it."""
    if engine != "jax":
        return None
    from dapd.engines.jax import is_large  # jax is imported only if it is asked for
    from dapd.solving.jax_certificate import Device

    return Device(problem) if is_large(problem) else None
