"""The checked constants of a problem, and what the theorems of each side make of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from dapd.arguments import number, whole


def checked_constants(L: Any, mu: Any, s_max: Any, s_min: Any, *, independent: bool = True) -> list[float]:
    """L, mu, s_max and s_min, all positive; mu and s_min may be 0 unless `independent`."""
    L, s_max = _positive(L=L, s_max=s_max)
    if independent:
        mu, s_min = _positive(mu=mu, s_min=s_min)
    else:
        mu, s_min = number("mu", mu, least=0.0), number("s_min", s_min, least=0.0)
    _ordered(L=L, mu=mu)
    _ordered(s_max=s_max, s_min=s_min)
    return [L, mu, s_max, s_min]


def checked_block_constants(
    L: Any, mu: Any, s_bar_max: Any, s_min: Any, N: Any
) -> tuple[float, float, float, float, int]:
    """The constants of a block-coordinate method, all positive."""
    L, mu, s_bar_max, s_min = _positive(L=L, mu=mu, s_bar_max=s_bar_max, s_min=s_min)
    _ordered(L=L, mu=mu)
    N = whole("N", N, least=1)
    if s_bar_max * np.sqrt(N) < s_min * (1 - 1e-12):
        raise ValueError(
            f"s_bar_max·√N = {s_bar_max * N**0.5:g} must be >= s_min = {s_min:g}, since ‖M‖² <= N·s_bar_max²"
        )
    return L, mu, s_bar_max, s_min, N


def x_side(t: float, s_hat: float, Pi: float, excess: float) -> dict[str, float]:
    """What the x-side theorems share; `excess` is their 4Lαt. If f is separable, Pi counts rounds of N iterations."""
    xi = (1 + excess) / (1 / Pi + excess)
    tau = (xi - 1) / (1 - 1 / Pi)
    Xi_v = (1 + excess) / (2 * xi**2 * t)
    s = s_hat / t
    return {
        "t": t, "s": s, "s_hat": s_hat, "xi": xi, "tau": tau, "gamma": (xi - 1) / (tau + 1),
        "chi": 2 * Xi_v * xi * t, "Xi_y": 1 / (2 * s), "Xi_v": Xi_v,
    }  # fmt: skip


def y_side(L: float, s_hat: float, xi: float, Pi: float, alpha: float = 0.5) -> dict[str, float]:
    """What the y-side theorems share."""
    t = 1 / (2 * L)
    return {
        "t": t, "t_tilde": alpha * t / xi, "s": s_hat / t, "s_hat": s_hat, "xi": xi, "alpha": alpha, "Pi": Pi,
        "Xi_h": 1.0, "Xi_u": 1 / (2 * xi**2 * s_hat), "Xi_x": 1 / (2 * alpha * t**2),
    }  # fmt: skip


def _positive(**values: Any) -> list[float]:
    return [number(name, value, above=0.0) for name, value in values.items()]


def _ordered(**pair: float) -> None:
    (upper, high), (lower, low) = pair.items()
    if high < low:
        raise ValueError(f"{upper} must be >= {lower}, found {upper} = {high:g} and {lower} = {low:g}")
