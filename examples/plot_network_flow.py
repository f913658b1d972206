r"""
Flow through a network with capacities
======================================

Goods enter a country in the west and leave it in the east, by road and by air. Roads and flights have capacities,
and a river with five bridges is in the way.

A link costs :math:`\tfrac12 r_e x_e^2` and carries at most its capacity, in either direction:

.. math:: \min_x \ \tfrac12 \sum_e r_e x_e^2 \quad\text{subject to}\quad Mx = s, \quad |x_e| \le c_e,

where :math:`M` is the incidence matrix and :math:`s` the supply. The multipliers :math:`y` are the prices at the
nodes. Goods flow towards higher prices, and prices jump where links are full: here at a river with five bridges.
"""

from time import perf_counter

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.collections import LineCollection
from scipy.spatial import Delaunay

import dapd

# %%
# Places with roads to their neighbours, a river that only five roads cross, and a flight from each third place.
rng = np.random.default_rng(4)
places = rng.random((3000, 2)) * [1.6, 1.0]
triangles = Delaunay(places).simplices
roads = np.unique(np.sort(triangles[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2)), axis=0)
roads = roads[np.linalg.norm(places[roads[:, 0]] - places[roads[:, 1]], axis=1) < 0.1]


def river(height):
    return 0.8 + 0.1 * np.sin(7 * height)


side = places[:, 0] > river(places[:, 1])
crossing = np.flatnonzero(side[roads[:, 0]] != side[roads[:, 1]])
bridges = [crossing[np.argmin(abs(places[roads[crossing, 0], 1] - h))] for h in (0.1, 0.3, 0.5, 0.7, 0.9)]
roads = np.delete(roads, np.setdiff1d(crossing, bridges), axis=0)
flights = np.column_stack([np.arange(0, 3000, 3), rng.permutation(3000)[:1000]])
flights = flights[flights[:, 0] != flights[:, 1]]

edges = np.vstack([roads, flights])
length = np.linalg.norm(places[edges[:, 0]] - places[edges[:, 1]], axis=1)
by_air = np.arange(len(edges)) >= len(roads)
capacity = np.where(by_air, 0.005, rng.choice([0.3, 1.0], len(edges)))
capacity[np.flatnonzero(side[edges[:, 0]] != side[edges[:, 1]])[:5]] = 1.0  # the bridges

west, east = places[:, 0] < 0.1, places[:, 0] > 1.5
supply = 6.0 * (west / west.sum() - east / east.sum())

# %%
# Solve it. Capacities are bounds on the flow, so no matrix holds them.
began = perf_counter()
problem = dapd.problems.flow(edges, supply, curvature=length, capacity=(-capacity, capacity))
result = dapd.solve(problem)
seconds = perf_counter() - began
print(result.summary())

# %%
# An interior-point solver finds the same cost.
x = cp.Variable(len(edges))
reference = cp.Problem(
    cp.Minimize(0.5 * length @ x**2),
    [dapd.problems.incidence(edges, len(places)) @ x == supply, x >= -capacity, x <= capacity],
)
reference.solve(solver=cp.CLARABEL)
times = {"dapd": seconds, "Clarabel": reference.solver_stats.solve_time}
difference = abs(result.objective - reference.value) / abs(reference.value)
assert difference < 1e-5

# %%
# The width of a road is its flow, red ones are full, and the colour of the land is the price.
full = abs(result.x) > 0.999 * capacity
on_land = side[triangles].all(axis=1) | ~side[triangles].any(axis=1)
figure, ax = plt.subplots(figsize=(9, 5.4), layout="constrained")
prices = ax.tripcolor(*places.T, triangles[on_land], result.y, shading="gouraud", cmap="YlGnBu")
width = 0.15 + 6 * abs(result.x) / capacity.max()
for chosen, colour in ((~full & ~by_air, "#26323a"), (full & ~by_air, "#d1495b")):
    ax.add_collection(LineCollection(places[edges[chosen]], linewidths=width[chosen], colors=colour))
ax.set_title(f"{len(edges):,} links, {full.sum()} of them full: {seconds:.2f} s by {result.method}")
ax.set(xticks=[], yticks=[], aspect="equal", xlim=(0, 1.6), ylim=(0, 1))
for spine in ax.spines.values():
    spine.set_visible(False)
figure.colorbar(prices, label="price", shrink=0.8)
plt.show()
