"""Anchored steps: how long they are, the weight between x and y, and when an epoch ends, begins again or has failed.

An anchored step is z⁺ = (1 − β)R(z) + βz₀ with the anchor z₀ and β = 1/(k + 2) (Halpern 1967; Lu and Yang 2024). R is
T + ρ(T − I), and T a primal–dual step with the step lengths t and s. What is measured of a step stands in the norm of
P = [[1/t, −Mᵀ], [−M, 1/s]]. All functions take numbers, or arrays with one entry for each of many problems.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from dapd import theory
from dapd.arrays import Array, namespace
from dapd.theory.compared import SURE, r2hpdhg_steps

SAFE = SURE**0.5  # greatest step, in 1/s_max, with which P is positive by proof
TOGETHER, SELDOM = 5, 50  # a step is measured after so many others, and after as many more for every 50 of its epoch
FALLEN_FAR = 0.2  # an epoch ends when its residual has fallen to this part of the first
FALLEN = 0.8  # an epoch ends when its residual is at most this part of the first, and rises
LONGEST_PART = 0.22  # an epoch ends after this part of all steps, so forced epochs get longer without bound
LONGEST_LINEAR = 0.36  # the same if f is linear
LONGEST_LEAST = 20.0  # no epoch is ended before so many steps because of its length
GROWTH = 1.5  # the factor by which the step grows from one epoch to the next
ROOM = 10.0  # the step grows only if it is at most this part, one tenth, of the longest that an epoch has allowed
MARGIN = 0.9  # part of the longest step that an epoch has allowed
FLAT = 0.1  # a long step has failed if the cross term leaves less than this of a residual; a safe one always has more
RISEN = 1.5  # a long step has failed if the residual is above this multiple of the first that was measured
SHRINK = 0.5  # the factor by which a step that has failed becomes shorter
CAP = 0.7  # no step is longer than this part of one that has failed
LONG_EPOCHS = 20.0  # epochs with long steps that may follow a halving of the best error
BALANCE = 0.99  # power of the ratio between the moves of y and x by which the weight changes if f has curvature
BALANCE_LINEAR = 0.5  # the same if f is linear: the moves differ more from epoch to epoch there
MOST_CHANGE = 9.0  # greatest change of the weight's logarithm at a restart
FREE = 20.0  # changes of the weight after a halving of the best error that may be that great
SUMMABLE = 1.1  # later changes become smaller like this power of their number, so their sum is finite
TURN = 0.7  # part of the last change that a change in the other direction may be, unless the best error has halved
ROUNDINGS = 64.0  # roundings of an entry up to which it did not move
MOST_WAIT = 30.0  # binary logarithm of the most epochs that steps wait before they grow again


class Measured(NamedTuple):
    """Squared lengths of one step T of z = (x, y), and of the way from the anchor z₀; dx and dy are T(z) − z."""

    of_x: Array  # ‖dx‖²
    of_y: Array  # ‖dy‖²
    cross: Array  # dyᵀM dx
    moved_x: Array  # ‖T(z) − z₀‖² of x, without entries whose move may be rounding
    moved_y: Array  # the same of y


class Epoch(NamedTuple):
    """The state of the policy between two measured steps."""

    k: Array  # steps of this epoch
    next: Array  # the step after which there is another measurement
    before: Array  # steps of all earlier epochs
    weight: Array  # w: s grows with it, and t with its inverse
    step: Array  # √(st) in 1/s_max, but for the curvature that is linearised
    cap: Array  # longest step that is allowed
    wait: Array  # epochs until the step may grow again
    failures: Array  # of long steps
    first: Array  # residual of the first step of this epoch that was measured; inf before
    last: Array  # the residual that was measured last
    allowed: Array  # longest step with which P would have been positive for the differences measured in this epoch
    changes: Array  # of the weight since the best error has halved
    change: Array  # of the weight's logarithm at the last restart
    long: Array  # epochs with long steps that are left until the best error halves
    halved: Array  # 1 if the best error has halved since the last restart, else 0
    curved: Array  # 1 if f has any curvature, else 0


def first_epoch(weight: Array, curved: Any) -> Epoch:
    """The state at the start of a solve with this weight; `curved` says whether f has any curvature."""
    zero = 0.0 * weight
    unknown = zero + math.inf
    return Epoch(
        k=zero,
        next=zero + TOGETHER,
        before=zero,
        weight=weight,
        step=zero + SAFE,
        cap=unknown,
        wait=zero,
        failures=zero,
        first=unknown,
        last=unknown,
        allowed=unknown,
        changes=zero,
        change=zero,
        long=zero + LONG_EPOCHS,
        halved=zero,
        curved=zero + namespace(zero).where(curved, 1.0, 0.0),
    )


def parameters(epoch: Epoch, L: Array, s_max: Array) -> theory.R2Hpdhg:
    """The steps of an epoch; L belongs to the part of f that is linearised, and is 0 if nothing is.

    At a safe step s·s_max² ≤ 0.98·(1/t − L), so R does not expand in the norm of P.
    """
    rho = namespace(epoch.weight).where(L > 0, 0.5, 1.0)
    return r2hpdhg_steps(L, s_max, epoch.weight, epoch.step, rho)


def until_measured(k: Array) -> Array:
    """The steps from step k of an epoch, a measured one or the first, to the next that is measured."""
    return TOGETHER * namespace(k).maximum(1.0, k // SELDOM)


def longest(epoch: Epoch) -> Array:
    """The steps at which an epoch ends in any case."""
    xp = namespace(epoch.weight)
    part = xp.where(epoch.curved > 0, LONGEST_PART, LONGEST_LINEAR)
    return xp.maximum(LONGEST_LEAST, part / (1 - part) * epoch.before)  # k ≥ part·(before + k)


def measured(epoch: Epoch, m: Measured, p: theory.R2Hpdhg) -> tuple[Epoch, Array, Array]:
    """The epoch after a measurement, whether it ends, and whether its steps were too long."""
    xp = namespace(epoch.weight)
    with np.errstate(all="ignore"):
        plain = m.of_x / p.t + m.of_y / p.s
        residual = xp.sqrt(xp.maximum(0.0, plain - 2 * m.cross))
        begins = xp.isinf(epoch.first)
        first = xp.where(begins, residual, epoch.first)
        allowed = xp.where(m.cross == 0, math.inf, epoch.step * (plain - p.L * m.of_x) / (2 * abs(m.cross)))
        within = (residual >= FLAT * xp.sqrt(plain)) & (residual <= RISEN * first)  # not if it is no number
        failed = (epoch.step > SAFE) & ~within
        fallen = (residual <= FALLEN_FAR * first) | ((residual <= FALLEN * first) & (residual > epoch.last))
        ends = (fallen | (epoch.k >= longest(epoch))) & ~begins & ~failed
        after = epoch.k + until_measured(epoch.k)
        allowed = xp.where(allowed < epoch.allowed, allowed, epoch.allowed)  # not if it is no number
        return epoch._replace(next=after, first=first, last=residual, allowed=allowed), ends, failed


def restarted(epoch: Epoch, m: Measured) -> Epoch:
    """The epoch that begins at T(z) of the step measured last."""
    xp = namespace(epoch.weight)
    halved = epoch.halved > 0
    with np.errstate(all="ignore"):
        changes = xp.where(halved, 0.0, epoch.changes) + 1
        change = _change_of_weight(epoch, m, changes)
        long = xp.where(halved, LONG_EPOCHS, epoch.long)
        grown = xp.minimum(xp.minimum(GROWTH * epoch.step, MARGIN * epoch.allowed), epoch.cap)
        may_grow = (epoch.wait <= 0) & (ROOM * epoch.step <= epoch.allowed)
        step = xp.where(may_grow, grown, xp.minimum(epoch.step, grown))
        return begun(epoch, xp.where(long > 0, xp.maximum(SAFE, step), SAFE))._replace(
            weight=epoch.weight * xp.exp(change),
            wait=xp.maximum(0.0, epoch.wait - 1),
            changes=changes,
            change=xp.where(change == 0, epoch.change, change),
            long=xp.maximum(0.0, long - 1),
            halved=0.0 * epoch.halved,
        )


def begun_again(epoch: Epoch) -> Epoch:
    """The epoch that begins again at the anchor of one whose long step has failed."""
    xp = namespace(epoch.weight)
    failures = epoch.failures + 1
    step = xp.maximum(SAFE, xp.minimum(SHRINK * epoch.step, MARGIN * epoch.allowed))
    cap, wait = xp.maximum(SAFE, CAP * epoch.step), 2.0 ** xp.minimum(failures, MOST_WAIT)
    return begun(epoch, step)._replace(cap=cap, wait=wait, failures=failures)


def begun(epoch: Epoch, step: Array) -> Epoch:
    """An epoch before its first step, with this step size."""
    zero = 0.0 * epoch.k
    unknown = zero + math.inf
    return epoch._replace(
        k=zero,
        next=zero + TOGETHER,
        before=epoch.before + epoch.k,
        step=step,
        first=unknown,
        last=unknown,
        allowed=unknown,
    )


def rule(epoch: Epoch, p: theory.R2Hpdhg) -> list[float]:
    """The numbers by which the core decides as `measured` does: see `EpochRule` of src/core/epoch.hpp."""
    flat, risen = (FLAT, RISEN) if epoch.step > SAFE else (0.0, math.inf)
    return [TOGETHER, SELDOM, longest(epoch), 1 / p.t, 1 / p.s, p.rho, p.L, FALLEN_FAR, FALLEN, flat, risen]


def _change_of_weight(epoch: Epoch, m: Measured, changes: Array) -> Array:
    """The change of the weight's logarithm; `changes` counts those since the best error has halved, and this one."""
    xp = namespace(epoch.weight)
    known = (m.moved_x > 0) & (m.moved_y > 0)
    ratio = xp.where(known, m.moved_y, 1.0) / xp.where(known, m.moved_x, 1.0)
    balance = xp.where(epoch.curved > 0, BALANCE, BALANCE_LINEAR)
    wanted = balance * xp.where(known, 0.5 * xp.log(ratio) - xp.log(epoch.weight), 0.0)
    most = MOST_CHANGE / xp.maximum(1.0, changes - 1 - FREE) ** SUMMABLE
    turns = (wanted * epoch.change < 0) & (epoch.halved <= 0)
    most = xp.where(turns, xp.minimum(most, TURN * abs(epoch.change)), most)
    return xp.clip(wanted, -most, most)
