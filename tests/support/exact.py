"""The same problems in 120-digit decimal arithmetic, so rounding does not hide whether a theorem holds.

A method's `step` uses + − * and its oracle alone, so it runs on arrays of Decimals as it is.
"""

import copy
from decimal import Decimal

import numpy as np

from dapd.functions.proximable import PrimalProx
from dapd.theory import SaddlePoint

DIGITS = 120
NUDGE = Decimal(10) ** (20 - DIGITS)  # what is smaller may be rounding


def decimals(value):
    """A number, an array or a NamedTuple of numbers as Decimals."""
    if isinstance(value, np.ndarray):
        return np.array([Decimal(v) for v in value.ravel().tolist()], object).reshape(value.shape)
    if isinstance(value, tuple):
        return type(value)(*map(Decimal, value))
    return Decimal(value)


class ExactQuadratic:
    def __init__(self, H, c):
        self.H, self.c = H, c

    def value(self, x):
        return x @ (self.H @ x / 2 - self.c)

    def grad(self, x):
        return self.H @ x - self.c


class ExactMatrix:
    def __init__(self, M):
        self.M = M

    def forward(self, x):
        return self.M @ x

    def adjoint(self, y):
        return self.M.T @ y


class ExactPhi:
    """A φ of the package with Decimal parameters: its own prox, its own value."""

    def __init__(self, phi):
        self.phi = copy.copy(phi)
        for name in ("nu", "radius", "lower", "upper"):
            if hasattr(phi, name):
                setattr(self.phi, name, decimals(getattr(phi, name)))

    def prox(self, v, step):
        return self.phi.prox(v, step)

    def value(self, y):
        if hasattr(self.phi, "radius"):  # the norm of a projected group may exceed the radius by its last digit
            inside = (self.phi._norms(y) <= self.phi.radius + NUDGE).all()
            return Decimal(0) if inside else Decimal("Infinity")
        return Decimal(self.phi.value(y))


class ExactProblem:
    """The problem whose solution is x* and y* = prox_φ(v), where v − y* ∈ ∂φ(y*)."""

    def __init__(self, H, M, phi, x_star, v):
        H, M, self.x_star, v = decimals(H), decimals(M), decimals(x_star), decimals(v)
        self.M, self.phi = ExactMatrix(M), ExactPhi(phi)
        self.y_star = self.phi.prox(v, Decimal(1))
        self.f = ExactQuadratic(H, H @ self.x_star + M.T @ self.y_star)
        self.b = M @ self.x_star - (v - self.y_star)
        self.saddle = SaddlePoint(self, self.x_star, self.y_star)

    # the oracle of a method's step

    def grad(self, x):
        return self.f.grad(x)

    def dual_step(self, v, base, step):
        y = self.phi.prox(base + self.M.forward(v), step)
        return y, self.M.adjoint(y)

    def adjoint(self, y):
        return self.M.adjoint(y)


class ProximalProblem(ExactProblem):
    """The same with curvature h, a linear part and bounds, which primal steps take; H is all that is linearised."""

    def __init__(self, H, h, M, phi, x_star, v, lower, upper, multipliers):
        super().__init__(H, M, phi, x_star, v)
        h, lower, upper = decimals(h), decimals(lower), decimals(upper)
        c = self.f.c + h * self.x_star + decimals(multipliers)  # the c for which the gradient at x* is zero
        self.f = ExactQuadratic(self.f.H, decimals(np.zeros(len(h))))
        self.primal_step = PrimalProx(h, c, lower, upper)
