"""What the native block-coordinate loops read of f: every lowered function, and what is refused."""

import numpy as np
import pytest
import scipy.sparse as sp

import dapd
from cores import assert_same_state, needs_core, on_each_core
from dapd.engines.block_tables import NotNative, tabulate_blocks
from dapd.engines.native_blocks import BlockRunner
from dapd.model.lowered import Terms

pytestmark = needs_core


def bound_to(f, M=None):
    M = np.random.default_rng(0).standard_normal((2, 6)) if M is None else M
    return dapd.METHODS["x-sbc-dapd-nonseparable"].from_theory(
        dapd.Problem(f, M, np.ones(2), blocks=3), spectrum=dapd.Spectrum(4.0, 0.5, 3.0), seed=0
    )


class Said(dapd.PseudoHuber):
    """A function that says what the test wants."""

    def __init__(self, terms):
        super().__init__(0.5)
        self.terms = terms

    def lowered(self):
        return self.terms


class Other(dapd.PseudoHuber):
    """A function with another gradient than the class that says what it is."""

    def grad(self, x):
        return 2 * x


def terms_with_everything(rng):
    A, H, d = rng.standard_normal((4, 6)), np.eye(6) + 0.1, rng.standard_normal(6)
    operator = dapd.LeastSquares(A, np.ones(4), 1.0).A
    c, diagonal = rng.standard_normal(6), rng.uniform(1, 2, 6)
    return [
        Terms(ridge=0.7, c=c),
        Terms(loss="square", d=d, H=diagonal),
        Terms(loss="logistic", d=np.sign(d), ridge=0.3, H=H, c=c),
        Terms(loss="pseudo-huber", e=0.2, d=d, ridge=0.4, H=sp.csr_array(H)),
        Terms(loss="pseudo-huber", A=operator, e=0.3, d=d[:4], ridge=0.5, H=diagonal, c=c),
        Terms(loss="pseudo-huber", A=operator, e=0.3, H=diagonal),
        Terms(loss="square", A=operator, d=d[:4], ridge=0.1, H=H, c=c),
        Terms(loss="square", A=operator, ridge=0.1),
    ]


def gradient(t, x):
    """∇f from its definition."""
    u = x if t.A is None else t.A.forward(x)
    shifted = u - (0 if t.d is None else t.d)
    slope = {
        None: lambda: 0 * u,
        "square": lambda: shifted,
        "logistic": lambda: -t.d / (1 + np.exp(t.d * u)),
        "pseudo-huber": lambda: shifted / np.hypot(shifted, t.e),
    }[t.loss]()
    H = np.zeros((6, 6)) if t.H is None else np.diag(t.H) if t.H.ndim == 1 else t.H
    return (slope if t.A is None else t.A.adjoint(slope)) + t.ridge * x + H @ x - (0 if t.c is None else t.c)


@on_each_core
@pytest.mark.parametrize("case", range(8))
def test_every_lowered_function_has_its_gradient(case, core):
    """Alone in one block, and, unless A and a matrix H both join the blocks, as an f of all of x."""
    t = terms_with_everything(np.random.default_rng(4))[case]
    f = dapd.Smooth(
        lambda x: 0.0, lambda x: gradient(t, x), 1.0, 4.0, size=6, block_grad=lambda x, b: gradient(t, x)[b]
    )
    M = np.random.default_rng(0).standard_normal((2, 6))
    spectrum = dapd.Spectrum(4.0, 0.5, 3.0)
    for name, g, blocks in (("x-sbc-dapd", dapd.Separable([f]), 1), ("x-sbc-dapd-nonseparable", f, 3)):
        plain = dapd.METHODS[name].from_theory(dapd.Problem(g, M, np.ones(2), blocks=blocks), spectrum=spectrum, seed=0)
        said = Said(t)
        method = dapd.METHODS[name](
            dapd.Problem(dapd.Separable([said], sizes=[6]) if blocks == 1 else said, M, np.ones(2), blocks=blocks),
            plain.parameters, seed=0,
        )  # fmt: skip
        if blocks == 3:
            method.functions = None
            if t.A is not None and t.H is not None and t.H.ndim == 2:
                with pytest.raises(NotNative, match="joins the blocks both"):
                    BlockRunner(method, core)
                continue
        runner = BlockRunner(method, core)
        runner.start(plain.init())
        runner.advance(100)
        assert_same_state(runner.state, plain.run(plain.init(), 100), 1e-11)


@on_each_core
def test_what_is_not_known_is_refused_with_its_reason(core):
    free = dapd.LeastSquares(dapd.ColumnBlocks([np.ones((3, 6))]), np.ones(3), 1.0)
    mine = type("Mine", (dapd.METHODS["x-sbc-dapd"],), {"update": staticmethod(lambda p, o, s, drawn: None)})
    huber = dapd.Problem(dapd.PseudoHuber(0.5), np.eye(2, 6), np.ones(2), blocks=3)
    for method, reason in (
        (bound_to(Other(0.5)), "Other is only available in Python"),
        (bound_to(Said(Terms(loss="hinge"))), "the loss 'hinge'"),
        (bound_to(free), "the A of LeastSquares is only available as a product"),
        (mine.from_theory(huber, seed=0), "no loop for Mine"),
    ):
        with pytest.raises(NotNative, match=reason):
            BlockRunner(method, core)
    with pytest.raises(ValueError, match=r"Said.lowered\(\) has c of shape \(5,\), expected \(2,\)"):
        BlockRunner(bound_to(Said(Terms(ridge=1.0, c=np.ones(5)))), core)


@on_each_core
def test_an_unknown_code_never_falls_through(core, monkeypatch):
    def forged(functions, blocks, dtype):
        table = tabulate_blocks(functions, blocks, dtype)
        return table._replace(loss=np.full_like(table.loss, 9))

    monkeypatch.setattr("dapd.engines.native_blocks.tabulate_blocks", forged)
    with pytest.raises(ValueError, match="unknown loss"):
        BlockRunner(bound_to(dapd.PseudoHuber(0.5)), core)
