"""What the solves of nearly the same problem leave for each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from dapd.newton.newton import Newton
    from dapd.presolve import Presolve
    from dapd.ways.blocks import BlockComparison


class Kept:
    """Set-ups; each knows what it was made for."""

    def __init__(self) -> None:
        self.candidate = ""  # the name of the one to try first
        self.newton: Newton | None = None
        self.transform: tuple[object, Presolve] | None = None  # the steps that were tried, and what came of them
        self.blocks: BlockComparison | None = None
        self.checkpoints: dict[Path, str] = {}
