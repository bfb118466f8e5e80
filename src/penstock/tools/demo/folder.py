"""Where the demo's files lie: in a folder that the user named, or in a temporary one that goes when it is over.

A run that ended well leaves what it was to keep. One that did not, whatever stopped it, leaves nothing. `demo.json`
marks a folder as the demo's own: its parts may be replaced by another run, and nothing else is ever deleted.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from penstock.errors import StorageError
from penstock.machine import cache_folders, own_folder
from penstock.tools.demo.interrupts import undisturbed

FACTS, REPORT = "demo.json", "report.html"
WRITTEN = ("penstock", "options", "flights", "split", "training", "stages", "seconds", "paths")
"""What the facts of a run that ended well hold, among others."""
SCRATCH = "torch"
"""What torch keeps for itself while it runs."""
PARTS = ("train", "evaluate", "run", SCRATCH, "log.jsonl", "model.keras", REPORT, FACTS)
"""All that a run may make, but for the logs of single ranks."""


@dataclass(frozen=True)
class Folder:
    """Where a run works."""

    work: Path
    stays: bool
    """Whether all of it is kept, or the report and the facts alone."""

    def kept(self) -> Path:
        """Where report and facts go in the end: here, or to the user's cache, in place of the last run's."""
        if self.stays:
            return self.work
        for root in cache_folders():
            with suppress(OSError):
                own_folder(root)
                (root / "demo").mkdir(exist_ok=True)
                return root / "demo"
        raise StorageError("keep", "the report", "no folder may be written to", "Name one by --keep.")

    def keep(self) -> None:
        """Bring report and facts there from where the run works: each as a whole, and both or none."""
        there = self.kept()
        if there == self.work:
            return
        with undisturbed():
            for name in (REPORT, FACTS):
                beside = there / f".{name}-{os.getpid()}"
                try:
                    shutil.copyfile(self.work / name, beside)
                    beside.replace(there / name)
                finally:
                    beside.unlink(missing_ok=True)


@contextmanager
def demo_folder(keep: str | None) -> Iterator[Folder]:
    """The folders of one run."""
    with _temporary() if keep is None else _named(Path(keep)) as folder:
        yield folder


@contextmanager
def _temporary() -> Iterator[Folder]:
    work = Path(tempfile.mkdtemp(prefix="penstock-demo-"))
    try:
        yield Folder(work, stays=False)
    finally:
        with undisturbed():
            shutil.rmtree(work, ignore_errors=True)


@contextmanager
def _named(folder: Path) -> Iterator[Folder]:
    if folder.is_dir() and any(folder.iterdir()) and not _is_own(folder / FACTS):
        raise StorageError(
            *("keep the demo in", str(folder), "it holds files that are not the demo's"),
            "Name a folder that is empty or not there.",
        )
    made = [each for each in (folder, *folder.parents) if not each.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _clear(folder)
    except OSError as error:
        _remove(made)
        raise StorageError(
            "keep the demo in",
            str(folder),
            error.strerror or str(error),
            "Name a folder that may be written to.",
        ) from error
    try:
        yield Folder(folder, stays=True)
        shutil.rmtree(folder / SCRATCH, ignore_errors=True)
    except BaseException:
        with undisturbed():
            _clear(folder)
            _remove(made)
        raise


def _remove(made: Sequence[Path]) -> None:
    """Take folders away that this run has made, the innermost first; one that others use by now stays."""
    for each in made:
        with suppress(OSError):
            each.rmdir()


def _is_own(facts: Path) -> bool:
    """Whether a demo wrote this file; other tools have a demo.json, too."""
    try:
        found = json.loads(facts.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(found, dict) and set(WRITTEN) <= set(found)


def _clear(folder: Path) -> None:
    """Take the demo's own parts away."""
    for path in [*(folder / part for part in PARTS), *folder.glob("log-rank*.jsonl")]:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
