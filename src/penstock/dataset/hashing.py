"""Numbers that look random and always come out the same: what every order of rows is made of.

Seeds are hashed as tuples (`hashed`), never added: seed 1 of epoch 2 is not seed 2 of epoch 1. Used by `spill`, which
shuffles rows on their way to shards, and by `penstock.feed.plan.order`.
"""

from __future__ import annotations

import numpy as np

from penstock.dtypes import Array


def mix(numbers: Array, salt: Array | int) -> Array:
    """A 64-bit hash of each number with a salt below 2**64 (splitmix64's finaliser).

    >>> len(set(mix(np.arange(1000), 7).tolist()))
    1000
    """
    with np.errstate(over="ignore"):
        x = numbers.astype(np.uint64) ^ (np.asarray(salt, np.uint64) * np.uint64(0x9E3779B97F4A7C15))
        x = x + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return np.asarray(x ^ (x >> np.uint64(31)))


def hashed(*parts: int) -> int:
    """One 64-bit number for a tuple of whole numbers of any size.

    >>> hashed(1, 2) != hashed(2, 1)
    True
    """
    found = np.zeros(1, np.uint64)
    for part in parts:
        found = mix(np.array([part % (1 << 64)], np.uint64), found)
    return int(found[0])
