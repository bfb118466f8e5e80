"""Functions of whole columns in a module, as users have them: recipes are saved with their names."""

from __future__ import annotations

import pyarrow.compute as pc

import penstock as pk


@pk.batch(returns="int64")
def words(texts):
    """How many words."""
    return pc.list_value_length(pc.utf8_split_whitespace(pc.fill_null(texts, "")))


@pk.batch(returns="float64", columns="numpy")
def doubled(numbers):
    return numbers * 2


@pk.batch(returns="list<int64>")
def letters(texts):
    return [[ord(letter) for letter in text or ""] for text in texts.to_pylist()]


@pk.batch(returns="int64")
def too_few(texts):
    return [1]


@pk.batch(returns="int64")
def of_another_type(texts):
    return texts


def plain(texts):
    return texts
