"""Columns handed to a DataFrame in one call each, whatever they are made of.

Classic Spark makes a Column by calls over a socket, several for every function in it, and a recipe of forty columns has
a thousand functions: seconds in which nothing is computed. So kernels make Columns that need no Java
(`penstock.backends.spark.functions.written`), and what they made goes over as one line of SQL
(`penstock.backends.spark.sql_text`). Over Spark Connect Columns are plain Python objects already. What stands deep in
brackets Spark's parser reads slowly, seconds where calls take a tenth; and some names it takes for something else. That
is left to the calls (`NotWritten`).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

from pyspark.sql import Column, DataFrame

from penstock.backends.spark.functions import written
from penstock.backends.spark.sql_text import sql_of

Handed = Callable[[Column], Column]
"""A Column as kernels made it -> one that the DataFrame takes."""
DEEPEST = 12
"""Brackets in each other. Recipes have up to ten; lifted functions, for one of which the parser took 15 s, twenty."""
VARIABLE = "${"
"""Where this stands in SQL, a name in backticks included, Spark puts a variable's value. Texts are written without."""
PATTERNS = "spark.sql.parser.quotedRegexColumnNames"
"""A setting of the user's: names in backticks that are no plain words are patterns, for columns of any such name."""
NAMES = re.compile(r"'[^']*'|`((?:[^`]|``)*)`")
PLAIN_NAME = re.compile(r"[A-Za-z0-9_]+")
BRACKETS = re.compile(r"'[^']*'|`[^`]*`|\(|\)|\bCASE\b|\bEND\b")


class NotWritten(Exception):
    """A Column that SQL's parser would read slowly, or as something else; make it without writing."""


def is_classic(df: DataFrame) -> bool:
    """Whether a DataFrame's Columns live in a JVM on the other side of a socket."""
    return not type(df).__module__.startswith("pyspark.sql.connect")


@contextmanager
def handing(df: DataFrame, writable: bool = True) -> Iterator[Handed]:
    """While the block runs kernels make Columns at little cost; what is yielded makes them the DataFrame's own.

    Not `writable` is what calls Python functions, which SQL does not know. `NotWritten` says that it should not have
    been.
    """
    # What describes Columns without Java comes with Spark Connect's own requirements.
    if not (writable and is_classic(df) and find_spec("grpc") and find_spec("google.protobuf")):
        yield _as_it_is
        return
    patterns = functools.cache(lambda: str(df.sparkSession.conf.get(PATTERNS, "false")).lower() == "true")
    with written():
        yield functools.partial(_by_sql, patterns)


def _as_it_is(column: Column) -> Column:
    return column


def _by_sql(patterns: Callable[[], bool], column: Any) -> Column:
    from pyspark.sql import functions

    text = sql_of(column)
    if nesting(text) > DEEPEST or VARIABLE in text or (has_odd_names(text) and patterns()):
        raise NotWritten
    return functions.expr(text)


def has_odd_names(sql: str) -> bool:
    """Whether a name between backticks has other characters than letters, digits and underscores.

    >>> has_odd_names("f(`a_1`, 'not `a b`')"), has_odd_names("f(`a b`)"), has_odd_names("f(`a``b`)")
    (False, True, True)
    """
    return any(found[1] is not None and not PLAIN_NAME.fullmatch(found[1]) for found in NAMES.finditer(sql))


def nesting(sql: str) -> int:
    """How many brackets, and CASEs, stand in each other.

    >>> nesting("f(CASE WHEN (`a` > 1) THEN '((((' END) + g(h(2))")
    3
    """
    now = deepest = 0
    for found in BRACKETS.finditer(sql):
        if found[0] in ("(", "CASE"):
            now += 1
            deepest = max(deepest, now)
        elif found[0] in (")", "END"):
            now -= 1
    return deepest
