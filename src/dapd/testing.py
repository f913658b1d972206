"""Checkers for your own operators and functions: each raises AssertionError with the numbers that disagree."""

from __future__ import annotations

from typing import Any

import numpy as np

from dapd.arguments import named, number, whole
from dapd.arrays import Array
from dapd.functions import Function
from dapd.kinds.composed import HasProx
from dapd.operators.convert import as_operator


@named
def check_adjoint(M: Any, *, trials: int = 10, tol: float = 1e-10, seed: int = 0) -> None:
    """Check yᵀ(Mx) = (Mᵀy)ᵀx, linearity and the shapes of both products, at random points."""
    operator = as_operator(M)
    rng = np.random.default_rng(seed)
    rows, columns = operator.shape
    for _ in range(whole("trials", trials, least=1)):
        x, y, z = rng.standard_normal(columns), rng.standard_normal(rows), rng.standard_normal(columns)
        Mx, Mty = operator.forward(x), operator.adjoint(y)
        if Mx.shape != (rows,) or Mty.shape != (columns,):
            raise AssertionError(
                f"products have shapes {Mx.shape} and {Mty.shape}, expected {(rows,)} and {(columns,)}"
            )
        scale = float(np.linalg.norm(Mx) * np.linalg.norm(y) + np.linalg.norm(Mty) * np.linalg.norm(x))
        if not abs(y @ Mx - Mty @ x) <= tol * scale:
            raise AssertionError(
                f"yᵀ(Mx) = {y @ Mx:.12g} but (Mᵀy)ᵀx = {Mty @ x:.12g}: the adjoint is not the transpose"
            )
        bent = operator.forward(x + 2 * z) - Mx - 2 * operator.forward(z)
        if not np.linalg.norm(bent) <= tol * (np.linalg.norm(Mx) + scale):
            raise AssertionError(f"M(x + 2z) differs from Mx + 2Mz by {np.linalg.norm(bent):.3g}: M is not linear")


@named
def check_gradient(f: Function, x: Array, *, trials: int = 10, tol: float = 1e-5, seed: int = 0) -> None:
    """Check `grad` against central differences of `value` around x, in random directions."""
    rng = np.random.default_rng(seed)
    x = np.asarray(x, np.float64)
    for _ in range(whole("trials", trials, least=1)):
        d = rng.standard_normal(x.size)
        d /= np.linalg.norm(d)
        point = x + rng.standard_normal() * d
        h = 1e-5 * max(1.0, float(np.linalg.norm(point)))
        slope = (f.value(point + h * d) - f.value(point - h * d)) / (2 * h)
        before = point.copy()
        claimed = float(np.asarray(f.grad(point)) @ d)
        if not np.array_equal(point, before):
            raise AssertionError("grad changed its argument")
        # the effect of rounding in `value` on the difference
        noise = 1e-15 * abs(f.value(point)) / h
        if not abs(slope - claimed) <= tol * (abs(slope) + abs(claimed) + 1) + 10 * noise:
            raise AssertionError(f"the slope of value along a direction is {slope:.9g}, but grad gives {claimed:.9g}")


@named
def check_prox(phi: HasProx, size: int, *, trials: int = 20, tol: float = 1e-8, seed: int = 0) -> None:
    """Check that prox(v, s) minimises φ + ‖· − v‖²/(2s), by other points and by firm nonexpansiveness."""
    rng = np.random.default_rng(seed)
    for _ in range(whole("trials", trials, least=1)):
        step = float(np.exp(rng.uniform(-3, 3)))
        v, w = 3 * rng.standard_normal(size), 3 * rng.standard_normal(size)
        before = v.copy()
        p, q = phi.prox(v, step), phi.prox(w, step)
        if not np.array_equal(v, before):
            raise AssertionError("prox changed its argument")
        if np.shape(p) != (size,):
            raise AssertionError(f"prox returned shape {np.shape(p)}, expected {(size,)}")
        gap = float((p - q) @ (v - w) - (p - q) @ (p - q))
        if gap < -tol * (1 + float((v - w) @ (v - w))):
            raise AssertionError(f"prox is not firmly nonexpansive (by {gap:.3g}): it is not the prox of a convex φ")
        value = phi.value(p)
        if np.isnan(value):
            continue
        if not np.isfinite(value):
            raise AssertionError(f"φ is {value} at its own prox")

        def merit(y: Array, v: Array = v, step: float = step) -> float:
            return float(phi.value(y) + (y - v) @ (y - v) / (2 * step))

        least = merit(p)
        # random neighbours are mostly outside the domain of an indicator; points between two proxes are inside, and so
        # are some neighbours that differ in one entry
        others = (q, *(phi.prox(v, other * step) for other in (0.5, 2.0)), phi.prox(2 * v, step), phi.prox(p, step))
        between = [p + h * (other - p) for other in others for h in (1e-3, 1e-1, 1.0)]
        in_one_entry = [
            p + h * unit for unit in np.eye(size)[rng.integers(0, size, 3)] for h in (-1e-1, -1e-3, 1e-3, 1e-1)
        ]
        around = [p + h * rng.standard_normal(size) for h in (1e-3, 1e-1, 1.0)]
        for near in (*between, *in_one_entry, *around):
            if merit(near) < least - tol * (1 + abs(least)):
                raise AssertionError(
                    f"prox gives {least:.9g}, but another point gives {merit(near):.9g}: it is not the minimiser"
                )


@named
def check_strong_convexity(
    f: Function, x: Array, *, radius: float = 1.0, trials: int = 50, tol: float = 1e-8, seed: int = 0
) -> None:
    """Check μ‖d‖² ≤ (∇f(x+d) − ∇f(x))ᵀd and ‖∇f(x+d) − ∇f(x)‖² ≤ L·(∇f(x+d) − ∇f(x))ᵀd for random d.

    An unknown L is not checked. Passing is not a proof; a failure shows that `mu` is too large or `L` too small.
    """
    rng = np.random.default_rng(seed)
    radius = number("radius", radius, above=0.0)
    x = np.asarray(x, np.float64)
    for _ in range(whole("trials", trials, least=1)):
        start = x + radius * rng.standard_normal(x.size)
        d = radius * np.exp(rng.uniform(-6, 1)) * rng.standard_normal(x.size)
        rise = np.asarray(f.grad(start + d)) - np.asarray(f.grad(start))
        along, length, steep = float(rise @ d), float(d @ d), float(rise @ rise)
        if along < f.mu * length * (1 - tol):
            raise AssertionError(f"curvature {along / length:.6g} along a direction is below mu = {f.mu:.6g}")
        if f.L is not None and steep > f.L * along * (1 + tol):
            raise AssertionError(f"curvature {steep / along:.6g} along a direction is above L = {f.L:.6g}")
