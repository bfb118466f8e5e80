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


KEEP_IDS = ("cast", "demand", "pad", "element", "fill")
"""Operations through which an id stays one."""


def _ids(tree: Expression) -> int | None:
    while isinstance(tree, Call) and tree.op in KEEP_IDS:
        tree = tree.of[0]
    if not isinstance(tree, Call):
        return None
    params = dict(tree.params)
    if tree.op == "index_in":
        return 1 + int(params["oov"]) + len(params["keys"])
    if tree.op == "hash":
        return int(params["buckets"])
    if tree.op == "bucketize":
        return len(params["edges"]) + 1
    return None
