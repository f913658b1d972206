"""The jax engine: a method's own `step`, compiled by XLA, many steps in one loop on the device.

M, f, φ and the parameters are arguments of the compiled program, so it serves every problem of the same structure, and
restarts with other parameters do not compile it again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from dapd.arrays import Array, is_constant, on_device, one_gpu
from dapd.engines.jax.epochs import several_epochs, with_images, without_images
from dapd.engines.jax.functions import place_function, place_phi, place_rest
from dapd.engines.jax.layout import layout, put
from dapd.engines.jax.maps import place_map
from dapd.engines.jax.mesh.map import FlatMap, MeshMap, Sections, sections_of_phi
from dapd.engines.jax.mesh.place import mesh_map
from dapd.engines.jax.program import Leaves, Packed, compiled_loop, compiled_report, number
from dapd.engines.jax.pytree import pytree
from dapd.engines.protocol import NotNative, check_same
from dapd.functions.proximable import PrimalProx
from dapd.machine.clock import is_over, perf_counter
from dapd.methods import anchors
from dapd.methods.anchors import TOGETHER, Epoch
from dapd.methods.base import Method
from dapd.problem.problem import Problem

PULSE = 0.1  # seconds of steps between two looks at the clock
SHORT, SHORT_ON_GPU = 32.0, 128.0  # iterations before the first reading of the clock, on a CPU and on a GPU
LARGE = 1 << 20  # multiplications of a step from which points stay on the device
LONG_VECTORS = 1 << 20  # entries of x and y from which it pays off to compile steps for vectors of one number
STEPS_PER_TURN = (8, 1)  # steps per turn of the loops that take all steps on a GPU, one loop after the other
PATIENCE_ON_GPU = 3  # a convergence check takes as long as so many times the usual iterations between two
ENTRY_WORK = 16  # multiplications that an entry of x or y counts for


@pytree()
class Placed:
    """A problem on the device."""

    M: Any
    f: Any
    phi: Any
    b: Array

    @functools.cached_property
    def leaves(self) -> Leaves:
        """Its arrays."""
        return Leaves(self)

    @functools.cached_property
    def gpu(self) -> Any:
        """The one GPU that it is on; None if it is elsewhere."""
        return one_gpu(self.b)


@pytree()
class WithProx(Placed):
    """A problem for proximal methods: f is what the prox leaves, None if that is zero."""

    prox: PrimalProx


def place(problem: Problem, dtype: Any = None) -> Placed:
    """The problem on the default device, kept there for later solves; in its own dtype unless another is given."""
    dtype, mesh = np.dtype(dtype or problem.dtype), layout()

    def find() -> Placed:
        with jax.enable_x64(True):
            return Placed(
                M=place_map(problem.M, dtype) if mesh is None else mesh_map(problem.M, dtype, mesh),
                f=place_function(problem, dtype),
                phi=place_phi(problem, dtype),
                b=put(problem.b, dtype, dual=True),
            )

    return problem.memory.once(place, (dtype, mesh), find)


def for_steps(problem: Problem, *, is_proximal: bool) -> Placed:
    """The problem as steps take it: on a mesh y may be in sections; long vectors of one number are that number."""
    placed = place(problem)
    if isinstance(placed.M, FlatMap):
        placed = _in_sections(placed, problem)
    elif layout() is None and problem.rows + problem.columns >= LONG_VECTORS:
        placed = problem.memory.once(for_steps, None, lambda: _with_single_numbers(placed, problem))
    if is_proximal:
        placed = problem.memory.once(_with_prox, layout(), lambda: _with_prox(placed, problem))
    return placed


def _with_prox(placed: Placed, problem: Problem) -> Placed:
    """The problem for proximal methods."""
    prox = problem.primal_prox.in_dtype(problem.dtype)
    one = layout() is None and problem.columns >= LONG_VECTORS
    with jax.enable_x64(True):
        there = (
            None if v is None else jnp.asarray(v[0]) if one and is_constant(v) else put(v, problem.dtype, dual=False)
            for v in prox
        )
        return WithProx(placed.M, place_rest(placed.f, problem), placed.phi, placed.b, PrimalProx(*there))


def _with_single_numbers(placed: Placed, problem: Problem) -> Placed:
    """The problem with b or the diagonal of f as one number if all entries are the same."""
    with jax.enable_x64(True):
        if is_constant(problem.b):
            placed = replace(placed, b=placed.b[0])
        if problem.terms is not None:
            found = [
                terms._replace(H=terms.H[0]) if isinstance(H, np.ndarray) and H.ndim == 1 and is_constant(H) else terms
                for terms, H in zip(placed.f.parts, (part.terms.H for part in problem.terms), strict=True)
            ]
            placed = replace(placed, f=replace(placed.f, parts=tuple(found)))
    return placed


def _in_sections(placed: Placed, problem: Problem) -> Placed:
    """The problem with b, φ and the products in the sections of y, kept for later solves."""
    M = placed.M.inner

    def find() -> Placed:
        with jax.enable_x64(True):
            b = M.put(problem.b.astype(problem.dtype, copy=False))
            return Placed(M, placed.f, sections_of_phi(problem, M), b)

    return problem.memory.once(_in_sections, layout(), find)


def divided(placed: Placed, y: Array) -> Any:
    """A vector as long as y as steps take it."""
    return placed.M.divided(y) if isinstance(placed.M, MeshMap) else y


def is_large(problem: Problem) -> bool:
    """Whether points should stay on the device, and be judged there."""
    if layout() is not None:
        return True
    return problem.M.work + problem.f.work + ENTRY_WORK * (problem.multipliers + problem.columns) >= LARGE


class Oracle:
    """What a `step` may ask, in JAX; it counts what it is asked while a step is traced."""

    def __init__(self, placed: Placed) -> None:
        self.placed, self.b = placed, placed.b
        self.gradients = self.dual_steps = 0
        self.loops = False  # whether a step has a loop of its own

    def grad(self, x: Array) -> Array:
        """∇f(x); zero if nothing of f is left by primal steps."""
        if self.placed.f is None:
            return 0.0
        self.gradients += 1
        return self.placed.f.grad(x)

    def primal_step(self, v: Array, step: Any) -> Array:
        """The prox of the bounds and of the part of f whose prox is known."""
        return cast(WithProx, self.placed).prox(v, step)

    def dual_step(self, v: Array, base: Array, step: Any) -> tuple[Array, Array]:
        """prox_{step·φ}(base + Mv) and Mᵀ of it."""
        self.dual_steps += 1
        y = self.placed.phi.prox(base + self.placed.M.forward(v), step)
        return y, self.placed.M.adjoint(y)

    def adjoint(self, y: Array) -> Array:
        """Mᵀy."""
        return self.placed.M.adjoint(y)

    def repeat(self, count: Any, body: Callable[[Any], Any], carry: Any) -> Any:
        """A loop of the compiled program."""
        gradients, dual_steps = self.gradients, self.dual_steps
        jax.eval_shape(body, carry)
        once = self.gradients - gradients, self.dual_steps - dual_steps
        carry = loop(count, body, carry)
        self.loops = True
        if isinstance(count, int):  # however often the body was traced
            self.gradients, self.dual_steps = gradients + count * once[0], dual_steps + count * once[1]
        return carry


@functools.cache
def several_steps(update: Callable[..., Any], point: Callable[..., Any]) -> Callable[..., Any]:
    """Some steps of a method: a function of the placed problem, the state, the parameters and the number of steps.

    It returns the new state and its point.
    """

    def chunk(placed: Placed, state: Any, packed: Packed, steps: Any) -> Any:
        oracle, p = Oracle(placed), packed.record()
        jax.eval_shape(lambda s: update(p, oracle, s), state)
        state = loop(steps, lambda s: update(p, Oracle(placed), s), state, unroll=not oracle.loops)
        return state, point(state)

    return chunk


def loop(count: Any, body: Callable[[Any], Any], carry: Any, *, unroll: bool = True) -> Any:
    """`count` turns of a loop, on a GPU several at a time: between turns the carry is copied."""
    for several in STEPS_PER_TURN if unroll and jax.default_backend() == "gpu" else (1,):

        def turn(_: Any, carry: Any, several: int = several) -> Any:
            for _ in range(several):
                carry = body(carry)
            return carry

        carry, count = jax.lax.fori_loop(0, count // several, turn, carry), count % several
    return carry


@functools.cache
def first_state(first: Callable[..., Any], point: Callable[..., Any]) -> Callable[..., Any]:
    """The first state, in arrays of its own; its point; the packed numbers; and whether it takes a product with Mᵀ."""

    def begin(placed: Placed, packed: Packed, x: Array, y: Array) -> Any:
        state = copies(first(packed.record(), Oracle(placed), x, divided(placed, y)))
        return state, point(state), jnp.copy(packed.numbers), jnp.any(y != 0)

    return begin


def _whole(placed: Placed, state: Any, k: Any) -> Any:
    """The state of a restarted method with products with Mᵀ and its number of steps."""
    return with_images(state, jnp.astype(k, state.x.dtype), placed.M.adjoint)


def _minimiser(placed: Any, y: Array) -> Array:
    """The x that minimises with y."""
    x: Array = placed.prox.minimiser(placed.M.adjoint(y))
    return x


def copies(tree: Any) -> Any:
    """The tree with arrays of its own."""
    return jax.tree.map(jnp.copy, tree)


own_copies = jax.jit(copies)
in_one_piece = jax.jit(lambda M, y: M.joined(y))

ASKED: dict[Any, tuple[int, int]] = {}  # gradients and products of a step, by functions and inner iterations


class DeviceCounts:
    """Counts, as a plain oracle keeps them."""

    block_products = 0

    def __init__(self) -> None:
        self.gradients = self._products = 0
        self._later: list[Array] = []

    def later(self, product: Array) -> None:
        """Count a product if this number of the device is true; nobody waits for it before the count is read."""
        if product.sharding.memory_kind != "pinned_host":  # else the GPU writes it there
            product.copy_to_host_async()
        self._later.append(product)

    def count(self, gradients: int, products: int) -> None:
        """Count what steps ask."""
        self.gradients += gradients
        self._products += products

    @property
    def products(self) -> int:
        """With M and with Mᵀ, each counted."""
        self._products += sum(map(int, self._later))
        self._later.clear()
        return self._products


class JaxRunner:
    """A method's steps on the default device of JAX."""

    engine = "jax"
    reason = ""

    def __init__(self, method: Method) -> None:
        if type(method).step is not Method.step or type(method).run is not Method.run:
            raise NotNative(f"{type(method).__name__} overrides step or run, which only Python calls")
        problem = method.problem
        self.method, self.dtype = method, problem.dtype
        self.placed = for_steps(problem, is_proximal=method.is_proximal)
        self.gpu = place(problem).gpu
        self.patience = 1 if self.gpu is None else PATIENCE_ON_GPU
        self.counts = DeviceCounts()
        self.pace = SHORT if self.gpu is None else SHORT_ON_GPU  # steps per pulse
        self.warm: set[type] = set()  # methods that have been compiled
        self.large = is_large(problem)
        self._state: Any = None
        self._point: Any = None
        self._shared = False  # whether others may have the arrays of the state, which steps overwrite
        self._prepare()

    def _prepare(self) -> None:
        """Count what a step asks, which also shows whether JAX can trace it."""
        method, problem = self.method, self.method.problem
        kind = type(method).update, method.point, getattr(method.parameters, "N", None), self.placed.f is None
        if kind in ASKED:
            self.per_step = ASKED[kind]
            return
        oracle = Oracle(self.placed)
        with jax.enable_x64(True):
            x, y = (jax.ShapeDtypeStruct((size,), self.dtype) for size in (problem.columns, problem.rows))

            def once(x: Array, y: Array) -> Any:
                state = type(method).first(method.parameters, oracle, x, divided(self.placed, y))
                oracle.gradients = oracle.dual_steps = 0
                traced = (v + 0 * x.sum() if isinstance(v, float) else v for v in state)  # a count, as in a loop
                return method.point(type(method).update(method.parameters, oracle, type(state)(*traced)))

            try:
                jax.eval_shape(once, x, y)
            except Exception as error:  # whatever a step of the caller's raises when it meets a tracer
                raise NotNative(
                    f"JAX cannot trace the step or the point of {method.name} ({type(error).__name__})"
                ) from error
        self.per_step = ASKED[kind] = oracle.gradients, 2 * oracle.dual_steps

    def rebind(self, method: Method) -> None:
        """Run this method from its first state, keeping what is on the device and the counts."""
        check_same(self.method.problem, method.problem)
        self.method = method
        self._prepare()
        self._begin()

    def start(self) -> None:
        """Set the state to the method's first, and count what that takes."""
        self.counts = DeviceCounts()
        self._begin()

    def _begin(self) -> None:
        method = self.method
        with jax.enable_x64(True):
            x, y = put(method.x0, self.dtype, dual=False), put(method.y0, self.dtype, dual=True)
            packed = Packed.of(method.parameters, self.dtype, self.gpu)
            function, leaves = first_state(type(method).first, method.point), self.placed.leaves
            first = leaves.program(compiled_report, function, 3, self.gpu)
            self._state, self._point, numbers, product = first(leaves.arrays, packed, x, y)
            self._parameters, self._shared = replace(packed, numbers=numbers), False
            if method.is_restarted:
                p = method.parameters
                self._state = without_images(self._state)
                self._constants = jax.device_put(np.array([p.L, p.s_max]), self.gpu)
                self.epoch = anchors.first_epoch(np.float64(p.weight), method.problem.f.L != 0)
            self.counts.later(product)

    @property
    def state(self) -> Any:
        """The state; its arrays cannot be changed, and later steps leave them as they are."""
        self._shared = True
        if not self.method.is_restarted:
            return self._state
        with jax.enable_x64(True):
            whole = self.placed.leaves.program(compiled_report, _whole, 0, None)
            return whole(self.placed.leaves.arrays, self._state, self._numbers[0])

    @state.setter
    def state(self, state: Any) -> None:
        def there(v: Any) -> Any:
            return v if on_device(v) or isinstance(v, Sections) else jnp.asarray(v, self.dtype)

        with jax.enable_x64(True):
            self._state = type(state)(*(v if isinstance(v, float) else there(v) for v in state))
            self._point, self._shared = own_copies(self.method.point(self._state)), True
            if self.method.is_restarted:
                self._state = without_images(self._state)
                self.epoch = self.epoch._replace(k=float(state.k))

    @property
    def epoch(self) -> Epoch:
        """The current epoch, of a restarted method."""
        return Epoch(*np.asarray(self._numbers).tolist())

    @epoch.setter
    def epoch(self, epoch: Epoch) -> None:
        with jax.enable_x64(True):
            self._numbers = jax.device_put(np.array(epoch, np.float64), self.gpu)
        self._k = int(epoch.k)

    def advance(self, steps: int, deadline: float) -> int:
        """Take `steps` steps, or fewer if the deadline comes first; return how many.

        Steps that take less than a pulse may go on while the host does something else.
        """
        done = 0
        with jax.enable_x64(True):
            if self._shared:
                self._state, self._shared = own_copies(self._state), False
            while done < steps and (not is_over(deadline) or not done):
                pulse = max(1, int(self.pace))  # the same in all processes, as their clock is
                began = perf_counter()
                if self.method.is_restarted:
                    pulse = max(1, pulse // TOGETHER) * TOGETHER
                    some = min(steps - done, pulse)
                    self._run_epochs(some)
                else:
                    some = min(steps - done, pulse)
                    self._run(some)
                done += some
                self.counts.count(some * self.per_step[0], some * self.per_step[1])
                if some == pulse:
                    self._wait(began, some)
        return done

    def _run(self, steps: int) -> None:
        """Start some steps."""
        leaves = self.placed.leaves
        function = several_steps(type(self.method).update, self.method.point)
        run = leaves.program(compiled_loop, function, self.gpu)
        self._state, self._point = run(leaves.arrays, self._state, self._parameters, number(steps, self.gpu))

    def _run_epochs(self, steps: int) -> None:
        """Start some steps of a restarted method; on a GPU, as many together as there are between measurements."""
        kind: Any = type(self.method)
        leaves = self.placed.leaves
        before = steps if self.gpu is None else min(steps, -self._k % TOGETHER)
        for some, together in ((before, 1), ((steps - before) // TOGETHER, TOGETHER), ((steps - before) % TOGETHER, 1)):
            if some:
                run = leaves.program(compiled_loop, several_epochs(kind, Oracle, together), self.gpu)
                carry, times = (self._state, self._numbers), number(some, self.gpu)
                (self._state, self._numbers), self._point = run(leaves.arrays, carry, self._constants, times)
        self._k += steps  # or fewer, by a number of measurements

    def _wait(self, began: float, steps: int) -> None:
        """Wait for steps that may take longer, and learn how many make a pulse."""
        jax.block_until_ready(self._state)
        kind, elapsed = type(self.method), perf_counter() - began
        if kind in self.warm:  # else it had to be compiled
            self.pace = min(8 * self.pace, steps * PULSE / max(elapsed, 1e-9))
        self.warm.add(kind)

    def completed(self) -> tuple[Array, Array]:
        """The y of the point, and the x that minimises with it; of a proximal method that takes all of f, curved."""
        leaves = self.placed.leaves
        with jax.enable_x64(True):
            x = leaves.program(compiled_report, _minimiser, 0, None)(leaves.arrays, self._point[1])
        y = self.point()[1]
        return (x if self.large else np.array(x)), y

    def point(self) -> tuple[Array, Array]:
        """X and y: of a large problem arrays of the device, else NumPy's."""
        x, y = self._point
        if isinstance(y, Sections):
            with jax.enable_x64(True):
                y = in_one_piece(self.placed.M, y)
        return (x, y) if self.large else (np.array(x), np.array(y))
