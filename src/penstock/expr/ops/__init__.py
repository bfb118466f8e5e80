"""THE table of operations: every one there is, by name.

An operation that is not here does not exist; an engine that lacks one says why (`penstock.backends.base`). The rows
are written by family: `numbers`, `texts`, `times`, `lists`; `base` says what a row is. `penstock.expr.nodes` builds
trees of them.

>>> print(TABLE["log1p"].doc, TABLE["log1p"].tier)
log(1 + x), exact near zero; -inf of -1, nan below. ULP
"""

from __future__ import annotations

from penstock.expr.ops import lists, numbers, texts, times
from penstock.expr.ops.base import Op

TABLE: dict[str, Op] = {op.name: op for family in (numbers, texts, times, lists) for op in family.OPS}
