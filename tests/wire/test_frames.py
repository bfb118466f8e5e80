"""Frames: what is encoded comes back, and the sizes announced are the bytes that follow."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.dtypes import DTYPES
from penstock.wire.faults import Fault
from penstock.wire.frames import (
    HELLO,
    LENGTH,
    LENGTH_BYTES,
    TOKEN_BYTES,
    Header,
    Summary,
    closing_frame,
    data_frame,
)
from penstock.wire.plan import Piece, Plan, TensorPlan

SHAPES = st.none() | st.lists(st.integers(0, 5), max_size=3).map(tuple)
COUNTS = st.dictionaries(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=5), st.integers(0, 2**62), max_size=3
)
LENGTHS = st.lists(st.tuples(st.text(max_size=3), st.integers(1, 3), st.integers(0, 9)), max_size=3).map(
    tuple
)
FAULTS = st.none() | st.builds(Fault, st.just("cast"), st.text(), value=st.text()).map(Fault.to_dict)


def split(frame: bytes) -> tuple[Header, bytes]:
    (length,) = struct.unpack_from(LENGTH, frame)
    return Header.decode(frame[LENGTH_BYTES : LENGTH_BYTES + length]), frame[LENGTH_BYTES + length :]


@given(st.integers(0, 2**62), st.lists(SHAPES, max_size=4).map(tuple), LENGTHS)
def test_a_data_header_comes_back(
    rows: int, shapes: tuple[tuple[int, ...] | None, ...], lengths: tuple[tuple[str, int, int], ...]
) -> None:
    header = Header(rows, shapes, lengths=lengths)
    assert split(header.encode() + b"rest") == (header, b"rest")


@given(st.builds(Summary, st.integers(0, 2**62), COUNTS, FAULTS))
def test_a_summary_comes_back(summary: Summary) -> None:
    header, rest = split(closing_frame(summary))
    assert (header, rest) == (Header(0, (), summary), b"")
    assert header.sizes(Plan(())) == []


@st.composite
def tensors(draw: st.DrawFn) -> tuple[Plan, int, list[np.ndarray | None]]:
    rows = draw(st.integers(1, 4))
    plans, arrays = [], []
    for place in range(draw(st.integers(1, 3))):
        dtype = DTYPES[draw(st.sampled_from(sorted(DTYPES)))]
        shape = draw(SHAPES)
        plans.append(TensorPlan(f"t{place}", dtype.name, (Piece((f"t{place}",), (0,), depth=1),), False))
        if shape is None:
            arrays.append(None)
            continue
        count = rows * int(np.prod(shape)) * dtype.bytes
        content = np.frombuffer(draw(st.binary(min_size=count, max_size=count)), np.uint8)
        whole = (content % 2 if dtype.kind == "bool" else content).view(dtype.storage).reshape(rows, *shape)
        arrays.append(np.asfortranarray(whole) if draw(st.booleans()) else whole)
    return Plan(tuple(plans)), rows, arrays


@given(tensors())
def test_the_bytes_are_those_announced(drawn: tuple[Plan, int, list[np.ndarray | None]]) -> None:
    plan, rows, arrays = drawn
    header, rest = split(b"".join(data_frame(rows, arrays)))
    assert header.rows == rows
    assert header.shapes == tuple(None if array is None else array.shape[1:] for array in arrays)
    assert header.summary is None
    sizes = header.sizes(plan)
    assert sum(sizes) == len(rest)
    for array, size in zip(arrays, sizes, strict=True):
        mine, rest = rest[:size], rest[size:]
        assert mine == (b"" if array is None else array.tobytes("C"))


def test_contiguous_rows_are_not_copied() -> None:
    array = np.arange(6, dtype=np.float32).reshape(3, 2)
    _, buffer = data_frame(3, [array])
    assert np.shares_memory(np.asarray(buffer), array)


def test_a_header_for_another_plan_is_noticed() -> None:
    plan = Plan((TensorPlan("x", "float32", (Piece(("x",), (None,)),), False),))
    with pytest.raises(ValueError, match="zip"):
        Header(1, ((), ())).sizes(plan)


def test_the_greeting_holds_any_task_attempt() -> None:
    token = bytes(range(TOKEN_BYTES))
    packed = struct.pack(HELLO, token, 2**31 - 1, 2**63 - 1)
    assert struct.unpack(HELLO, packed) == (token, 2**31 - 1, 2**63 - 1)
