"""What `penstock.udf` would make of the functions that a plan calls row by row, where they are at hand.

A plan knows a function's name alone. So the caller passes what the names mean: a script's top level, or `__main__`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from penstock.jobs.boundaries_around import Finding
from penstock.jobs.boundaries_kinds import EVERY_ROW
from penstock.jobs.udf import Udf
from penstock.jobs.udf_columns import ROW_BY_ROW
from penstock.jobs.udf_plan import NATIVE

LONGEST = 300


def with_lifting(findings: Iterable[Finding], names: Mapping[str, Any]) -> list[Finding]:
    """The findings, with what would become of each function as the first advice."""
    return [_advised(each, names) for each in findings]


def _advised(finding: Finding, names: Mapping[str, Any]) -> Finding:
    finding = _as_it_runs(finding)
    place = finding.boundary
    if finding.kind != "boundary" or place is None or place.calls != EVERY_ROW:
        return finding
    told = [_told(function) for name in place.functions if (function := _function(names, name)) is not None]
    return replace(finding, advice=" ".join([*told, finding.advice])) if told else finding


def _as_it_runs(finding: Finding) -> Finding:
    """A `penstock.udf` that stays in Python is a function of whole columns to Spark, which calls it for every row."""
    place = finding.boundary
    if place is None or place.calls == EVERY_ROW or not place.functions or {*place.functions} - ROW_BY_ROW:
        return finding
    told = replace(place, asked_by="penstock.udf", calls=EVERY_ROW)
    return replace(finding, boundary=told, says=finding.says.replace(str(place), str(told)))


def _function(names: Mapping[str, Any], name: str) -> Callable[..., Any] | None:
    """The plain function behind a name: it may be the decorated one, or stand under another name."""
    if name == "<lambda>":
        return None
    found = {
        id(function): function
        for value in names.values()
        if callable(function := getattr(value, "func", value)) and getattr(function, "__name__", "") == name
    }
    return next(iter(found.values())) if len(found) == 1 else None


def _told(function: Callable[..., Any]) -> str:
    plan = Udf(function).plan
    if plan.tier == NATIVE:
        shown = repr(plan.expression)
        as_what = shown if len(shown) <= LONGEST else shown[:LONGEST] + "..."
        return f"@penstock.udf makes {plan.function} a native expression, and no row crosses: {as_what}."
    advice = f" {plan.advice[0]}" if plan.advice else ""
    return f"@penstock.udf does not lift {plan.function} as it is written ({plan.reasons[0]}).{advice}"
