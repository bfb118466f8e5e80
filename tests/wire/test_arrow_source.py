"""Requests against Arrow schemas: every Arrow type's fate, and the values that come of it."""

from __future__ import annotations

import datetime as dt
import pickle
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.dtypes import ARROW_NATURAL, arrow_fate
from penstock.errors import CastError, NullError, SelectionError, UnsupportedType
from penstock.wire.arrow_source import select_arrow
from penstock.wire.faults import BadValue
from penstock.wire.pack import Packer
from penstock.wire.ragged import Ragged
from penstock.wire.selection import Tensors, ragged


def tensors_of(
    batch: pa.RecordBatch, tensors: Tensors = None, dtype: Any = None, nulls: Any = "error"
) -> dict[str, Any]:
    selection = select_arrow(batch.schema, tensors, dtype, nulls)
    packer = Packer(selection.plan)
    try:
        arrays = packer.arrays(selection.prepare(batch.select(selection.columns)))
    except BadValue as bad:
        raise bad.fault.to_error() from None
    if packer.nulls:
        raise NullError(packer.nulls)
    for plan, array in zip(selection.plan.tensors, arrays, strict=True):
        values = array.values if isinstance(array, Ragged) else array
        assert values.dtype == plan.type.storage
    return {plan.name: array for plan, array in zip(selection.plan.tensors, arrays, strict=True)}


def tensor_of(column: pa.Array, dtype: Any = None, nulls: Any = "error") -> Any:
    return tensors_of(pa.record_batch({"c": column}), {"t": "c"}, dtype, nulls)["t"]


SCALARS: list[tuple[pa.DataType, list[Any], str, list[Any]]] = [
    (pa.bool_(), [True, False], "bool", [True, False]),
    (pa.int8(), [-128, 127], "int8", [-128, 127]),
    (pa.uint8(), [0, 255], "uint8", [0, 255]),
    (pa.uint16(), [0, 65535], "uint16", [0, 65535]),
    (pa.uint32(), [0, 2**32 - 1], "uint32", [0, 2**32 - 1]),
    (pa.uint64(), [0, 2**64 - 1], "uint64", [0, 2**64 - 1]),
    (pa.int64(), [-(2**63), 2**63 - 1], "int64", [-(2**63), 2**63 - 1]),
    (pa.float16(), [0.5, -2.0], "float16", [0.5, -2.0]),
    (pa.float32(), [0.5, -2.0], "float32", [0.5, -2.0]),
    (pa.float64(), [0.1, -2.0], "float64", [0.1, -2.0]),
    (pa.decimal32(5, 2), [Decimal("0.29"), Decimal("-1.10")], "float64", [0.29, -1.1]),
    (pa.decimal64(12, 2), [Decimal("0.29"), Decimal("-1.10")], "float64", [0.29, -1.1]),
    (pa.decimal128(15, 2), [Decimal("0.29"), Decimal("-1.10")], "float64", [0.29, -1.1]),
    (pa.decimal256(15, 2), [Decimal("0.29"), Decimal("-1.10")], "float64", [0.29, -1.1]),
    (pa.date32(), [dt.date(1970, 1, 3), dt.date(1969, 12, 31)], "int32", [2, -1]),
    (pa.date64(), [dt.date(1970, 1, 3), dt.date(1969, 12, 31)], "int32", [2, -1]),
    (pa.timestamp("s"), [-1, 2], "int64", [-1_000_000, 2_000_000]),
    (pa.timestamp("ms", "Europe/Berlin"), [-1, 2], "int64", [-1_000, 2_000]),
    (pa.timestamp("us", "UTC"), [-1, 2], "int64", [-1, 2]),
    (pa.timestamp("ns"), [-3_000, 2_000], "int64", [-3, 2]),
    (pa.time32("s"), [1, 86399], "int64", [10**9, 86399 * 10**9]),
    (pa.time32("ms"), [1, 2], "int64", [10**6, 2 * 10**6]),
    (pa.time64("us"), [1, 2], "int64", [1000, 2000]),
    (pa.time64("ns"), [1, 2], "int64", [1, 2]),
    (pa.duration("s"), [-1, 2], "int64", [-1_000_000, 2_000_000]),
    (pa.duration("ns"), [-1000, 2000], "int64", [-1, 2]),
]
LISTS = {
    "list": pa.list_,
    "large_list": pa.large_list,
    "fixed_size_list": lambda kind: pa.list_(kind, 2),
    "list_view": pa.list_view,
    "large_list_view": pa.large_list_view,
}


def test_every_scalar_of_the_table_is_tried() -> None:
    tried = {arrow_fate("c", kind).leaf for kind, *_ in SCALARS} | {"int16", "int32"}
    assert tried == set(ARROW_NATURAL)


@pytest.mark.parametrize(("kind", "values", "dtype", "expected"), SCALARS, ids=lambda each: str(each)[:30])
def test_scalars_and_lists_of_them(kind: pa.DataType, values: Any, dtype: str, expected: Any) -> None:
    found = tensor_of(pa.array(values, kind))
    assert (found.dtype.name, found.tolist()) == (dtype, expected)
    for name, lists in LISTS.items():
        # From its parts, because pa.array does not make list views of every type.
        flat = pa.array(values * 2, kind)
        if name == "fixed_size_list":
            column = pa.FixedSizeListArray.from_arrays(flat, 2)
        elif name.endswith("view"):
            make = pa.ListViewArray if name == "list_view" else pa.LargeListViewArray
            column = make.from_arrays([0, 2], [2, 2], flat)
        else:
            make = pa.ListArray if name == "list" else pa.LargeListArray
            column = make.from_arrays([0, 2, 4], flat)
        assert column.type.equals(lists(kind)), name
        found = tensor_of(column)
        assert (found.dtype.name, found.tolist()) == (dtype, [expected, expected]), name
        rows = tensors_of(pa.record_batch({"c": column.slice(1)}), {"t": ragged("c")})["t"]
        assert (rows.values.tolist(), rows.offsets.tolist()) == (expected, [0, 2]), name


@pytest.mark.parametrize(("kind", "values", "dtype", "expected"), SCALARS, ids=lambda each: str(each)[:30])
def test_nulls_are_counted_or_filled(kind: pa.DataType, values: Any, dtype: str, expected: Any) -> None:
    column = pa.array([*values, None, None], kind)
    with pytest.raises(NullError, match="'c' has 2"):
        tensor_of(column)
    assert tensor_of(column, nulls=1).tolist() == [*expected, 1, 1]


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array([7, 8, 7]).dictionary_encode(), [7, 8, 7]),
        (pa.array([7, 7, 8]).slice(1), [7, 8]),
        (pa.RunEndEncodedArray.from_arrays([2, 3], [7, 8]), [7, 7, 8]),
        (pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1, 0], pa.int8())), [1, 0]),
    ],
    ids=["dictionary", "slice", "run_end_encoded", "extension"],
)
def test_types_that_wrap_another(column: pa.Array, expected: list[int]) -> None:
    assert tensor_of(column).tolist() == expected


def test_tensors_of_a_fixed_shape_keep_it() -> None:
    kind = pa.fixed_shape_tensor(pa.int16(), [2, 3])
    storage = pa.array([list(range(6)), None, list(range(6, 12))], pa.list_(pa.int16(), 6))
    column = pa.ExtensionArray.from_storage(kind, storage)
    assert tensor_of(column.slice(2)).tolist() == [[[6, 7, 8], [9, 10, 11]]]
    assert tensor_of(column, nulls=9).shape == (3, 2, 3)
    selection = select_arrow(pa.schema([("c", kind)]), None, None, "error")
    assert selection.plan.tensors[0].fixed_shape == (2, 3)
    assert selection.plan.row_bytes == 48
    with pytest.raises(SelectionError, match="cannot stand beside others"):
        select_arrow(pa.schema([("c", kind)]), ["c"], None, "error")
    permuted = pa.fixed_shape_tensor(pa.int16(), [2, 3], permutation=[1, 0])
    assert tensor_of(pa.ExtensionArray.from_storage(permuted, storage.slice(2))).shape == (1, 6)


def test_a_fixed_size_list_tells_its_shape_without_rows() -> None:
    kind = pa.list_(pa.list_(pa.float32(), 3), 2)
    plan = select_arrow(pa.schema([("c", kind)]), None, None, "error").plan
    assert plan.tensors[0].fixed_shape == plan.tensors[0].empty_shape == (2, 3)
    assert tensor_of(pa.array([None, None], kind), nulls=1).shape == (2, 2, 3)
    matrix = pa.schema([("v", pa.list_(pa.float32(), 3)), ("y", pa.float32())])
    assert select_arrow(matrix, ["v", "y"], None, "error").plan.tensors[0].fixed_shape == (4,)
    mixed = select_arrow(pa.schema([("c", pa.list_(kind))]), None, None, "error").plan
    assert mixed.tensors[0].fixed_shape is None


def test_columns_side_by_side_in_many_rows() -> None:
    rows = np.arange(3000)
    pairs = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(6000)), 2)
    batch = pa.record_batch({"a": pa.array(rows), "pair": pairs, "b": pa.array(rows * 0.5)})
    expected = np.column_stack([rows, np.arange(6000).reshape(-1, 2), rows * 0.5])
    assert np.array_equal(tensors_of(batch, ["a", "pair", "b"], "float64")["tensor"], expected)


def test_a_field_of_a_null_struct_is_null() -> None:
    inner = pa.array([{"b": 1}, {"b": None}, None, {"b": 4}], pa.struct([("b", pa.int32())]))
    outer = pa.StructArray.from_arrays([inner], ["a"], mask=pa.array([False, False, False, True]))
    batch = pa.record_batch({"s": outer, "s.a": pa.array([9, 9, 9, 9])})
    assert tensors_of(batch, {"t": "s.a.b"}, nulls=-1)["t"].tolist() == [1, -1, -1, -1]
    assert tensors_of(batch, {"t": "s.a"})["t"].tolist() == [9, 9, 9, 9]
    with pytest.raises(NullError, match=r"'s\.a\.b' has 3"):
        tensors_of(batch, {"t": "s.a.b"})
    with pytest.raises(SelectionError, match=r"no field 'z' for 's\.z'; there is 'a'"):
        tensors_of(batch, {"t": "s.z"})


def test_what_to_read_is_each_column_once() -> None:
    schema = pa.schema(
        [("z", pa.int8()), ("s", pa.struct([("a", pa.int8()), ("b", pa.int8())])), ("n", pa.null())]
    )
    selection = select_arrow(schema, {"x": ["s.a", "s.b"], "y": "z", "again": "s.a"}, None, "error")
    assert selection.columns == ["s", "z"]
    assert pickle.loads(pickle.dumps(selection)) == selection


@pytest.mark.parametrize(
    ("kind", "remedy"),
    [
        (pa.null(), "nothing but null"),
        (pa.map_(pa.string(), pa.int8()), "map_lookup"),
        (pa.struct([("a", pa.int8())]), "'column.field'"),
        (pa.dense_union([pa.field("a", pa.int8())]), "Take the child"),
        (pa.sparse_union([pa.field("a", pa.int8())]), "Take the child"),
        (pa.month_day_nano_interval(), "extract the part"),
        (pa.list_(pa.string()), "Inside lists they have none"),
        (pa.list_(pa.struct([("a", pa.int8())])), "'column.field'"),
    ],
    ids=str,
)
def test_a_type_without_tensor_form_says_what_to_do(kind: pa.DataType, remedy: str) -> None:
    with pytest.raises(UnsupportedType) as caught:
        select_arrow(pa.schema([("c", kind)]), None, None, "error")
    assert f"column 'c' is of type {kind}, which has no tensor form." in str(caught.value)
    assert remedy in str(caught.value)


@pytest.mark.parametrize(
    ("column", "said"),
    [
        (
            pa.array([1000, 1001], pa.timestamp("ns")),
            "1970-01-01T00:00:00.000001001, which does not fit whole micro",
        ),
        (pa.array([-1], pa.duration("ns")), "-1 nanoseconds, which does not fit whole microseconds"),
        (pa.array([2**62], pa.timestamp("s")), "which does not fit an int64 of us"),
        (pa.array([-(2**60)], pa.duration("ms")), "which does not fit an int64 of us"),
        (pa.array([2**60], pa.int64()).view(pa.time64("us")), "which does not fit an int64 of ns"),
        (
            pa.array([1], pa.int64()).view(pa.date64()),
            "1970-01-01T00:00:00.001, which does not fit whole days",
        ),
    ],
    ids=["ns", "duration", "seconds", "milliseconds", "time", "date64"],
)
def test_times_lose_nothing_silently(column: pa.Array, said: str) -> None:
    with pytest.raises(CastError) as caught:
        tensor_of(column)
    assert said in str(caught.value)
    assert str(caught.value).startswith("column 'c' holds ")


def test_a_decimal_of_many_digits_needs_a_dtype() -> None:
    column = pa.array([Decimal("12345678901234567.8")], pa.decimal128(18, 1))
    with pytest.raises(SelectionError, match="decimal of 18 digits, more than float64 keeps"):
        tensor_of(column)
    assert tensor_of(column, "float64").tolist() == [12345678901234567.8]
    assert tensor_of(column, "int64").tolist() == [12345678901234567]


def test_a_mapping_of_dtypes_and_unsigned_columns_beside_others() -> None:
    batch = pa.record_batch({"u": pa.array([1], pa.uint32()), "i": pa.array([-1], pa.int8()), "s": ["text"]})
    found = tensors_of(batch, {"x": ["u", "i"], "u": "u", "s": "s"}, {"u": "uint64", "s": "uint8"})
    assert {name: found[name].dtype.name for name in ("x", "u")} == {"x": "int64", "u": "uint64"}
    assert found["s"].values.tobytes() == b"text"
