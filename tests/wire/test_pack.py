"""Batches to row-major arrays, against a slow reference that goes through every value in Python."""

from __future__ import annotations

import datetime
from collections import Counter
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.wire.faults import BadValue
from penstock.wire.pack import Packer
from penstock.wire.plan import Fill, Piece, Plan, TensorPlan

VALUE_TYPES = [pa.int32(), pa.int64(), pa.float32(), pa.float64()]
DTYPES_TRIED = ["float32", "float64", "int16", "uint8", "float16"]
JUNK = 99


def nested(kind: pa.DataType, depth: int) -> pa.DataType:
    return nested(pa.list_(kind), depth - 1) if depth else kind


def single(piece: Piece, dtype: str = "float32", matrix: bool = False) -> Plan:
    return Plan((TensorPlan("x", dtype, (piece,), matrix),))


def batch_of(*columns: pa.Array) -> pa.RecordBatch:
    return pa.record_batch(list(columns), names=[f"p{place}" for place in range(len(columns))])


def lists(rows: list[Any], kind: pa.DataType | None = None, depth: int = 1) -> pa.Array:
    return pa.array(rows, nested(pa.float32() if kind is None else kind, depth))


# The reference. A row is a value, a list of them under `depth` levels, or (packed) one value per column.


@st.composite
def rows_of(draw: st.DrawFn, dims: tuple[int, ...], nulls: bool) -> Any:
    if nulls and draw(st.integers(0, 4)) == 0:
        return None
    if not dims:
        return draw(st.integers(0, 100))
    return [draw(rows_of(dims[1:], nulls)) for _ in range(dims[0])]


@st.composite
def pieces(draw: st.DrawFn, names: str, deepest: int) -> tuple[Piece, tuple[int, ...]]:
    kind = draw(st.sampled_from(["packed", "scalar", "lists"]))
    count = draw(st.integers(2, 4)) if kind == "packed" else 1
    fills = tuple(draw(st.lists(st.none() | st.integers(0, 100), min_size=count, max_size=count)))
    columns = tuple(f"{names}{place}" for place in range(count))
    if kind == "packed":
        return Piece(columns, fills, packed=True), (count,)
    depth = draw(st.integers(1, deepest)) if kind == "lists" else 0
    return Piece(columns, fills, depth), tuple(draw(st.integers(0, 3)) for _ in range(depth))


@st.composite
def columns_of(
    draw: st.DrawFn, piece: Piece, dims: tuple[int, ...], count: int
) -> tuple[list[Any], pa.Array]:
    """Rows of one piece, and the Arrow array that holds them as a slice, with other rows around it."""
    nulls = draw(st.booleans())
    if piece.packed:
        rows: list[Any] = [[draw(rows_of((), nulls)) for _ in range(dims[0])] for _ in range(count)]
        around: list[Any] = [[None, *[JUNK] * (dims[0] - 1)]]
    else:
        rows = [draw(rows_of(dims, nulls)) for _ in range(count)]
        junk: Any = JUNK
        for length in dims[::-1]:
            junk = [junk] * (length + 1)
        around = [None, junk]
    before, after = around * draw(st.integers(0, 2)), around * draw(st.integers(0, 1))
    kind = nested(draw(st.sampled_from(VALUE_TYPES)), 1 if piece.packed else piece.depth)
    return rows, pa.array([*before, *rows, *after], kind).slice(len(before), count)


@st.composite
def partitions(
    draw: st.DrawFn, matrix: bool
) -> tuple[Plan, list[tuple[list[list[Any]], pa.RecordBatch]], list[Any]]:
    made = [
        draw(pieces(name, 1 if matrix else 3))
        for name in ("abc"[: draw(st.integers(1, 3))] if matrix else "a")
    ]
    if not matrix and made[0][0].packed:
        made = [(Piece(("a0",), made[0][0].fills[:1]), ())]
    plan = Plan((TensorPlan("x", draw(st.sampled_from(DTYPES_TRIED)), tuple(p for p, _ in made), matrix),))
    batches = []
    for _ in range(draw(st.integers(1, 3))):
        count = draw(st.integers(0, 4))
        drawn = [draw(columns_of(piece, dims, count)) for piece, dims in made]
        batches.append(([rows for rows, _ in drawn], batch_of(*[array for _, array in drawn])))
    return plan, batches, [dims for _, dims in made]


class Reference:
    """One piece, row by row: what stands for its nulls, how many were refused, and whether its shape is told."""

    def __init__(self, piece: Piece, dims: tuple[int, ...]) -> None:
        self.piece, self.dims = piece, dims
        self.nulls: Counter[str] = Counter()
        self.told = [False] * piece.depth

    def take(self, rows: list[Any]) -> np.ndarray[Any, Any] | None:
        whole = [self.row(row) for row in rows]
        known = all(told or 0 in self.dims[:level] for level, told in enumerate(self.told))
        if not known:
            return None
        shape = self.shape if self.piece.depth else self.dims
        return np.array(whole, np.float64).reshape(len(rows), *shape)

    @property
    def shape(self) -> tuple[int, ...]:
        """Below a list without elements nothing tells a length: it is 0."""
        return tuple(0 if 0 in self.dims[:level] else length for level, length in enumerate(self.dims))

    def row(self, row: Any) -> Any:
        if self.piece.packed:
            return [self.value(value, place) for place, value in enumerate(row)]
        return self.level(row, 0)

    def level(self, row: Any, level: int) -> Any:
        if level == self.piece.depth:
            return self.value(row, 0)
        if row is None:
            return np.full(self.shape[level:], self.value(None, 0)).tolist()
        self.told[level] = True
        return [self.level(inner, level + 1) for inner in row]

    def value(self, value: Any, place: int) -> Any:
        if value is not None:
            return value
        fill = self.piece.fills[place]
        if fill is None:
            self.nulls[self.piece.columns[place]] += 1
            return np.nan
        return fill


def check(partition: tuple[Plan, list[tuple[list[list[Any]], pa.RecordBatch]], list[Any]]) -> None:
    plan, batches, dims = partition
    tensor = plan.tensors[0]
    packer = Packer(plan)
    references = [Reference(piece, each) for piece, each in zip(tensor.pieces, dims, strict=True)]
    for columns, batch in batches:
        parts = [reference.take(rows) for reference, rows in zip(references, columns, strict=True)]
        refused = sum((reference.nulls for reference in references), Counter())
        known = [part for part in parts if part is not None]
        if tensor.matrix and len(known) < len(parts) and batch.num_rows and not refused:
            with pytest.raises(BadValue) as caught:
                packer.arrays(batch)
            assert caught.value.fault.kind == "unknown-length"
            unknown = next(p.columns[0] for p, part in zip(tensor.pieces, parts, strict=True) if part is None)
            assert caught.value.fault.column == unknown
            return
        (array,) = packer.arrays(batch)
        assert dict(packer.nulls) == dict(refused)
        if len(known) < len(parts):
            assert array is None
            continue
        assert array is not None
        assert array.dtype == tensor.type.storage
        if tensor.matrix:
            expected = np.concatenate(
                [
                    part.reshape(len(part), -1 if len(part) else part.shape[-1] if part.ndim > 1 else 1)
                    for part in known
                ],
                axis=1,
            )
        else:
            expected = known[0]
        assert array.shape == expected.shape
        there = ~np.isnan(expected)  # what stands where a null is refused does not matter: it is never sent
        assert array[there].tolist() == expected[there].tolist()


@settings(max_examples=150)
@given(partitions(matrix=False))
def test_columns_and_nested_lists(
    partition: tuple[Plan, list[tuple[list[list[Any]], pa.RecordBatch]], list[Any]],
) -> None:
    check(partition)


@settings(max_examples=150)
@given(partitions(matrix=True))
def test_pieces_side_by_side(
    partition: tuple[Plan, list[tuple[list[list[Any]], pa.RecordBatch]], list[Any]],
) -> None:
    check(partition)


# What the reference says, once by hand.


def test_packed_columns_in_the_tensors_dtype_are_not_copied() -> None:
    piece = Piece(("a", "b"), (None, None), packed=True)
    column = lists([[9.0, 9.0], [1.0, 2.0], [3.0, 4.0]]).slice(1)
    (array,) = Packer(single(piece, matrix=True)).arrays(batch_of(column))
    assert array is not None
    assert array.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert np.shares_memory(array, column.flatten().to_numpy())


def test_a_filled_column_beside_one_that_has_no_nulls() -> None:
    """A count of zero is no null: it must not stop the sending, nor be named in the error."""
    piece = Piece(("a", "b"), (7, None), packed=True)
    packer = Packer(single(piece, matrix=True))
    (array,) = packer.arrays(batch_of(lists([[None, 1.0], [2.0, 3.0]])))
    assert array is not None
    assert array.tolist() == [[7.0, 1.0], [2.0, 3.0]]
    assert not packer.nulls


def test_nulls_are_counted_per_column_over_batches() -> None:
    piece = Piece(("a", "b", "c"), (None, None, 0), packed=True)
    packer = Packer(single(piece, matrix=True))
    packer.arrays(batch_of(lists([[None, 1.0, None], [None, 2.0, 3.0]])))
    packer.arrays(batch_of(lists([[1.0, None, None], [None, 2.0, 3.0]])))
    assert dict(packer.nulls) == {"a": 3, "b": 1}


def test_null_lists_before_and_after_their_length_is_known() -> None:
    packer = Packer(single(Piece(("v",), (5,), depth=1)))
    assert packer.arrays(batch_of(lists([None, None]))) == [None]
    (array,) = packer.arrays(batch_of(lists([None, [1.0, None]])))
    assert array is not None
    assert array.tolist() == [[5.0, 5.0], [1.0, 5.0]]
    (array,) = packer.arrays(batch_of(lists([None])))
    assert array is not None
    assert array.tolist() == [[5.0, 5.0]]
    assert not packer.nulls


def test_null_lists_and_null_elements_are_counted_together() -> None:
    packer = Packer(single(Piece(("v",), (None,), depth=2)))
    packer.arrays(batch_of(lists([None, [[1.0, None], None], [None, [3.0, 4.0]]], depth=2)))
    assert dict(packer.nulls) == {"v": 4}


def test_what_lies_behind_a_null_list_is_not_read() -> None:
    """Arrow allows values in the slot of a null list."""
    values, offsets = pa.array([1.0, 2.0, 8.0, 9.0], pa.float32()), pa.array([0, 2, 4], pa.int32())
    column = pa.ListArray.from_arrays(offsets, values, mask=pa.array([False, True]))
    assert column.null_count == 1
    (array,) = Packer(single(Piece(("v",), (-1,), depth=1))).arrays(batch_of(column))
    assert array is not None
    assert array.tolist() == [[1.0, 2.0], [-1.0, -1.0]]


@pytest.mark.parametrize(
    ("rows", "depth", "shape"),
    [
        ([[], []], 1, (2, 0)),
        ([[], []], 2, (2, 0, 0)),
        ([[[], []]], 2, (1, 2, 0)),
        ([[[], []]], 3, (1, 2, 0, 0)),
        ([[]], 3, (1, 0, 0, 0)),
    ],
)
def test_lists_without_elements_tell_a_length(rows: list[Any], depth: int, shape: tuple[int, ...]) -> None:
    packer = Packer(single(Piece(("v",), (None,), depth)))
    (array,) = packer.arrays(batch_of(lists(rows, depth=depth)))
    assert array is not None
    assert array.shape == shape
    assert not packer.nulls


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_no_rows_tell_no_length(depth: int) -> None:
    packer = Packer(single(Piece(("v",), (None,), depth)))
    assert packer.arrays(batch_of(lists([], depth=depth))) == [None]
    assert not packer.nulls


def test_a_batch_without_rows_is_no_fault() -> None:
    pieces = (Piece(("a", "b"), (None, None), packed=True), Piece(("v",), (None,), 1))
    packer = Packer(
        Plan(
            (
                TensorPlan("x", "float32", pieces, True),
                TensorPlan("y", "int8", (Piece(("c",), (None,)),), False),
            )
        )
    )
    x, y = packer.arrays(batch_of(lists([]), lists([]), pa.array([], pa.int64())))
    assert x is None
    assert y is not None
    assert y.shape == (0,)


def test_refused_null_lists_in_a_matrix_are_counted() -> None:
    """Not the fault of an unknown length: the user is told how many nulls there are."""
    packer = Packer(
        Plan((TensorPlan("x", "float32", (Piece(("a",), (None,)), Piece(("v",), (None,), 1)), True),))
    )
    assert packer.arrays(batch_of(pa.array([1.0, 2.0]), lists([None, None]))) == [None]
    packer.arrays(batch_of(pa.array([1.0, 2.0]), lists([None, [1.0]])))
    assert dict(packer.nulls) == {"v": 3}


def test_filled_null_lists_of_unknown_length_cannot_stand_in_a_matrix() -> None:
    packer = Packer(
        Plan((TensorPlan("x", "float32", (Piece(("a",), (None,)), Piece(("v",), (0,), 1)), True),))
    )
    with pytest.raises(BadValue) as caught:
        packer.arrays(batch_of(pa.array([1.0]), lists([None])))
    assert (caught.value.fault.kind, caught.value.fault.column) == ("unknown-length", "v")


def test_several_tensors_take_their_pieces_in_order() -> None:
    plan = Plan(
        (
            TensorPlan(
                "x",
                "float32",
                (Piece(("a", "b"), (None, None), packed=True), Piece(("v",), (None,), 1)),
                True,
            ),
            TensorPlan("y", "int8", (Piece(("c",), (None,)),), False),
            TensorPlan("z", "bool", (Piece(("d",), (None,)),), True),
        )
    )
    columns = [lists([[1, 2], [3, 4]]), lists([[5, 6], [7, 8]]), pa.array([9, 10]), pa.array([True, False])]
    x, y, z = packer_arrays = Packer(plan).arrays(batch_of(*columns))
    assert [array.dtype.name for array in packer_arrays if array is not None] == ["float32", "int8", "bool"]
    assert x is not None and x.tolist() == [[1, 2, 5, 6], [3, 4, 7, 8]]  # noqa: PT018
    assert y is not None and y.tolist() == [9, 10]  # noqa: PT018
    assert z is not None and z.tolist() == [[True], [False]]  # noqa: PT018


@pytest.mark.parametrize(
    ("batches", "depth", "expected", "seen"),
    [
        ([[[1], [2, 3]]], 1, 1, 2),
        ([[[1, 2], [3, 4]], [[5, 6], [7, 8, 9]]], 1, 2, 3),
        ([[[1, 2, 3]], [[5, 6]]], 1, 3, 2),
        ([[[1, 2, 3], None, []]], 1, 3, 0),
        ([[[]], [None], [[1]]], 1, 0, 1),
        ([[[[1, 2], [3]]]], 2, 2, 1),
        ([[[[1, 2], [3, 4]]], [[[1, 2], [3, 4], [5, 6]]]], 2, 2, 3),
        ([[[[1, 2]]], [[[1, 2, 3]]]], 2, 2, 3),
        ([[[]], [[[1]]]], 2, 0, 1),
        ([[[None, None]], [[[1], [2], [3]]]], 2, 2, 3),
        ([[[[[1]]]], [[[[1, 2]]]]], 3, 1, 2),
    ],
)
def test_unequal_lengths_are_found(batches: list[Any], depth: int, expected: int, seen: int) -> None:
    packer = Packer(single(Piece(("v",), (0,), depth)))
    for rows in batches[:-1]:
        packer.arrays(batch_of(lists(rows, depth=depth)))
    with pytest.raises(BadValue) as caught:
        packer.arrays(batch_of(lists(batches[-1], depth=depth)))
    fault = caught.value.fault
    assert (fault.kind, fault.column, fault.expected, fault.seen) == ("ragged", "v", expected, seen)


def test_a_bad_value_is_named_by_its_column() -> None:
    piece = Piece(("a", "b", "c"), (None, None, 0), packed=True)
    rows = lists([[1, 2, None], [3, 300, 400]], pa.int64())
    with pytest.raises(BadValue) as caught:
        Packer(single(piece, "int8", matrix=True)).arrays(batch_of(rows))
    assert (caught.value.fault.column, caught.value.fault.value) == ("b", "300")


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (pa.bool_(), True, 1),
        (pa.date32(), datetime.date(1970, 1, 3), 2),
        (pa.timestamp("us"), datetime.datetime(1970, 1, 1, 0, 0, 1), 1_000_000),
        (pa.timestamp("us", "UTC"), datetime.datetime(1970, 1, 1, 0, 0, 1, tzinfo=datetime.UTC), 1_000_000),
        (pa.time64("ns"), datetime.time(0, 0, 1), 1_000_000_000),
        (pa.duration("us"), datetime.timedelta(seconds=1), 1_000_000),
        (pa.decimal128(3, 2), Decimal("9.99"), 9),
        (pa.decimal128(10, 2), Decimal("7.99"), 7),
        (pa.decimal128(38, 38), Decimal("0.5"), 0),
        (pa.decimal128(38, 0), Decimal(-3), -3),
        (pa.int8(), 3, 3),
        (pa.float32(), 3.5, 3),
    ],
)
def test_nulls_of_every_type_can_be_filled(kind: pa.DataType, value: Any, expected: int) -> None:
    column = pa.array([value, None, value, None], kind).slice(1)
    for fill in (11, None):
        fills: tuple[Fill, ...] = (fill,)
        packer = Packer(single(Piece(("c",), fills), "int64"))
        (array,) = packer.arrays(batch_of(column))
        assert array is not None
        assert array[1] == expected
        assert fill is None or array.tolist() == [11, expected, 11]
        assert dict(packer.nulls) == ({"c": 2} if fill is None else {})
