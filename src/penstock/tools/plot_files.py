"""The file of a plot, of `size` and of `bench boundary`: its folders are made, and what fails is told."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from penstock.errors import PenstockError


def make_folder(path: Path, error: type[PenstockError]) -> None:
    """The folder a plot goes to, made where it is not there."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as why:
        raise _refused(path, error, why) from why


def save(figure: Figure, path: Path, error: type[PenstockError]) -> Path:
    """Write the figure; its path."""
    try:
        figure.savefig(path, dpi=150)
    except OSError as why:
        raise _refused(path, error, why) from why
    return path


def _refused(path: Path, error: type[PenstockError], why: OSError) -> PenstockError:
    return error(
        f"the plot cannot be written to {str(path)!r}: {why.strerror or why}. Choose another place (--plot)."
    )
