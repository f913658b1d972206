"""The policy of anchored steps, by itself: when epochs end, how long steps are, and what the weight may do."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dapd.methods import anchors
from dapd.methods.anchors import (
    BALANCE,
    BALANCE_LINEAR,
    FREE,
    LONG_EPOCHS,
    LONGEST_PART,
    MOST_CHANGE,
    SAFE,
    SELDOM,
    TOGETHER,
    TURN,
    Measured,
)

S_MAX = 2.0


def begun(weight=1.0, *, curved=True, **changed):
    return anchors.first_epoch(np.float64(weight), curved)._replace(**changed)


def moves(residual, epoch, *, L=0.0, cross=0.0, ratio=1.0, moved=(1.0, 1.0)):
    """A measurement with this residual, whose cross term is that part of the plain one."""
    p = anchors.parameters(epoch, L, S_MAX)
    plain = residual**2 / (1 - cross)
    of_x = plain / (1 + ratio) * p.t
    return Measured(of_x, plain * ratio / (1 + ratio) * p.s, cross * plain / 2, *moved)


def run(epoch, residuals, **measured):
    """The epoch after these measurements, and why it ended; each after the steps that there are between two."""
    for residual in residuals:
        epoch = epoch._replace(k=epoch.next)
        m = moves(residual, epoch, **measured)
        epoch, ends, failed = anchors.measured(epoch, m, anchors.parameters(epoch, 0.0, S_MAX))
        if ends or failed:
            return epoch, m, "failed" if failed else "over"
    return epoch, m, ""


# one policy for one problem, for many, and for devices


def random_epochs(rng, count):
    """Epochs and measurements of every kind."""
    zero = np.zeros(count)

    def some(*values):
        return rng.choice(np.array(values, float), count)

    def positive(orders=6.0):
        return 10.0 ** rng.uniform(-orders, orders, count)

    first = np.where(rng.random(count) < 0.3, np.inf, positive())
    k = some(5, 10, 20, 55, 200)
    epoch = anchors.first_epoch(positive(), rng.random(count) < 0.5)._replace(
        k=k,
        next=k,
        before=some(0, 40, 3000),
        step=np.where(rng.random(count) < 0.5, SAFE, positive(2) + SAFE),
        cap=np.where(rng.random(count) < 0.5, np.inf, positive(2) + SAFE),
        wait=some(0, 1, 8),
        failures=some(0, 3, 40),
        first=first,
        last=np.where(np.isinf(first), np.inf, first * positive(1)),
        allowed=np.where(rng.random(count) < 0.3, np.inf, positive(2)),
        changes=some(0, 5, 30),
        change=rng.uniform(-5, 5, count),
        long=some(0, 1, 20),
        halved=some(0, 1),
    )
    m = Measured(positive(), positive(), some(0, 1, -1) * positive(), some(0, 1) * positive(), some(0, 1) * positive())
    return epoch, m, np.where(rng.random(count) < 0.5, 0.0, positive(2)), zero + S_MAX


def all_of_it(epoch, m, L, s_max):
    """Every number that the policy makes."""
    p = anchors.parameters(epoch, L, s_max)
    after, ends, failed = anchors.measured(epoch, m, p)
    return p, after, ends, failed, anchors.restarted(after, m), anchors.begun_again(after)


def flat(made):
    return [np.asarray(v, float) for part in made for v in (part if isinstance(part, tuple) else (part,))]


def test_numbers_arrays_and_a_device_have_the_same_policy():
    jax = pytest.importorskip("jax")
    count = 400
    given = random_epochs(np.random.default_rng(0), count)
    arrays = flat(all_of_it(*given))
    for k in range(count):
        one = [type(part)(*(v[k] for v in part)) if isinstance(part, tuple) else part[k] for part in given]
        for found, wanted in zip(flat(all_of_it(*one)), arrays, strict=True):
            np.testing.assert_allclose(found, wanted[k], rtol=1e-14)
    with jax.enable_x64(True):
        there = flat(jax.jit(jax.vmap(all_of_it))(*given))
    for found, wanted in zip(there, arrays, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-12)


# how long epochs are


def test_steps_are_measured_often_at_first_and_seldom_in_long_epochs():
    k, waits = 0.0, []
    while k < 1000:
        waits.append(anchors.until_measured(k))
        k += waits[-1]
    assert waits[0] == TOGETHER
    assert waits == sorted(waits)
    assert all(wait % TOGETHER == 0 for wait in waits)
    assert waits[-1] == TOGETHER * (1000 // SELDOM - 1)


def test_an_epoch_ends_when_its_residual_has_fallen_far_or_has_fallen_and_rises():
    for residuals, why in (
        ([1.0, 0.9, 0.19], "over"),
        ([1.0, 0.7, 0.71], "over"),  # fallen, and rises
        ([1.0, 0.7, 0.6], ""),  # still falls
        ([1.0, 0.9, 0.95], ""),  # rises before it has fallen
        ([0.1], ""),  # nothing to compare with
        ([0.0, 0.0], "over"),
    ):
        assert run(begun(), residuals)[2] == why, residuals


def test_forced_epochs_get_longer_without_bound_and_are_a_fixed_part_of_all_steps():
    epoch, lengths = begun(), []
    while sum(lengths) < 1e5:
        before = epoch
        while True:
            epoch, m, why = run(epoch, [1.0])  # never falls
            if why:
                break
        assert why == "over"
        lengths.append(float(epoch.k))
        total = before.before + epoch.k
        shortest = max(20.0, LONGEST_PART * total)
        wait = anchors.until_measured(epoch.k)
        assert shortest - 1e-9 * total <= epoch.k <= max(25.0, LONGEST_PART / (1 - LONGEST_PART) * before.before + wait)
        epoch = anchors.restarted(epoch, m)
        assert (epoch.k, epoch.before) == (0, sum(lengths))
    assert lengths == sorted(lengths)
    assert lengths[-1] > 1e4


# how long steps are


@given(st.floats(-8, 8), st.sampled_from([0.0, 1e-3, 1.0, 1e3]), st.floats(0, 3))
def test_a_safe_step_keeps_the_norm_a_norm(weight, L, longer):
    safe = anchors.parameters(begun(10.0**weight), L, S_MAX)
    assert safe.s * S_MAX**2 <= 0.98 * (1 / safe.t - L) * (1 + 1e-9) + 1e-12 * L * 0.98
    assert safe.rho == (0.5 if L else 1.0)
    other = anchors.parameters(begun(10.0**weight, step=10.0**longer), L, S_MAX)
    assert other.s >= safe.s
    assert other.t >= safe.t
    assert 1 / other.t >= L  # curvature is never ignored


def test_steps_grow_only_where_the_moves_leave_room():
    for cross, grows in ((0.0, True), (0.01, True), (0.5, False)):
        epoch, m, _ = run(begun(), [1.0, 0.1], cross=cross)
        after = anchors.restarted(epoch, m)
        assert (after.step > SAFE) == grows
        assert after.step <= anchors.GROWTH * epoch.step
        assert after.step <= max(SAFE, anchors.MARGIN * epoch.allowed)


@pytest.mark.parametrize(
    ("residuals", "cross"),
    [([1.0, 1.6], 0.0), ([1.0, 0.9], 0.999), ([1.0, math.nan], 0.0), ([math.nan], 0.0), ([math.inf, math.inf], 0.0)],
)
def test_a_long_step_that_fails_goes_back_to_the_anchor_and_becomes_shorter(residuals, cross):
    long = 8.0
    epoch, _, why = run(begun(step=long), residuals, cross=cross)
    assert why == "failed"
    again = anchors.begun_again(epoch)
    assert SAFE <= again.step <= anchors.SHRINK * long
    assert again.cap == pytest.approx(anchors.CAP * long)
    assert (again.k, again.wait, again.failures, again.weight) == (0, 2, 1, epoch.weight)
    assert math.isinf(again.first)
    for failures, wait in ((1, 4), (2, 8), (100, 2.0**30)):  # it is tried less and less
        assert anchors.begun_again(epoch._replace(failures=failures)).wait == wait
    for waiting in range(3):
        again, m, why = run(again, [1.0, 0.1])
        assert why == "over"
        step = again.step
        again = anchors.restarted(again, m)
        assert (again.step > step) == (waiting == 2)
        assert again.step <= again.cap


@pytest.mark.parametrize(("residuals", "cross"), [([1.0, 1e9], 0.0), ([1.0, 0.9], 0.9999999), ([1.0, math.nan], 0.0)])
def test_a_safe_step_never_fails(residuals, cross):
    assert run(begun(), residuals, cross=cross)[2] != "failed"


def test_long_steps_end_unless_the_error_halves():
    epoch = begun()
    for k in range(100):
        epoch, m, _ = run(epoch, [1.0, 0.1])
        epoch = anchors.restarted(epoch, m)
        assert (epoch.step == SAFE) == (k >= LONG_EPOCHS)
    epoch, m, _ = run(epoch._replace(halved=1.0), [1.0, 0.1])
    epoch = anchors.restarted(epoch, m)
    assert (epoch.halved, epoch.long) == (0, LONG_EPOCHS - 1)
    assert epoch.step > SAFE


# the weight


def reweighted(epoch, moved):
    """The epoch after one in which x and y moved so far."""
    epoch, m, _ = run(epoch, [1.0, 0.1], moved=moved)
    return anchors.restarted(epoch, m)


@pytest.mark.parametrize("curved", [True, False])
def test_the_weight_goes_to_the_ratio_of_the_moves(curved):
    epoch = begun(3.0, curved=curved)
    for _ in range(30):
        epoch = reweighted(epoch, (4.0, 100.0))
    assert epoch.weight == pytest.approx(5.0)
    power = BALANCE if curved else BALANCE_LINEAR
    first = reweighted(begun(3.0, curved=curved), (4.0, 100.0))
    assert math.log(first.weight / 3.0) == pytest.approx(power * math.log(5.0 / 3.0))


@pytest.mark.parametrize("moved", [(0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (math.nan, 1.0)])
def test_what_does_not_move_says_nothing_about_the_weight(moved):
    epoch = begun(3.0, change=1.0, halved=1.0)
    after = reweighted(epoch, moved)
    assert (after.weight, after.change) == (3.0, 1.0)


def test_a_change_of_direction_is_damped_unless_the_error_has_halved():
    epoch = begun(1.0, change=2.0)
    for halved, most in ((0.0, TURN * 2.0), (1.0, MOST_CHANGE)):
        after = reweighted(epoch._replace(halved=halved), (1.0, 1e-16))
        assert math.log(after.weight) == pytest.approx(-most)


@given(st.lists(st.floats(-150, 150), min_size=1, max_size=40), st.booleans())
@settings(max_examples=20, deadline=None)
def test_all_changes_of_the_weight_between_two_halvings_have_a_finite_sum(orders, curved):
    epoch, total, late = begun(curved=curved), 0.0, 0.0
    for k in range(2000):
        before, order = epoch.weight, orders[k % len(orders)]
        epoch = reweighted(epoch, (1.0, 10.0**order))
        change = abs(math.log(epoch.weight / before))
        assert change <= MOST_CHANGE * (1 + 1e-9)
        total += change
        late += change if k >= 1000 else 0.0
    tail = sum(n**-anchors.SUMMABLE for n in range(1000 - int(FREE), 2000))
    assert late <= 1.1 * MOST_CHANGE * tail
    assert total <= MOST_CHANGE * (FREE + 1 / (anchors.SUMMABLE - 1) + 2)


def test_a_halving_gives_the_free_changes_back():
    epoch = begun()
    for k in range(200):
        epoch = reweighted(epoch, (1.0, 10.0 ** (40 if k % 2 else -40)))
    assert epoch.changes == 200
    epoch = reweighted(epoch._replace(halved=1.0), (1.0, 1.0))
    assert (epoch.changes, epoch.halved) == (1, 0)
