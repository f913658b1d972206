"""Random blocks from (seed, iteration) alone, so that a run is the same however it is cut into chunks."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dapd.kernels.compiled import compiled

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
FIRST = np.uint64(0xBF58476D1CE4E5B9)
SECOND = np.uint64(0x94D049BB133111EB)

# what a draw of one iteration is for
DUAL, PRIMAL, COIN = 0, 1, 2
DRAWS = 4  # counters kept for each iteration


class Plan(NamedTuple):
    """What decides the draws and the refreshes of a run, beside the iteration."""

    key: np.uint64
    shared: bool  # j = i
    period: int  # iterations between exact refreshes of the maintained products
    rebase: int  # iterations between those of powers kept apart, where there are any


@compiled
def mix(word: np.uint64) -> np.uint64:
    """The finaliser of SplitMix64."""
    word = (word ^ (word >> np.uint64(30))) * FIRST
    word = (word ^ (word >> np.uint64(27))) * SECOND
    return word ^ (word >> np.uint64(31))


@compiled
def draw(key: np.uint64, iteration: int, purpose: int, count: int) -> int:
    """A block among 0, …, count − 1 (count < 2³²)."""
    word = mix(key + GOLDEN * np.uint64(DRAWS * iteration + purpose))
    return int(((word >> np.uint64(32)) * np.uint64(count)) >> np.uint64(32))


def key_of(seed: int) -> np.uint64:
    """The key of a seed; mixed, so that neighbouring seeds have nothing in common."""
    return np.uint64(mix(np.uint64(seed & 0xFFFFFFFFFFFFFFFF)))
