"""What comes out of a recipe: a tensor's type, and how many ids its whole numbers can have."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.expr.nodes import Call, Expression
from penstock.expr.types import Type


@dataclass(frozen=True)
class Output:
    """One tensor."""

    type: Type
    ids: tuple[int | None, ...] = ()
    """For each number of a row how many ids there are, from 0 on; None where it is no id. Of lists that stand for one
    column, one for all elements."""

    def __repr__(self) -> str:
        known = f", ids={self.ids}" if any(each is not None for each in self.ids) else ""
        return f"Output({self.type}{known})"


def output(tree: Expression, of: Type) -> Output:
    """A tensor's type and ids, from its plain expression."""
    if isinstance(tree, Call) and tree.op == "stack":
        return Output(of, tuple(_ids(arg) for arg in tree.of))
    return Output(of, (_ids(tree),))


KEEP_IDS = ("cast", "demand", "element")
"""Operations through which an id stays one."""
JOIN_IDS = ("pad", "fill")
"""Operations that add their value to the ids."""


def _ids(tree: Expression) -> int | None:
    if not isinstance(tree, Call):
        return None
    params = dict(tree.params)
    if tree.op in KEEP_IDS:
        return _ids(tree.of[0])
    if tree.op in JOIN_IDS:
        found, value = _ids(tree.of[0]), params["value"]
        # What is below 0 or between two is no id: no embedding has a row for it.
        fine = found is not None and value >= 0 and float(value).is_integer()
        return max(found or 0, int(value) + 1) if fine else None
    if tree.op == "index_in":
        return 1 + int(params["oov"]) + len(params["keys"])
    if tree.op == "hash":
        return int(params["buckets"])
    if tree.op == "bucketize":
        return len(params["edges"]) + 1
    return None
