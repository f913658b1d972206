r"""
Receding-horizon control of a quadrotor
=======================================

A quadrotor flies to four corners in gusty wind. Each of its 160 steps is a quadratic program.

Near hover it has twelve states (position, velocity, attitude and its rates) and four inputs (thrust and three
torques). At each instant the controller plans the next second and a half,

.. math:: \min_{s, u} \ \tfrac12 \sum_t (s_t - r)^T Q (s_t - r) + u_t^T R u_t
   \quad\text{subject to}\quad s_{t+1} = As_t + Bu_t, \quad |u_t| \le u_{\max}, \quad |s_t| \le s_{\max},

applies the first input, and plans again from where the wind has carried it. Only the linear terms change from step to
step, so a ``dapd.Solver`` keeps its factorisation and starts from the last plan.
"""

from time import perf_counter

import clarabel
import matplotlib.pyplot as plt
import numpy as np
import scipy.linalg
import scipy.sparse as sp

import dapd

# %%
# The dynamics near hover: tilting the quadrotor accelerates it sideways.
step, gravity = 0.05, 9.81
drift, push = np.zeros((12, 12)), np.zeros((12, 4))
drift[0:3, 3:6] = drift[6:9, 9:12] = np.eye(3)  # position and attitude follow their velocities
drift[3, 7], drift[4, 6] = gravity, -gravity
push[5, 0], push[9:12, 1:4] = 1.0, 5.0 * np.eye(3)
joint = scipy.linalg.expm(step * np.block([[drift, push], [np.zeros((4, 16))]]))
A, B = joint[:12, :12], joint[:12, 12:]

Q = np.repeat([10.0, 1.0, 1.0, 0.1], 3)  # position, velocity, attitude, rates
R = np.full(4, 0.1)
most = np.r_[np.full(6, np.inf), np.full(3, np.radians(20)), np.full(3, 3.0)]  # 20 degrees of tilt
options = {"horizon": 30, "state_bounds": (-most, most), "input_bounds": (-1.5, 1.5)}

# %%
# Fly to four corners, in wind that the plan does not know. Setting the target changes only the linear term of the
# cost.
rng = np.random.default_rng(0)
corners = np.array([[2.0, 0.0, 1.0], [2.0, 2.0, 1.5], [0.0, 2.0, 0.5], [0.0, 0.0, 0.0]])
state, flown, plans, inputs, milliseconds, asked = np.zeros(12), [], [], [], [], []
problem = dapd.problems.mpc(A, B, Q, R, start=state, **options)
solver = dapd.Solver(problem, tol=1e-6)
for t in range(160):
    target = np.r_[corners[t // 40], np.zeros(9)]
    goal = dapd.problems.mpc(A, B, Q, R, start=state, target=target, **options)
    began = perf_counter()
    solver.update(b=goal.b, c=goal.f.c)
    result = solver.solve()
    milliseconds.append(1e3 * (perf_counter() - began))
    assert result.converged
    plan, moves = dapd.problems.trajectory(result.x, 12, 4)
    flown.append(state)
    plans.append(plan)
    inputs.append(moves[0])
    asked.append((goal.b, goal.f.c, result.objective))
    gust = 0.04 * rng.standard_normal(3) + [0.01, -0.01, 0.0]
    state = A @ state + B @ moves[0] + np.r_[np.zeros(3), gust, np.zeros(6)]
flown, inputs = np.array(flown), np.array(inputs)

# %%
# Clarabel, an interior-point solver, gets the same problems. It starts each from nothing.
lower, upper = problem.bounds
above, below = np.isfinite(upper), np.isfinite(lower)
identity = sp.eye_array(problem.columns, format="csc")
rows = sp.csc_matrix(sp.vstack([problem.M.sparse(), identity[above], -identity[below]]))
cones = [clarabel.ZeroConeT(problem.rows), clarabel.NonnegativeConeT(int(above.sum() + below.sum()))]
settings = clarabel.DefaultSettings()
settings.verbose = False
H, theirs, difference = sp.csc_matrix(sp.triu(problem.f.H)), [], 0.0
for b, c, objective in asked:
    began = perf_counter()
    sides = np.r_[b, upper[above], -lower[below]]
    answer = clarabel.DefaultSolver(H, -c, rows, sides, cones, settings).solve()
    theirs.append(1e3 * (perf_counter() - began))
    difference = max(difference, abs(answer.obj_val - objective) / abs(objective))
assert difference < 1e-5
times = {"dapd": sum(milliseconds) / 1e3, "Clarabel": sum(theirs) / 1e3}
print(f"median step: {np.median(milliseconds):.1f} ms, by Clarabel {np.median(theirs):.1f} ms")

# %%
# The path with every eighth plan, the tilt against its limit, and the time of each step.
figure = plt.figure(figsize=(10, 5.6), layout="constrained")
grid = figure.add_gridspec(3, 2, width_ratios=[1.25, 1])
ax = figure.add_subplot(grid[:, 0], projection="3d")
for plan in plans[::8]:
    ax.plot(*plan[:, :3].T, color="#e09f3e", lw=0.8, alpha=0.8)
ax.plot(*flown[:, :3].T, color="#1d3557", lw=2)
ax.scatter(*corners.T, color="#d1495b", s=45, depthshade=False)
ax.set(xlabel="x, m", ylabel="y, m", zlabel="z, m")
ax.set_title("flown (blue), planned (yellow), corners (red)", y=0.98)
ax.view_init(28, -62)
clock = step * np.arange(len(flown))
tilt = figure.add_subplot(grid[0, 1])
tilt.plot(clock, np.degrees(flown[:, 6:8]), lw=1.4)
tilt.axhspan(-20, 20, color="#2a9d8f", alpha=0.12)
tilt.set_ylabel("tilt, degrees")
moved = figure.add_subplot(grid[1, 1], sharex=tilt)
moved.step(clock, inputs, lw=1.0, where="post")
moved.axhspan(-1.5, 1.5, color="#2a9d8f", alpha=0.12)
moved.set_ylabel("inputs")
cost = figure.add_subplot(grid[2, 1], sharex=tilt)
cost.semilogy(clock, milliseconds, ".", ms=3, label="dapd.Solver")
cost.semilogy(clock, theirs, ".", ms=3, label="Clarabel")
cost.set(xlabel="seconds of flight", ylabel="ms per step", ylim=(0.5, 200))
cost.legend(ncols=2, fontsize="small", loc="upper center")
plt.show()
