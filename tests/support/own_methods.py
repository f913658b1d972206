"""Methods that a user might bring, for the tests of the engines."""

from typing import NamedTuple

import dapd
from dapd import theory


class Seven(NamedTuple):
    """PAPC with an average beside it, in a state of seven fields with names of its own."""

    here: dapd.Primal
    dual: dapd.Dual
    pull: dapd.Primal  # Mᵀ dual
    mean: dapd.Primal
    mean_dual: dapd.Dual
    mean_pull: dapd.Primal
    before: dapd.Primal  # the last `here`


def first(p, o, x, y):
    pull = o.adjoint(y)
    return Seven(x, y, pull, x, y, pull, x)


def step(p, o, s):
    g = o.grad(s.here)
    dual, pull = o.dual_step(p.s * (s.here - p.t * (g + s.pull)), s.dual - p.s * o.b, p.s)
    here = s.here - p.t * (g + pull)
    mean = 0.9 * s.mean + 0.1 * here
    mean_dual, mean_pull = 0.9 * s.mean_dual + 0.1 * dual, 0.9 * s.mean_pull + 0.1 * pull
    return Seven(here, dual, pull, mean, mean_dual, mean_pull, s.here)


class Averaged(dapd.Method):
    """PAPC and its average."""

    name = "averaged"
    title = "Averaged PAPC"
    reference = "nowhere"
    needs_s_min = False
    record = theory.Papc
    settings = staticmethod(theory.papc)
    first = staticmethod(first)
    update = staticmethod(step)

    @staticmethod
    def point(state):
        return state.here, state.dual


def with_step(own, name="own", state=None, begin=None):
    """A method with PAPC's parameters and another step; its state is PAPC's unless another is given."""
    papc = dapd.METHODS["papc"]
    parts = {
        "name": name,
        "title": name,
        "reference": "nowhere",
        "needs_s_min": False,
        "record": papc.record,
        "settings": staticmethod(theory.papc),
        "first": staticmethod(begin or papc.first),
        "update": staticmethod(own),
    }
    return type("Own", (dapd.Method,), parts)
