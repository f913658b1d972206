"""Proofs that a problem has no solution: rays, found as directions in which iterates run away, cleaned and checked.

An iteration gives a ray only approximately. So a direction is first moved to the nearest one whose products cancel, by
a few least-squares steps, and the result is then checked coordinate by coordinate at the level of rounding, whatever
the direction was. `docs/certificate.md` states the rules. Everything is measured in the units of the data.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse.linalg import LinearOperator, lsmr

from dapd.arguments import TimeUp, consecutive
from dapd.arrays import Array, namespace, on_host
from dapd.certificate.sums import greatest, pieces
from dapd.machine.clock import is_over
from dapd.operators.base import Operator
from dapd.problem import ask
from dapd.problem.problem import Problem
from dapd.problem.sizes import usual

OUTWARD = 1e6  # factor of the usual distances up to which a proof of infeasibility holds for every point
SLIGHT = 1e-9  # part of the size of its terms that a sum must exceed to count as more than rounding
FARTHEST = 1e3  # ratio to the usual size up to which an entry of x counts in the size of a term
NEARLY = 1e-6  # violation of a row, relative to its usual terms, up to which a point shows that some point is feasible
WORTH_CHECKING = 0.1  # products of a direction, relative to their terms, up to which it is checked
ROUGH = 0.01  # products of a direction, relative to their terms, up to which a correction is tried
DOUBT = 10  # ratio of the gain of a direction and what its products may explain, from which a correction is tried
CUTS = (0.0, 1e-9, 1e-6, 1e-3)  # parts of the longest entry below which entries of a direction are set to zero
CORRECTION = 0.1  # how far a correction may move a direction whose longest entry is 1
PASSES, LONGER_PASSES = 4, 6  # checks of a direction, each but the last followed by a correction
CORRECTION_PRODUCTS = 300  # products with M and Mᵀ in a correction


class Checked(NamedTuple):
    """What a check of a direction says."""

    proof: bool
    left: Array  # what is left of the products that must cancel, zero if the rest is rounding
    gain: float  # what must be positive, if they are left out
    explained: float  # what they can explain of it at points like those seen; inf if they are nowhere near zero
    spare: Array  # whether a product may have the other sign, so a correction may go beyond zero
    parts: Array  # products relative to the sizes of their terms; small ones must stay as they are


def proves_infeasible(problem: Problem, x: Array, direction: Array, deadline: float = math.inf) -> Array | None:
    """A ray d of y, near `direction`, that shows that no x satisfies the constraints; None if none is found in time.

    For every feasible x within its bounds, −bᵀd − φ∞(d) ≤ −(Mᵀd)ᵀx ≤ Σ_j sup{−(Mᵀd)_j x_j : lower_j ≤ x_j ≤ upper_j}
    (Farkas), so it suffices that the left side is the greater, by more than SLIGHT of all terms, those of x included. A
    coordinate without the bound that its supremum needs must cancel to rounding, and then counts with |x_j| up to
    OUTWARD times what is usual. The multipliers of the bounds are −Mᵀd.
    """
    if math.isfinite(problem.phi.reach(problem.rows)):  # φ* is finite everywhere
        return None
    x, d = on_host(x).astype(np.float64, copy=False), on_host(direction)[: problem.rows].astype(np.float64)
    M, rows, columns = problem.M, usual(problem).rows, usual(problem).columns
    longest = float(np.max(abs(d / rows), initial=0.0))
    if not (0.0 < longest < math.inf):
        return None
    ray = _cleaned(
        d / rows / longest,
        lambda t: problem.phi.project_recession(t * rows) / rows,
        lambda t: _farkas(problem, x, t * rows),
        LinearOperator(
            (problem.columns, problem.rows),
            matvec=lambda t: M.adjoint(t * rows) * columns,
            rmatvec=lambda e: M.forward(e * columns) * rows,
            dtype=np.float64,
        ),
        deadline,
    )
    return None if ray is None else ray * rows


def may_be_ray(problem: Problem, direction: Array) -> bool:
    """Whether a direction of y is worth the check of `proves_infeasible`, which takes much longer.

    So if −bᵀd − φ∞(d) exceeds the supremum of −(Mᵀd)ᵀx, products for which that would be infinite left out, and if
    these are small.
    """
    d = problem.phi.project_recession(on_host(direction)[: problem.rows].astype(np.float64))
    gain = -float(problem.b @ d) - float(problem.phi.recession(d))
    return (problem.lower is not None or gain > 0) and bool(exceeds_supremum(gain, problem.M, d, problem.bounds))


def exceeds_supremum(gain: Any, M: Any, d: Array, bounds: tuple[Array, Array]) -> Any:
    """Whether `gain` is above the supremum of −(Mᵀd)ᵀx within the bounds, without products for which it is infinite.

    Those products must be small. The arrays are those of NumPy or of a device.
    """
    terms, xp = M.column_sizes(d), namespace(d)
    size = xp.linalg.norm(d) if terms is None else xp.max(terms, initial=0.0)
    del terms  # a long vector
    image = M.adjoint(d)
    ends = xp.where(image < 0, bounds[1], bounds[0])
    endless = xp.isinf(ends)
    small = xp.max(abs(xp.where(endless, image, 0.0)), initial=0.0) <= WORTH_CHECKING * size
    return small & (gain + image @ xp.where(endless, 0.0, ends) > 0)


def nearly_feasible(problem: Problem, x: Array) -> bool:
    """Whether x, moved to its bounds, satisfies every row up to NEARLY times the sizes of its terms.

    Entries of x count as the usual size if they are larger, so a point far out is not feasible for being far out.
    """
    M, phi, size = problem.M, problem.phi, usual(problem).x(problem)
    x = np.clip(on_host(x).astype(np.float64, copy=False), *problem.bounds)
    Mx, capped = M.forward(x), np.minimum(abs(x), size)
    residual = Mx - problem.b
    nearest = phi.project_conjugate(residual)
    sizes = phi.pooled(abs(problem.b) + abs(nearest) + row_terms(M, capped))
    return bool(np.all(phi.pooled(abs(residual - nearest)) <= NEARLY * sizes))


def falling_ray(problem: Problem, direction: Array, deadline: float = math.inf) -> Array | None:
    """A ray v of x, near `direction`, along which f(x) + φ*(Mx − b) falls without end; None if none is found in time.

    f∞(v) + φ*∞(Mv) < 0, and v points to where bounds are absent. So there is no minimum if any x is feasible at all.
    What must cancel, the entries of Mv that φ* does not allow and f's curvature along v, cancels to rounding, and the
    slope stays at least half as steep up to OUTWARD times as far out as is usual.
    """
    f, phi, M = problem.f, problem.phi, problem.M
    if f.mu > 0:
        return None
    units = usual(problem)
    columns, duals = units.columns, units.eta * units.rows
    v = on_host(direction).astype(np.float64) / columns
    longest = float(np.max(abs(v), initial=0.0))
    if not (0.0 < longest < math.inf):
        return None
    flat, slopes = _Flatness(problem, columns), np.asarray(ask.gradient(f, np.zeros(problem.columns)), np.float64)
    low, high = problem.bounds
    low, high = np.where(np.isinf(low), low, 0.0), np.where(np.isinf(high), high, 0.0)

    def check(scaled: Array) -> Checked:
        t = scaled * columns
        image = M.forward(t)
        allowed = phi.project_conjugate_recession(image)
        wrong = np.where(M.cancels(image, t), 0.0, image - allowed)
        left = np.concatenate([*flat.curvature(t), wrong]) * flat.factors
        outside = float(phi.conjugate_recession(allowed))
        if left.any():
            explained = units.xi * flat.bend(t) + float(abs(wrong) @ duals) if greatest(left) <= ROUGH else math.inf
            spare = np.zeros(left.size, bool)  # f's curvature must vanish
            spare[left.size - image.size :] = phi.project_conjugate_recession(allowed - image) == allowed - image
            return Checked(False, left, -float(slopes @ t) - outside, explained, spare, flat.parts(image, t))
        gain = -float(f.recession(t)) - outside
        proof = gain > SLIGHT * (float(abs(slopes) @ abs(t)) + abs(outside))
        proof = proof and gain > OUTWARD * float(abs(image - allowed) @ duals)
        proof = proof and -float(ask.gradient(f, OUTWARD * units.xi * t) @ t) - outside >= gain / 2
        return Checked(proof, left, gain, 0.0, left, left)

    ray = _cleaned(v / longest, lambda t: np.clip(t, low, high), check, flat.products, deadline)
    return None if ray is None else ray * columns


class _Flatness:
    """The maps whose products with a ray of x may have to vanish: f's curvature, then M; in the units of the data."""

    def __init__(self, problem: Problem, columns: Array) -> None:
        self.parts_of_f = problem.terms or []
        self.curved = problem.f.curved_maps(problem.columns)
        self.maps: list[Operator] = [*self.curved, *([problem.M] if problem.rows else [])]
        heights = [one.shape[0] for one in self.maps]
        places = consecutive(heights)
        sizes = np.concatenate([np.zeros(0), *(row_terms(one, columns) for one in self.maps)])
        self.factors = 1 / np.where(sizes > 0, sizes, 1.0)

        def forward(t: Array) -> Array:
            return np.concatenate([one.forward(t * columns) for one in self.maps]) * self.factors

        def adjoint(e: Array) -> Array:
            e = e * self.factors
            return columns * sum(one.adjoint(e[place]) for one, place in zip(self.maps, places, strict=True))

        shape = (sum(heights), problem.columns)
        self.products = LinearOperator(shape, matvec=forward, rmatvec=adjoint, dtype=np.float64)

    def curvature(self, t: Array) -> list[Array]:
        """The products of f's maps with t, zero if they are rounding."""
        products = [(one, one.forward(t)) for one in self.curved]
        return [np.where(one.cancels(e, t), 0.0, e) for one, e in products]

    def bend(self, t: Array) -> float:
        """How much steeper f becomes along t, where it is quadratic."""
        return sum(part.terms.bend(t[part.at]) for part in self.parts_of_f)

    def parts(self, image: Array, t: Array) -> Array:
        """The products with M relative to their terms, after those of f's maps, which must vanish anyway."""
        terms = row_terms(self.maps[-1], t) if image.size else image
        bent = np.full(self.products.shape[0] - image.size, np.inf)
        return np.concatenate([bent, abs(image) / np.where(terms > 0, terms, 1.0)])


def row_terms(map_: Operator, t: Array) -> Array:
    """Σ_j |M_ij t_j| of each row, or a bound on it if the entries are not known."""
    sizes = map_.row_sizes(t)
    return np.asarray(map_.row_norms * float(np.linalg.norm(t)) if sizes is None else sizes, np.float64)


def _farkas(problem: Problem, x: Array, d: Array) -> Checked:
    """Whether −bᵀd − φ∞(d) exceeds the supremum of −(Mᵀd)ᵀx."""
    M, nothing, units = problem.M, np.zeros(0), usual(problem)
    outside = float(problem.phi.recession(d))
    gain = -float(problem.b @ d) - outside
    if problem.lower is None and not gain > 0:
        return Checked(False, nothing, gain, 0.0, nothing, nothing)
    image = np.array(M.adjoint(d), np.float64)  # a copy, since it is changed below
    size = units.x(problem)
    if problem.lower is None:  # what is certainly not rounding is often enough to see that this is none
        noise, explained = M.rounding * float(abs(d) @ M.row_norms), 0.0
        for piece in pieces(image.size):
            e = abs(image[piece])
            explained += float(np.where(e > noise, e, 0.0) @ _reached(x[piece], size[piece]))
        if not gain > DOUBT * explained:
            return Checked(False, image, gain, explained, nothing, nothing)
    else:  # a supremum is at least the value at x, which is often enough to see the same
        most = gain
        for piece in pieces(image.size):
            e, (lower, upper) = image[piece], (side[piece] for side in problem.bounds)
            most += float(e @ np.where(np.isinf(np.where(e < 0, upper, lower)), 0.0, np.clip(x[piece], lower, upper)))
        if not most > 0:
            return Checked(False, nothing, most, 0.0, nothing, nothing)
    sizes = M.column_sizes(d)
    terms = np.broadcast_to(np.linalg.norm(d * M.row_norms) if sizes is None else sizes, image.shape)
    reached = _reached(x, size)
    rounding = SLIGHT * (float(abs(d) @ (abs(problem.b) + row_terms(M, reached))) + abs(outside))
    explained, endless = 0.0, False
    for piece in pieces(image.size):
        e = image[piece]
        cancelled = abs(e) <= M.rounding * terms[piece]
        ends = _nearest_ends(problem, piece, e, cancelled, OUTWARD * size[piece])
        open_ended = np.isinf(ends) & (e != 0)
        supremum = -e * np.where(open_ended, 0.0, ends)
        gain -= float(np.sum(supremum))
        rounding += SLIGHT * float(abs(supremum) @ ~cancelled)
        explained += float(abs(e) @ np.where(open_ended, reached[piece], 0.0))
        e[~open_ended] = 0.0  # what is left of the image must cancel
        endless = endless or bool(open_ended.any())
    left = image * units.columns
    if greatest(left) > ROUGH * float(np.max(terms * units.columns, initial=0.0)):
        explained = math.inf
    if not endless:
        return Checked(gain > rounding, nothing, gain, explained, nothing, nothing)
    if not gain > DOUBT * explained:  # no correction will be tried
        return Checked(False, left, gain, explained, nothing, nothing)
    spare = np.zeros(image.size, bool)
    if problem.lower is not None and problem.upper is not None:
        spare = np.isfinite(np.where(image < 0, problem.lower, problem.upper))
    return Checked(False, left, gain, explained, spare, abs(image) / np.where(terms > 0, terms, 1.0))


def _reached(x: Array, size: Array) -> Array:
    """How far out each x_j is, at least as far as is usual."""
    return np.clip(abs(x), size, FARTHEST * size)


def _nearest_ends(problem: Problem, piece: slice, e: Array, cancelled: Array, far: Array) -> Array:
    """The x_j between its bounds at which −e_j·x_j is greatest; no farther than `far` if e_j is rounding."""
    if problem.lower is None or problem.upper is None:
        return np.copysign(np.where(cancelled, far, np.inf), -e)
    lower, upper = problem.lower[piece], problem.upper[piece]
    return np.where(cancelled, np.clip(np.where(e < 0, upper, lower), -far, far), np.where(e < 0, upper, lower))


def _cleaned(
    direction: Array,
    project: Callable[[Array], Array],
    check: Callable[[Array], Checked],
    products: LinearOperator,
    deadline: float,
) -> Array | None:
    """The direction, moved by least squares until what must cancel does; None if it is no ray, or the time is up.

    First, products that are wrong or near zero are moved to zero. Then those that are wrong are moved `beyond`, to the
    side that is allowed if there is one, while others near zero stay as they are: that helps if many rows are nearly
    active.
    """
    hopeless = -1.0  # a cut after which no correction pays, however it is made
    for cut, beyond in itertools.product(CUTS, (False, True)):
        if cut == hopeless:
            continue
        ray = project(np.where(abs(direction) < cut, 0.0, direction))
        must = np.zeros(products.shape[0], bool)
        for turn in range(LONGER_PASSES if beyond else PASSES):
            found = check(ray)
            if found.proof:
                return ray
            if not (found.gain > DOUBT * found.explained and found.left.any()):
                hopeless = cut if turn == 0 else hopeless
                break
            must |= (found.left != 0) | (found.parts <= cut)
            wrong = np.where(found.spare, 2.0, 1.0) * found.left if beyond else products.matvec(ray)
            try:
                change = _correction(ray, wrong, must, products, deadline)
            except TimeUp:
                return None
            if not float(np.max(abs(change))) <= CORRECTION:
                break
            ray = ray + change
            ray = project(np.where(abs(ray) < cut, 0.0, ray) if beyond else ray)
    return None


def _correction(ray: Array, wrong: Array, must: Array, products: LinearOperator, deadline: float) -> Array:
    """The least change of the ray's entries that changes the products in `must` by −wrong."""
    movable = ray != 0

    def spread(t: Array) -> Array:
        if is_over(deadline):
            raise TimeUp
        full = np.zeros(ray.shape)
        full[movable] = t
        return full

    def back(e: Array) -> Array:
        full = np.zeros(must.shape)
        full[must] = e
        return np.asarray(products.rmatvec(full))[movable]

    shape = (int(must.sum()), int(movable.sum()))
    map_ = LinearOperator(shape, matvec=lambda t: products.matvec(spread(t))[must], rmatvec=back, dtype=np.float64)
    return spread(-lsmr(map_, wrong[must], atol=1e-15, btol=1e-15, conlim=0.0, maxiter=CORRECTION_PRODUCTS)[0])
