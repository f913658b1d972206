r"""
A portfolio with factor risk and trading costs
==============================================

How much of each asset to hold, given what one holds now and what it costs to trade.

The problem is

.. math:: \min_x \ \tfrac{\gamma}{2} x^T (FF^T + D) x - \mu^T x + c \|x - x_0\|_1
   \quad\text{subject to}\quad \textstyle\sum_i x_i = 1, \quad 0 \le x \le 0.05 .

The covariance has factors, so it is never formed: the exposures :math:`e = F^T x` become variables, and everything
stays sparse or diagonal. The aversion :math:`\gamma` runs through the efficient frontier.
"""

from time import perf_counter

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np

import dapd

# %%
# A market of 800 assets in eight sectors, driven by 24 factors.
rng = np.random.default_rng(2)
n, k, sectors = 800, 24, 8
sector = np.arange(n) * sectors // n
factors = 0.04 * rng.standard_normal((n, k)) + 0.10 * (sector[:, None] == np.arange(k) % sectors) * rng.random((n, 1))
specific = rng.uniform(0.05, 0.25, n) ** 2
mean = 0.05 + 0.08 * rng.random(sectors)[sector] + 0.04 * rng.standard_normal(n)
held = np.where(rng.random(n) < 0.1, rng.random(n), 0.0)
held /= held.sum()

# %%
# The frontier, from timid to bold. Only the curvature of the cost changes with the aversion.
aversions = np.geomspace(60, 0.5, 24)
market = {"previous": held, "trading_cost": 0.05, "bounds": (0.0, 0.05)}
began, found = perf_counter(), []
solver = dapd.Solver(dapd.problems.portfolio(mean, factors, specific, aversion=1.0, **market), tol=1e-8)
curvature = solver.problem.f.H
for aversion in aversions:
    solver.update(H=aversion * curvature)
    result = solver.solve()
    assert result.converged
    found.append(result)
seconds = perf_counter() - began
weights = np.array([one.x[:n] for one in found])

# %%
# Clarabel, with the same factors as variables, one problem after the other.
x, e = cp.Variable(n), cp.Variable(k)
theirs = difference = 0.0
for aversion, mine in zip(aversions, found, strict=True):
    risk = cp.sum_squares(e) + cp.sum(cp.multiply(specific, x**2))
    cost = 0.5 * aversion * risk - mean @ x + 0.05 * cp.norm1(x - held)
    reference = cp.Problem(cp.Minimize(cost), [e == factors.T @ x, cp.sum(x) == 1, x >= 0, x <= 0.05])
    reference.solve(solver=cp.CLARABEL)
    theirs += reference.solver_stats.solve_time
    difference = max(difference, abs(mine.objective - reference.value) / abs(reference.value))
assert difference < 1e-5
times = {"dapd": seconds, "Clarabel": theirs}

# %%
# Risk and return of each portfolio, what it is made of, and how much is traded to get there.
risk = np.sqrt(np.sum((weights @ factors) ** 2, axis=1) + weights**2 @ specific)
gain, traded = weights @ mean, abs(weights - held).sum(axis=1)
figure, axes = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
single = np.sqrt(np.sum(factors**2, axis=1) + specific)
axes[0].scatter(100 * single, 100 * mean, s=5, c=sector, cmap="Set2", label="single assets")
axes[0].plot(100 * risk, 100 * gain, "-o", color="#1d3557", ms=4, lw=2, label="efficient portfolios")
now = np.sqrt(np.sum((held @ factors) ** 2) + held**2 @ specific)
axes[0].plot(100 * now, 100 * held @ mean, "*", ms=15, color="#d1495b", label="held now")
axes[0].set(xlabel="risk, %", ylabel="expected return, %", xlim=(0, 45))
axes[0].legend(loc="lower right")
shares = [100 * weights[:, sector == s].sum(axis=1) for s in range(sectors)]
axes[1].stackplot(100 * risk, shares, colors=plt.get_cmap("Set2").colors)
axes[1].plot(100 * risk, 50 * traded, "k--", label="traded, % of the portfolio")
axes[1].set(
    xlabel="risk, %", ylabel="share of each sector, %", xlim=(100 * risk.min(), 100 * risk.max()), ylim=(0, 100)
)
axes[1].legend(loc="lower right", framealpha=0.9)
plt.show()
