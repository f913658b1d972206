"""Random blocks that depend only on the seed and the iteration, so chunks of any length give the same run."""

from __future__ import annotations

from typing import NamedTuple

WORD = 0xFFFFFFFFFFFFFFFF  # arithmetic is modulo 2⁶⁴
GOLDEN = 0x9E3779B97F4A7C15
FIRST = 0xBF58476D1CE4E5B9
SECOND = 0x94D049BB133111EB

# the purpose of a draw within an iteration
DUAL, PRIMAL, COIN = 0, 1, 2
DRAWS = 4  # counters per iteration


class Plan(NamedTuple):
    """What determines the draws and the refreshes of a run, besides the iteration."""

    key: int
    shared: bool  # j = i
    period: int  # iterations between two recomputations of the updated products
    rebase: int  # iterations after which a power that is stored separately is multiplied in, if there is one


def mix(word: int) -> int:
    """The finaliser of SplitMix64."""
    word = (word ^ (word >> 30)) * FIRST & WORD
    word = (word ^ (word >> 27)) * SECOND & WORD
    return word ^ (word >> 31)


def draw(key: int, iteration: int, purpose: int, count: int) -> int:
    """A random block from 0, …, count − 1 (count < 2³²)."""
    word = mix((key + GOLDEN * (DRAWS * iteration + purpose)) & WORD)
    return ((word >> 32) * count) >> 32


def key_of(seed: int) -> int:
    """The key of a seed; mixed, so neighbouring seeds have nothing in common."""
    return mix(seed & WORD)
