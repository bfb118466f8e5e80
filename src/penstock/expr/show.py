"""How a tree is written: as one line, as an indented tree, as JSON, and as a fingerprint.

The line is the code that builds the tree (`penstock.expr.lines`). The JSON has a version and is read back with
every check that building it has: nothing in it is executed, and what is not understood is refused. The fingerprint
is a hash of the JSON in its one canonical form, so it is the same in every process and on every machine. A piece that
several others use (lifted functions are full of them) is written once, under "shared", and named where it is used.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any

from penstock.errors import ExpressionError
from penstock.expr.batch import BatchFunction, by_name
from penstock.expr.nodes import DEEPEST, MOST_SHOWN, Call, Column, Constant, Expression, Literal, call
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
    if expression.written > MOST_SHOWN:
        return text(expression)

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
MOST_LISTS = 8
"""Of a parameter, in each other."""
INLINE = 1000
"""Keys of a vocabulary that stand in the JSON; larger ones are kept elsewhere."""


def to_json(expression: Expression, large: Large | None = None) -> dict[str, Any]:
    """The tree as plain JSON values; vocabularies that are too large for that are put into `large`, if it is given.

    >>> from penstock.expr.build import col
    >>> to_json(col("a").clip(0, 1.5))["expression"]
    {'op': 'clip', 'args': [{'column': 'a'}], 'params': {'high': 1.5, 'low': 0}}
    """
    (root,), shared = trees_to_json([expression], large)
    return {"penstock_expression": VERSION, "expression": root} | ({"shared": shared} if shared else {})


def trees_to_json(
    trees: Sequence[Expression], large: Large | None = None
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Several trees, and the pieces that are used more than once in them, each before the pieces that use it.

    >>> from penstock.expr.build import col
    >>> piece = col("a") + 1
    >>> trees_to_json([piece, piece * 2])[0]
    [{'shared': 0}, {'op': 'multiply', 'args': [{'shared': 0}, {'literal': 2, 'type': 'int64'}]}]
    """
    often = _shared(trees)
    shared: list[dict[str, Any]] = []
    places: dict[int, int] = {}

    def visit(node: Expression) -> dict[str, Any]:
        if id(node) in places:
            return {"shared": places[id(node)]}
        found = _encode(node, [visit(arg) for arg in node.args], large, INLINE)
        if id(node) not in often:
            return found
        shared.append(found)
        places[id(node)] = len(shared) - 1
        return {"shared": places[id(node)]}

    return list(map(visit, trees)), shared


def _shared(trees: Sequence[Expression]) -> set[int]:
    """The operations that are used more than once."""
    seen, often, waiting = set[int](), set[int](), list(trees)
    while waiting:
        node = waiting.pop()
        if id(node) not in seen:
            seen.add(id(node))
            waiting += node.args
        elif isinstance(node, Call):
            often.add(id(node))
    return often


def _encode(node: Expression, args: list[Any], large: Large | None, inline: int) -> dict[str, Any]:
    if isinstance(node, Column):
        return {"column": node.name}
    if isinstance(node, Literal):
        return {"literal": _encode_value(node.value), "type": str(node.type)}
    assert isinstance(node, Call)
    found: dict[str, Any] = {"op": node.op, "args": args}
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
    _keys(document, {"penstock_expression", "expression"}, {"shared"})
    return trees_from_json([document["expression"]], document.get("shared", []), large)[0]


def trees_from_json(
    trees: Sequence[Any], pieces: Any, large: Mapping[str, Vocabulary] | None = None
) -> list[Expression]:
    """What `trees_to_json` wrote, checked as if it were built anew."""
    if not isinstance(pieces, list):
        raise ExpressionError(f"the shared pieces of an expression are a list, and this is {_short(pieces)}")
    shared: list[Expression] = []
    for piece in pieces:
        shared.append(_decode(piece, 0, shared, large or {}))
    return [_decode(tree, 0, shared, large or {}) for tree in trees]


def _decode(node: Any, depth: int, shared: list[Expression], large: Mapping[str, Vocabulary]) -> Expression:
    if depth > DEEPEST:
        raise ExpressionError(f"the expression is more than {DEEPEST} operations deep.")
    if not isinstance(node, Mapping):
        raise ExpressionError(f"a node of an expression is an object, and this is {_short(node)}")
    if "column" in node:
        _keys(node, {"column"}, set())
        return Column(node["column"])
    if "shared" in node:
        _keys(node, {"shared"}, set())
        place = node["shared"]
        if not isinstance(place, int) or isinstance(place, bool) or not 0 <= place < len(shared):
            raise ExpressionError(f"there is no shared piece {_short(place)} before its use.")
        return shared[place]
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
    decoded = [_decode(arg, depth + 1, shared, large) for arg in args]
    return call(op, *decoded, params={name: _decode_value(value, large) for name, value in params.items()})


def _decode_value(value: Any, large: Mapping[str, Vocabulary], depth: int = 0) -> Any:
    if isinstance(value, list):
        if depth > MOST_LISTS:
            raise ExpressionError(f"a parameter has lists in lists in lists: {_short(value)}")
        return tuple(_decode_value(one, large, depth + 1) for one in value)
    if isinstance(value, Mapping) and "keys" in value:
        _keys(value, {"keys"}, {"numbers"})
        if not isinstance(value["keys"], list) or not isinstance(value.get("numbers", []), list):
            raise ExpressionError(f"the keys of a vocabulary are a list: {_short(value)}")
        return Vocabulary(value["keys"], value.get("numbers"))
    if isinstance(value, Mapping) and "function" in value:
        return _decode_function(value)
    if isinstance(value, Mapping) and "vocabulary" in value:
        if not isinstance(value["vocabulary"], str) or value["vocabulary"] not in large:
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
    if found.saved != (value["function"], value["returns"], value["columns"]):
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
    digests: dict[int, str] = {}

    def digest(node: Expression) -> str:
        if id(node) not in digests:
            # Of an argument its digest stands there: whether it is shared makes no difference.
            said = _encode(node, [digest(arg) for arg in node.args], {}, inline=0)
            canonical = json.dumps(said, sort_keys=True, separators=(",", ":"), allow_nan=False)
            digests[id(node)] = hashlib.sha256(f"{VERSION} {canonical}".encode()).hexdigest()[:32]
        return digests[id(node)]

    return digest(expression)
