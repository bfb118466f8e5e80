"""What `pk.explain` found, for a report: from an `Explanation`, or out of a file of `penstock explain --json`."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from penstock.errors import ReportError
from penstock.tools.explain_pages import given_once

LARGEST = 64 << 20
"""Bytes; an explanation is never as long."""


def explanation_facts(given: Any) -> list[dict[str, Any]]:
    """Each explained DataFrame: the sentence, and the findings with their advice."""
    from penstock.tools.explain import Explanation

    if isinstance(given, Explanation):
        return [_explained("", given.to_dict(), "the explanation")]
    if isinstance(given, (str, os.PathLike)):
        return _from_file(Path(given))
    raise ReportError(
        f"explanation is a {type(given).__name__}. Pass what pk.explain returned, or the path of a file that "
        "`penstock explain ... --json` printed."
    )


def _from_file(path: Path) -> list[dict[str, Any]]:
    try:
        if path.stat().st_size > LARGEST:
            raise ReportError(
                f"{path} is larger than any explanation ({path.stat().st_size:,} bytes). Name a file that "
                "`penstock explain ... --json` printed."
            )
        found = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ReportError(
            f"the explanation {path} cannot be read: {error.strerror or error}. Name a file that "
            "`penstock explain ... --json` printed."
        ) from None
    except (ValueError, RecursionError) as error:
        raise ReportError(
            f"{path} is not JSON ({error!s:.100}). Make it with: penstock explain script.py --json > {path.name}"
        ) from None
    if not isinstance(found, Mapping) or not found:
        raise _strange(path)
    if "sentence" in found and "findings" in found:
        return [_explained("", found, path)]
    return [_explained(name, each, path) for name, each in found.items()]


def _strange(path: Path | str) -> ReportError:
    return ReportError(
        f"{path} holds JSON that is no explanation. Make it with `penstock explain script.py --json`, or pass what "
        "pk.explain returned."
    )


def _explained(name: str, found: Any, path: Path | str) -> dict[str, Any]:
    try:
        findings = _together([_finding(each) for each in found["findings"]])
        told = given_once([each["advice"] for each in findings])
        findings = [each | {"advice": advice} for each, advice in zip(findings, told, strict=True)]
        seconds, rows = found.get("seconds"), found.get("rows")
        if not all(each is None or isinstance(each, (int, float)) for each in (seconds, rows)):
            raise TypeError
        return {
            "name": name,
            "sentence": _text(found["sentence"]),
            "seconds": seconds,
            "rows": rows,
            "findings": findings,
        }
    except (TypeError, KeyError, AttributeError):
        raise _strange(path) from None


def _finding(found: Any) -> dict[str, Any]:
    boundary = found.get("boundary")
    names = list(boundary["functions"]) if boundary else []
    return {
        "kind": _text(found["kind"]),
        "operator": _text(found["operator"]),
        "node": found.get("node"),
        "says": _text(found["says"]),
        "advice": _text(found["advice"]),
        "functions": [_text(each) for each in names],
        "crossing": _text(boundary["crossing"]) if boundary else None,
        "seconds": ((boundary or {}).get("traffic") or {}).get("seconds"),
    }


def _together(findings: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """What is said in the same words of several places once, with all of them: five tables need not be five findings.

    >>> same = {"kind": "memory", "operator": "LocalTableScan", "says": "lies in the plan.", "advice": ""}
    >>> [each["nodes"] for each in _together([same | {"node": 3}, same | {"node": 12}])]
    [[3, 12]]
    """
    found: dict[tuple[str, ...], dict[str, Any]] = {}
    for each in findings:
        words = tuple(each[key] for key in ("kind", "operator", "says", "advice"))
        first = found.setdefault(words, each | {"nodes": []})
        first["nodes"] += [] if each["node"] is None else [each["node"]]
    return list(found.values())


def _text(found: Any) -> str:
    if not isinstance(found, str):
        raise TypeError
    return found
