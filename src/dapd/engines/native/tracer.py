"""A method's step as a list of instructions, found by running it once on symbols.

Between `o.grad`, `o.dual_step` and `o.primal_step` a step is linear in the vectors. So a symbol is a linear form in the
state and in what the oracle returned, and a step becomes combinations, gradients, dual and primal steps on registers.
Registers that hold the state are never written: a step leaves its results in others, and the two trade places at its
end. A factor may be a + b/(k + c) in step k, if the state counts its steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any, NamedTuple

COMBINE, GRADIENT, DUAL_STEP, PRIMAL_STEP = range(4)  # src/core/program.hpp has the same numbers
MOST = 6  # terms of a combination, as in src/core/program.hpp
LONGEST_STEP = 1 << 16  # operations of a step: CAPD takes eleven per inner step, and tracing is slower than running


class Instruction(NamedTuple):
    """One thing to do."""

    kind: int
    out: int  # register; of a dual step, y
    second: int  # of a dual step, Mᵀy; else −1
    terms: list[tuple[int, float, float]]  # registers, and a and b of factors a + b/(k + c); else what it asks about
    step: float  # of a dual or a primal step


class Program(NamedTuple):
    """What one step does; the first registers hold the state, field by field without a count, and the next one b."""

    dual: list[bool]  # of each register: as long as y, not as x
    instructions: list[Instruction]
    next: list[int]  # after a step, register k is what register next[k] was
    ahead: float  # c
    fields: int  # of the state, without a count

    @property
    def gradients(self) -> int:
        """How many a step takes."""
        return sum(instruction.kind == GRADIENT for instruction in self.instructions)

    @property
    def dual_steps(self) -> int:
        """How many a step takes."""
        return sum(instruction.kind == DUAL_STEP for instruction in self.instructions)

    def without(self, register: int) -> Program:
        """The same step if that register, one of those that are given, holds zeros."""
        return self._replace(
            instructions=[
                step._replace(terms=[term for term in step.terms if term[0] != register])
                if step.kind == COMBINE
                else step
                for step in self.instructions
            ]
        )


class NotLinear(TypeError):
    """The step does something with a vector that no instruction stands for."""


class Coefficient(NamedTuple):
    """A factor a + b/(k + c) in step k."""

    a: float
    b: float
    c: float

    def __add__(self, other: Any) -> Any:
        if isinstance(other, Coefficient):
            if other.c != self.c:
                raise NotLinear("its factors depend on the number of the step in two ways")
            return Coefficient(self.a + other.a, self.b + other.b, self.c)
        return Coefficient(self.a + float(other), self.b, self.c) if isinstance(other, Real) else NotImplemented

    def __radd__(self, other: Any) -> Any:
        return self + other

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, Coefficient):
            raise NotLinear("it multiplies two factors that depend on the number of the step")
        return (
            Coefficient(self.a * float(other), self.b * float(other), self.c)
            if isinstance(other, Real)
            else NotImplemented
        )

    def __rmul__(self, other: Any) -> Any:
        return self * other

    def __truediv__(self, other: Any) -> Any:
        return self * (1 / float(other)) if isinstance(other, Real) else NotImplemented

    def __neg__(self) -> Coefficient:
        return Coefficient(-self.a, -self.b, self.c)

    def __sub__(self, other: Any) -> Any:
        return self + -other

    def __rsub__(self, other: Any) -> Any:
        return -self + other


class StepNumber:
    """k + c for step k: to add numbers to, and to divide a number by."""

    def __init__(self, c: float = 0.0) -> None:
        self.c = c

    def __add__(self, other: Any) -> StepNumber:
        return StepNumber(self.c + float(other)) if isinstance(other, Real) else NotImplemented

    __radd__ = __add__

    def __rtruediv__(self, other: Any) -> Coefficient:
        return Coefficient(0.0, float(other), self.c) if isinstance(other, Real) else NotImplemented


class Symbol:
    """A vector that is not computed: a linear form in other symbols, or something that is given."""

    __array_ufunc__ = None  # NumPy's numbers leave arithmetic with a symbol to the symbol
    __hash__ = object.__hash__

    def __init__(self, trace: Trace, dual: bool, terms: list[tuple[Symbol, Any]] | None = None) -> None:
        self.trace, self.dual, self.terms = trace, dual, terms
        self.uses = 0
        if terms is not None:
            trace.record(self)

    def _sum(self, other: Any, sign: float) -> Symbol:
        if isinstance(other, Real) and other == 0:  # where `sum` starts
            return self
        if not isinstance(other, Symbol):
            raise NotLinear(f"it adds {type(other).__name__} to a vector")
        if other.dual != self.dual:
            raise NotLinear("it adds a vector as long as x to one as long as y")
        return Symbol(self.trace, self.dual, [(self, 1.0), (other, sign)])

    def __add__(self, other: Any) -> Symbol:
        return self._sum(other, 1.0)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Symbol:
        return self._sum(other, -1.0)

    def __mul__(self, factor: Any) -> Symbol:
        if not isinstance(factor, (Real, Coefficient)):
            raise NotLinear(f"it multiplies a vector by {type(factor).__name__}")
        factor = float(factor) if isinstance(factor, Real) else factor
        if self.terms is not None and len(self.terms) == 1:  # so a chain of factors is one
            inner, before = self.terms[0]
            return Symbol(self.trace, self.dual, [(inner, before * factor)])
        return Symbol(self.trace, self.dual, [(self, factor)])

    __rmul__ = __mul__

    def __truediv__(self, factor: Any) -> Symbol:
        if not isinstance(factor, Real):
            raise NotLinear(f"it divides a vector by {type(factor).__name__}")
        return self * (1 / float(factor))

    def __neg__(self) -> Symbol:
        return self * -1.0

    def __pos__(self) -> Symbol:
        return self

    def __bool__(self) -> bool:
        raise NotLinear("it decides by the entries of a vector")

    def __eq__(self, other: object) -> bool:
        raise NotLinear("it compares a vector")

    def __getattr__(self, name: str) -> Any:
        raise NotLinear("it makes an array of a vector" if "__array" in name else f"it uses .{name} of a vector")


class Call(NamedTuple):
    """A question to the oracle."""

    kind: int
    arguments: list[Symbol]
    results: list[Symbol]
    step: float


class Trace:
    """What a step did, in order: it is also the oracle that a traced step asks."""

    def __init__(self, *, has_gradient: bool = True) -> None:
        self.events: list[Symbol | Call] = []
        self.b = Symbol(self, True)
        self.has_gradient = has_gradient  # else it is zero

    def record(self, event: Symbol | Call) -> None:
        """Note that it happened."""
        if len(self.events) == LONGEST_STEP:
            raise NotLinear(f"it takes more than {LONGEST_STEP:,} operations")
        self.events.append(event)

    def grad(self, x: Any) -> Any:
        """∇f(x)."""
        return self._call(GRADIENT, [(x, False)], [False], 0.0)[0] if self.has_gradient else 0.0

    def dual_step(self, v: Any, base: Any, step: Any) -> tuple[Symbol, Symbol]:
        """prox_{step·φ}(base + Mv) and Mᵀ of it."""
        y, Mty = self._call(DUAL_STEP, [(v, False), (base, True)], [True, False], step)
        return y, Mty

    def primal_step(self, v: Any, step: Any) -> Symbol:
        """The prox of what is done entry by entry with x."""
        return self._call(PRIMAL_STEP, [(v, False)], [False], step)[0]

    def _call(self, kind: int, asked: list[tuple[Any, bool]], answers: list[bool], step: Any) -> list[Symbol]:
        if not isinstance(step, Real):
            raise NotLinear(f"the prox step is {type(step).__name__}, not a number")
        for argument, dual in asked:
            if not isinstance(argument, Symbol) or argument.dual != dual:
                raise NotLinear(f"it asks the oracle about something that is not as long as {'y' if dual else 'x'}")
        results = [Symbol(self, dual) for dual in answers]
        self.record(Call(kind, [argument for argument, _ in asked], results, float(step)))
        return results

    def __getattr__(self, name: str) -> Any:
        raise NotLinear(f"it asks the oracle for .{name}; there are grad, dual_step, primal_step and b")


def trace(
    step: Callable[[Any, Any, Any], Any],
    parameters: Any,
    state: type,
    dual: Sequence[bool | None],
    *,
    has_gradient: bool = True,
) -> Program:
    """The program of `step`, with None for a count in `dual`; raises NotLinear with the reason if there is none."""
    traced = Trace(has_gradient=has_gradient)
    fields = [StepNumber() if of_y is None else Symbol(traced, of_y) for of_y in dual]
    try:
        after = step(parameters, traced, state(*fields))
    except NotLinear:
        raise
    except Exception as error:  # a symbol is no array; an error of the step's own comes again when Python runs it
        raise NotLinear(f"{type(error).__name__}: {error}") from error
    results = list(after) if isinstance(after, tuple) else [after]
    if len(results) != len(fields) or not all(map(_fits, results, dual)):
        raise NotLinear("it returns something else than a state of vectors, whose count grows by one")
    vectors = [result for result in results if isinstance(result, Symbol)]
    if [vector.dual for vector in vectors] != [of_y for of_y in dual if of_y is not None]:
        raise NotLinear("it returns a state whose vectors have other lengths")
    return _Builder(traced, [field for field in fields if isinstance(field, Symbol)], vectors).program()


def _fits(result: Any, of_y: bool | None) -> bool:
    return isinstance(result, StepNumber) and result.c == 1.0 if of_y is None else isinstance(result, Symbol)


class _Builder:
    """Chooses which symbols are computed, in which order and in which registers."""

    def __init__(self, traced: Trace, fields: list[Symbol], results: list[Symbol]) -> None:
        self.given = [*fields, traced.b]
        self.fields, self.results = fields, results
        self.events = self._alive(traced.events)
        self.computed = self._computed()

    def _alive(self, events: list[Symbol | Call]) -> list[Symbol | Call]:
        """The events that a result depends on; counts how often each symbol is used by them."""
        wanted, alive = set(self.results), list[Symbol | Call]()
        for event in reversed(events):
            if isinstance(event, Call):
                if not wanted.isdisjoint(event.results):
                    alive.append(event)
                    wanted.update(event.arguments)
            elif event in wanted:
                alive.append(event)
                for part, _ in event.terms or []:
                    wanted.add(part)
                    part.uses += 1
        return alive[::-1]

    def _computed(self) -> set[Symbol]:
        """Linear forms that get a register: arguments, results, what is used twice, and parts of long sums."""
        computed = {s for e in self.events if isinstance(e, Call) for s in e.arguments} | set(self.results)
        lengths: dict[Symbol, int] = {}

        def length(symbol: Symbol) -> int:
            return 1 if symbol in computed else lengths.get(symbol, 1)

        for event in self.events:
            if isinstance(event, Call) or event.terms is None:
                continue
            parts = [part for part, _ in event.terms]
            while sum(map(length, parts)) > MOST:
                computed.add(max(parts, key=length))
            lengths[event] = sum(map(length, parts))
            if event.uses > 1 and lengths[event] > 1:
                computed.add(event)
        return computed

    def _form(self, symbol: Symbol, *, inside: bool = False) -> dict[Symbol, Any]:
        """A symbol as a combination of given, returned and computed ones."""
        if symbol.terms is None or (inside and symbol in self.computed):
            return {symbol: 1.0}
        found: dict[Symbol, Any] = {}
        for part, factor in symbol.terms:
            for atom, inner in self._form(part, inside=True).items():
                found[atom] = found.get(atom, 0.0) + factor * inner
        return {atom: factor for atom, factor in found.items() if any(_numbers(factor))}

    def _ordered(self) -> list[tuple[Symbol, dict[Symbol, Any]] | Call]:
        """Combinations and calls; between two calls, the combinations as long as y come first."""
        done: dict[tuple[bool, tuple[tuple[int, Any], ...]], Symbol] = {}  # forms that are computed already
        alias: dict[Symbol, Symbol] = {}
        ordered: list[tuple[Symbol, dict[Symbol, Any]] | Call] = []
        segment: list[tuple[Symbol, dict[Symbol, Any]]] = []

        def resolve(symbol: Symbol) -> Symbol:
            return alias.get(symbol, symbol)

        for event in (*self.events, None):
            if isinstance(event, Symbol):
                if event not in self.computed:
                    continue
                form: dict[Symbol, Any] = {}
                for atom, factor in self._form(event).items():
                    form[resolve(atom)] = form.get(resolve(atom), 0.0) + factor
                if len(form) == 1 and next(iter(form.values())) == 1.0:
                    alias[event] = next(iter(form))
                    continue
                # an empty form is zero, and there are zeros of two lengths
                key = event.dual, tuple(sorted((id(atom), _numbers(factor)) for atom, factor in form.items()))
                if key in done:
                    alias[event] = done[key]
                else:
                    done[key] = event
                    segment.append((event, form))
                continue
            segment.sort(key=lambda pair: not pair[0].dual)
            ordered += segment
            segment = []
            if event is not None:
                ordered.append(event._replace(arguments=[resolve(argument) for argument in event.arguments]))
        self.ends = [resolve(result) for result in self.results]
        return ordered

    def program(self) -> Program:
        """Give each value a register, and free it after its last use."""
        ordered = self._ordered()
        # a result that is given, or is two results, needs a register of its own unless it only changes its place
        for k, end in enumerate(self.ends):
            if end in set(self.ends[:k]) or end is self.given[-1]:
                copy = Symbol(end.trace, end.dual)
                ordered.append((copy, {end: 1.0}))
                self.ends[k] = copy
        last: dict[Symbol, int] = {}
        for at, event in enumerate(ordered):
            for symbol in event.arguments if isinstance(event, Call) else event[1]:
                last[symbol] = at
        registers = _Registers(self.given)
        kept = set(self.ends)
        instructions: list[Instruction] = []
        counted: set[float] = set()  # the c of all factors
        for at, event in enumerate(ordered):
            read = event.arguments if isinstance(event, Call) else list(event[1])
            dying = [s for s in dict.fromkeys(read) if last[s] == at and s not in kept]
            if isinstance(event, Call):
                terms = [(registers.of[argument], 1.0, 0.0) for argument in read]
                outs = [registers.take(result) for result in event.results]
                registers.free(dying)
                # a result that nobody uses gives its register back
                registers.free([r for r in event.results if r not in last and r not in kept])
                instructions.append(Instruction(event.kind, outs[0], outs[1] if outs[1:] else -1, terms, event.step))
            else:
                symbol, form = event
                terms = [(registers.of[atom], *_numbers(factor)) for atom, factor in form.items()]
                counted |= {factor.c for factor in form.values() if isinstance(factor, Coefficient)}
                registers.free(dying)  # first: entry by entry, a combination may be computed in an input's place
                instructions.append(Instruction(COMBINE, registers.take(symbol), -1, terms, 0.0))
        if len(counted) > 1:
            raise NotLinear("its factors depend on the number of the step in two ways")
        ahead = counted.pop() if counted else 1.0
        if not ahead > 0:
            raise NotLinear(
                "it divides by the number of the step, which begins with zero, and no positive number added"
            )
        return Program(registers.dual, instructions, self._exchange(registers), ahead, len(self.fields))

    def _exchange(self, registers: _Registers) -> list[int]:
        """Which registers trade places at the end of a step."""
        count = len(registers.dual)
        goes = {registers.of[field]: registers.of[end] for field, end in zip(self.fields, self.ends, strict=True)}
        for of_y in (False, True):
            left = [k for k in range(count) if registers.dual[k] == of_y and k not in goes]
            free = [k for k in range(count) if registers.dual[k] == of_y and k not in goes.values()]
            # b stays where it is, and so does what need not move
            still = set(left) & set(free)
            goes.update({k: k for k in still})
            pairs = zip((k for k in left if k not in still), (k for k in free if k not in still), strict=True)
            goes.update(pairs)
        return [goes[k] for k in range(count)]


def _numbers(factor: Any) -> tuple[float, float]:
    """The a and b of a factor."""
    return (factor.a, factor.b) if isinstance(factor, Coefficient) else (factor, 0.0)


class _Registers:
    """Which register holds which value."""

    def __init__(self, given: list[Symbol]) -> None:
        self.dual = [symbol.dual for symbol in given]
        self.of = {symbol: k for k, symbol in enumerate(given)}
        self.fixed = len(given)
        self.unused: list[int] = []

    def take(self, symbol: Symbol) -> int:
        """A register for a new value."""
        fitting = [k for k in self.unused if self.dual[k] == symbol.dual]
        if fitting:
            self.unused.remove(fitting[-1])
            self.of[symbol] = fitting[-1]
        else:
            self.of[symbol] = len(self.dual)
            self.dual.append(symbol.dual)
        return self.of[symbol]

    def free(self, symbols: list[Symbol]) -> None:
        """Give back the registers of values that nobody needs any more; those of the state and of b stay."""
        self.unused += [self.of[symbol] for symbol in symbols if self.of[symbol] >= self.fixed]


class Template:
    """The programs of a step for all parameters that differ in two numbers, on which they depend linearly."""

    def __init__(self, make: Callable[[float, float], Program], first: float, second: float) -> None:
        base, one, two = make(first, second), make(2 * first, second), make(first, 2 * second)
        self.base, numbers = base, [_numbers_of(program) for program in (base, one, two)]
        self.slopes = [
            [(b - a) / first for a, b in zip(numbers[0], numbers[1], strict=True)],
            [(b - a) / second for a, b in zip(numbers[0], numbers[2], strict=True)],
        ]
        self.rest = [a - b * first - c * second for a, b, c in zip(numbers[0], *self.slopes, strict=True)]

    def at(self, first: float, second: float) -> Program:
        """The program for these two numbers."""
        numbers = iter([a + b * first + c * second for a, b, c in zip(self.rest, *self.slopes, strict=True)])
        instructions = [
            old._replace(step=next(numbers), terms=[(reg, next(numbers), next(numbers)) for reg, _, _ in old.terms])
            for old in self.base.instructions
        ]
        return self.base._replace(instructions=instructions)


def _numbers_of(program: Program) -> list[float]:
    """The numbers of its instructions, in their order."""
    return [
        number for one in program.instructions for number in (one.step, *(v for term in one.terms for v in term[1:]))
    ]
