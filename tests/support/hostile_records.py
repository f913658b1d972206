"""Records of the core with one thing wrong in each: every one is refused, or runs without reading what is not there.

A program of its own, since what is wrong may end it: `python hostile_records.py VARIANT`.
"""

import sys
from types import SimpleNamespace

import numpy as np
import scipy.sparse as sp

import dapd
from dapd.engines.native.blocks import LOOPS, BlockRunner
from dapd.engines.native.runner import NativeRunner
from dapd.machine.core import load

THREADS = (1, 3)
NUMBERS = (-1, 0, 1, 10**6, 2**62)


def caught(core, names, bind):
    """The arguments with which the classes of the core are called."""
    calls = []

    def recorded(name):
        return lambda *arguments: calls.append((name, arguments)) or getattr(core, name)(*arguments)

    bind(SimpleNamespace(**{name: recorded(name) for name in names}))
    return calls[0]


def runners(core):
    """Arguments that fit, one for each kind of M, φ and f."""
    rng = np.random.default_rng(0)
    dense, mixed = rng.standard_normal((6, 8)), [dapd.GroupBall(0.5, 2), dapd.Box(-1.0, np.arange(1.0, 5.0))]
    sparse, runs = sp.random_array((6, 8), density=0.5, rng=rng, format="csr"), sp.eye_array(6, 8, k=1, format="csr")
    phi = dapd.Stack(mixed, sizes=[2, 4])
    quadratic = dapd.Quadratic(np.diag(np.arange(1.0, 9.0)) + 0.1, np.ones(8))
    fitted = dapd.Logistic(rng.standard_normal((9, 8)), np.sign(rng.standard_normal(9)), ridge=0.1)
    two_factors = dapd.Kronecker(rng.standard_normal((3, 2)), rng.standard_normal((2, 4)))
    for f, M, some in (
        (quadratic, dense, phi),
        (dapd.PseudoHuber(0.5), np.asfortranarray(dense), dapd.L1(0.3)),
        (fitted, sparse, phi),
        (dapd.Quadratic(sp.eye_array(8, format="csr")), sparse, dapd.Zero()),
        (dapd.PseudoHuber(0.5), dapd.RowBlocks([sparse, dapd.Identity(8)]), dapd.NonNegative()),
        (dapd.PseudoHuber(0.5), two_factors, dapd.GroupBall(0.4, 3)),
        (dapd.PseudoHuber(0.5), dapd.BlockDiagonal([dense[:2, :3], dense[:4, :5]]), phi),
    ):
        problem = dapd.Problem(f, M, np.ones(M.shape[0]), some)
        method = dapd.METHODS["y-dapd"].from_theory(problem, spectrum=dapd.Spectrum(9.0, 0.01))
        yield caught(core, ("Runner64",), lambda fake, method=method: NativeRunner(method, threads=1, core=fake))
    name, (program, _, table, f, prox, _, _) = caught(core, ("Runner64",), lambda fake: NativeRunner(method, core=fake))
    for kind, M in (("tiles", sparse), ("sorted", sparse), ("runs", runs)):
        record = kind, M.indptr.astype(np.int32), M.indices.astype(np.int32), M.data
        yield name, (program, ("two-way", record), table, f, prox, 6, 8)
        stacked = "stacked", (6, record), (8, ("identity", 8, 0))
        yield name, (program, ("two-way", stacked), zero(), f, prox, 14, 8)
    yield caught(core, ("Runner64",), lambda fake: NativeRunner(anchored(), threads=1, core=fake))


def anchored():
    """A method with primal steps, and factors that change from step to step."""
    rng = np.random.default_rng(1)
    f = dapd.Quadratic(np.linspace(1.0, 2.0, 8), np.ones(8))
    M, bounds = rng.standard_normal((6, 8)), (-1.0, np.linspace(0, 1, 8))
    problem = dapd.Problem(f, M, np.ones(6), dapd.L1(0.3), bounds=bounds)
    return dapd.METHODS["r2hpdhg"].from_theory(problem, spectrum=dapd.Spectrum(9.0, 0.0))


def wrong_epochs(core):
    """Calls of the loop over epochs with one thing wrong in each."""
    runner = NativeRunner(anchored(), threads=1, core=core)
    runner.start()
    calls = []
    run_epoch = runner.core.run_epoch
    runner.core = SimpleNamespace(number=1, taken=1, run_epoch=lambda *given: calls.append(given) or run_epoch(*given))
    runner.advance(1, float("inf"))
    (given,) = calls
    for some in wrong(tuple(given)):
        yield run_epoch, some
    for at in (4, 5):  # the numbers of the rule, and of the progress
        for k in range(len(given[at])):
            for number in (-1.0, 0.5, 1e300, float("inf"), float("nan")):
                numbers = [*given[at][:k], number, *given[at][k + 1 :]]
                yield run_epoch, (7, *given[1:at], numbers, *given[at + 1 :])


def zero():
    """The table of φ ≡ 0."""
    return np.zeros(0, np.int64), np.zeros(1, np.uint8), np.zeros(1), np.zeros(1)


def block_loops(core):
    """Arguments that fit, of the loops by blocks."""
    rng = np.random.default_rng(0)
    M = rng.standard_normal((5, 12))
    fitted = dapd.Logistic(rng.standard_normal((9, 12)), np.sign(rng.standard_normal(9)), ridge=0.1)
    parts = [dapd.Logistic(rng.standard_normal((3, 4)), np.ones(3), ridge=0.1) for _ in range(3)]
    joined = dapd.Separable(parts)
    sparse = sp.random_array((5, 12), density=0.5, rng=rng, format="csr")
    names = [f"{name}64" for name in LOOPS.values()]
    for name, f, matrix in (
        ("x-sbc-dapd", joined, M),
        ("y-sbc-dapd", dapd.PseudoHuber(0.5), sparse),
        ("x-sbc-dapd-nonseparable", fitted, M),
    ):
        problem = dapd.Problem(f, matrix, np.ones(5), blocks=3)
        method = dapd.METHODS[name].from_theory(problem, seed=0)
        yield caught(core, names, lambda fake, method=method: BlockRunner(method, core=fake))


def wrong(part):
    """The part with one thing wrong in it, in every way."""
    if isinstance(part, bool) or part is None or isinstance(part, float):
        yield "nonsense"
    elif isinstance(part, np.ndarray):
        yield from (None, part[:-1], part[:0], np.zeros(part.shape, np.int16), np.repeat(part, 2)[::2])
        if part.dtype.kind in "iu" and part.size:
            for at in {0, part.size // 2, part.size - 1}:
                for value in (np.iinfo(part.dtype).min, np.iinfo(part.dtype).max, part[at] + 1, part.size):
                    other = part.copy()
                    other[at] = value
                    yield other
    elif isinstance(part, int):
        yield from (number for number in NUMBERS if number != part)
        yield "nonsense"
    elif isinstance(part, tuple | list):
        yield type(part)() if type(part) in (tuple, list) else ()
        for k, inner in enumerate(part):
            for other in wrong(inner):
                parts = [*part[:k], other, *part[k + 1 :]]
                yield tuple(parts) if isinstance(part, tuple) else parts
    else:
        yield None


def run(core, name, arguments):
    """Bind and take a few steps."""
    made = getattr(core, name)(*arguments)
    if name == "Runner64":
        for threads in THREADS:
            made.run(3, threads, 1.0)
        return
    (M, _, _), _, _, _, _, joint_rows = arguments
    rows, columns = int(M[1][0]), int(M[0][-1])
    sizes = dict.fromkeys(("x", "z", "g", "c", "e"), columns)
    sizes |= dict.fromkeys(("y", "w", "forward", "MMty", "Mx_hat", "Mc", "Me"), rows)
    sizes |= {"Ac": joint_rows, "Ae": joint_rows, "scale": 1}
    state = {key: np.ones(size) for key, size in sizes.items()}
    made.prepare(state)
    made.run(state, np.zeros(3, np.int64), 20, 1.0)


def main(variant):
    """Try everything; print how many were refused, and how many ran."""
    core, refused, ran = load(variant), 0, 0
    for name, arguments in [*runners(core), *block_loops(core)]:
        run(core, name, arguments)
        for some in wrong(arguments):
            try:
                run(core, name, some)
                ran += 1
            except (ValueError, TypeError, MemoryError):
                refused += 1
    for call, some in wrong_epochs(core):
        try:
            call(*some)
            ran += 1
        except (ValueError, TypeError, MemoryError):
            refused += 1
    print(refused, ran)


if __name__ == "__main__":
    main(sys.argv[1])
