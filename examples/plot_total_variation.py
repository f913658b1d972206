r"""
A photograph without its noise
==============================

Total variation removes noise and keeps edges.

The problem is

.. math:: \min_x \ \tfrac12 \|x - z\|^2 + w \sum_{\text{pixels}} \|(\nabla x)_{ij}\|_2
   \quad\text{subject to}\quad 0 \le x \le 1 .

The gradient at a pixel is a group of two rows, so :math:`\varphi` is the indicator of a ball for each pixel. The
certificate says how far the answer is from the best one, which a look at the picture cannot.
"""

from time import perf_counter

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_image

import dapd

# %%
# A photograph that comes with scikit-learn, in grey, with noise of a fifth of its range.
photo = load_sample_image("flower.jpg")[10:410:2, 60:560:2].mean(axis=2) / 255
noisy = photo + 0.2 * np.random.default_rng(0).standard_normal(photo.shape)

# %%
# One call makes the problem; a tolerance of 1e-4 is more than the eye needs.
weight = 0.16
began = perf_counter()
result = dapd.solve(dapd.problems.total_variation(noisy, weight, bounds=(0, 1)), tol=1e-4)
whole = perf_counter() - began
clean = result.x.reshape(photo.shape)
print(f"{photo.size:,} pixels in {whole:.2f} s")
print(result.summary())

# %%
# For Clarabel the whole image would take minutes, so it gets a part, and so does dapd, to the same accuracy.
part = noisy[60:108, 90:138]
began = perf_counter()
small = dapd.solve(dapd.problems.total_variation(part, weight, bounds=(0, 1)), tol=1e-8)
seconds = perf_counter() - began
x = cp.Variable(part.shape)
right = cp.hstack([x[:, 1:] - x[:, :-1], np.zeros((part.shape[0], 1))])
down = cp.vstack([x[1:] - x[:-1], np.zeros((1, part.shape[1]))])
lengths = cp.norm(cp.vstack([cp.vec(right, order="C"), cp.vec(down, order="C")]), 2, axis=0)
reference = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(x - part) + weight * cp.sum(lengths)), [x >= 0, x <= 1])
reference.solve(solver=cp.CLARABEL)
times = {"dapd": seconds, "Clarabel": reference.solver_stats.solve_time}
difference = abs(small.objective - reference.value) / reference.value
assert difference < 1e-6

# %%
# Before and after, and the middle of one line of pixels.
figure, axes = plt.subplots(
    1, 3, figsize=(12, 3.7), layout="constrained", gridspec_kw={"width_ratios": [1.25, 1.25, 1]}
)


def error(image):
    return np.sqrt(np.mean((np.clip(image, 0, 1) - photo) ** 2))


for ax, image, title in ((axes[0], noisy, "with noise"), (axes[1], clean, f"{photo.size:,} pixels, {whole:.2f} s")):
    ax.imshow(image, cmap="gray", vmin=0, vmax=1)
    ax.axhline(100, color="#e09f3e", lw=0.8)
    ax.set(title=f"{title}: error {error(image):.3f}", xticks=[], yticks=[])
axes[2].plot(noisy[100], color="#adb5bd", lw=0.7, label="with noise")
axes[2].plot(photo[100], color="#2a9d8f", lw=1.2, label="truth")
axes[2].plot(clean[100], color="#d1495b", lw=1.5, label="restored")
axes[2].set(xlabel="pixel of the marked line", ylim=(-0.2, 1.3))
axes[2].legend(ncols=3, fontsize="small", loc="upper center", columnspacing=1, handlelength=1)
plt.show()
