"""What `penstock run` tells at the end: each UDF of the script, lifted or kept, and why.

`penstock.tools.run_ledger` collects it while the script runs.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from typing import Any

LONGEST = 160
"""Letters of an expression that are shown; JSON has all of them."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one use of a UDF."""

    lifted: bool
    reason: str = ""
    """Why it was kept."""
    advice: str = ""
    expression: str = ""
    """What it was lifted to, over its arguments."""
    limits: tuple[str, ...] = ()
    """Rows for which it stops with `OutOfReach`, because no column holds what Python computes there."""
    near: tuple[str, ...] = ()
    """Functions whose last digit may differ, because Java's library computes them and not C's."""


@dataclass(frozen=True, slots=True)
class UdfReport:
    """One UDF of the script, and what became of each of its uses."""

    name: str
    place: str
    """File and line."""
    outcomes: tuple[Outcome, ...]
    registered: tuple[str, ...] = ()
    """Its names in SQL."""

    @property
    def lifted(self) -> int:
        """How many uses ran as native expressions."""
        return sum(outcome.lifted for outcome in self.outcomes)

    @property
    def said(self) -> str:
        """In a word: lifted, kept, lifted in part, or not used."""
        if not self.outcomes:
            return "kept" if self.registered else "not used"
        if not self.lifted:
            return "kept"
        return "lifted in part" if self.lifted < len(self.outcomes) else "lifted"

    @property
    def notes(self) -> tuple[str, ...]:
        """Lines that say what it was lifted to, and why it was not."""
        notes = [
            f"as {_short(outcome.expression)}"
            for outcome in self.outcomes
            if outcome.lifted and outcome.expression
        ]
        for outcome in self.outcomes:
            notes += [f"stops with OutOfReach where {limit}" for limit in outcome.limits if outcome.lifted]
            if outcome.near:
                notes.append(
                    f"the last digit may differ: {', '.join(outcome.near)} (Java's library, and not C's)"
                )
        for outcome in self.outcomes:
            if not outcome.lifted:
                notes.append(f"kept: {outcome.reason}")
                notes += [outcome.advice] if outcome.advice else []
        notes += [f"in SQL it is {name}" for name in self.registered]
        return tuple(dict.fromkeys(notes))

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "name": self.name,
            "place": self.place,
            "said": self.said,
            "uses": len(self.outcomes),
            "lifted": self.lifted,
            "registered": list(self.registered),
            "outcomes": [asdict(outcome) for outcome in self.outcomes],
        }


@dataclass(frozen=True, slots=True)
class RunReport:
    """What became of a script and its UDFs.

    >>> found = UdfReport("half", "job.py:3", (Outcome(True, expression="x / 2.0"),))
    >>> print(RunReport("job.py", 0, (found,)))
    penstock run job.py: 1 of 1 UDFs ran as native expressions.
      half (job.py:3): lifted, 1 use
          as x / 2.0
    """

    script: str
    exit_code: int
    udfs: tuple[UdfReport, ...]
    out_of_reach: bool = False
    """Whether the script failed because a lifted function met a value that only Python holds."""

    def to_dict(self) -> dict[str, Any]:
        """As plain values, for JSON."""
        return {
            "script": self.script,
            "exit_code": self.exit_code,
            "out_of_reach": self.out_of_reach,
            "udfs": [udf.to_dict() for udf in self.udfs],
        }

    def to_json(self) -> str:
        """As JSON."""
        return json.dumps(self.to_dict(), indent=1)

    def __str__(self) -> str:
        if not self.udfs:
            return f"penstock run {self.script}: it has no UDFs."
        lifted = sum(udf.lifted > 0 for udf in self.udfs)
        lines = [f"penstock run {self.script}: {lifted} of {len(self.udfs)} UDFs ran as native expressions."]
        for udf in self.udfs:
            count = len(udf.outcomes)
            part = f"{udf.lifted} of " if 0 < udf.lifted < count else ""
            uses = f", {part}{count} use{'s' * (count != 1)}" if count else ""
            lines.append(f"  {udf.name} ({udf.place}): {udf.said}{uses}")
            lines += [f"      {note}" for note in udf.notes]
        if self.out_of_reach:
            lines.append(
                "The script failed in a lifted function, at a value that only Python holds (OutOfReach). With --exact "
                "functions that can meet such values stay in Python."
            )
        return "\n".join(lines)


def _short(expression: str) -> str:
    return expression if len(expression) <= LONGEST else f"{expression[: LONGEST - 4]} ..."


_ARGUMENT = re.compile(r"col\('([^']+)'\)(?:\.convert_argument\('[^']+', '[^']+'\))?")


def shown(expression: object) -> str:
    """An expression as a report shows it: arguments by their names.

    >>> shown("when(col('x').is_null(), 0.0).otherwise(1.0 / col('x').convert_argument('x', 'float64'))")
    'when(x.is_null(), 0.0).otherwise(1.0 / x)'
    """
    return _ARGUMENT.sub(r"\1", str(expression))
