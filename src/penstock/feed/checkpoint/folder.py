"""Checkpoints as folders on a file system: each is there, whole, or it is not.

    path/00000007-step-1200/    the seventh checkpoint, taken after 1200 steps
      checkpoint.json           what it holds, with the size and checksum of every other file; written last
      model.pt ...              the states
    path/.writing-...           one that is being written, or whose writer was killed
    path/.gone-...              one that is being deleted

A folder gets its name by a rename, after all its bytes have been forced to the disk, and loses it by another,
before the first of them goes. The number counts checkpoints: the newest is the one written last, also where
somebody began again in the same folder. `penstock.feed.checkpoint.checkpoint` says what goes in.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from penstock.dataset import checksum
from penstock.errors import CheckpointError, StorageError

FORMAT = 1
TOC = "checkpoint.json"
NAME = re.compile(r"(\d{8,})-step-(\d+)")
WRITING, GONE = ".writing-", ".gone-"
STALE_SECONDS = 24 * 3600.0
CHUNK = 4 << 20


@dataclass(frozen=True)
class Found:
    """A checkpoint that has its name.

    >>> Found.read(Path("run/00000007-step-1200"))
    Found(number=7, step=1200, folder=PosixPath('run/00000007-step-1200'))
    """

    number: int
    step: int
    folder: Path

    @staticmethod
    def read(folder: Path) -> Found | None:
        """What the folder's name says; None for other folders."""
        match = NAME.fullmatch(folder.name)
        return None if match is None else Found(int(match[1]), int(match[2]), folder)


def local_folder(path: str | os.PathLike[str]) -> Path:
    """The path on this machine's file systems; object stores are refused.

    >>> local_folder("file:///tmp/run")
    PosixPath('/tmp/run')
    """
    text = os.fspath(path)
    if text.startswith("file://"):
        return Path(unquote(urlsplit(text).path))  # as `penstock.dataset.store.open_store` reads it
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", text):
        raise CheckpointError(
            text,
            "checkpoints need a file system that renames a folder in one go, and object stores cannot",
            "Keep them on a local or shared disk, and copy finished folders (those named NUMBER-step-STEP) to the "
            "store; or mount the store.",
            "hold checkpoints",
        )
    return Path(text)


def checkpoints(path: Path) -> list[Found]:
    """All that have their names, the oldest first: by their numbers, and of two writers with one by when they wrote."""
    try:
        names = os.listdir(path)
    except FileNotFoundError:
        return []
    except NotADirectoryError:
        raise CheckpointError(str(path), "it is a file", "Pass a folder.", "hold checkpoints") from None
    found = [each for name in names if (each := Found.read(path / name)) is not None]
    shared = Counter(each.number for each in found)

    def age(each: Found) -> tuple[int, float, int]:
        # Two that took a number at once: nothing but a lock, which not every file system has, would prevent it.
        return each.number, _written(each) if shared[each.number] > 1 else 0.0, each.step

    return sorted(found, key=age)


def _written(found: Found) -> float:
    """When its last file was."""
    try:
        return (found.folder / TOC).stat().st_mtime
    except OSError:
        return 0.0


@contextmanager
def writing(path: Path, step: int) -> Iterator[tuple[Path, dict[str, Any]]]:
    """A folder to fill and a mapping for its `checkpoint.json`; on leaving the block well it becomes a checkpoint.

    The mapping's key "folder" then holds where it is.
    """
    # The name says whose it is, so that what a killed process left can be told from what another one is writing.
    own = path / f"{WRITING}{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
    toc: dict[str, Any] = {"format": FORMAT, "step": step, "written": time.time()}
    try:
        own.mkdir(parents=True)
        try:
            yield own, toc
            toc["files"] = {file.name: _sealed(file) for file in sorted(own.iterdir())}
            (own / TOC).write_text(json.dumps(toc, indent=1))
            _force(own / TOC)
            _force(own)
            toc["folder"] = _named(path, own, step)
            _force(path)
        except BaseException:
            shutil.rmtree(own, ignore_errors=True)
            raise
    except OSError as error:
        raise StorageError(
            "write a checkpoint to",
            str(path),
            error.strerror or str(error),
            "Those written before are whole.",
        ) from error


def _named(path: Path, own: Path, step: int) -> Path:
    """Give the folder its name: the next number. A number that somebody else takes meanwhile is left to them."""
    number = max((each.number for each in checkpoints(path)), default=0)
    while True:
        number += 1
        name = path / f"{number:08d}-step-{step}"
        # A rename onto an existing folder fails, unless that one is empty, which none of ours is.
        if any(each.number == number for each in checkpoints(path)):
            continue
        try:
            os.rename(own, name)
        except FileExistsError:
            continue
        except OSError as error:
            if name.exists():
                continue
            raise error
        return name


def _sealed(file: Path) -> dict[str, Any]:
    """Force a file to the disk; its size and checksum."""
    _force(file)
    kind = checksum.best_kind()
    return {"bytes": file.stat().st_size, "checksum": checksum.text(kind, _checksum(file, kind))}


def _checksum(file: Path, kind: str) -> int:
    running = checksum.new(kind)
    with file.open("rb") as stream:
        while piece := stream.read(CHUNK):
            running.update(piece)
    return running.value()


def _force(path: Path) -> None:
    """What was written is on the disk, and not only on its way there."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def contents(found: Found) -> dict[str, Any] | str:
    """A checkpoint's `checkpoint.json`, every file it names being as it was written; else what is wrong with it."""
    try:
        toc: dict[str, Any] = json.loads((found.folder / TOC).read_text())
        if toc["format"] != FORMAT:
            return f"its format is {toc['format']!r}, and this version reads {FORMAT}"
        for name, sealed in toc["files"].items():
            file = found.folder / name
            if file.stat().st_size != sealed["bytes"]:
                return f"{name} has {file.stat().st_size} bytes instead of {sealed['bytes']}"
            kind, value = checksum.parse(sealed["checksum"])
            if _checksum(file, kind) != value:
                return f"{name} is not what was written: its checksum is wrong"
    except FileNotFoundError as error:
        return f"{Path(str(error.filename)).name} is missing"
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return f"it cannot be read ({type(error).__name__}: {error})"
    return toc


def prune(path: Path, keep: int | None) -> None:
    """Delete all but the newest `keep`, and what killed writers left."""
    if keep is not None:
        for found in checkpoints(path)[:-keep]:
            gone = path / f"{GONE}{uuid.uuid4().hex[:8]}"
            # Its name goes first: a folder with a name is whole at every moment.
            with suppress(OSError):
                os.rename(found.folder, gone)
    for left in path.iterdir():
        if left.name.startswith(GONE) or (left.name.startswith(WRITING) and _abandoned(left)):
            shutil.rmtree(left, ignore_errors=True)


def _abandoned(left: Path) -> bool:
    host, _, rest = left.name.removeprefix(WRITING).rpartition("-")[0].rpartition("-")
    try:
        if host == socket.gethostname() and rest.isdigit():
            os.kill(int(rest), 0)
            return False
        return time.time() - left.stat().st_mtime > STALE_SECONDS
    except ProcessLookupError:
        return True
    except OSError:
        return False
