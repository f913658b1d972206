"""The theorems of the block-coordinate methods, in exact expectation: over all pairs of blocks and both coins."""

import itertools

import numpy as np
import pytest
from block_instances import blocks_of, coupling, instance

import dapd
from dapd import theory
from dapd.methods.block import Draw, copy_of

CONDITIONS = list(itertools.product([1.5, 10.0, 1e2, 1e3, 1e5], [1.5, 10.0, 1e2, 1e3]))
STRIDE, CHECKS = 4, 100


def outcomes(name, N):
    """(probability, draw) for every possible draw of an iteration."""
    coins = [(1 / N, True), (1 - 1 / N, False)] if name == "y-sbc-dapd" else [(1.0, False)]
    for i, j, (chance, coin) in itertools.product(range(N), range(N), coins):
        if chance > 0:
            yield chance / N**2, Draw(i, j, coin)


def psi(name, p, at, s):
    if name == "y-sbc-dapd":
        return p.lyapunov(at, s.x, s.y, (1 + p.tau) * s.w - p.tau * s.y)
    return p.lyapunov(at, s.x, (1 + p.tau) * s.z - p.tau * s.x, s.y)


@pytest.mark.parametrize("case", range(len(CONDITIONS)))
@pytest.mark.parametrize(
    ("name", "sharp"),
    [
        ("x-sbc-dapd", {}),
        ("y-sbc-dapd", {}),
        ("x-sbc-dapd-nonseparable", {}),
        ("x-sbc-dapd", {"sharp": True}),
        ("y-sbc-dapd", {"sharp": True}),
        ("x-sbc-dapd-nonseparable", {"sharp": True}),
    ],
)
def test_expected_lyapunov_decreases_by_theorem_rate(name, sharp, case):
    condition, ratio = CONDITIONS[case]
    N = 1 + case % 5
    kinds = ["diagonal", "huber"] if name != "x-sbc-dapd-nonseparable" else ["dense", "huber"]
    problem, spectrum, at = instance(kinds[case // 5 % 2], condition, ratio, N, seed=case)
    cls = dapd.METHODS[name]
    rng = np.random.default_rng(case)

    def started():
        x0, y0 = at.x + rng.standard_normal(problem.columns), at.y + rng.standard_normal(problem.rows)
        method = cls(problem, cls.by_theory(problem, spectrum, **sharp), x0=x0, y0=y0, seed=case)
        p, o = method.parameters, method.oracle
        return p, o, cls.first(p, o, method.x0, method.y0)

    p, o, s = started()
    first = psi(name, p, at, s)
    draws = list(outcomes(name, N))
    checked = 0
    while checked < (CHECKS // 2 if sharp else CHECKS):
        for _ in range(STRIDE - 1):
            cls.update(p, o, s, draws[rng.integers(len(draws))][1])
        before = psi(name, p, at, s)
        if before < 1e-6 * first:  # rounding would soon be as large as Ψ: restart
            p, o, s = started()
            continue
        expected = 0.0
        for chance, drawn in draws:
            after = copy_of(s)
            cls.update(p, o, after, drawn)
            expected += chance * psi(name, p, at, after)
        assert expected <= (1 - 1 / p.Pi) * before * (1 + 1e-11)
        checked += 1


@pytest.mark.parametrize("kind", ["huber", "diagonal"])
@pytest.mark.parametrize(
    ("name", "whole", "record"),
    [
        ("x-sbc-dapd", "x-dapd", theory.XDapd),
        ("y-sbc-dapd", "y-dapd", theory.YDapd),
        ("x-sbc-dapd-nonseparable", "x-dapd", theory.XDapd),
    ],
)
def test_one_block_is_the_deterministic_method(name, whole, record, kind):
    problem, spectrum, _ = instance(kind, 50.0, 5.0, N=1)
    method = dapd.METHODS[name].from_theory(problem, spectrum=spectrum, seed=0)
    p = method.parameters._asdict()
    if whole == "y-dapd":
        p["gamma"] = (p["xi"] - 1) / (p["tau"] + 1)
    other = dapd.METHODS[whole](problem, record(**{field: p[field] for field in record._fields}))
    state, twin = method.init(), other.init()
    for _ in range(500):
        state, twin = method.run(state, 1), other.step(twin)
        for a, b in zip(method.point(state), other.point(twin), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("condition", "ratio"), CONDITIONS)
@pytest.mark.parametrize("settings", [theory.x_sbc, theory.y_sbc, theory.x_sbc_nonseparable])
def test_sharp_constants_are_no_worse_than_the_corollarys(settings, condition, ratio):
    constants = {"L": condition, "mu": 1.0, "s_bar_max": 0.7, "s_min": 0.7 / ratio, "N": 10}
    assert settings(sharp=True, **constants).Pi <= settings(**constants).Pi * (1 + 1e-6)


def test_blocks_gain_the_root_of_their_number():
    """s_bar_max shrinks as 1/√N, and so does the number of rounds that the theorem requires."""
    rng = np.random.default_rng(0)
    rounds = []
    for N in (4, 64):
        M = rng.standard_normal((20, 20 * N)) / np.sqrt(20 * N)
        spectrum = dapd.estimate_spectrum(M, blocks=N)
        rounds.append(theory.x_sbc(L=1e6, mu=1, s_bar_max=spectrum.s_bar_max, s_min=0.1, N=N).Pi / N)
    assert 2.5 < rounds[0] / rounds[1] < 5


def test_block_norms_together_are_each_blocks_norm():
    rng = np.random.default_rng(0)
    for N in (1, 2, 3, 4, 5):
        M, blocks = coupling(rng, 3, blocks_of(N)[-1].stop, 10.0), blocks_of(N)
        exact = max(np.linalg.norm(M[:, block], 2) for block in blocks)
        for form in (M, dapd.ColumnBlocks([M[:, block] for block in blocks])):
            found = dapd.estimate_spectrum(form, blocks=blocks).s_bar_max
            assert exact <= found <= exact * (1 + 1e-9)
