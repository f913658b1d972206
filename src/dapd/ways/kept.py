"""What the solves of nearly the same problem leave for each other."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from dapd.newton.newton import Newton
    from dapd.presolve import Presolve
    from dapd.ways.blocks import BlockComparison


@dataclass
class Kept:
    """Set-ups; each knows what it was made for."""

    candidate: str = ""  # the name of the one to try first
    newton: Newton | None = None
    transform: tuple[object, Presolve] | None = None  # the steps that were tried, and what came of them
    blocks: BlockComparison | None = None
    checkpoints: dict[Path, str] = field(default_factory=dict)
