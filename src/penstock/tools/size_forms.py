"""What storing the same rows otherwise costs: Parquet against Arrow, and compression.

The ratios are measured, and no laws: `docs/results.md` has the machine, the runs and the data ("A DataFrame to shards",
40 columns of floats, doubles and ints as float32; "From shards to batches in host memory", on 2 cores with the files in
memory). Other data compresses otherwise, and more cores decode more. What was not measured is None here, and told so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

SOURCE = "docs/results.md"
NARROW, WIDE = 160, 1024
"""Bytes of the rows that reading was measured with."""
LOADER_NARROW, LOADER_WIDE = 3.93e9, 9.33e9
"""Bytes a second that `ds.numpy` made batches of on the same 2 cores, out of plain Arrow: the same rows. Without numba,
which not everybody has; with it there are more."""
BETWEEN = 405
"""Rows are taken for narrow or wide ones by what is nearer: the geometric middle."""


@dataclass(frozen=True)
class Measured:
    """One way to store rows, against plain Arrow."""

    name: str
    bytes: float
    """Bytes on storage, of those of plain Arrow."""
    write: float
    """Seconds of `pk.write(shuffle=False)`, of those of plain Arrow."""
    narrow: float | None
    """Bytes a second that the same loop, written by hand, made batches of on 2 cores: rows of 160 bytes."""
    wide: float | None
    """The same, rows of 1 KB."""


MEASURED = (
    Measured("Arrow", 1.0, 1.0, 1.17e9, 7.29e9),
    Measured("Parquet", 640 / 640, 3.75 / 3.79, 0.64e9, 1.38e9),
    Measured("Arrow, zstd", 543 / 640, 4.73 / 3.79, None, None),
)


@dataclass(frozen=True)
class Form:
    """The rows of a sizing, stored in one of the ways."""

    name: str
    stored: int
    """Bytes on storage."""
    own: bool
    """Whether the bytes are a dataset's own; else they are a measured ratio's."""
    read_seconds: float | None
    """How long storage takes to give a worker its share."""
    decoded: float | None
    """Bytes of tensors a second that a worker of 2 cores was measured to make batches of; None: not measured."""
    decode_seconds: float | None
    """How long a worker of 2 cores takes for its share at that speed."""
    write: float | None
    """Seconds of writing, of those of plain Arrow: the measured ratio; None: not measured."""

    def to_dict(self) -> dict[str, Any]:
        """As plain values, for JSON."""
        return {
            "name": self.name,
            "bytes": self.stored,
            "bytes_are": "the dataset's own" if self.own else f"a measured ratio, {SOURCE}",
            "read_seconds": self.read_seconds,
            "decoded_bytes_per_second_on_2_cores": self.decoded,
            "decode_seconds_on_2_cores": self.decode_seconds,
            "write_time_against_arrow": self.write,
        }


def forms(
    tensor_bytes: int,
    row_bytes: float,
    share: float,
    bandwidth: float | None,
    own: tuple[str, int] | None = None,
) -> tuple[Form, ...]:
    """The ways to store rows, where a worker reads this share of them. `own`: how a dataset is stored, and its bytes.

    A dataset that is stored in a way that was not measured has a line of its own.

    >>> arrow, parquet, zstd = forms(2_048 * 10**9, 1024, 1 / 16, 2e9)
    >>> arrow.read_seconds, zstd.stored < arrow.stored, zstd.decode_seconds
    (64.0, True, None)
    """
    found = []
    for each in MEASURED:
        is_own = own is not None and own[0] == each.name
        stored = own[1] if own is not None and is_own else round(tensor_bytes * each.bytes)
        decoded = each.narrow if row_bytes < BETWEEN else each.wide
        found.append(
            Form(
                each.name,
                stored,
                is_own,
                None if bandwidth is None else stored * share / bandwidth,
                decoded,
                None if decoded is None else tensor_bytes * share / decoded,
                each.write,
            )
        )
    if own is not None and not any(each.own for each in found):
        read = None if bandwidth is None else own[1] * share / bandwidth
        found.append(Form(own[0], own[1], True, read, None, None, None))
    return tuple(found)


def making_seconds(found: tuple[Form, ...], row_bytes: float, worker_bytes: float) -> float | None:
    """How long a worker of 2 cores was measured to take to make batches of its share; None: not measured.

    Of plain Arrow by the loader itself, of Parquet by the loop by hand.

    >>> found = forms(2_048 * 10**9, 1024, 1 / 16, 2e9)
    >>> making_seconds(found, 1024, 128e9) < found[1].decode_seconds
    True
    """
    stored = next((each for each in found if each.own), found[0])
    if stored.name == MEASURED[0].name:
        return worker_bytes / (LOADER_NARROW if row_bytes < BETWEEN else LOADER_WIDE)
    return stored.decode_seconds


def form_name(storage: str, compression: str | None) -> str:
    """How this table calls a dataset's way to store.

    >>> form_name("arrow", "zstd"), form_name("parquet", None)
    ('Arrow, zstd', 'Parquet')
    """
    return f"{storage.capitalize()}, {compression}" if compression else storage.capitalize()
