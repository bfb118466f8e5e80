"""A tree against columns: the type of its result, or an error that says what is wrong and where.

The rules themselves stand in the table (`penstock.expr.ops`). Engines may assume a checked tree and contain no
validation of their own.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from penstock.errors import ExpressionError, listed
from penstock.expr.nodes import Call, Column, Expression, Literal
from penstock.expr.ops import KNOWN
from penstock.expr.types import Type

Schema = Mapping[str, Type]


def type_of(expression: Expression, schema: Schema) -> Type:
    """The type of an expression's result.

    >>> from penstock.expr.build import col
    >>> from penstock.expr.types import INT32
    >>> type_of(col("age").log1p(), {"age": INT32})
    float64
    >>> type_of(col("agee").log1p(), {"age": INT32})
    Traceback (most recent call last):
        ...
    penstock.errors.ExpressionError: there is no column 'agee'. Close to it: 'age'. The columns are 'age'.
    """
    known: dict[int, Type] = {}

    def visit(node: Expression) -> Type:
        if id(node) not in known:
            known[id(node)] = node_type(node, [visit(arg) for arg in node.args], schema)
        return known[id(node)]

    return visit(expression)


def node_type(node: Expression, args: list[Type], schema: Schema) -> Type:
    """The type of one node whose arguments' types are known."""
    if isinstance(node, Literal):
        return node.type
    if isinstance(node, Column):
        if node.name not in schema:
            raise ExpressionError(no_column(node.name, schema))
        return schema[node.name]
    assert isinstance(node, Call)
    try:
        return KNOWN[node.op].result(args, dict(node.params))
    except ExpressionError as error:
        raise ExpressionError(f"in {node!r}: {error}") from None


def no_column(name: str, schema: Mapping[str, object]) -> str:
    """What to say of a column that is not there."""
    close = difflib.get_close_matches(name, schema, n=3, cutoff=0.6)
    close += [one for one in schema if one.lower() == name.lower() and one not in close]
    hint = f" Close to it: {listed(close)}." if close else ""
    return f"there is no column {name!r}.{hint} The columns are {listed(list(schema))}."


def two_columns(name: str) -> str:
    """What to say of a column that is there twice."""
    return f"there are two columns {name!r}, and which of them is meant is not known. Rename or drop one of them."


def columns_of(expression: Expression) -> list[str]:
    """The columns a tree needs, in the order in which they first appear.

    >>> from penstock.expr.build import col
    >>> columns_of(col("b") + col("a") * col("b"))
    ['b', 'a']
    """
    found: dict[str, None] = {}
    seen: set[int] = set()

    def visit(node: Expression) -> None:
        if id(node) in seen:
            return
        seen.add(id(node))
        if isinstance(node, Column):
            found[node.name] = None
        for arg in node.args:
            visit(arg)

    visit(expression)
    return list(found)
