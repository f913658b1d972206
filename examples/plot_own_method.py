r"""
A method of one's own, measured against the lower bound
=======================================================

How good is a new method? The paper's hard instances tell how far it is from the best possible.

On the paper's hard instance no method that multiplies with :math:`M` and :math:`M^T` can be faster than the bound,
so the distance from the bound is all that there is to gain. Here PAPC gets over-relaxation,

.. math:: (x, y) \leftarrow (x, y) + \rho \, \big( \mathrm{PAPC}(x, y) - (x, y) \big), \qquad \rho = 1.45 .

A method is one pure function ``step``. Once it is registered, it runs in the native core, and every report knows it.
"""

from time import perf_counter
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import spsolve

import dapd

# %%
# State, start and parameters are those of PAPC; only the step is new. Between its gradient and its dual step it
# may only add and scale vectors.
papc = dapd.METHODS["papc"]
relaxation = 1.45


def step(p: Any, o: Any, s: Any) -> Any:
    g = o.grad(s.x)
    ahead = s.x - p.t * (g + s.Mty)
    y, Mty = o.dual_step(p.s * ahead, s.y - p.s * o.b, p.s)
    x = s.x - p.t * (g + Mty)
    new = (s.x + relaxation * (x - s.x), s.y + relaxation * (y - s.y), s.Mty + relaxation * (Mty - s.Mty))
    return type(s)(*new)


class RelaxedPapc(papc):
    """PAPC, over-relaxed."""

    name, title, update = "relaxed-papc", "relaxed PAPC", staticmethod(step)


dapd.METHODS["relaxed-papc"] = RelaxedPapc

# %%
# Race it on one instance.
instance = dapd.lower_bounds.affine(L=400.0, mu=1.0, s_max=8.0, s_min=1.0)
methods = ["x-dapd", "relaxed-papc", "papc", "capd"]
found = dapd.lower_bounds.report(methods, instance, eps=1e-4)
print(found)

# %%
# And on instances that get harder: a method is optimal if its line stays level.
conditions = np.geomspace(4, 1000, 5)
factors = {name: [] for name in methods}
for kappa in conditions:
    harder = dapd.lower_bounds.affine(L=kappa, mu=1.0, s_max=5.0**0.5, s_min=1.0)
    for run in dapd.lower_bounds.report(methods, harder, eps=1e-3).runs:
        factors[run.method].append(run.times)

# %%
# The method solves problems like any other. A direct solution of the optimality conditions confirms its answer.
began = perf_counter()
result = dapd.solve(instance, "relaxed-papc", tol=1e-8)
seconds = perf_counter() - began
assert result.converged
M = instance.M.sparse()
began = perf_counter()
kkt = sp.block_array([[sp.diags_array(instance.f.H), M.T], [M, None]], format="csc")
x = spsolve(kkt, np.r_[instance.f.c, instance.b])[: instance.columns]
times = {"dapd": seconds, "SuperLU": perf_counter() - began}
difference = abs(result.objective - instance.f.value(x)) / abs(instance.f.value(x))
assert difference < 1e-6
assert result.engine == "native" or "core was not built" in result.engine.reason

# %%
# Left: error against products, so a horizontal distance is a ratio. Right: times the optimum.
figure, axes = plt.subplots(1, 2, figsize=(11, 4.3), layout="constrained")
found.plot(axes[0])
axes[0].legend(fontsize="small", loc="lower left")
colours = {line.get_label().partition(":")[0]: line.get_color() for line in axes[0].get_lines()}
for name, times_optimum in factors.items():
    axes[1].loglog(conditions, times_optimum, "-o", color=colours[name], label=name)
axes[1].axhline(1, color="k", ls="--", label="the theorem's bound")
axes[1].set(xlabel="L/μ", ylabel="times the optimum", title="s_max/s_min = √5, error 1e-3")
axes[1].grid(alpha=0.3)
axes[1].legend(fontsize="small")
plt.show()
del dapd.METHODS["relaxed-papc"]
