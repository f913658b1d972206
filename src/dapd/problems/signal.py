"""Signals and images: x close to the data z, and simple in some sense."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from dapd import Box, GroupBall, Identity, LeastSquares, NonNegative, Problem
from dapd.arguments import named, number, real, vector, whole
from dapd.arrays import Array


@named
def total_variation(z: Any, weight: float, *, A: Any = None, isotropic: bool = True, bounds: Any = None) -> Problem:
    """½‖Ax − z‖² + weight·TV(x): remove noise, and keep edges.

    TV is Σ of the lengths of the gradients of x at all pixels (isotropic), or Σ |x_i − x_j| over all neighbours. For a
    signal both are Σ |x_{i+1} − x_i|. `result.x.reshape(z.shape)` is the image.

    Parameters
    ----------
    z : array of any number of axes
        A signal, an image or a volume.
    weight : float
    A : matrix or operator on the pixels in C order, optional
        A blur or a mask; the identity by default. With A, x has the shape of z as well.
    isotropic : bool
    bounds : pair (lower, upper), optional
        As in `Problem`: (0, 1) for grey values.
    """
    image = real("z", z)
    if image.ndim == 0:
        raise ValueError(f"z must be an array with at least one axis, found the number {image}")
    n, axes = image.size, image.ndim
    f = LeastSquares(Identity(n) if A is None else A, image.ravel())
    weight = number("weight", weight, above=0.0)
    joint = isotropic and axes > 1
    M = gradients(image.shape, by_pixel=joint)
    phi = GroupBall(weight, axes) if joint else Box.between(-weight, weight)
    return Problem(f, M, np.zeros(M.shape[0]), phi, bounds=bounds)


def gradients(shape: tuple[int, ...], *, by_pixel: bool) -> Any:
    """Differences of neighbours along each axis; by pixel, with a zero row where there is no neighbour."""
    pixels = np.arange(int(np.prod(shape))).reshape(shape)
    axes = len(shape)
    ones, twos, rows = [], [], []
    for axis in range(axes):
        last = shape[axis]
        ones.append(np.take(pixels, range(last - 1), axis).ravel())
        twos.append(np.take(pixels, range(1, last), axis).ravel())
        rows.append(axes * ones[-1] + axis)
    one, two = np.concatenate(ones), np.concatenate(twos)
    row = np.concatenate(rows) if by_pixel else np.arange(len(one))
    size = (axes * pixels.size if by_pixel else len(one), pixels.size)
    entries = np.concatenate([np.full(len(one), -1.0), np.ones(len(one))])
    return sp.csr_array((entries, (np.concatenate([row, row]), np.concatenate([one, two]))), shape=size)


@named
def trend_filter(z: Any, weight: float, *, order: int = 2) -> Problem:
    """½‖x − z‖² + weight·‖Dx‖₁ with D the differences of this order: x is piecewise a polynomial.

    Parameters
    ----------
    z : vector
    weight : float
    order : int
        1 for piecewise constant (total variation), 2 for piecewise linear.
    """
    z = vector("z", z)
    order = whole("order", order, least=1)
    if order >= len(z):
        raise ValueError(f"order must be below the length of z, {len(z)}, found {order}")
    weight = number("weight", weight, above=0.0)
    D = differences(len(z), order)
    return Problem(LeastSquares(Identity(len(z)), z), D, np.zeros(D.shape[0]), Box.between(-weight, weight))


def differences(n: int, order: int) -> Any:
    """Finite differences of n numbers as a sparse matrix."""
    D = sp.eye_array(n, format="csr")
    for k in range(order):
        D = sp.diags_array([-1.0, 1.0], offsets=[0, 1], shape=(n - k - 1, n - k), format="csr") @ D
    return D


@named
def isotonic(z: Any, *, weights: Any = None, increasing: bool = True) -> Problem:
    """½Σ weightᵢ(xᵢ − zᵢ)² subject to x₁ ≤ x₂ ≤ … (or ≥, if not increasing): the closest monotone sequence.

    Parameters
    ----------
    z : vector
    weights : vector of positive numbers, optional
        Ones by default.
    increasing : bool
    """
    z = vector("z", z)
    D = (-1.0 if increasing else 1.0) * differences(len(z), 1)
    f = LeastSquares(Identity(len(z)), z) if weights is None else _weighted(z, vector("weights", weights, len(z)))
    return Problem(f, D, np.zeros(len(z) - 1), NonNegative())


def _weighted(z: Array, weights: Array) -> LeastSquares:
    if np.any(weights <= 0):
        raise ValueError("weights must be > 0; some entry is not")
    roots = np.sqrt(weights)
    return LeastSquares(sp.diags_array(roots, format="csr"), roots * z)
