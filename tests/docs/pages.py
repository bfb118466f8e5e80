"""The documentation as code: every page's blocks, in their order.

Blocks of Python and of `sh` are run, one page after the other in one process (`run_pages.py`), each page as one script.
A fence that says `no-run` and a reason is not, nor is one that shows a whole file (``` { .python }). A block of `text`
right behind one that ran is what it has to print.
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
FENCE = re.compile(r"^( *)```(\w*)(?: +(.*))?$")
NO_RUN = "no-run"


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    language: str
    info: str
    code: str
    line: int
    """Of its first line of code, from 1."""
    after: int
    """The place among the page's blocks of the one it stands right behind, with nothing between; -1 for none."""

    @property
    def runs(self) -> bool:
        return self.language in ("python", "sh") and not self.info.startswith(NO_RUN)


@dataclass(frozen=True)
class Page:
    """A page of the documentation."""

    name: str
    blocks: tuple[Block, ...]

    @property
    def runs(self) -> bool:
        return any(block.runs for block in self.blocks)

    @property
    def script(self) -> str:
        """All of its Python that runs, each line where it stands in the page."""
        lines: list[str] = []
        for block in self.blocks:
            if block.runs and block.language == "python":
                lines += [""] * (block.line - 1 - len(lines)) + block.code.splitlines()
        return "\n".join(lines) + "\n"

    def expected(self, place: int) -> str | None:
        """What the block at a place has to print, where the page says so."""
        following = [block for block in self.blocks if block.after == place and block.language == "text"]
        return following[0].code if following else None


def read_page(name: str, markdown: str) -> Page:
    """Take a page apart."""
    blocks: list[Block] = []
    lines = markdown.splitlines()
    at, last, quiet = 0, -1, True
    while at < len(lines):
        opened = FENCE.match(lines[at])
        if opened is None:
            quiet = quiet and not lines[at].strip()
            at += 1
            continue
        begin = at = at + 1
        while at < len(lines) and lines[at].strip() != "```":
            at += 1
        if at == len(lines):
            raise ValueError(f"{name}, line {begin}: the block is never closed")
        code = textwrap.dedent("\n".join(lines[begin:at])) + "\n"
        blocks.append(Block(opened[2], opened[3] or "", code, begin + 1, last if quiet else -1))
        last, quiet = len(blocks) - 1, True
        at += 1
    return Page(name, tuple(blocks))


def all_pages() -> list[Page]:
    """Every page under docs/, by name."""
    return [
        read_page(path.relative_to(DOCS).as_posix(), path.read_text(encoding="utf-8"))
        for path in sorted(DOCS.rglob("*.md"))
    ]
