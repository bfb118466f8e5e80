"""How a tree is written: as one line, as an indented tree, as JSON, and as a fingerprint.

The line is the code that builds the tree (`penstock.expr.lines`). The JSON has a version and is read back with
every check that building it has: nothing in it is executed, and what is not understood is refused. The fingerprint
is a hash of the JSON in its one canonical form, so it is the same in every process and on every machine.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Any

from penstock.errors import ExpressionError
from penstock.expr.batch import BatchFunction, by_name
from penstock.expr.nodes import DEEPEST, Call, Column, Constant, Expression, Literal, call
from penstock.expr.ops import KNOWN
from penstock.expr.types import INT64, SCALARS, Type, int_range
from penstock.expr.vocabulary import Vocabulary

VERSION = 1


def text(expression: Expression) -> str:
    """The tree as one line of code.

    >>> from penstock.expr.build import col
    >>> print(text((col("a") + 1) * 2 > col("b").fill(0)))
    (col('a') + 1) * 2 > col('b').fill(0)
    """
    return repr(expression)


def tree(expression: Expression) -> str:
    """The tree, one node a line.

    >>> from penstock.expr.build import col
    >>> print(tree(col("a").clip(0, 1) + 1))
    add
      clip(low=0, high=1)
        col('a')
      lit(1)
    """
    lines: list[str] = []

    def visit(node: Expression, depth: int) -> None:
        if isinstance(node, Call):
            given = ", ".join(
                f"{param.name}={dict(node.params)[param.name]!r}"
                for param in KNOWN[node.op].params
                if param.name in dict(node.params)
            )
            lines.append("  " * depth + node.op + (f"({given})" if given else ""))
            for arg in node.of:
                visit(arg, depth + 1)
        else:
            lines.append("  " * depth + text(node))

    visit(expression, 0)
    return "\n".join(lines)


Large = dict[str, Vocabulary]
"""Vocabularies that do not stand in the JSON, by their digest."""
INLINE = 1000
"""Keys of a vocabulary that stand in the JSON; larger ones are kept elsewhere."""


def to_json(expression: Expression, large: Large | None = None) -> dict[str, Any]:
    """The tree as plain JSON values; vocabularies that are too large for that are put into `large`, if it is given.

    >>> from penstock.expr.build import col
    >>> to_json(col("a").clip(0, 1.5))["expression"]
    {'op': 'clip', 'args': [{'column': 'a'}], 'params': {'high': 1.5, 'low': 0}}
    """
    return {"penstock_expression": VERSION, "expression": _encode(expression, large, INLINE)}


def _encode(node: Expression, large: Large | None, inline: int) -> dict[str, Any]:
    if isinstance(node, Column):
        return {"column": node.name}
    if isinstance(node, Literal):
        return {"literal": _encode_value(node.value), "type": str(node.type)}
    assert isinstance(node, Call)
    found: dict[str, Any] = {"op": node.op, "args": [_encode(arg, large, inline) for arg in node.of]}
    if node.params:
        found["params"] = {
            name: _encode_keys(value, large, inline)
            if isinstance(value, Vocabulary)
            else _encode_value(value)
            for name, value in node.params
        }
    return found


def _encode_keys(vocabulary: Vocabulary, large: Large | None, inline: int) -> dict[str, Any]:
    if large is not None and len(vocabulary) > inline:
        large[vocabulary.digest] = vocabulary
        return {"vocabulary": vocabulary.digest}
    found: dict[str, Any] = {"keys": vocabulary.array.to_pylist()}
    if vocabulary.numbers is not None:
        found["numbers"] = vocabulary.numbers.to_pylist()
    return found


def _encode_value(value: Any) -> Any:
    """A constant in JSON: what JSON cannot say stands in a small object that names it."""
    if isinstance(value, tuple):
        return [_encode_value(one) for one in value]
    if isinstance(value, BatchFunction):
        return {"function": value.name, "returns": str(value.type), "columns": value.columns}
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": repr(value)}
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat() if value.tzinfo else value.isoformat()
    if isinstance(value, date):
        return value.isoformat()
    return value


def from_json(document: Any, large: Mapping[str, Vocabulary] | None = None) -> Expression:
    """The tree a JSON document describes, checked as if it were built anew; `large` has what is kept beside it.

    >>> from_json({"penstock_expression": 1, "expression": {"column": "a"}})
    col('a')
    """
    if not isinstance(document, Mapping) or "penstock_expression" not in document:
        raise ExpressionError(f"this is not an expression of Penstock: {_short(document)}")
    version = document["penstock_expression"]
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise ExpressionError(
            f"an expression's version is a whole number from 1 on, and this is {version!r}."
        )
    if version > VERSION:
        raise ExpressionError(
            f"this expression is written in version {version}, and this Penstock reads up to {VERSION}. "
            "Install a newer one."
        )
    _keys(document, {"penstock_expression", "expression"}, set())
    return _decode(document["expression"], 0, large or {})


def _decode(node: Any, depth: int, large: Mapping[str, Vocabulary]) -> Expression:
    if depth > DEEPEST:
        raise ExpressionError(f"the expression is more than {DEEPEST} operations deep.")
    if not isinstance(node, Mapping):
        raise ExpressionError(f"a node of an expression is an object, and this is {_short(node)}")
    if "column" in node:
        _keys(node, {"column"}, set())
        return Column(node["column"])
    if "literal" in node:
        _keys(node, {"literal", "type"}, set())
        return _decode_literal(node["literal"], node["type"])
    _keys(node, {"op", "args"}, {"params"})
    op, args, params = node["op"], node["args"], node.get("params", {})
    if not isinstance(op, str) or op not in KNOWN:
        raise ExpressionError(
            f"there is no operation {_short(op)}. A newer Penstock may have it; this one has {', '.join(KNOWN)}."
        )
    if not isinstance(args, list) or not isinstance(params, Mapping):
        raise ExpressionError(
            f"the arguments of {op} are a list and its parameters an object: {_short(node)}"
        )
    decoded = [_decode(arg, depth + 1, large) for arg in args]
    return call(op, *decoded, params={name: _decode_value(value, large) for name, value in params.items()})


def _decode_value(value: Any, large: Mapping[str, Vocabulary]) -> Any:
    if isinstance(value, list):
        return tuple(_decode_value(one, large) for one in value)
    if isinstance(value, Mapping) and "keys" in value:
        _keys(value, {"keys"}, {"numbers"})
        if not isinstance(value["keys"], list) or not isinstance(value.get("numbers", []), list):
            raise ExpressionError(f"the keys of a vocabulary are a list: {_short(value)}")
        return Vocabulary(value["keys"], value.get("numbers"))
    if isinstance(value, Mapping) and "function" in value:
        return _decode_function(value)
    if isinstance(value, Mapping) and "vocabulary" in value:
        if value["vocabulary"] not in large:
            raise ExpressionError(f"the vocabulary {_short(value['vocabulary'])} is not there.")
        return large[value["vocabulary"]]
    if isinstance(value, Mapping):
        if set(value) == {"float"} and value["float"] in ("nan", "inf", "-inf"):
            return float(value["float"])
        raise ExpressionError(f"this is not a value an expression can hold: {_short(value)}")
    return value


def _decode_function(value: Mapping[str, Any]) -> BatchFunction:
    _keys(value, {"function", "returns", "columns"}, set())
    if not isinstance(value["function"], str):
        raise ExpressionError(f"a function is saved by its name: {_short(value)}")
    found = by_name(value["function"])
    if found.key != (value["function"], value["returns"], value["columns"]):
        raise ExpressionError(
            f"the batch function {found.name} returns {found.type} out of {found.columns} columns now, and was saved "
            f"when it returned {value['returns']} out of {value['columns']} columns."
        )
    return found


def _decode_literal(value: Any, name: Any) -> Literal:
    kind = SCALARS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise ExpressionError(f"a constant's type is one of {', '.join(SCALARS)}, and this is {_short(name)}")
    return Literal(None if value is None else _constant(value, kind), kind)


def _constant(value: Any, kind: Type) -> Constant:
    value = _decode_value(value, {})
    if kind.kind == "bool" and isinstance(value, bool):
        return value
    if kind == INT64 and isinstance(value, int) and not isinstance(value, bool):
        low, high = int_range(kind)
        if low <= value <= high:
            return value
    if str(kind) == "float64" and isinstance(value, float):
        return value
    if kind.kind == "string" and isinstance(value, str):
        return value
    if kind.kind in ("date", "timestamp", "timestamp_ntz") and isinstance(value, str):
        try:
            found = (date if kind.kind == "date" else datetime).fromisoformat(value)
        except ValueError as error:
            raise ExpressionError(f"{value!r} is no {kind}: {error}") from None
        zoned = isinstance(found, datetime) and found.tzinfo is not None
        if zoned == (kind.kind == "timestamp"):
            return found
    raise ExpressionError(f"{_short(value)} is no constant of type {kind}.")


def _keys(node: Mapping[str, Any], needed: set[str], allowed: set[str]) -> None:
    missing, extra = needed - set(node), set(node) - needed - allowed
    if missing or extra:
        raise ExpressionError(
            f"a node should have {sorted(needed)}"
            + (f" and may have {sorted(allowed)}" if allowed else "")
            + f", and this one has {sorted(map(str, node))}: {_short(node)}"
        )


def _short(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 80 else shown[:77] + "..."


def fingerprint(expression: Expression) -> str:
    """A short hash of what the tree says, the same in every process.

    >>> from penstock.expr.build import col
    >>> fingerprint(col("a") + 1) == fingerprint(col("a") + 1) != fingerprint(col("a") + 1.0)
    True
    """
    document = {"penstock_expression": VERSION, "expression": _encode(expression, {}, inline=0)}
    canonical = json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()[:32]
