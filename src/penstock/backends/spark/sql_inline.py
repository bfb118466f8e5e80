"""A short expression as one plain Column, which works wherever Spark takes a Column.

SQL functions (`penstock.backends.spark.sql_functions`) bind values once, and so carry functions of any length; but
Spark refuses them in sorts, in windows, around aggregates and in other sessions. What is short with every piece
written where it is used needs none of that.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column

from penstock.backends.base import compile
from penstock.backends.spark.sql_functions import LONG
from penstock.backends.spark.sql_pieces import NAME, Pieces, pieces
from penstock.backends.spark.sql_text import quoted
from penstock.expr.check import Schema
from penstock.expr.nodes import Column as NamedColumn
from penstock.expr.nodes import Expression

CHECKS = 12
"""How often the checks around a call (`penstock.backends.spark.arguments`) use an argument, at most."""


def inlined(
    expression: Expression, arguments: Schema, given: Mapping[str, Column], letters: Mapping[str, int]
) -> Column | None:
    """The expression of these Columns; None where it would be long. `letters`: how long each of them is."""
    from penstock.backends.spark import NAME as ENGINE
    from penstock.backends.spark import TABLE, column_of

    program = compile(ENGINE, TABLE, {"value": expression}, arguments)
    cut = pieces(program)
    if cut.written + sum((_uses(cut, name) + CHECKS) * letters[name] for name in arguments) > LONG:
        return None

    columns: list[Column] = []
    for step in program.steps:
        node = step.node
        columns.append(given[node.name] if isinstance(node, NamedColumn) else column_of(step, columns, None))
    return columns[program.outputs["value"]]


def _uses(cut: Pieces, name: str) -> int:
    """How often an argument stands in the result with every piece written where it is used."""
    found: dict[int, int] = {}
    for place in sorted(cut.texts):  # who uses a piece stands behind it
        own = cut.texts[place].count(quoted(name))
        found[place] = own + sum(found[int(used)] for used in NAME.findall(cut.texts[place]))
    return found[cut.result]
