"""UDFs inside larger expressions, and in places where a Column is not a column of the result.

A UDF's column is computed for every row that reaches it, before anything that reads it, and filters that do not read
it go below. A native expression is computed where it stands: perhaps not for every row, perhaps also for rows that a
filter would have dropped. For a function that cannot raise that makes no difference, and it is lifted wherever a Column
may stand. One that can is lifted only where it is computed for the same rows. `penstock.tools.run_places` says which
places these are; `penstock.tools.run_lift` makes the native Columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from penstock.tools.run_derived import Found, found_in, rebuilt
from penstock.tools.run_ledger import Use, call_of
from penstock.tools.run_lift import Lifter, Native
from penstock.tools.run_report import Outcome

ADVICE = "Make it a column of its own first, with withColumn or select."
SKIPPED = Outcome(False, "it may raise, and here Spark need not compute it for every row", ADVICE)
MOVED = Outcome(False, "it may raise, and here Spark may compute it for rows that a filter drops", ADVICE)
TOGETHER = Outcome(
    False, "another UDF of the same filter stays in Python, and both see the same rows", ADVICE
)


@dataclass(eq=False)
class Attempt:
    """Native Columns for the UDFs of one place, and what is to be noted when it is settled."""

    instead: dict[int, Any] = field(default_factory=dict)
    """By the `id` of the UDF's Column."""
    told: list[tuple[Use, Outcome]] = field(default_factory=list)
    uses: list[Use] = field(default_factory=list)
    """Of the UDFs that are asked for, those inside the arguments of others left out."""
    whole: bool = True
    """Whether all of them could be lifted."""
    raises: bool = False

    def add(self, found: Found, native: Native | Outcome) -> None:
        """One more UDF, lifted or not."""
        self.uses.append(found.call.use)
        if isinstance(native, Outcome):
            self.whole = False
            self.told.append((found.call.use, native))
        else:
            self.instead[id(found.column)] = native.column
            self.told += native.outcomes
            self.raises = self.raises or native.raises

    def join(self, other: Attempt) -> None:
        """Both as one."""
        self.instead |= other.instead
        self.told += other.told
        self.uses += other.uses
        self.whole = self.whole and other.whole
        self.raises = self.raises or other.raises

    def note(self) -> None:
        """What was tried is what is used."""
        for use, outcome in self.told:
            use.outcomes.append(outcome)

    def note_kept(self, why: Outcome) -> None:
        """None of it is used: those that would have been lifted stay for this reason."""
        kept = {id(use): outcome for use, outcome in self.told if not outcome.lifted}
        for use in self.uses:
            use.outcomes.append(kept.get(id(use), why))


@dataclass(frozen=True, eq=False)
class Within:
    """Lifts inside of expressions."""

    lifter: Lifter

    def attempt(
        self, found: Iterable[Found], of: Callable[[Found], Any], refused: Callable[[Found], Outcome | None]
    ) -> Attempt:
        """Native Columns for UDFs.

        `of`: the DataFrame that one is computed of, or why there is none; `refused`: why one that may raise stays.
        """
        made = Attempt()
        for each in found:
            df = of(each)
            native = df if isinstance(df, Outcome) else self.lifter.attempt(df, each.column, each.call)
            if isinstance(native, Native) and native.raises and (why := refused(each)) is not None:
                native = why
            made.add(each, native)
        return made

    def column(self, df: Any, column: Any, selected: bool) -> Any:
        """A Column to select or to add, in the place of another; what became of the UDFs in it is noted."""
        if call_of(column) is not None:
            return self.lifter.column(df, column, selected)
        made = self.attempt(found_in(column), lambda _: df, skipped)
        found = self.renamed(df, column, made, selected)
        return column if found is None else found

    def renamed(self, df: Any, column: Any, made: Attempt, selected: bool) -> Any:
        """A Column with native ones in it, under the name it has without; None where it is not the same, and noted."""
        if not made.instead:
            made.note()
            return None
        try:
            select = self.lifter.select
            (wanted,) = select(df, column).schema.fields
            found = rebuilt(column, made.instead)
            (has,) = select(df, found).schema.fields
            if has.name != wanted.name:
                marks = {"metadata": wanted.metadata} if wanted.metadata else {}
                renamed = found.alias(wanted.name, **marks)
                (has,) = select(df, renamed).schema.fields
                found = renamed if selected else found
            if has != wanted:
                raise ValueError(f"its column would be {has.json()}, and Spark's is {wanted.json()}")
        except Exception as error:  # a script that runs without Penstock has to run with it
            made.note_kept(failed(error))
            return None
        made.note()
        return found


def skipped(found: Found) -> Outcome | None:
    """Inside an expression: one that may raise is lifted if it is computed for every row."""
    return None if found.leading else SKIPPED


def moved(_: Found) -> Outcome | None:
    """Where Spark moves expressions past filters: one that may raise stays."""
    return MOVED


def anywhere(_: Found) -> Outcome | None:
    """In a projection of its own: all are lifted."""
    return None


def failed(error: Exception) -> Outcome:
    """What is told where something unforeseen came between."""
    first = (str(error).splitlines() or [""])[0][:100]
    told = first if isinstance(error, ValueError) else f"{type(error).__name__}: {first}"
    return Outcome(False, f"it could not be lifted here: {told}", ADVICE)
