r"""
Fair logistic regression
========================

A classifier should not lean on an attribute that must not matter. That is one linear constraint, and this is what
it costs.

With :math:`z` that attribute and :math:`a_i` the features, the covariance between :math:`z` and the score
:math:`a_i^T x` is linear in :math:`x`, so fairness is one constraint:

.. math:: \min_x \ \sum_i \log(1 + e^{-\ell_i a_i^T x}) + \tfrac{w}{2} \|x\|^2
   \quad\text{subject to}\quad \Big| \tfrac1n \sum_i (z_i - \bar z)\, a_i^T x \Big| \le c.

The data are scikit-learn's breast-cancer data. Which half of the smoothness values a cell nucleus belongs to
stands in for the protected attribute.
"""

from time import perf_counter

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer

import dapd

# %%
# Standardise the features, and add an intercept. The protected attribute is left out of the features, which is
# not enough: others know about it.
data = load_breast_cancer()
protected = list(data.feature_names).index("mean smoothness")
z = np.where(data.data[:, protected] > np.median(data.data[:, protected]), 1.0, -1.0)
features = np.delete(data.data, protected, axis=1)
A = (features - features.mean(axis=0)) / features.std(axis=0)
A = np.column_stack([A, np.ones(len(A))])
labels = np.where(data.target == 1, 1.0, -1.0)  # benign
leaning = (z - z.mean()) @ A / len(z)  # the covariance is leaning @ x

# %%
# Tighten the limit step by step. Only the limit changes, so the solver starts from the last answer.
free = dapd.solve(dapd.problems.logistic(A, labels, 1.0))
limits = np.linspace(abs(leaning @ free.x), 0.0, 25)
began = perf_counter()
problem = dapd.problems.logistic(A, labels, 1.0, C=leaning[None], l=-limits[0], u=limits[0])
solver, found = dapd.Solver(problem, tol=1e-8), []
for limit in limits:
    solver.update(phi=dapd.Interval(-limit, limit))
    result = solver.solve()
    assert result.converged
    found.append(result)
seconds = perf_counter() - began

# %%
# Clarabel, with exponential cones, agrees on the strictest one.
x = cp.Variable(A.shape[1])
loss = cp.sum(cp.logistic(cp.multiply(-labels, A @ x))) + 0.5 * cp.sum_squares(x)
reference = cp.Problem(cp.Minimize(loss), [leaning @ x == 0])
reference.solve(solver=cp.CLARABEL)
times = {"dapd": seconds / len(limits), "Clarabel": reference.solver_stats.solve_time}
difference = abs(result.objective - reference.value) / reference.value
assert difference < 1e-6

# %%
# What fairness costs, and what it does to the scores of the two groups.
accuracy = np.array([np.mean(np.sign(A @ one.x) == labels) for one in found])
benign = [[np.mean((A @ one.x > 0)[z == group]) for one in found] for group in (-1, 1)]
truth = [np.mean((labels > 0)[z == group]) for group in (-1, 1)]
colours = ("#2a9d8f", "#d1495b")
figure, axes = plt.subplots(1, 3, figsize=(11, 3.8), layout="constrained", gridspec_kw={"width_ratios": [1.2, 1, 1]})
axes[0].plot(limits, 100 * accuracy, "k", lw=2, label="accuracy")
for rates, name, colour in zip(benign, ("smooth", "rough"), colours, strict=True):
    axes[0].plot(limits, 100 * np.array(rates), color=colour, lw=2, label=f"called benign, {name} half")
axes[0].invert_xaxis()
axes[0].set(xlabel="limit on the covariance (tighter to the right)", ylabel="%", ylim=(0, 103))
axes[0].legend(loc="lower left", fontsize="small")
for ax, one, name in ((axes[1], free, "free"), (axes[2], found[-1], "no covariance")):
    scores = A @ one.x
    bins = np.linspace(-15, 15, 31)
    for group, colour in zip((-1, 1), colours, strict=True):
        ax.hist(np.clip(scores[z == group], -14.9, 14.9), bins, alpha=0.6, color=colour)
        ax.axvline(scores[z == group].mean(), color=colour, lw=2)
    ax.axvline(0, color="k", lw=0.8, ls=":")
    ax.set(title=f"{name}: {100 * np.mean(np.sign(scores) == labels):.1f} % right", xlabel="score", yticks=[])
plt.show()
print(f"truly benign: {100 * truth[0]:.0f} % and {100 * truth[1]:.0f} %")
