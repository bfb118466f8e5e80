"""What is remembered of a script's UDFs while it runs: where they are, their calls, and what became of each.

`penstock.tools.run_patches` writes it, `penstock.tools.run_report` shows it.
"""

from __future__ import annotations

import sys
import types
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.tools.run_failures import Raising
from penstock.tools.run_report import Outcome, UdfReport
from penstock.tools.run_settled import shipped

ROW_BY_ROW = (100, 101)
"""Spark's numbers for "a Python function, row by row": pickled, and as Arrow."""
ARROW = 101
KEY = "_penstock_call"
"""Where a Column keeps the call that made it: its life is the Column's."""

ELSEWHERE = Outcome(
    False,
    "it is used where it is not followed: in a function of the script's own, in rollup, cube or pivot, or not at all",
    "Make it a column of its own first, with withColumn or select.",
)


@dataclass(eq=False)
class Use:
    """One call of a UDF with columns; `outcomes` is what became of the Column where it was used."""

    outcomes: list[Outcome] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class Call:
    """What a Column came from: a UDF, its arguments, and the names it was given since."""

    udf: Any
    positional: tuple[Any, ...]
    named: Mapping[str, Any]
    use: Use
    aliases: tuple[tuple[tuple[str, ...], Mapping[str, Any]], ...] = ()

    def aliased(self, names: tuple[str, ...], options: Mapping[str, Any]) -> Call:
        """The same under a name."""
        return Call(self.udf, self.positional, self.named, self.use, (*self.aliases, (names, options)))


@dataclass(eq=False)
class Entry:
    """One Python function of the script that is a UDF."""

    function: Any
    name: str
    place: str
    uses: list[Use] = field(default_factory=list)
    registered: list[str] = field(default_factory=list)


class Ledger:
    """The UDFs of a script, in the order in which they were made."""

    def __init__(self) -> None:
        self._entries: dict[int, Entry] = {}  # an entry holds its function, so that the id stays its own
        self.raising = Raising()
        self._shipped: weakref.WeakKeyDictionary[Any, str | None] = weakref.WeakKeyDictionary()

    def made(self, udf: Any) -> None:
        """A UDF was made."""
        if udf.evalType in ROW_BY_ROW and id(udf.func) not in self._entries and not _of_a_library(udf.func):
            self._entries[id(udf.func)] = Entry(udf.func, udf._name, _place(udf.func))

    def registered(self, function: Any, name: str) -> None:
        """A UDF, or a function that becomes one, got a name in SQL."""
        entry = self._entries.get(id(getattr(function, "func", function)))
        if entry is not None and name not in entry.registered:
            entry.registered.append(name)

    def pickled(self, udf: Any) -> bool:
        """A UDF was pickled, before its first call; False if it is none of those that are followed."""
        self._shipped[udf] = shipped(udf.func)
        return id(udf.func) in self._entries and udf.evalType in ROW_BY_ROW

    def mentioned(self, udf: Any, outcome: Outcome) -> None:
        """A UDF is used where it stays as it is."""
        self._entries[id(udf.func)].uses.append(Use([outcome]))

    def called(
        self,
        udf: Any,
        positional: tuple[Any, ...],
        named: Mapping[str, Any],
        column: Any,
        alias: str | None = None,
    ) -> None:
        """A UDF was called with columns, and made a Column; `alias`: the name that it has already."""
        entry = self._entries.get(id(udf.func))
        if entry is None or udf.evalType not in ROW_BY_ROW:
            return
        if udf not in self._shipped:
            self._shipped[udf] = shipped(udf.func)
        use = Use()
        entry.uses.append(use)
        call = Call(udf, positional, dict(named), use)
        column.__dict__[KEY] = call if alias is None else call.aliased((alias,), {})

    def shipped(self, udf: Any) -> str | None:
        """The fingerprint of a UDF's function when it was first called, which is when classic Spark pickles it."""
        return self._shipped.get(udf)

    def report(self) -> tuple[UdfReport, ...]:
        """What became of each UDF."""
        return tuple(
            UdfReport(
                entry.name,
                entry.place,
                tuple(outcome for use in entry.uses for outcome in use.outcomes or [ELSEWHERE]),
                tuple(entry.registered),
            )
            for entry in self._entries.values()
        )


def call_of(column: Any) -> Call | None:
    """The call that a Column came from; None for any other."""
    found = getattr(column, "__dict__", {}).get(KEY)
    return found if isinstance(found, Call) else None


def _of_a_library(function: Any) -> bool:
    """Whether PySpark or Penstock made this UDF for a purpose of their own."""
    home = (getattr(function, "__module__", None) or "").partition(".")[0]
    return home in ("pyspark", "penstock") or _caller().f_globals.get("__name__", "").startswith("penstock.")


def _caller() -> types.FrameType:
    """The frame that made the UDF: the first outside PySpark and of this machinery."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_back is not None:
        home = frame.f_globals.get("__name__", "")
        if not home.startswith(("pyspark.", "penstock.tools.run_")):
            break
        frame = frame.f_back
    assert frame is not None
    return frame


def _place(function: Any) -> str:
    """File and line of a function, or where a UDF was made of something that has neither."""
    code = getattr(function, "__code__", None)
    if isinstance(code, types.CodeType):
        return f"{code.co_filename}:{code.co_firstlineno}"
    frame = _caller()
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
