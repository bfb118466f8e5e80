"""Rows of lengths of their own: Arrow lists, strings and bytes in every layout, against to_pylist()."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import DataError
from penstock.wire.faults import BadValue
from penstock.wire.pack import Packer
from penstock.wire.plan import Fill, Piece, Plan, TensorPlan
from penstock.wire.ragged import Ragged

LIST_LAYOUTS = [pa.list_, pa.large_list, pa.list_view, pa.large_list_view]
TEXT_LAYOUTS = [pa.string(), pa.large_string(), pa.string_view()]
BINARY_LAYOUTS = [pa.binary(), pa.large_binary(), pa.binary_view()]


def packer_of(kind: str, dtype: str = "uint8", depth: int = 0, fill: Fill = None) -> Packer:
    piece = Piece(("c",), (fill,), depth)
    return Packer(Plan((TensorPlan("t", dtype, (piece,), False, kind),)))


def packed(packer: Packer, column: pa.Array) -> Ragged:
    (found,) = packer.arrays(pa.record_batch([column], names=["p0"]))
    assert isinstance(found, Ragged)
    assert found.offsets.dtype == np.int64
    assert found.offsets[0] == 0
    assert found.offsets[-1] == len(found.values)
    assert len(found) == len(column)
    return found


def rows_of(found: Ragged) -> list[Any]:
    return [found.row(number).tolist() for number in range(len(found))]


def texts_of(found: Ragged) -> list[bytes]:
    return [found.row(number).tobytes() for number in range(len(found))]


@st.composite
def list_columns(draw: st.DrawFn) -> tuple[pa.Array, int]:
    """A column of lists under some layout, cut out of a longer one, and its depth."""
    inner = draw(st.none() | st.integers(1, 3))
    element: Any = st.none() | st.integers(-100, 100)
    kind = draw(st.sampled_from([pa.int16(), pa.int64(), pa.float32()]))
    if inner is not None:
        element = st.none() | st.lists(element, min_size=inner, max_size=inner)
        kind = draw(st.sampled_from([*LIST_LAYOUTS, lambda value: pa.list_(value, inner)]))(kind)
    rows = draw(st.lists(st.none() | st.lists(element, max_size=4), max_size=8))
    column = pa.array(rows, draw(st.sampled_from(LIST_LAYOUTS))(kind))
    start = draw(st.integers(0, len(rows)))
    return column.slice(start, draw(st.integers(0, len(rows) - start))), 1 if inner is None else 2


def filled(row: list[Any] | None, fill: int, shape: int | None, nulls: Counter[str]) -> list[Any]:
    """One row as it must come out; every null in it counted."""
    if row is None:
        nulls["c"] += 1
        return []
    out: list[Any] = []
    for element in row:
        if isinstance(element, list):
            nulls["c"] += element.count(None)
            out.append([fill if value is None else value for value in element])
        else:
            nulls["c"] += element is None
            whole = fill if shape is None else [fill] * shape
            out.append(whole if element is None else element)
    return out


@settings(max_examples=400)
@given(drawn=list_columns(), refused=st.booleans())
def test_lists_of_any_layout_are_what_python_sees(drawn: tuple[pa.Array, int], refused: bool) -> None:
    column, depth = drawn
    packer = packer_of("ragged", "float64", depth, None if refused else 7)
    rows = column.to_pylist()
    shape = None
    if depth == 2:
        told = [len(element) for row in rows if row for element in row if element is not None]
        if pa.types.is_fixed_size_list(column.type.value_type):
            told.append(column.type.value_type.list_size)
        shape = told[0] if told else 0
        untold = not told and any(row for row in rows)
        if untold and not refused:
            with pytest.raises(BadValue, match="unknown-length"):
                packed(packer, column)
            return
    nulls: Counter[str] = Counter()
    expected = [filled(row, 0 if refused else 7, shape, nulls) for row in rows]
    assert rows_of(packed(packer, column)) == expected
    assert packer.nulls == (+nulls if refused else Counter())


@settings(max_examples=300)
@given(
    rows=st.lists(st.none() | st.text(max_size=15), max_size=10),
    layout=st.sampled_from([*TEXT_LAYOUTS, "dictionary"]),
    fill=st.none() | st.text(max_size=3),
    data=st.data(),
)
def test_strings_of_any_layout_are_their_utf8(
    rows: list[str | None], layout: Any, fill: str | None, data: st.DataObject
) -> None:
    column = pa.array(rows, pa.string() if layout == "dictionary" else layout)
    if layout == "dictionary":
        column = column.dictionary_encode()
    start = data.draw(st.integers(0, len(rows)))
    column = column.slice(start, data.draw(st.integers(0, len(rows) - start)))
    packer = packer_of("string", fill=None if fill is None else fill.encode())
    stand_in = "" if fill is None else fill
    expected = [(stand_in if row is None else row).encode() for row in column.to_pylist()]
    assert texts_of(packed(packer, column)) == expected
    assert packer.nulls["c"] == (column.null_count if fill is None else 0)


@settings(max_examples=200)
@given(
    rows=st.lists(st.none() | st.binary(min_size=3, max_size=3), max_size=10),
    layout=st.sampled_from([*BINARY_LAYOUTS, pa.binary(3)]),
    fill=st.none() | st.binary(max_size=5),
    data=st.data(),
)
def test_bytes_of_any_layout_are_themselves(
    rows: list[bytes | None], layout: pa.DataType, fill: bytes | None, data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, len(rows)))
    column = pa.array(rows, layout).slice(start, data.draw(st.integers(0, len(rows) - start)))
    packer = packer_of("binary", fill=fill)
    expected = [(fill or b"") if row is None else row for row in column.to_pylist()]
    assert texts_of(packed(packer, column)) == expected
    assert packer.nulls["c"] == (column.null_count if fill is None else 0)


def test_bytes_under_a_null_do_not_show() -> None:
    values = pa.array([1, 2, 3, 4, 5], pa.int32())
    hidden = pa.ListArray.from_arrays(pa.array([0, 2, 4, 5]), values, mask=pa.array([False, True, False]))
    assert hidden.offsets.tolist() == [0, 2, 4, 5]
    assert rows_of(packed(packer_of("ragged", "int32", 1, 0), hidden)) == [[1, 2], [], [5]]
    buffers = [pa.py_buffer(b"\x05"), pa.array([0, 2, 4, 5], pa.int32()).buffers()[1], pa.py_buffer(b"abXYc")]
    text = pa.Array.from_buffers(pa.string(), 3, buffers)
    assert text.to_pylist() == ["ab", None, "c"]
    assert texts_of(packed(packer_of("string", fill=b"?"), text)) == [b"ab", b"?", b"c"]


def test_list_views_may_overlap_and_run_backwards() -> None:
    for views in (pa.ListViewArray, pa.LargeListViewArray):
        column = views.from_arrays([3, 0, 1], [1, 2, 3], pa.array([1, 2, 3, 4]))
        assert rows_of(packed(packer_of("ragged", "int64", 1), column)) == column.to_pylist()
        assert rows_of(packed(packer_of("ragged", "int64", 1), column.slice(1))) == [[1, 2], [2, 3, 4]]


def test_values_that_fit_are_not_copied() -> None:
    lists = pa.array([[1, 2], [3]], pa.list_(pa.int32()))
    found = packed(packer_of("ragged", "int32", 1), lists)
    assert found.values.ctypes.data == lists.values.buffers()[1].address
    texts = pa.array(["ab", "c"])
    assert packed(packer_of("string"), texts).values.ctypes.data == texts.buffers()[2].address


def test_elements_are_cast_and_checked_as_in_a_fixed_tensor() -> None:
    column = pa.array([[1, 2], [300]], pa.list_(pa.int64()))
    assert packed(packer_of("ragged", "float32", 1), column).values.dtype == np.float32
    with pytest.raises(BadValue) as caught:
        packed(packer_of("ragged", "int8", 1), column)
    assert "column 'c' holds 300, which does not fit int8" in str(caught.value.fault.to_error())


def test_only_the_outermost_lists_may_differ() -> None:
    packer = packer_of("ragged", "int64", 2)
    assert packed(packer, pa.array([[[1, 2], [3, 4]], [[5, 6]]])).values.shape == (3, 2)
    with pytest.raises(BadValue) as caught:
        packed(packer, pa.array([[[1, 2]], [[1, 2, 3]]]))
    assert "length 3 where the rows before it have 2" in str(caught.value.fault.to_error())


def test_empty_rows_take_the_elements_shape_from_rows_before_them() -> None:
    packer = packer_of("ragged", "int64", 2)
    nothing = pa.array([[], []], pa.list_(pa.list_(pa.int64())))
    assert packed(packer, nothing).values.shape == (0, 0)
    packed(packer, pa.array([[[1, 2, 3]]]))
    assert packed(packer, nothing).values.shape == (0, 3)


def test_elements_of_unknown_length_are_named() -> None:
    packer = packer_of("ragged", "int64", 2, 0)
    with pytest.raises(BadValue) as caught:
        packed(packer, pa.array([[None]], pa.list_(pa.list_(pa.int64()))))
    error = caught.value.fault.to_error()
    assert type(error) is DataError
    assert "'c' holds no list that could tell its length" in str(error)


@pytest.mark.parametrize("kind", ["ragged", "string", "binary"])
def test_a_batch_without_rows(kind: str) -> None:
    types = {"ragged": pa.list_(pa.uint8()), "string": pa.string(), "binary": pa.binary()}
    found = packed(packer_of(kind, depth=int(kind == "ragged")), pa.array([], types[kind]))
    assert (len(found), found.values.dtype, found.nbytes) == (0, np.uint8, 8)


def test_a_dictionary_inside_lists_is_undone() -> None:
    column = pa.ListArray.from_arrays([0, 2, 3], pa.array([5, 6, 5]).dictionary_encode())
    assert rows_of(packed(packer_of("ragged", "int64", 1), column)) == [[5, 6], [5]]
