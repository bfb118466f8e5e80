"""Functions that no two libraries compute to the last bit: logarithms, powers, and what belongs to angles.

C's library, which Python uses, and Java's are within a unit or so in the last place of the true value, each in its own
way. A result that is then rounded or compared can come out differently.
"""

from __future__ import annotations

from penstock.expr.nodes import Call, Expression
from penstock.expr.ops import TABLE
from penstock.expr.ops.base import EXACT

TO_THE_BIT = ("sqrt", "fmod", "copysign")
"""Functions of `math` that every library rounds correctly."""


def nearly(*roots: Expression) -> tuple[str, ...]:
    """The names of such functions in expressions.

    >>> from penstock.expr.build import col
    >>> nearly(col("x").log() + col("x").exp() * col("x").sqrt())
    ('exp', 'log')
    """
    found, seen, waiting = set[str](), set[int](), [*roots]
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        waiting.extend(node.args)
        if isinstance(node, Call) and TABLE[node.op].tier != EXACT:
            name = str(dict(node.params).get("function", node.op))
            if name not in TO_THE_BIT:
                found.add("**" if name == "float_power" else name)
    return tuple(sorted(found))
