"""What the shape tests share: the checkout's root and its files."""

from __future__ import annotations

import subprocess
from pathlib import Path, PurePosixPath

import pytest


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository's root."""
    return Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def files(root: Path) -> list[PurePosixPath]:
    """The checkout's files, relative to its root: those git tracks, and new ones it does not ignore."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return [
        PurePosixPath(name) for name in sorted(set(listed.split("\0"))) if name and (root / name).is_file()
    ]
