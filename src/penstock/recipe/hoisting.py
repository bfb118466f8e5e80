"""A pass saved: the moments of a filled column, from those of the column itself.

`col("a").fill("median").log1p().standardize()` needs the median before it can fill, and the filled column before it can
standardize. But whatever the median will be, every row but the nulls is known: so the moments of `log1p` of the bare
column are asked for in the same pass as the median, and afterwards the nulls join them, as so many times one number.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.backends import engine
from penstock.expr.nodes import Call, Expression, Literal, literal
from penstock.expr.statistics import Presence, Summarized, Summary

STRICT = frozenset(
    {
        "add",
        "subtract",
        "multiply",
        "divide",
        "negate",
        "abs",
        "sign",
        "round",
        "floor",
        "ceil",
        "sqrt",
        "log",
        "log1p",
    }
    | {"log10", "exp", "expm1", "pow", "sin", "cos", "tanh", "clip", "cast", "nan_as_null", "bucketize"}
)
"""Operations that give null exactly of null (or of what they cannot take), row by row."""


@dataclass(frozen=True, eq=False)
class Hoisted:
    """Moments to ask for early."""

    fill: Call
    """The operation that will fill."""
    bare: Summary
    """Of the same operations on the column that is not filled."""
    chain: tuple[Call, ...]
    """These operations, the innermost first."""

    def wanted(self) -> tuple[Summary, Presence]:
        """What to ask for while the column is not filled yet."""
        return self.bare, Presence(self.fill.of[0])

    def answer(self, bare: Summarized, present: Summarized, filled: Expression) -> Summarized:
        """The moments of the filled column, from what was asked for and from what it was filled with."""
        assert isinstance(filled, Call)
        return joined(bare, present.nulls, _computed(self.of(literal(dict(filled.params)["value"]))))

    def of(self, value: Expression) -> Expression:
        """The operations on another value."""
        for node in self.chain:
            value = Call(node.op, tuple(value if _runs(arg) else arg for arg in node.of), node.params)
        return value


def hoisted(tree: Expression) -> Hoisted | None:
    """For a chain of strict operations, with constants, on a column that learns what to fill; else None."""
    chain: list[Call] = []
    while isinstance(tree, Call) and tree.op in STRICT:
        running = [arg for arg in tree.of if _runs(arg)]
        if len(running) != 1:
            return None
        chain.insert(0, tree)
        tree = running[0]
    if not isinstance(tree, Call) or tree.op != "fill_learned":
        return None
    found = Hoisted(tree, Summary(tree), tuple(chain))
    return Hoisted(tree, Summary(found.of(tree.of[0])), tuple(chain))


def _computed(tree: Expression) -> float | None:
    """The value of a tree without columns."""
    import pyarrow as pa

    arrow = engine("arrow")
    found = arrow.prepare({"value": tree}, {})(pa.table({"row": [0]}))["value"][0].as_py()
    return None if found is None else float(found)


def _runs(arg: Expression) -> bool:
    """Whether an argument is the one that the column comes in by."""
    return not isinstance(arg, Literal)


def joined(bare: Summarized, nulls: int, value: float | None) -> Summarized:
    """The moments of a column whose nulls were filled: so many rows more, all with one value.

    >>> joined(Summarized(4, 2, 0, 1.0, 0.0, 1.0, 1.0), 2, 3.0)
    Summarized(rows=4, nulls=0, not_finite=0, mean=2.0, variance=1.0, low=1.0, high=3.0)
    """
    if value is None or not nulls:
        return bare
    left = bare.nulls - nulls
    if not abs(value) < float("inf"):
        return Summarized(
            bare.rows, left, bare.not_finite + nulls, bare.mean, bare.variance, bare.low, bare.high
        )
    if bare.mean is None or bare.variance is None or bare.low is None or bare.high is None:
        return Summarized(bare.rows, left, bare.not_finite, value, 0.0, value, value)
    count = bare.count
    both, apart = count + nulls, value - bare.mean
    mean = bare.mean + apart * nulls / both
    variance = (bare.variance * count + apart * apart * count * nulls / both) / both
    return Summarized(
        bare.rows, left, bare.not_finite, mean, variance, min(bare.low, value), max(bare.high, value)
    )
