"""How arrays are laid on a socket or into a blob: a small JSON header, then each tensor's bytes.

A connection opens with `Hello` (who is sending), then carries data frames, then one closing frame with `Summary`.
Blobs, for executors that cannot reach the driver, hold the same frames without the greeting.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from penstock.dtypes import Array
from penstock.wire.plan import Plan

TOKEN_BYTES = 32
HELLO = f"<{TOKEN_BYTES}sqq"
LENGTH = "<I"
LENGTH_BYTES = struct.calcsize(LENGTH)
MAX_HEADER = 1 << 24


@dataclass(frozen=True)
class Summary:
    """How a partition ended: rows sent, nulls refused, or the fault that stopped it."""

    rows: int
    nulls: dict[str, int]
    fault: dict[str, Any] | None = None


@dataclass(frozen=True)
class Header:
    """A data frame's rows and each tensor's row shape (None: rows of nothing but null lists), or a summary.

    `lengths`: (column, level, length) of the lists behind those shapes, which do not tell columns side by side apart.
    """

    rows: int
    shapes: tuple[tuple[int, ...] | None, ...]
    summary: Summary | None = None
    lengths: tuple[tuple[str, int, int], ...] = ()

    def sizes(self, plan: Plan) -> list[int]:
        """Bytes of each tensor that follow the header; 0 for a tensor without known shape."""
        if self.summary is not None:
            return []
        return [
            0 if shape is None else self.rows * tensor.type.bytes * math.prod(shape)
            for tensor, shape in zip(plan.tensors, self.shapes, strict=True)
        ]

    def encode(self) -> bytes:
        """The header with its length in front."""
        body = json.dumps(
            {
                "rows": self.rows,
                "shapes": self.shapes,
                "summary": self.summary and asdict(self.summary),
                "lengths": self.lengths,
            }
        ).encode()
        return struct.pack(LENGTH, len(body)) + body

    @staticmethod
    def decode(body: bytes) -> Header:
        """The inverse of `encode`, given the bytes after the length.

        >>> header = Header(2, ((40,), None))
        >>> Header.decode(header.encode()[LENGTH_BYTES:]) == header
        True
        """
        parsed = json.loads(body)
        summary = parsed["summary"]
        shapes = tuple(None if shape is None else tuple(shape) for shape in parsed["shapes"])
        lengths = tuple((name, level, length) for name, level, length in parsed["lengths"])
        return Header(parsed["rows"], shapes, None if summary is None else Summary(**summary), lengths)


def data_frame(
    rows: int, arrays: list[Array | None], lengths: Mapping[tuple[str, int], int] | None = None
) -> list[bytes | memoryview]:
    """A batch's frame as buffers to be sent one after the other."""
    shapes = tuple(None if array is None else tuple(array.shape[1:]) for array in arrays)
    told = tuple((name, level, length) for (name, level), length in (lengths or {}).items())
    buffers: list[bytes | memoryview] = [Header(rows, shapes, lengths=told).encode()]
    for array in arrays:
        if array is not None and array.size:
            buffers.append(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return buffers


def closing_frame(summary: Summary) -> bytes:
    """The last frame of a partition."""
    return Header(0, (), summary).encode()
