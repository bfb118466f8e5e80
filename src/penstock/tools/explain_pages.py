"""How an explanation looks: as text, on a terminal, and in a notebook.

Only values from `penstock.jobs` come in, so all three show the same; names of columns and functions are the user's, and
are never taken for markup.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from rich.console import Group
from rich.padding import Padding
from rich.text import Text

from penstock.jobs.boundaries import counted_rows, rows_of
from penstock.jobs.boundaries_around import Finding
from penstock.jobs.plan import Node

if TYPE_CHECKING:
    from rich.console import RenderableType

WIDTH = 110
STYLES = {"boundary": "bold yellow", "twice": "bold red", "join": "bold red", "sampled": "bold red"}
QUIET = "bold"
HTML = (
    '<div style="font-family:system-ui,sans-serif;max-width:60em;line-height:1.4">'
    '<p style="font-weight:600">{sentence}</p><ol style="padding-left:1.4em">{findings}</ol>'
    "<details><summary>Plan</summary><pre>{plan}</pre></details></div>"
)
HTML_FINDING = (
    '<li style="margin-bottom:.5em"><span style="font-weight:600">{title}</span>: {says}'
    '<div style="opacity:.75">{advice}</div></li>'
)


def title(finding: Finding) -> str:
    """The operator a finding is about, with its number in the plan."""
    return finding.operator + (f" ({finding.node})" if finding.node is not None else "")


def advices(findings: Sequence[Finding]) -> list[str]:
    """What to do about each; the same advice is given once, and then pointed at."""
    return given_once([finding.advice for finding in findings])


def given_once(advice: Sequence[str]) -> list[str]:
    """Each advice once, and where it comes again the number of the first.

    >>> given_once(["Do this.", "Do that.", "Do this.", ""])
    ['Do this.', 'Do that.', 'As for 1.', '']
    """
    first: dict[str, int] = {}
    found = []
    for place, each in enumerate(advice, 1):
        given = first.setdefault(each, place)
        found.append(each if given == place or not each else f"As for {given}.")
    return found


def plan_lines(plan: Node, findings: Sequence[Finding]) -> list[tuple[str, str]]:
    """The plan, a line each, and what is to be said behind it: how rows cross there, and how many rows came out."""
    crossing = {f.node: f.boundary.crossing for f in findings if f.kind == "boundary" and f.boundary}
    found = []
    for depth, node in plan.lines():
        counted = counted_rows(node)
        notes = [f"Python: {crossing[node.number]}"] if node.number in crossing else []
        notes += [rows_of(counted)] if counted is not None else []
        found.append((f"{'  ' * depth}{node.name} ({node.number})", ", ".join(notes)))
    return found


def as_text(sentence: str, findings: Sequence[Finding], plan: Node) -> str:
    """A page of plain text."""
    lines = [*textwrap.wrap(sentence, WIDTH), ""]
    for place, (finding, advice) in enumerate(zip(findings, advices(findings), strict=True), 1):
        lines += _wrapped(f"{place}. {title(finding)}: {finding.says}", "   ")
        lines += _wrapped(f"   -> {advice}", "      ") if advice else []
    lines += ["", "Plan"] if findings else ["Plan"]
    for line, notes in plan_lines(plan, findings):
        lines.append(f"  {line}" + (f"  <- {notes}" if notes else ""))
    return "\n".join(lines)


def _wrapped(text: str, indent: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, subsequent_indent=indent, break_long_words=False)


def on_terminal(sentence: str, findings: Sequence[Finding], plan: Node) -> RenderableType:
    """The same, drawn by rich."""
    shown: list[RenderableType] = [Text(sentence, style="bold"), Text()]
    for place, (finding, advice) in enumerate(zip(findings, advices(findings), strict=True), 1):
        style = STYLES.get(finding.kind, QUIET)
        shown.append(Text.assemble(f"{place}. ", (title(finding), style), f": {finding.says}"))
        if advice:
            shown.append(Padding(Text(f"-> {advice}", style="green"), (0, 0, 0, 3)))
    shown += [Text(), Text("Plan", style="bold")] if findings else [Text("Plan", style="bold")]
    for line, notes in plan_lines(plan, findings):
        crosses = notes.startswith("Python")
        shown.append(
            Text.assemble("  ", (line, "yellow" if crosses else ""), (f"  {notes}" if notes else "", "dim"))
        )
    return Group(*shown)


def as_html(sentence: str, findings: Sequence[Finding], plan: Node) -> str:
    """The same for a notebook; nothing in it is loaded from elsewhere."""
    parts = [
        HTML_FINDING.format(title=escape(title(finding)), says=escape(finding.says), advice=escape(advice))
        for finding, advice in zip(findings, advices(findings), strict=True)
    ]
    lines = [f"{line}  {notes}".rstrip() for line, notes in plan_lines(plan, findings)]
    return HTML.format(sentence=escape(sentence), findings="".join(parts), plan=escape("\n".join(lines)))
