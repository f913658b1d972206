"""The smooth part f: `value`, `grad`, and its constants mu and L."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, aslinearoperator

from dapd.arguments import asked, consecutive, curvatures, named, number, real, vector
from dapd.arrays import Array, namespace
from dapd.functions.terms import Terms
from dapd.kinds.lowered import has_valid_lowering
from dapd.operators.base import Operator
from dapd.operators.columns import OnBlock
from dapd.operators.convert import as_operator, as_sparse
from dapd.operators.stacked import Identity
from dapd.spectrum.estimate import singular_range, symmetric_extremes
from dapd.spectrum.symmetric import check_symmetric, check_symmetric_products, ritz_range

ROUNDINGS = 16  # a least eigenvalue of H within so many roundings per row of zero counts as zero


class Function:
    """A convex f with μ‖d‖² ≤ (∇f(x + d) − ∇f(x))ᵀd ≤ L‖d‖². `size` is the number of its variables (None: any).

    mu = 0 is allowed, and L = None means that it is unknown; `method="auto"` needs neither. A subclass either gives
    `lowered`, from which all else comes, or `value` and `grad`.
    """

    mu: float = 0.0
    L: float | None = None
    size: int | None = None

    def lowered(self) -> Terms | list[Terms] | None:
        """The terms of f, or those of each block; None if only Python can evaluate the gradient."""
        return None

    def _terms(self, need: str) -> Terms:
        terms = self.lowered()
        if not isinstance(terms, Terms):
            raise TypeError(f"{type(self).__name__} has no {need}")
        return terms

    @property
    def work(self) -> int:
        """Multiplications with A and H in one gradient; 0 if unknown."""
        terms = self.lowered()
        return terms.work if isinstance(terms, Terms) else 0

    def value(self, x: Array) -> float:
        """f(x); nan if it is not known."""
        terms = self.lowered()
        return terms.value(x) if isinstance(terms, Terms) else np.nan

    def grad(self, x: Array) -> Array:
        """∇f(x)."""
        return self._terms("grad(x)").gradient(x)

    def block_grad(self, x: Array, block: slice) -> Array:
        """The block's part of ∇f(x)."""
        return self._terms("block_grad(x, block); give Smooth one, or use a full method").block_gradient(x, block)

    def recession(self, v: Array) -> float:
        """Lim f(x + tv)/t for t → ∞, inf if f curves along v; nan if it is not known."""
        terms = self.lowered() if has_valid_lowering(self, "grad") else None
        return terms.recession(v) if isinstance(terms, Terms) else np.nan

    def curved_maps(self, size: int) -> list[Operator]:
        """The maps that vanish along every direction in which f is linear at infinity, as far as they are known."""
        terms = self.lowered() if has_valid_lowering(self, "grad") else None
        return terms.curved_maps(size) if isinstance(terms, Terms) else []

    def split(self, blocks: list[slice]) -> list[Function] | None:
        """f_1, …, f_N with f(x) = Σ f_i(x_i) over these blocks; None if f is not known to separate."""
        return None

    def sized(self, variables: int) -> Function:
        """Return f for a vector of `variables` entries, or say why it does not fit."""
        if self.size is not None and self.size != variables:
            raise ValueError(f"f has {self.size} variables, but M has {variables} columns")
        return self

    def _constants(self, mu: Any, L: Any) -> None:
        self.mu, self.L = curvatures(mu, L)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(mu={self.mu:.3g}, L={'unknown' if self.L is None else f'{self.L:.3g}'})"


class Quadratic(Function):
    """½xᵀHx − cᵀx.

    Parameters
    ----------
    H : vector (the diagonal), dense or sparse symmetric matrix, LinearOperator (SciPy, PyLops), or None (zero)
        Positive semidefinite; kept without a copy if it is an array of floats already. Where mu and L are given, or H
        is a LinearOperator, only a few products look for a negative eigenvalue, so one among many may be missed.
    c : vector, optional
        Zero by default.
    mu, L : float, optional
        Bounds on the eigenvalues of H; computed by default. For a LinearOperator they cannot be: then mu = 0, and L is
        unknown.
    """

    @named
    def __init__(self, H: Any, c: Any = None, *, mu: float | None = None, L: float | None = None) -> None:
        if hasattr(H, "matvec"):
            H = aslinearoperator(H)
            self.H: Any = H
        elif H is None:
            if c is None:
                raise ValueError("H and c are both absent; give at least one of them")
            self.H = np.zeros(np.size(c))
        elif sp.issparse(H):
            self.H = as_sparse("H", H)
        else:
            self.H = real("H", H)
        shape = self.H.shape
        if not (len(shape) == 1 or (len(shape) == 2 and shape[0] == shape[1])):
            raise ValueError(f"H must be a vector (its diagonal) or a square matrix, found shape {shape}")
        self.size = shape[0]
        self.c = np.zeros(self.size) if c is None else vector("c", c, self.size)
        if isinstance(H, LinearOperator):
            self._constants(0.0 if mu is None else mu, L)
            self._glimpse()
            return
        if len(shape) == 2:
            check_symmetric(self.H, name="H")
        if mu is None or L is None:
            low, high = self._eigenvalues()
            mu, L = low if mu is None else mu, high if L is None else L
        else:
            self._glimpse()
        self._constants(mu, L)

    @classmethod
    def _part(cls, H: Any, c: Array, mu: float, L: float | None) -> Quadratic:
        """With numbers that were checked before."""
        made = cls.__new__(cls)
        made.H, made.c, made.size, made.mu, made.L = H, c, len(c), mu, L
        return made

    def with_c(self, c: Any) -> Quadratic:
        """½xᵀHx − cᵀx with another c."""
        other = copy(self)
        other.c = vector("c", c, self.size)
        return other

    def _eigenvalues(self) -> tuple[float, float]:
        """Bounds on the eigenvalues of H; raise if one of them is negative by more than rounding."""
        if self.H.ndim == 1:
            low, high = float(self.H.min()), float(self.H.max())
        else:
            low, high = symmetric_extremes(self.H, name="H")
        self._check_sign(low, high, self._rounding)
        return max(low, 0.0), max(high, 0.0)

    @property
    def _rounding(self) -> float:
        """The part of the greatest eigenvalue of a stored H that may be rounding."""
        return float(ROUNDINGS * self.H.shape[0] * np.finfo(self.H.dtype).eps)

    def _glimpse(self) -> None:
        """Raise if the diagonal, or a few products with H, show that it is not positive semidefinite."""
        if not isinstance(self.H, LinearOperator):
            if self.H.ndim == 1:
                self._check_sign(float(self.H.min()), float(self.H.max()), self._rounding)
            else:
                self._check_sign(*ritz_range(lambda v: self.H @ v, self.H.shape[0], name="H"), self._rounding)
            return
        single = self.H.dtype is not None and np.dtype(self.H.dtype) == np.float32
        rounding = float(np.finfo(np.float32 if single else np.float64).eps) ** 0.5  # products may be inexact
        check_symmetric_products(self._product, self.H.shape[0], rounding=rounding, name="H")
        self._check_sign(*ritz_range(self._product, self.H.shape[0], name="H"), rounding)

    def _product(self, v: Array) -> Array:
        """Hv of a LinearOperator, in float64."""
        product = np.asarray(asked("H.matvec", self.H.matvec, v))
        if product.dtype.kind != "f" or product.size != v.size:
            raise TypeError(f"H must give {v.size} real numbers, found shape {product.shape} of {product.dtype}")
        return product.reshape(v.size).astype(np.float64)

    @staticmethod
    def _check_sign(low: float, high: float, rounding: float) -> None:
        if low < -rounding * max(abs(low), abs(high)):
            raise ValueError(
                f"f is not convex: H has the eigenvalue {low:.3g}, or one below it, and it must be positive "
                "semidefinite; check its sign"
            )

    def split(self, blocks: list[slice]) -> list[Function] | None:
        """One quadratic per block if H is block-diagonal."""
        if isinstance(self.H, LinearOperator) or not (self.H.ndim == 1 or _block_diagonal(self.H, blocks)):
            return None
        parts = [self.H[b] if self.H.ndim == 1 else self.H[b, b] for b in blocks]
        return [Quadratic._part(H, self.c[b], self.mu, self.L) for H, b in zip(parts, blocks, strict=True)]

    def lowered(self) -> Terms:
        """H and c."""
        return Terms(H=self.H, c=self.c)


class PseudoHuber(Function):
    """Σ √(x² + e²) + (e/2)x², a smooth strongly convex stand-in for ‖x‖₁; mu = e, L = 1/e + e."""

    @named
    def __init__(self, e: float) -> None:
        self.e = number("e", e, above=0.0)
        self._constants(self.e, 1 / self.e + self.e)

    @classmethod
    @named
    def with_condition(cls, kappa: float) -> PseudoHuber:
        """The function with L/mu = kappa."""
        return cls((number("kappa", kappa, above=1.0) - 1) ** -0.5)

    def split(self, blocks: list[slice]) -> list[Function]:
        """The same function on each block."""
        return [self] * len(blocks)

    def hessian_diagonal(self, x: Array) -> Array:
        """e²/(x² + e²)^{3/2} + e, entry by entry."""
        return self.lowered().curvatures(x) + self.e

    def lowered(self) -> Terms:
        """A loss of x itself, and a ridge."""
        return Terms("pseudo-huber", e=self.e, ridge=self.e)


class LeastSquares(Function):
    """½‖Ax − d‖² + (ridge/2)‖x‖²; A of any kind that a coupling may have."""

    @named
    def __init__(self, A: Any, d: Any, ridge: float = 0.0, *, mu: float | None = None, L: float | None = None) -> None:
        self.A: Operator = as_operator(A, name="A")
        rows, self.size = self.A.shape
        self.d = vector("d", d, rows)
        self.ridge = number("ridge", ridge, least=0.0)
        if L is None or (mu is None and self.ridge == 0.0):
            least, greatest = singular_range(self.A, name="A")
            L = greatest**2 + self.ridge if L is None else L
            mu = least**2 + self.ridge if mu is None and rows >= self.size else mu
        self._constants(self.ridge if mu is None else mu, L)

    def lowered(self) -> Terms:
        """A loss of Ax, and a ridge."""
        plain = isinstance(self.A, Identity) and self.A.shape == (self.size, self.size)
        return Terms("square", None if plain else self.A, self.d, ridge=self.ridge)


class Logistic(Function):
    """Σ log(1 + exp(−labelᵢ·aᵢᵀx)) + (ridge/2)‖x‖², labels ±1; mu = ridge."""

    @named
    def __init__(self, A: Any, labels: Any, ridge: float = 0.0, *, L: float | None = None) -> None:
        self.A: Operator = as_operator(A, name="A")
        rows, self.size = self.A.shape
        self.labels = vector("labels", labels, rows)
        if not np.all(np.abs(self.labels) == 1):
            raise ValueError(f"labels must be +1 or -1, found {np.unique(self.labels)[:5]}")
        self.ridge = number("ridge", ridge, least=0.0)
        if L is None:
            L = singular_range(self.A, name="A")[1] ** 2 / 4 + self.ridge
        self._constants(self.ridge, L)

    def lowered(self) -> Terms:
        """A loss of Ax, and a ridge."""
        return Terms("logistic", self.A, self.labels, ridge=self.ridge)


class Separable(Function):
    """Σ f_i(x_i), x cut into consecutive blocks, one function each.

    `sizes` gives the length of each block if a function does not know it (PseudoHuber); a Problem with
    `blocks=` fills them in.
    """

    @named
    def __init__(self, functions: Sequence[Function], *, sizes: Sequence[int] | None = None) -> None:
        if not functions:
            raise ValueError("functions is empty; give one function per block")
        for f in functions:
            if not isinstance(f, Function):
                raise TypeError(f"functions must be dapd functions, found {type(f).__name__}; wrap it in dapd.Smooth")
        if sizes is not None and len(sizes) != len(functions):
            raise ValueError(f"sizes has {len(sizes)} entries for {len(functions)} functions")
        if sizes is not None:
            functions = [f.sized(n) for f, n in zip(functions, sizes, strict=True)]
        self.functions = list(functions)
        known = list(sizes) if sizes is not None else [f.size for f in functions if f.size is not None]
        self.blocks = consecutive(known) if len(known) == len(functions) else None
        self.size = None if self.blocks is None else self.blocks[-1].stop
        greatest = [f.L for f in functions if f.L is not None]
        self._constants(min(f.mu for f in functions), max(greatest) if len(greatest) == len(functions) else None)

    def sized(self, variables: int) -> Function:
        """Check the blocks too."""
        self._known_blocks()
        return super().sized(variables)

    def _known_blocks(self) -> list[slice]:
        if self.blocks is None:
            raise ValueError("f has blocks of unknown size: give Separable sizes=[...], or the Problem blocks=")
        return self.blocks

    def _pieces(self, x: Array) -> list[tuple[Function, Array]]:
        return [(f, x[block]) for f, block in zip(self.functions, self._known_blocks(), strict=True)]

    @property
    def work(self) -> int:
        """That of all blocks."""
        return sum(f.work for f in self.functions)

    def value(self, x: Array) -> float:
        """Σ f_i(x_i)."""
        return sum(f.value(piece) for f, piece in self._pieces(x))

    def recession(self, v: Array) -> float:
        """Σ of the blocks'."""
        return sum(f.recession(piece) for f, piece in self._pieces(v))

    def curved_maps(self, size: int) -> list[Operator]:
        """Those of the blocks, each on its own variables."""
        return [
            OnBlock(curved, block, size)
            for f, block in zip(self.functions, self._known_blocks(), strict=True)
            for curved in f.curved_maps(block.stop - block.start)
        ]

    def grad(self, x: Array) -> Array:
        """The blocks' gradients, joined."""
        return namespace(x).concat([f.grad(piece) for f, piece in self._pieces(x)])

    def split(self, blocks: list[slice]) -> list[Function] | None:
        """The functions themselves, if the blocks are theirs."""
        return list(self.functions) if blocks == self.blocks else None

    def block_grad(self, x: Array, block: slice) -> Array:
        """The gradient of the function of that block."""
        return self.functions[self._known_blocks().index(block)].grad(x[block])

    def lowered(self) -> list[Terms] | None:
        """The terms of each block."""
        parts = [f.lowered() if has_valid_lowering(f, "grad") else None for f in self.functions]
        found = [part for part in parts if isinstance(part, Terms)]
        return found if len(found) == len(parts) else None


class Smooth(Function):
    """Any other convex f, from `value(x)`, `grad(x)` and its constants, if they are known.

    `grad(x)` gets a read-only x and returns a new real array of the same shape; so does `block_grad(x, block)`, the
    entries of ∇f(x) in a slice, which the block-coordinate method for a nonseparable f asks for.
    """

    @named
    def __init__(
        self,
        value: Callable[[Array], float],
        grad: Callable[[Array], Array],
        mu: float = 0.0,
        L: float | None = None,
        *,
        size: int | None = None,
        block_grad: Callable[[Array, slice], Array] | None = None,
    ) -> None:
        for name, call in (("value", value), ("grad", grad), ("block_grad", block_grad or grad)):
            if not callable(call):
                raise TypeError(f"{name} must be callable, found {type(call).__name__}")
        self._value, self._grad, self._block_grad = value, grad, block_grad
        self.size = size
        self._constants(mu, L)

    @classmethod
    @named
    def from_jax(
        cls, fun: Callable[[Any], Any], mu: float = 0.0, L: float | None = None, *, size: int | None = None
    ) -> Smooth:
        """F from one function of a JAX array that returns a number; its gradient is computed by `jax.grad`.

        The jax engine compiles it into its steps, and the python engine calls it, in float64 or in the precision of x.
        """
        return SmoothFromJax(fun, mu, L, size=size)

    def value(self, x: Array) -> float:
        """The caller's."""
        return self._value(x)

    def grad(self, x: Array) -> Array:
        """The caller's."""
        return self._grad(x)

    def block_grad(self, x: Array, block: slice) -> Array:
        """The caller's."""
        if self._block_grad is None:
            raise TypeError("Smooth has no block_grad(x, block); give it one, or use a full method")
        return self._block_grad(x, block)


class SmoothFromJax(Smooth):
    """A function that is written in JAX."""

    def __init__(self, fun: Callable[[Any], Any], mu: float, L: float | None, *, size: int | None) -> None:
        if not callable(fun):
            raise TypeError(f"fun must be callable, found {type(fun).__name__}")
        try:
            import jax
        except ImportError:
            raise ImportError("Smooth.from_jax needs JAX, which is not installed; pip install jax") from None
        self.fun, gradient = fun, jax.grad(fun)
        compiled = jax.jit(jax.value_and_grad(fun))

        def evaluated(x: Array) -> Any:
            with jax.enable_x64(True):
                return compiled(x)

        def grad(x: Array) -> Array:
            return np.asarray(evaluated(x)[1]) if isinstance(x, np.ndarray) else gradient(x)

        super().__init__(lambda x: float(evaluated(x)[0]), grad, mu, L, size=size)


def _block_diagonal(H: Any, blocks: list[slice]) -> bool:
    """Whether a dense or sparse H couples no two blocks."""
    if sp.issparse(H):
        owner = np.repeat(np.arange(len(blocks)), [b.stop - b.start for b in blocks])
        entries = H.tocoo()
        return bool(np.all(owner[entries.row] == owner[entries.col]))
    return not any(H[b, : b.start].any() or H[b, b.stop :].any() for b in blocks)
