"""The random blocks: their exact values, and that they are as random as the theorems require."""

import itertools

import numpy as np

from dapd.methods.draw import draw, key_of


def splitmix64(word):
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    word = (word ^ (word >> 27)) * 0x94D049BB133111EB % 2**64
    return word ^ (word >> 31)


def test_draws_are_splitmix64_of_seed_and_iteration():
    for seed, k, purpose, count in itertools.product([0, 1, 2**70 + 5], [0, 1, 10**9], [0, 1, 2], [1, 7, 2000]):
        key = splitmix64(seed % 2**64)
        assert int(key_of(seed)) == key
        word = splitmix64((key + 0x9E3779B97F4A7C15 * (4 * k + purpose)) % 2**64)
        assert draw(key_of(seed), k, purpose, count) == ((word >> 32) * count) >> 32


def test_draws_are_uniform_and_independent():
    key, N, steps = key_of(3), 5, 100_000
    drawn = np.array([[draw(key, k, purpose, N) for purpose in range(3)] for k in range(steps)])
    cells = np.zeros((N, N, N))
    np.add.at(cells, tuple(drawn.T), 1)
    expected = steps / N**3
    # chi-square with 124 degrees of freedom: 5 standard deviations
    assert np.sum((cells - expected) ** 2 / expected) < 124 + 5 * np.sqrt(2 * 124)
    assert abs(np.corrcoef(drawn[1:, 0], drawn[:-1, 1])[0, 1]) < 5 / np.sqrt(steps)
