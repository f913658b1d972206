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


def ray_filter(problem: Problem, engine: str) -> Callable[[Array], bool]:
    """Whether a direction of y may prove that there is no solution: the device says so before the host is asked."""
    device = on_the_device(problem, engine)
    if device is None or not device.can_certify:
        return lambda direction: True
    return on_the_device_itself(problem.unstacked).may_be_ray


def on_the_device_itself(problem: Problem) -> Device:
    """The problem on the device of the jax engine, small or not."""
    from dapd.solving.jax_certificate import Device

    return Device(problem)


def on_the_device(problem: Problem, engine: str) -> Device | None:
    """The problem on the device of the jax engine; None if it is small, or if another engine runs it."""
    if engine != "jax":
        return None
    from dapd.engines.jax import is_large  # jax is imported only if it is asked for

    return on_the_device_itself(problem) if is_large(problem) else None
