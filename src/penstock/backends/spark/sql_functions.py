"""An expression as temporary SQL functions: a Column for it needs no DataFrame, and each value is computed once.

A Column cannot say "let": a piece used ten times is there ten times, and what a lifted function uses ten times, ten
deep, no engine plans. A SQL function can: Spark computes its arguments first, in a projection of their own. So pieces
(`penstock.backends.spark.sql_pieces`) become arguments of a function that does the rest: f(x) is f_1(x, piece(x)), and
f_1(x, p) may be f_2(x, p, other(x, p)). Works over Spark Connect; other uses of the same function find them defined.
"""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from penstock.backends.base import compile
from penstock.backends.spark.columns import spelled
from penstock.backends.spark.sql_pieces import LAMBDA, PREFIX, Pieces, piece, pieces
from penstock.backends.spark.sql_text import quoted
from penstock.expr.check import Schema
from penstock.expr.nodes import Expression

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class SqlFunction:
    """A function as SQL has them: named arguments with types and perhaps defaults, and one expression."""

    name: str
    arguments: Mapping[str, str]
    returns: str
    body: str
    defaults: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        arguments = ", ".join(
            f"{quoted(name)} {of}" + (f" DEFAULT {self.defaults[name]}" if name in self.defaults else "")
            for name, of in self.arguments.items()
        )
        return (
            f"CREATE OR REPLACE TEMPORARY FUNCTION {quoted(self.name)}({arguments}) RETURNS {self.returns} "
            f"RETURN {self.body}"
        )


def sql_functions(
    expression: Expression, arguments: Schema, name: str | None = None
) -> tuple[SqlFunction, ...]:
    """The functions that compute an expression of arguments, each behind those it calls: the last is the one to call.

    Without a name they are named after what they do, so that equal expressions share them. The inner ones always are:
    `name` with a number behind it may be a function of the user's own.

    >>> from penstock.expr.build import col
    >>> from penstock.expr.types import INT64
    >>> print(*sql_functions(col("a") + 1, {"a": INT64}, name="next"))
    CREATE OR REPLACE TEMPORARY FUNCTION `next`(`a` bigint) RETURNS double RETURN ... ELSE (CAST(`a` AS double) + ...
    """
    from penstock.backends.spark import NAME, TABLE

    program = compile(NAME, TABLE, {"value": expression}, arguments)
    cut = pieces(program)
    types = {name: spelled(of) for name, of in arguments.items()}
    own = dict(types)
    if own:
        marked = {*cut.texts} if cut.written > LONG else {cut.result}
        cut = replace(
            cut,
            texts={
                place: _expensive(text, own) if place in marked else text for place, text in cut.texts.items()
            },
        )
    types |= {piece(place): spelled(program.steps[place].type) for place in cut.texts}
    returns = types[piece(cut.result)]
    title = PREFIX + hashlib.sha256(repr((cut.texts, own, returns)).encode()).hexdigest()[:16]
    found: list[SqlFunction] = []
    body = cut.texts[cut.result]
    for number, last in reversed(list(enumerate(cut.rounds, 1))):
        inner = f"{title}_{number}"
        passed = [*own, *map(piece, sorted(_later(cut, number)))]
        found.append(SqlFunction(inner, {each: types[each] for each in passed}, returns, body))
        made = {piece(place): cut.texts[place] for place in last}
        body = f"{quoted(inner)}({', '.join(made.get(each) or quoted(each) for each in passed)})"
    return (*found, SqlFunction(name or title, own, returns, body))


MOST_WRITTEN = 1_000_000
"""Letters, every piece written where it is used, up to which Spark is trusted to plan a function anywhere."""


def obstacle(expression: Expression, arguments: Schema) -> str | None:
    """Why an expression should not become SQL functions; None for nothing."""
    from penstock.backends.spark import NAME, TABLE

    cut = pieces(compile(NAME, TABLE, {"value": expression}, arguments))
    if cut.written > MOST_WRITTEN:
        return f"as a Spark expression it would be up to {cut.written:,} letters long; {MOST_WRITTEN:,} are the most"
    longest = len(cut.texts[cut.result])
    if longest > MOST_BOUND and LAMBDA.search(cut.texts[cut.result]):
        return f"it needs lambdas of Spark's, which would make it {longest:,} letters long; {MOST_BOUND:,} are the most"
    return None


MOST_BOUND = 50_000
"""Letters of a body in which a lambda stands as often as it is used: it cannot be computed before, and named."""
LONG = 5000
"""Letters from which on none of a function's pieces should be written into filters."""


def _expensive(text: str, arguments: Mapping[str, str]) -> str:
    """The same, in a form that Spark takes for expensive.

    Spark moves filters below projections, and writes into them what the projections compute. Then pieces are there as
    often as they are used after all; and a function that raises meets rows that another part of the same filter takes
    out first where it is Python. Spark does not do so with what it thinks is expensive, and among the few functions of
    which it does is array_join. Here it waits behind a condition that no value meets and no rule of Spark's folds.
    """
    name, of = next(iter(arguments.items()))
    argument = quoted(name)
    never = NEVER.get(of, "size(array({})) > 5").format(argument)
    return f"CASE WHEN {never} AND array_join(array(CAST({argument} AS STRING)), '') = '.' THEN NULL ELSE {text} END"


NEVER = {
    "double": "abs({}) < -1.0D",
    "bigint": "{} % 2L > 5L",
    "string": "octet_length({}) < 0",
    "boolean": "CAST({} AS INT) > 5",
}


def _later(cut: Pieces, number: int) -> set[int]:
    """The pieces of the first rounds that something behind them uses."""
    known = {place for one in cut.rounds[:number] for place in one}
    after = [place for one in cut.rounds[number:] for place in one]
    return {used for place in [*after, cut.result] for used in cut.needs(place)} & known


_defined: weakref.WeakKeyDictionary[SparkSession, set[str]] = weakref.WeakKeyDictionary()


def define(spark: SparkSession, functions: tuple[SqlFunction, ...], again: bool = False) -> str:
    """Make them known to a session; returns the name of the one to call. `again`: whatever is known already."""
    known = _defined.setdefault(spark, set())
    for each in functions:
        if again or str(each) not in known:
            spark.sql(str(each))
            known.add(str(each))
    return functions[-1].name
