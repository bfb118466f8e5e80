"""The places of a DataFrame where Columns are used, and what a native one in the place of a UDF's means there.

- select, withColumn: a column of the result. Any function, and in larger expressions those that are computed anyway.
- filter: Spark tests what needs no UDF first. A function that may raise becomes a column below the filter, which is how
  Spark runs a UDF there; all UDFs of one filter are lifted or none, since one that is would save the others rows.
- sort: a column below it, computed once and not at every comparison.
- repartition: computed once for every row, in the place where it stands.
- groupBy and agg: filters on keys go below a grouping, so keys must not raise.
- join: of the one side that has its arguments; Spark moves parts of the condition, so it must not raise.

Every place gives Spark's own result where anything is not as without Penstock, the schema included. What is patched
stands in `penstock.tools.run_patches`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from penstock.tools.run_derived import Found, carries, conjuncts, found_in, rebuilt
from penstock.tools.run_report import Outcome
from penstock.tools.run_within import (
    TOGETHER,
    Attempt,
    Within,
    anywhere,
    failed,
    moved,
    skipped,
)

Original = Callable[..., Any]
KEYS = "_penstock_keys"
"""Where a grouping keeps the same one with native keys."""
NO_SIDE = Outcome(
    False,
    "it is used in a join's condition, with columns of both sides, or of which the side is not sure",
    "Compute a key on each side, with withColumn, and join on it.",
)
STAR = Outcome(False, "it is used beside *, which means all columns, and it would become one of them")
OTHERWISE = ValueError("Spark's result would have another schema")
_STAR = re.compile(r"\*(?!\()|unresolvedstar")
_numbers = count()


@dataclass(frozen=True, eq=False)
class _Keys:
    columns: list[Any]
    group: Callable[..., Any]
    made: Attempt


@dataclass(frozen=True, eq=False)
class Places:
    """What DataFrame's methods do with Columns that have UDFs in them. None: as without Penstock."""

    within: Within

    def select(self, original: Original, df: Any, *cols: Any) -> Any:
        """select(), with Columns or a list of them."""
        listed = len(cols) == 1 and isinstance(cols[0], Sequence) and not isinstance(cols[0], str)
        given = cols[0] if listed else cols
        return original(df, *(self._column(df, each, True) for each in given))

    def with_column(self, original: Original, df: Any, colName: str, col: Any) -> Any:
        """withColumn()."""
        return original(df, colName, self._column(df, col, False))

    def with_columns(self, original: Original, df: Any, *colsMap: Any) -> Any:
        """withColumns(), with one mapping."""
        (given,) = colsMap
        return original(df, {name: self._column(df, each, False) for name, each in given.items()})

    def _column(self, df: Any, given: Any, selected: bool) -> Any:
        return self.within.column(df, given, selected) if carries(given) else given

    def filter(self, original: Original, df: Any, condition: Any) -> Any:
        """filter() and where()."""
        found: list[Found] = []
        for part in conjuncts(condition):
            found += found_in(part, leading=not found)
        made = self.within.attempt(found, lambda _: df, skipped)
        if not made.whole or (made.raises and _starred(condition)):
            made.note_kept(STAR if made.whole else TOGETHER)
            return None
        return self._settled(
            made,
            lambda: original(df, condition),
            lambda _: (
                self._below(df, made, lambda below: original(below, rebuilt(condition, made.instead)))
                if made.raises
                else original(df, rebuilt(condition, made.instead))
            ),
        )

    def sort(self, original: Original, df: Any, *cols: Any, **options: Any) -> Any:
        """sort(), orderBy() and sortWithinPartitions()."""
        made = self.within.attempt(found_in(cols), lambda _: df, anywhere)
        if made.instead and _starred(cols):
            made.note_kept(STAR)
            return None
        return self._settled(
            made,
            lambda: original(df, *cols, **options),
            lambda _: self._below(
                df, made, lambda below: original(below, *rebuilt(cols, made.instead), **options)
            ),
        )

    def repartition(self, original: Original, df: Any, *cols: Any) -> Any:
        """repartition() and repartitionByRange()."""
        made = Attempt()
        for each in cols:
            made.join(self.within.attempt(found_in(each), lambda _: df, skipped))
        return self._settled(
            made, lambda: original(df, *cols), lambda _: original(df, *rebuilt(cols, made.instead))
        )

    def join(self, original: Original, df: Any, other: Any, on: Any = None, how: Any = None) -> Any:
        """join() on conditions."""

        def side(found: Found) -> Any:
            sides = [each for each in (df, other) if self._has(each, found.column)]
            return sides[0] if len(sides) == 1 else NO_SIDE

        made = self.within.attempt(found_in(on), side, moved)
        return self._settled(
            made,
            lambda: original(df, other, on, how),
            lambda _: original(df, other, rebuilt(on, made.instead), how),
        )

    def _has(self, df: Any, column: Any) -> bool:
        try:
            return bool(self.within.lifter.select(df, column).schema.fields)
        except Exception:  # Spark's, of classic Spark or over Connect
            return False

    def group(self, original: Original, df: Any, *cols: Any) -> Any:
        """groupBy(): Spark's own grouping, which remembers the one with native keys."""
        plain = original(df, *cols)
        given = cols[0] if len(cols) == 1 and isinstance(cols[0], list | tuple) else cols
        made = self.within.attempt(found_in([*given]), lambda _: df, moved)
        if made.instead:
            plain.__dict__[KEYS] = _Keys([*given], lambda *keys: original(df, *keys), made)
        else:
            made.note()
        return plain

    def aggregate(self, original: Original, grouped: Any, *exprs: Any) -> Any:
        """agg(), count(), sum() and their like, of a grouping."""
        keys: _Keys | None = grouped.__dict__.get(KEYS)
        made = Attempt()
        for each in exprs:
            made.join(self.within.attempt(found_in(each), lambda _: grouped._df, skipped))
        if keys is not None:
            made.join(keys.made)

        def natively(fields: Sequence[Any]) -> Any:
            base = grouped if keys is None else keys.group(*_named(keys.columns, fields, made))
            return original(base, *_named(exprs, fields[len(fields) - len(exprs) :], made))

        return self._settled(
            made, lambda: original(grouped, *exprs), lambda plain: natively(plain.schema.fields)
        )

    def _settled(self, made: Attempt, plainly: Callable[[], Any], natively: Callable[[Any], Any]) -> Any:
        """The lifted result if it is as Spark's own, else that; what became of the UDFs is noted."""
        if not made.instead:
            made.note()
            return None
        plain = plainly()  # what it raises is for the script
        try:
            found = natively(plain)
            if found.schema != plain.schema:
                raise OTHERWISE
        except Exception as error:  # a script that runs without Penstock has to run with it
            made.note_kept(failed(error))
            return plain
        made.note()
        return found

    def _below(self, df: Any, made: Attempt, use: Callable[[Any], Any]) -> Any:
        """What `use` makes of the DataFrame with the native Columns as columns, without them."""
        from pyspark.sql import functions as F

        names = {key: f"__penstock_{next(_numbers)}" for key in made.instead}
        below = df.withColumns({names[key]: column for key, column in made.instead.items()})
        made.instead = {key: F.col(name) for key, name in names.items()}
        return use(below).drop(*names.values())


def _starred(given: Any) -> bool:
    """Whether a Column, or one of several, may mean all columns. A product is written `*(a, b)`."""
    if isinstance(given, list | tuple):
        return any(map(_starred, given))
    return _STAR.search(str(given)) is not None


def _named(given: Sequence[Any], fields: Sequence[Any], made: Attempt) -> list[Any]:
    """The Columns with native ones in them, under the names that they have in Spark's own result."""
    found = []
    for place, each in enumerate(given):
        one = rebuilt(each, made.instead)
        if one is not each and not isinstance(each, dict):
            marks = {"metadata": fields[place].metadata} if fields[place].metadata else {}
            one = one.alias(fields[place].name, **marks)
        found.append(one)
    return found
