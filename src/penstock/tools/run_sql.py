"""UDFs that have a name in SQL: which texts call them, and which of these calls are followed.

Only Spark can read SQL. But a text that is a single call with columns, such as `expr("gross(x)")` or
`selectExpr("gross(x) as total")`, means the same as that function of these columns, and is followed like one. So are
`call_udf` and `call_function`. Any other text that calls one (spark.sql, larger expressions) is left to Spark, and the
ledger says so. Part of what `penstock.tools.run_patches` does.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from penstock.tools.run_ledger import Ledger
from penstock.tools.run_report import Outcome

_NAME = r"[^\W\d]\w*"
_CALL = re.compile(
    rf"\s*({_NAME})\s*\(\s*({_NAME}(?:\s*,\s*{_NAME})*)\s*\)(?:\s+as\s+({_NAME}))?\s*", re.IGNORECASE
)
_NO_COLUMN = re.compile(r"null|true|false|default|current\w*|user|session_user|local\w*", re.IGNORECASE)
"""Words that are, or may be, no column where they stand alone."""


@dataclass(frozen=True, eq=False)
class Registered:
    """What a name in SQL calls: what a UDF has that is asked for, and the session that knows the name."""

    func: Any
    returnType: Any  # as Spark's own have it
    evalType: int
    deterministic: bool
    session: Any


@dataclass(eq=False)
class Names:
    """The names in SQL that a script has given to functions."""

    ledger: Ledger
    busy: Any
    """What Penstock itself asks Spark meanwhile is not the script's."""
    known: dict[str, Registered] = field(default_factory=dict)

    def registered(self, name: str, udf: Any, session: Any) -> None:
        """A name was given to a function; it is pickled now, and not when it is first called."""
        self.known.pop(name.lower(), None)
        made = Registered(udf.func, udf.returnType, udf.evalType, udf.deterministic, session)
        if self.ledger.pickled(made):
            self.known[name.lower()] = made

    def calling(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """`call_udf` and `call_function`."""

        def called(*args: Any, **kwargs: Any) -> Any:
            column = original(*args, **kwargs)
            with suppress(Exception):
                if not kwargs and (udf := self.known.get(args[0].lower())) is not None:
                    self.ledger.called(udf, args[1:], {}, column)
            return column

        return called

    def expressing(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """`expr`: a text that is one call of columns is remembered as such."""

        def expr(*args: Any, **kwargs: Any) -> Any:
            column = original(*args, **kwargs)
            text = (*args, *kwargs.values())[0]
            with suppress(Exception):
                if not self.follow(text, column):
                    self.mentioned(text)
            return column

        return expr

    def follow(self, text: Any, column: Any) -> bool:
        """Remember the Column of a text that is one call; False for any other text."""
        found = _CALL.fullmatch(text)
        if found is None or (udf := self.known.get(found[1].lower())) is None:
            return False
        arguments = tuple(part.strip() for part in found[2].split(","))
        if any(_NO_COLUMN.fullmatch(each) for each in arguments):
            return False
        self.ledger.called(udf, arguments, {}, column, alias=found[3])
        return True

    def calls(self, text: Any) -> bool:
        """Whether a text is one call of a function that is known."""
        found = _CALL.fullmatch(text) if isinstance(text, str) else None
        return found is not None and found[1].lower() in self.known

    def mentioned(self, text: Any) -> None:
        """A text is left to Spark: note the functions it calls."""
        if not self.known or not isinstance(text, str) or getattr(self.busy, "now", False):
            return
        for name in dict.fromkeys(each.lower() for each in re.findall(rf"({_NAME})`?\s*\(", text)):
            if (udf := self.known.get(name)) is not None:
                reason = f"it is called in SQL, as {name}, and only Spark can read that"
                advice = (
                    "Call it as a function of columns, or by itself: selectExpr('f(x) as y'), expr('f(x)')."
                )
                self.ledger.mentioned(udf, Outcome(False, reason, advice))

    def filtering(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """`filter` with a text."""

        def filter(df: Any, condition: Any) -> Any:
            return original(df, self._column(condition) if isinstance(condition, str) else condition)

        return filter

    def selecting(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """`selectExpr`, which is a select of what `expr` makes of each text."""

        def select(df: Any, *expr: Any) -> Any:
            from pyspark.sql import functions as F

            given = expr[0] if len(expr) == 1 and isinstance(expr[0], list) else expr
            if any(map(self.calls, given)):
                return df.select(*map(F.expr, given))  # as it is patched
            for each in given:
                self.mentioned(each)
            return original(df, *expr)

        return select

    def _column(self, text: str) -> Any:
        """The Column of a text that is one call; the text itself where it is any other."""
        from pyspark.sql import functions as F

        if self.calls(text):
            return F.expr(text)
        self.mentioned(text)
        return text

    def reading(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """`spark.sql`, whose text is left to Spark."""

        def sql(session: Any, sqlQuery: str, *args: Any, **kwargs: Any) -> Any:
            with suppress(Exception):
                self.mentioned(sqlQuery)
            return original(session, sqlQuery, *args, **kwargs)

        return sql
