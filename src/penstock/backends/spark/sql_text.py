"""A Column as a line of SQL that means exactly the same.

Spark Connect describes a Column by a message that goes to the server; it is a public format, and complete. Here it is
written as SQL instead, for what SQL has and Columns have not: functions that bind a value once and use it many times
(`penstock.backends.spark.sql_functions`).
"""

from __future__ import annotations

import math
import re
from typing import Any

INFIX = {
    "+": "+",
    "-": "-",
    "*": "*",
    "/": "/",
    "%": "%",
    "==": "=",
    "=": "=",
    "!=": "!=",
    "<": "<",
    "<=": "<=",
} | {
    ">": ">",
    ">=": ">=",
    "<=>": "<=>",
    "and": "AND",
    "or": "OR",
    "&": "&",
    "|": "|",
    "^": "^",
}
PLAIN_TEXT = re.compile(r"[A-Za-z0-9 _.,:;()<>=+*/%&|!?@#^~\[\]{}-]*")
TRY = 3
"""How Connect numbers the mode of try_cast."""


def sql_of(column: Any) -> str:
    """The SQL of a Column made while `functions.written` was on.

    >>> from penstock.backends.spark.functions import F, written
    >>> with written():
    ...     print(sql_of(F.when(F.col("a") > 1.5, F.lower("b")).otherwise("it's")))
    CASE WHEN (`a` > 1.5D) THEN lower(`b`) ELSE CAST(X'69742773' AS STRING) END
    """
    return _text(column.to_plan(None))


def quoted(name: str) -> str:
    """A name in SQL, whatever characters it has."""
    return "`" + name.replace("`", "``") + "`"


def _text(node: Any) -> str:
    kind = node.WhichOneof("expr_type")
    of = getattr(node, kind)
    if kind == "literal":
        return _literal(of)
    if kind == "unresolved_attribute":
        name: str = of.unparsed_identifier
        return name if name.startswith("`") else quoted(name)
    if kind == "unresolved_function":
        return _call(of.function_name, [_text(each) for each in of.arguments])
    if kind == "call_function":
        return _call(of.function_name, [_text(each) for each in of.arguments])
    if kind == "cast" and of.WhichOneof("cast_to_type") == "type_str":
        return f"{'TRY_CAST' if of.eval_mode == TRY else 'CAST'}({_text(of.expr)} AS {of.type_str})"
    if kind == "unresolved_named_lambda_variable":
        return ".".join(map(quoted, of.name_parts))
    if kind == "lambda_function":
        names = [quoted(each.name_parts[0]) for each in of.arguments]
        # SQL takes parentheses around several names, and not around one.
        return f"{names[0] if len(names) == 1 else '(' + ', '.join(names) + ')'} -> {_text(of.function)}"
    if kind == "expression_string":
        written: str = of.expression
        return f"({written})"
    if kind == "unresolved_extract_value":
        return f"{_text(of.child)}[{_text(of.extraction)}]"
    raise ValueError(f"{kind} is not written as SQL: {str(node)[:200]}")


def _call(name: str, args: list[str]) -> str:
    if name in INFIX and len(args) == 2:
        return f"({args[0]} {INFIX[name]} {args[1]})"
    if name == "when":
        pairs = " ".join(f"WHEN {args[i]} THEN {args[i + 1]}" for i in range(0, len(args) - 1, 2))
        rest = f" ELSE {args[-1]}" if len(args) % 2 else ""
        return f"CASE {pairs}{rest} END"
    if name in ("not", "!"):
        return f"(NOT {args[0]})"
    if name == "in":
        return f"({args[0]} IN ({', '.join(args[1:])}))"
    return f"{name}({', '.join(args)})"


def _literal(of: Any) -> str:
    kind = of.WhichOneof("literal_type")
    value = getattr(of, kind)
    if kind == "null":
        return "NULL"
    if kind == "boolean":
        return "TRUE" if value else "FALSE"
    if kind in ("integer", "long"):
        # The least number of a type has no literal: its minus is an operator, and what stands behind does not fit.
        if value in (-(1 << 31), -(1 << 63)):
            return f"CAST('{value}' AS {'INT' if kind == 'integer' else 'BIGINT'})"
        return f"{value}" if kind == "integer" else f"{value}L"
    if kind == "double":
        return f"{value!r}D" if math.isfinite(value) else f"CAST('{value!r}' AS DOUBLE)"
    if kind == "string":
        return string(value)
    raise ValueError(f"a constant of type {kind} is not written as SQL: {str(of)[:200]}")


def string(value: str) -> str:
    """A text in SQL: as it is, or where a setting of the parser could make another one of it, by its bytes."""
    if PLAIN_TEXT.fullmatch(value):
        return f"'{value}'"
    return f"CAST(X'{value.encode().hex()}' AS STRING)"
