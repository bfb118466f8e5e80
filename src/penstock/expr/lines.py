"""A tree as one line of code: the code that builds it.

`penstock.expr.nodes` uses it for `repr`, so error messages show what users wrote. `penstock.expr.show` has the other
forms.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from penstock.expr.ops import KNOWN, LEARNED

INFIX = {
    "or": ("|", 1),
    "and": ("&", 2),
    "eq": ("==", 0),
    "ne": ("!=", 0),
    "lt": ("<", 0),
    "le": ("<=", 0),
    "gt": (">", 0),
    "ge": (">=", 0),
    "add": ("+", 4),
    "subtract": ("-", 4),
    "multiply": ("*", 5),
    "divide": ("/", 5),
    "pow": ("**", 7),
}
"""Operators with how tightly they bind. Comparisons bind least in Python and are not chained here."""
PREFIX = {"negate": "-", "not": "~"}
TIGHTEST = 9
FUNCTIONS = ("minimum", "maximum", "coalesce")
SPELLED = {"seconds_between": "seconds_since", "fill_learned": "fill", "one_hot_learned": "one_hot"}


class Node(Protocol):
    """What is needed of a tree's node here."""

    @property
    def constant(self) -> bool:
        """Whether it is a constant."""

    def line(self, bare: bool = False) -> tuple[str, int]:
        """The text, and how tightly it binds. `bare`: a constant may stand without lit()."""


def call_line(op: str, args: Sequence[Node], params: Mapping[str, Any]) -> tuple[str, int]:
    """The text of an operation, and how tightly it binds."""
    if op in INFIX:
        sign, binds = INFIX[op]
        left, right = args
        both = left.constant and right.constant
        # A comparison with a plain value on its left would be turned around by Python.
        first = _inside(left, binds + (op == "pow" or binds == 0), bare=binds > 0 and not both)
        return f"{first} {sign} {_inside(right, binds + (op != 'pow'), bare=not both)}", binds
    if op in PREFIX:
        return PREFIX[op] + _inside(args[0], 6), 6
    if op == "when":
        return _when(args), TIGHTEST
    if op == "batch":
        return f"{params['function']!r}({', '.join(arg.line()[0] for arg in args)})", TIGHTEST
    if op in FUNCTIONS or op == "stack":
        inside = [arg.line(bare=True)[0] for arg in args]
        inside += [f"dtype={params['dtype']!r}"] if params.get("dtype", "float64") != "float64" else []
        return f"{op}({', '.join(inside)})", TIGHTEST
    shown = [param for param in KNOWN[op].params if param.name in params]
    given = ", ".join(
        f"{param.name}={params[param.name]!r}"
        if op in LEARNED and not param.required
        else repr(params[param.name])
        for param in shown
    )
    if op == "hash" and len(args) > 1:
        return f"cross({', '.join(arg.line(bare=True)[0] for arg in args)}).hash({given})", TIGHTEST
    others = ", ".join(arg.line()[0] for arg in args[1:])
    between = ", ".join(part for part in (others, given) if part)
    return f"{_inside(args[0], TIGHTEST)}.{SPELLED.get(op, op)}({between})", TIGHTEST


def _inside(node: Node, least: int, bare: bool = False) -> str:
    line, binds = node.line(bare)
    return line if binds >= least else f"({line})"


def _when(args: Sequence[Node]) -> str:
    pairs = [
        f"when({args[i].line()[0]}, {args[i + 1].line(bare=True)[0]})" for i in range(0, len(args) - 1, 2)
    ]
    return f"{'.'.join(pairs)}.otherwise({args[-1].line(bare=True)[0]})"
