"""Checks of arguments: each error names the argument, what was found and what to do."""

from __future__ import annotations

import contextlib
import difflib
import functools
import inspect
import itertools
import math
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from typing import Any, ParamSpec, TypeVar

import numpy as np

from dapd.arrays import Array

P = ParamSpec("P")
R = TypeVar("R")

LARGEST = 1e150  # beyond this, and below its inverse, squares leave the range of float64
NO_BOUND = 1e20 * (1 - 1e-12)  # magnitude of a bound that means none, as in HiGHS, OSQP and Gurobi; it may be computed
FAR = 1e15  # from this magnitude on, a bound that counts may have been meant as none
SAFE = 1e13  # from this magnitude on, a bound is probably there for safety and says nothing about the size of x

_known_as: ContextVar[Callable[[str], str]] = ContextVar("_known_as", default=str)  # see `renamed`


class BoundWarning(UserWarning):
    """A bound is so far away that it may have been meant as none."""


class TimeUp(Exception):
    """The deadline passed before the work was done."""


def near_miss(word: str, known: Iterable[str]) -> str:
    """Return `; did you mean 'x'?` with the closest known word, or a list of the known words."""
    known = list(known)
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else f"; known: {', '.join(known)}"


def named(call: Callable[P, R]) -> Callable[P, R]:
    """Make an unknown keyword argument an error that suggests the closest name."""
    known = [name for name in inspect.signature(call).parameters if name not in ("self", "cls")]
    label = call.__qualname__.removesuffix(".__init__")

    @functools.wraps(call)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        for name in kwargs:
            if name not in known:
                raise TypeError(f"{label}() has no argument {name!r}{near_miss(name, known)}")
        return call(*args, **kwargs)

    return checked


@contextlib.contextmanager
def renamed(**names: str) -> Iterator[None]:
    """Let messages name arguments as the caller knows them: `renamed(H="P")` says P where they would say H."""
    words, outer = re.compile(rf"\b({'|'.join(names)})\b"), _known_as.get()

    def translated(message: str) -> str:
        return words.sub(lambda found: names[found[0]], message)

    token = _known_as.set(lambda message: outer(translated(message)))
    try:
        yield
    except (TypeError, ValueError) as error:
        raise type(error)(translated(str(error))) from None
    finally:
        _known_as.reset(token)


def warn(message: str, category: type[Warning]) -> None:
    """Warn with the line of the user's code that called the package, at any depth."""
    level, frame = 1, sys._getframe()
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] == "dapd":
        level, frame = level + 1, frame.f_back  # type: ignore[assignment]  # the condition above sees None
    warnings.warn(_known_as.get()(message), category, stacklevel=level)


def unmasked(name: str, value: Any) -> Array:
    """Return `value` as an array; raise TypeError if it is masked, since NumPy would silently drop the mask."""
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(f"{name} is a masked array; fill or remove the masked entries first")
    array = np.asarray(value)
    if (
        array.dtype.kind == "O"
        and hasattr(value, "to_numpy")
        and not any(isinstance(v, str | bytes) for v in array.flat)
    ):
        # columns of different dtypes, or nullable ones, of a DataFrame
        with contextlib.suppress(TypeError, ValueError):
            return np.asarray(value.to_numpy(dtype=np.float64, na_value=np.nan))
    return array


def asked(source: str, call: Callable[..., Any], v: Array, *more: Any) -> Any:
    """call(v, *more) of code that may be the user's own: v is read-only, and an error about that names the source."""
    view = v.view()
    view.flags.writeable = False
    try:
        return call(view, *more)
    except ValueError as error:
        if "read-only" in str(error):
            raise ValueError(f"{source} changes its argument; let it compute in a new array") from error
        raise


def real(name: str, value: Any, *, empty: bool = False) -> Array:
    """Return `value` as a real, finite floating array, non-empty unless `empty`; a copy only if one is needed."""
    array = unmasked(name, value)
    if empty and array.size == 0:
        array = array.astype(np.float64)
    if array.dtype.kind in "biu":
        array = array.astype(np.float64)
    if array.dtype.kind != "f":
        found = "None" if value is None else f"dtype {array.dtype}; convert it to float first"
        raise TypeError(f"{name} must be real numbers, found {found}")
    if array.dtype not in (np.float32, np.float64):
        array = array.astype(np.float64)
    if array.size == 0:
        if empty:
            return array
        raise ValueError(f"{name} is empty (shape {array.shape}); give it at least one entry")
    # min and max are nan or infinite if and only if an entry is, and need no temporary array
    low, high = array.min(), array.max()
    if not (np.isfinite(low) and np.isfinite(high)):
        where = first_true(name, ~np.isfinite(array))
        raise ValueError(f"{name} holds NaN or infinite entries, the first at {where}; remove or replace them")
    if max(-float(low), float(high)) > LARGEST:
        raise ValueError(
            f"{name} holds entries of {max(-float(low), float(high)):.0e}, too large to square; rescale it"
        )
    return array


def first_true(name: str, where: Array) -> str:
    """Name the first true entry of an array, as one would write it in Python."""
    return f"{name}[{', '.join(map(str, np.argwhere(where)[0]))}]" if where.ndim else name


def vector(name: str, value: Any, size: int | None = None) -> Array:
    """Return a copy of `value` as a vector of the given size."""
    array = np.array(real(name, value, empty=size == 0))
    if array.ndim != 1:
        raise ValueError(f"{name} must be a vector, found shape {array.shape}")
    if size is not None and array.size != size:
        raise ValueError(f"{name} has {array.size} entries, expected {size}")
    return array


def numbers(name: str, value: Any) -> float | Array:
    """Return a scalar or a vector, which may be empty; entries may be infinite but not NaN."""
    array = unmasked(name, value)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{name} must be real numbers, found dtype {array.dtype}")
    if array.ndim > 1:
        raise ValueError(f"{name} must be a number or a vector, found shape {array.shape}")
    if np.isnan(array).any():
        raise ValueError(f"{name} holds NaN; use ±inf for a missing bound")
    return float(array) if array.ndim == 0 else array.astype(np.float64)


def open_ended(**bounds: Any) -> list[Any]:
    """Return the bounds, infinite where their magnitude is `NO_BOUND` or more; warn, by name, of those near to it."""
    sizes = {name: np.abs(values) for name, values in bounds.items()}
    far = {name: size[(size >= FAR) & (size < NO_BOUND)] for name, size in sizes.items()}
    doubtful = [name for name, some in far.items() if some.size]
    if doubtful:
        greatest = max(far[name].max() for name in doubtful)
        warn(
            f"{greatest:.12g} in {' and '.join(doubtful)} counts as a bound; a magnitude of 1e20 or more, or inf, "
            "means that there is none",
            BoundWarning,
        )
    made = [np.where(sizes[name] >= NO_BOUND, np.copysign(np.inf, one), one) for name, one in bounds.items()]
    return [one if one.ndim else float(one) for one in made]


def interval(lower: Any, upper: Any) -> tuple[float | Array, float | Array]:
    """Return the ends of intervals, infinite where there is none, that leave something between them."""
    lower, upper = open_ended(lower=numbers("lower", lower), upper=numbers("upper", upper))
    sizes = {end.size for end in (lower, upper) if isinstance(end, np.ndarray)}
    if len(sizes) > 1:
        raise ValueError(f"lower and upper have different lengths: {sorted(sizes)}")
    if np.any(np.asarray(lower) > upper):
        raise ValueError("lower must not be above upper; some entry is")
    if np.any(lower == np.inf) or np.any(upper == -np.inf):
        raise ValueError("lower must be below +inf and upper above -inf in every row; 1e20 or more counts as infinite")
    return lower, upper


def bounds_of(bounds: Any, size: int) -> tuple[Array, Array] | None:
    """Return lower and upper bounds on a vector of `size` entries, copied; None if no entry is bounded."""
    if not isinstance(bounds, (tuple, list)) or len(bounds) != 2:
        of = f" of {len(bounds)}" if isinstance(bounds, (tuple, list)) else ""
        raise TypeError(f"bounds must be a pair (lower, upper), found {type(bounds).__name__}{of}")
    given = {}
    for name, value, absent in zip(("lower", "upper"), bounds, (-math.inf, math.inf), strict=True):
        given[name] = numbers(f"the {name} bound", absent if value is None else value)
        if np.ndim(given[name]) and np.size(given[name]) != size:
            raise ValueError(f"the {name} bound has {np.size(given[name])} entries, expected {size}")
    lower, upper = (np.array(np.broadcast_to(side, size)) for side in open_ended(**given))
    if np.any(lower > upper):
        at = int(np.argmax(lower > upper))
        raise ValueError(f"lower bounds must not be above upper bounds; x[{at}] has {lower[at]:g} and {upper[at]:g}")
    if np.any(lower == math.inf) or np.any(upper == -math.inf):
        raise ValueError(
            "lower bounds must be below +inf and upper bounds above -inf in every entry; 1e20 or more is infinite"
        )
    return None if np.all(np.isinf(lower)) and np.all(np.isinf(upper)) else (lower, upper)


def number(name: str, value: Any, *, above: float = -math.inf, least: float = -math.inf) -> float:
    """Return a finite Python float greater than `above` and at least `least`."""
    try:
        if isinstance(value, (str, bool, np.bool_)):
            raise TypeError
        result = float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be a real number, found {value!r}") from None
    if not math.isfinite(result):
        raise ValueError(f"{name} must be finite, found {result}")
    if result <= above:
        raise ValueError(f"{name} must be > {above:g}, found {result:g}")
    if result < least:
        raise ValueError(f"{name} must be >= {least:g}, found {result:g}")
    return result


def curvature(name: str, value: Any) -> float:
    """Return a float that is 0, or positive with a square that neither overflows nor underflows."""
    result = number(name, value, least=0.0)
    if result and not 1 / LARGEST <= result <= LARGEST:
        raise ValueError(f"{name} must be between {1 / LARGEST:.0e} and {LARGEST:.0e}, found {result:.0e}; rescale f")
    return result


def curvatures(mu: Any, L: Any, *, owner: str = "") -> tuple[float, float | None]:
    """Return 0 ≤ mu ≤ L; L is None if it is unknown."""
    least, greatest = curvature(f"{owner}mu", mu), None if L is None else curvature(f"{owner}L", L)
    if greatest is not None and least > greatest:
        raise ValueError(f"{owner}L must be >= {owner}mu, found L = {greatest:g} and mu = {least:g}")
    return least, greatest


def whole(name: str, value: Any, *, least: int) -> int:
    """Return an int that is at least `least`."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{name} must be a whole number, found {value!r}")
    if value < least:
        raise ValueError(f"{name} must be >= {least}, found {value}")
    return int(value)


def consecutive(sizes: Iterable[int]) -> list[slice]:
    """Return slices of the given lengths, one after the other."""
    return [slice(a, b) for a, b in itertools.pairwise(itertools.accumulate(sizes, initial=0))]


def partition(name: str, blocks: int | list[slice], size: int) -> list[slice]:
    """Return consecutive slices that cover range(size), from their number or from the slices themselves."""
    if not isinstance(blocks, (list, tuple)):
        count = whole(name, blocks, least=1)
        if count > size:
            raise ValueError(f"{name} = {count} is more than the {size} entries to divide")
        return consecutive([len(piece) for piece in np.array_split(np.arange(size), count)])
    end = 0
    result = []
    for piece in blocks:
        if not isinstance(piece, slice) or piece.step not in (None, 1):
            raise TypeError(f"{name} must be a number or a list of slices without a step, found {piece!r}")
        start, stop, _ = piece.indices(size)
        if piece.stop is not None and piece.stop > size:
            raise ValueError(f"{name} must end with the {size} entries, but {piece} goes on")
        if start != end or stop <= start:
            raise ValueError(f"{name} must follow one another without gap or overlap; {piece} comes after {end}")
        result.append(slice(start, stop))
        end = stop
    if end != size:
        raise ValueError(f"{name} cover {end} of {size} entries; they must cover all")
    return result
