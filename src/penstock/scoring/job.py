"""All that a task needs to know, made once on the driver: plain values, and the user's function.

`task` carries it out; `penstock.jobs.predict` makes it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.dtypes import DTYPES
from penstock.wire.plan import Plan

ERROR = "error"
"""The column that says why a row has no result."""
TEXT = "string"
RETURNED = "__penstock_"
"""Before the places of columns that come back from the workers: results have names of the user's choice."""


@dataclass(frozen=True)
class Result:
    """A column that the model fills: its dtype (or `TEXT`), under so many levels of lists.

    >>> print(Result("score", "float32"), Result("embedding", "float32", 1))
    score float embedding array<float>
    """

    name: str
    dtype: str
    depth: int = 0

    def __str__(self) -> str:
        leaf = TEXT if self.dtype == TEXT else DTYPES[self.dtype].spark
        return f"{self.name} {'array<' * self.depth}{leaf}{'>' * self.depth}"

    def shape(self, rows: int) -> str:
        """The shape it wants, for messages; a star is any length."""
        inside = ", ".join([str(rows), *["*"] * self.depth])
        return f"[{inside}]"


@dataclass(frozen=True)
class Kept:
    """A column of the DataFrame beside the results: which of the columns that cross holds it.

    `element`: its place in that column's lists, where columns of one type cross side by side; None where it crosses
    by itself.
    """

    name: str
    place: int
    element: int | None = None


@dataclass(frozen=True)
class ModelFile:
    """A model that comes with the job: the bytes of its file, and the name that tells what kind it is."""

    name: str
    content: bytes


@dataclass(frozen=True)
class Job:
    """One call of `pk.predict`.

    Of the columns that cross, those of the plan's pieces come first. `returned`: the places of those that go back,
    before the results.
    """

    key: str
    """Of this call alone: a worker loads its model once."""
    load: Callable[[], Any] | ModelFile
    plan: Plan
    kept: Sequence[Kept]
    returned: Sequence[int]
    results: Sequence[Result]
    batch_size: int
    device: str
    framework: str
    errors_as_column: bool
    recipe: bool
    """The plan's columns are expressions of a recipe."""

    @property
    def pieces(self) -> int:
        """How many of the columns that cross make the tensors."""
        return sum(len(tensor.pieces) for tensor in self.plan.tensors)
