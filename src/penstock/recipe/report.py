"""What a recipe learned, and how it computes: for people to read."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.expr.batch import batch_functions
from penstock.expr.nodes import Expression
from penstock.expr.statistics import Counted, Mode, Quantiles, Summarized
from penstock.expr.types import Type
from penstock.recipe.fitting import Lesson
from penstock.recipe.outputs import Output

TOP = 5
"""Of a vocabulary, the keys that are shown."""


def fact(lesson: Lesson) -> dict[str, Any]:
    """What one operation learned, as plain values."""
    found: dict[str, Any] = {"operation": repr(lesson.node), "columns": list(lesson.columns)}
    for request, answer in lesson.answers:
        if isinstance(answer, Summarized):
            found |= {"rows": answer.rows, "nulls": answer.nulls, "not_finite": answer.not_finite}
            if answer.variance is not None:
                found |= {"mean": answer.mean, "deviation": math.sqrt(answer.variance)}
                found |= {"low": answer.low, "high": answer.high}
        elif isinstance(answer, Counted):
            found |= {
                "rows": answer.rows,
                "nulls": answer.nulls,
                "distinct": answer.distinct,
                "kept": len(answer.keys),
                "most_frequent": [
                    [key, count]
                    for key, count in zip(
                        answer.keys[:TOP].to_pylist(), answer.counts[:TOP].to_pylist(), strict=True
                    )
                ],
            }
        elif isinstance(request, Quantiles):
            assert isinstance(answer, tuple)
            found["quantiles"] = [list(pair) for pair in zip(request.at, answer, strict=True)]
        elif isinstance(request, Mode):
            found["mode"] = answer
    return found


NUMBERS = ("mean", "deviation", "low", "high", "quantiles")


def fact_to_json(one: Mapping[str, Any]) -> dict[str, Any]:
    """A fact in what JSON has words for: numbers that are not finite are texts."""

    def plain(value: Any) -> Any:
        if isinstance(value, list):
            return [plain(each) for each in value]
        return repr(value) if isinstance(value, float) and not math.isfinite(value) else value

    return {name: plain(value) for name, value in one.items()}


def fact_from_json(one: Mapping[str, Any]) -> dict[str, Any]:
    """A fact as it was; what somebody wrote in its place stays, since facts are for reading and compute nothing."""

    def number(value: Any) -> Any:
        if isinstance(value, list):
            return [number(each) for each in value]
        return float(value) if value in ("inf", "-inf", "nan") else value

    return {name: number(value) if name in NUMBERS else value for name, value in one.items()}


@dataclass(frozen=True)
class Report:
    """What was learned, one entry for each operation that learns; `print` shows it as lines.

    >>> print(
    ...     Report(
    ...         ({"operation": "col('a').minmax()", "columns": ["a"], "rows": 3, "low": 0.0, "high": 2.0},)
    ...     )
    ... )
    col('a').minmax()
      3 rows, from 0 to 2
    """

    facts: tuple[Mapping[str, Any], ...]

    def __str__(self) -> str:
        if not self.facts:
            return "nothing was learned: no operation of this recipe needs to."
        return "\n".join(line for one in self.facts for line in (one["operation"], f"  {_line(one)}"))


def _line(one: Mapping[str, Any]) -> str:
    parts = [f"{one['rows']:,} rows"] if "rows" in one else []
    parts += [
        f"{one[name]:,} {word}"
        for name, word in (("nulls", "null"), ("not_finite", "not finite"))
        if one.get(name)
    ]
    if one.get("mean") is not None:
        parts.append(f"mean {one['mean']:.6g}, deviation {one['deviation']:.6g}")
    if one.get("low") is not None:
        parts.append(f"from {one['low']:.6g} to {one['high']:.6g}")
    if "quantiles" in one:
        shown = (
            one["quantiles"] if len(one["quantiles"]) <= TOP else [one["quantiles"][0], one["quantiles"][-1]]
        )
        parts.append("quantiles " + ", ".join(f"{share:.4g}: {value:.6g}" for share, value in shown))
    if "mode" in one:
        parts.append(f"most frequent {one['mode']!r}")
    if "distinct" in one:
        kept = "all kept" if one["kept"] == one["distinct"] else f"{one['kept']:,} kept"
        top = ", ".join(f"{key!r} {count:,}" for key, count in one["most_frequent"])
        parts.append(f"{one['distinct']:,} different values, {kept}; {top}")
    return ", ".join(parts)


def explained(
    tensors: Mapping[str, Expression],
    inputs: Mapping[str, Type],
    outputs: Mapping[str, Output],
    declared: Mapping[str, str] | None,
) -> str:
    """How each tensor is computed."""
    lines = []
    for name, tree in tensors.items():
        ids = [each for each in outputs[name].ids if each is not None]
        lines.append(f"{name}: {outputs[name].type}" + (f", ids {', '.join(map(str, ids))}" if ids else ""))
        if declared is not None and declared[name] != repr(tree):
            lines += [f"  {declared[name]}", "  fitted:"]
        lines.append(f"  {tree!r}")
    lines.append(f"reads {', '.join(f'{name}: {of}' for name, of in inputs.items())}")
    lines.append(f"on Spark: {_crossing(tensors)}")
    return "\n".join(lines)


def _crossing(tensors: Mapping[str, Expression]) -> str:
    """What of a recipe leaves the JVM."""
    crossing = {name: batch_functions(tree) for name, tree in tensors.items()}
    if not any(crossing.values()):
        return "native expressions, nothing leaves the JVM."
    each = [f"{function!r} of {name}" for name, functions in crossing.items() for function in functions]
    return f"native expressions, but for {', '.join(each)}: there columns cross to Python as Arrow batches, and back."
