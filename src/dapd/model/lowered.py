"""What a function says of itself to an engine: the lowered form."""

from __future__ import annotations

from typing import Any, NamedTuple

from dapd.arrays import Array


class Terms(NamedTuple):
    """Σᵢ ℓ(aᵢᵀx; dᵢ) + ½xᵀHx − cᵀx."""

    loss: str | None = None  # "square", "logistic", "pseudo-huber" or None
    A: Any = None  # an Operator; None: the identity
    d: Array | None = None  # targets or labels
    e: float = 0.0  # of the pseudo-Huber loss
    ridge: float = 0.0  # H += ridge·I
    H: Any = None  # None, a vector (the diagonal), a dense array or sparse CSR
    c: Array | None = None


def terms_of(f: Any) -> Terms | None:
    """The lowered form of f; None without one, or if a subclass has another gradient than the class that gives it."""
    for cls in type(f).__mro__:
        if "lowered" in vars(cls):
            return f.lowered()  # type: ignore[no-any-return]
        if "grad" in vars(cls) or "block_grad" in vars(cls):
            return None
    return None
