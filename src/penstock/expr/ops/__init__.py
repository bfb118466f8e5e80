"""THE table of operations: every one there is, by name.

An operation that is not here does not exist; an engine that lacks one says why (`penstock.backends.base`). The rows
are written by family: `numbers`, `texts`, `times`, `lists`, `vectors`, `lookups`, `batches`, and `python` for what
lifted functions are made of; `base` says what a row is. Operations that learn from data first are another table,
`learned`. `penstock.expr.nodes` builds trees of both.

>>> print(TABLE["log1p"].doc, TABLE["log1p"].tier)
log(1 + x), exact near zero; -inf of -1, nan below. ULP
"""

from __future__ import annotations

from penstock.expr.ops import (
    batches,
    learned,
    lists,
    lookups,
    numbers,
    python,
    python_lists,
    python_texts,
    texts,
    times,
    vectors,
)
from penstock.expr.ops.base import Op

TABLE: dict[str, Op] = {
    op.name: op
    for family in (
        *(numbers, texts, times, lists, vectors, lookups, batches),
        *(python, python_lists, python_texts),
    )
    for op in family.OPS
}
LEARNED: dict[str, Op] = {op.name: op for op in learned.OPS}
"""Operations that no engine computes before they have learned."""
KNOWN: dict[str, Op] = TABLE | LEARNED
"""All that a tree can be made of."""
