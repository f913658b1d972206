"""Condat–Vũ without a primal prox."""

from __future__ import annotations

from typing import Any

from dapd import theory
from dapd.methods.base import Method
from dapd.methods.papc import State, init

Parameters = theory.CondatVu


def step(p: Parameters, o: Any, s: State) -> State:
    """A gradient step in x, then a dual step at the extrapolated x."""
    x = s.x - p.t * (o.grad(s.x) + s.Mty)
    y, Mty = o.dual_step(p.s * (2 * x - s.x), s.y - p.s * o.b, p.s)
    return State(x, y, Mty)


class CondatVu(Method):
    """Condat–Vũ primal–dual splitting."""

    name = "condat-vu"
    title = "Condat–Vũ"
    reference = "Condat 2013; Vũ 2013"
    needs_s_min = False
    needs_mu = False
    record = Parameters
    settings = staticmethod(theory.condat_vu)
    first = staticmethod(init)
    update = staticmethod(step)
