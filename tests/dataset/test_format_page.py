"""A reader written from docs/format.md alone, and what it reads. Down to `written` nothing here knows Penstock."""

from __future__ import annotations

import hashlib
import json
import math
import re
import zlib
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xxhash

STORED = {"bool": np.uint8, "bfloat16": np.uint16}


def dtype_of(tensor: dict) -> np.dtype:
    """How the values of a tensor lie in a shard."""
    return np.dtype(STORED.get(tensor["dtype"], tensor["dtype"]))


def checked(data: bytes, written: str) -> bytes:
    kind, value = written.split(":")
    assert re.fullmatch("[0-9a-f]{16}", value)
    assert digest(kind, data) == int(value, 16)
    return data


def digest(kind: str, data: bytes) -> int:
    return {"xxh3-64": xxhash.xxh3_64_intdigest, "crc32": zlib.crc32}[kind](data)


def newest(root: Path) -> dict:
    names = [path.name for path in (root / "_penstock").iterdir()]
    versions = [int(found[1]) for name in names if (found := re.fullmatch(r"v(\d{6,})\.json", name))]
    manifest = json.loads((root / "_penstock" / f"v{max(versions):06d}.json").read_bytes().decode("utf-8"))
    assert (manifest["format"], manifest["format_version"]) == ("penstock-dataset", 1)
    assert manifest["version"] == max(versions)
    return manifest


def check_manifest(root: Path, manifest: dict) -> None:
    shards = manifest["shards"]
    assert manifest["rows"] == sum(shard["rows"] for shard in shards)
    assert manifest["bytes"] == sum(shard["bytes"] for shard in shards)
    keys = ("dtype", "kind", "name", "shape", "stored")
    content = {
        "shards": [[shard["rows"], shard["bytes"], shard["checksum"]] for shard in shards],
        "tensors": [{key: tensor[key] for key in keys} for tensor in manifest["tensors"]],
    }
    assert manifest["fingerprint"] == hashlib.sha256(json.dumps(content).encode()).hexdigest()[:32]
    for shard in shards:
        data = checked((root / shard["file"]).read_bytes(), shard["checksum"])
        assert len(data) == shard["bytes"]


def index_of(root: Path, manifest: dict) -> list[dict]:
    data = checked((root / manifest["index"]["file"]).read_bytes(), manifest["index"]["checksum"])
    assert len(data) == manifest["index"]["bytes"]
    blocks = pa.ipc.open_file(data).read_all().to_pylist()
    assert [block["shard"] for block in blocks] == sorted(block["shard"] for block in blocks)
    for number, shard in enumerate(manifest["shards"]):
        own = [block for block in blocks if block["shard"] == number]
        assert (len(own), sum(block["rows"] for block in own)) == (shard["blocks"], shard["rows"])
    return blocks


def by_seek(root: Path, manifest: dict, blocks: list[dict]) -> dict[str, list]:
    """Every row of an Arrow dataset out of the byte ranges that the index names, without an Arrow reader."""
    found: dict[str, list] = {tensor["name"]: [] for tensor in manifest["tensors"]}
    for block in blocks:
        shard = manifest["shards"][block["shard"]]
        kind = shard["checksum"].split(":")[0]
        with (root / shard["file"]).open("rb") as file:

            def stretch(offset: int, length: int, checksum: int, file=file, kind=kind) -> bytes:
                file.seek(offset)
                data = file.read(length)
                assert len(data) == length
                assert digest(kind, data) == checksum
                return data

            stretch(block["offset"], block["length"], block["checksum"])
            buffers = iter(block["buffers"])

            def raw(buffer: dict, stretch=stretch) -> bytes:
                assert buffer["offset"] % 64 == 0
                data = stretch(buffer["offset"], buffer["length"], buffer["checksum"])
                data = unpacked(data, manifest["compression"])
                assert len(data) == buffer["raw"]
                return data

            for tensor in manifest["tensors"]:
                rows = None
                if tensor["kind"] != "fixed":
                    rows = np.frombuffer(raw(next(buffers)), "<i8")
                    assert len(rows) == block["rows"] + 1
                values = np.frombuffer(raw(next(buffers)), dtype_of(tensor).newbyteorder("<"))
                found[tensor["name"]] += cut(tensor, values, rows, block["rows"])
            assert next(buffers, None) is None
    return found


def unpacked(data: bytes, codec: str | None) -> bytes:
    if codec is None or not data:
        return data
    size = int.from_bytes(data[:8], "little", signed=True)
    return data[8:] if size == -1 else pa.decompress(data[8:], size, codec, asbytes=True)


def cut(tensor: dict, values: np.ndarray, offsets: np.ndarray | None, rows: int) -> list:
    if offsets is None:
        return list(values.reshape(rows, *tensor["shape"]))
    if tensor["kind"] == "string":
        return [values[a:b].tobytes().decode() for a, b in pairwise(offsets)]
    if tensor["kind"] == "binary":
        return [values[a:b].tobytes() for a, b in pairwise(offsets)]
    size = math.prod(tensor["shape"])
    elements = values.reshape(len(values) // size, *tensor["shape"])
    return [elements[a:b] for a, b in pairwise(offsets)]


def by_columns(root: Path, manifest: dict) -> dict[str, list]:
    """Every row through an ordinary reader of Arrow or Parquet files."""
    found: dict[str, list] = {tensor["name"]: [] for tensor in manifest["tensors"]}
    for shard in manifest["shards"]:
        path = root / shard["file"]
        arrow = manifest["storage"] == "arrow"
        table = pa.ipc.open_file(path).read_all() if arrow else pq.ParquetFile(path).read()
        table.validate(full=True)
        for tensor in manifest["tensors"]:
            columns = [table[name] for name in tensor["stored"]]
            assert not any(column.null_count for column in columns)
            if arrow:
                assert columns[0].type == arrow_type(tensor)
                assert not table.schema.field(tensor["name"]).nullable
            found[tensor["name"]] += [as_row(tensor, values) for values in zip(*columns, strict=True)]
    return found


def arrow_type(tensor: dict) -> pa.DataType:
    if tensor["kind"] in ("string", "binary"):
        return pa.large_string() if tensor["kind"] == "string" else pa.large_binary()
    kind = pa.from_numpy_dtype(dtype_of(tensor))
    for axis in reversed(tensor["shape"]):
        kind = pa.list_(pa.field("item", kind, nullable=False), axis)
    return kind if tensor["kind"] == "fixed" else pa.large_list(pa.field("item", kind, nullable=False))


def as_row(tensor: dict, values: tuple) -> object:
    row = [value.as_py() for value in values] if len(values) > 1 else values[0].as_py()
    if tensor["kind"] in ("string", "binary"):
        return row
    shape = tensor["shape"] if tensor["kind"] == "fixed" else (len(row), *tensor["shape"])
    return np.array(row, dtype_of(tensor)).reshape(shape)


def written(root: Path, keep: int, **options: object) -> dict[str, list]:
    """A dataset of every dtype and kind, and the rows that should be read from it, in order."""
    import penstock as pk

    rng, rows = np.random.default_rng(5), max(keep, 10)
    numbers = rng.integers(0, 100, rows)
    lengths = rng.integers(0, 5, rows)
    halves = numbers / 2
    dtypes = ["bool", "float16", "bfloat16", "float32", "float64"]
    dtypes += [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
    grid = rng.normal(size=(rows, 2, 3))
    table = pa.table(
        {
            "n": numbers,
            "half": halves,
            "bit": numbers % 2,
            "grid": grid.tolist(),
            "word": [f"wört {n}" * (n % 3) for n in numbers],
            "blob": [bytes([n, 0, 255]) * (n % 4) for n in numbers],
            "list": [list(range(n)) for n in lengths],
            "deep": [[[[float(n), 2.0], [3.0, 4.0], [5.0, 6.0]]] * n for n in lengths],
        }
    )
    columns = {name: "half" if "float" in name else "bit" if name == "bool" else "n" for name in dtypes}
    tensors = {
        **columns,
        "matrix": ["n", "half"],
        "grid": "grid",
        "word": "word",
        "blob": "blob",
        "tokens": pk.ragged("list"),
        "deep": pk.ragged("deep"),
    }
    kinds = {**{name: name for name in dtypes}, "matrix": "float64", "grid": "float32", "tokens": "uint16"}
    pk.write(
        table.slice(0, keep), root, tensors, dtype=kinds, shuffle=False, block_bytes=2048, shards=3, **options
    )
    sources = {"n": numbers, "half": halves, "bit": numbers % 2}
    expected = {name: list(sources[columns[name]].astype(STORED.get(name, name))) for name in dtypes}
    # Small halves are exact in the upper 16 bits of float32.
    expected["bfloat16"] = list((halves.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16))
    expected["matrix"] = list(np.stack([numbers, halves], axis=1))
    expected["grid"] = list(grid.astype(np.float32))
    expected["word"], expected["blob"] = table["word"].to_pylist(), table["blob"].to_pylist()
    expected["tokens"] = [np.arange(n, dtype=np.uint16) for n in lengths]
    expected["deep"] = [np.array(row).reshape(len(row), 3, 2) for row in table["deep"].to_pylist()]
    return {name: values[:keep] for name, values in expected.items()}


def assert_same(found: dict[str, list], expected: dict[str, list]) -> None:
    assert found.keys() == expected.keys()
    for name, rows in expected.items():
        assert len(found[name]) == len(rows), name
        for seen, row in zip(found[name], rows, strict=True):
            if isinstance(row, str | bytes):
                assert seen == row, name
            else:
                np.testing.assert_array_equal(seen, row, err_msg=name, strict=True)


def parquet_bools(expected: dict[str, list]) -> dict[str, list]:
    return {**expected, "bool": [np.array(value, np.uint8) for value in expected["bool"]]}


@pytest.mark.parametrize("compression", [None, "zstd", "lz4"])
def test_arrow_is_read_by_the_page_alone(tmp_path: Path, compression: str | None) -> None:
    expected = written(tmp_path, 300, compression=compression)
    manifest = newest(tmp_path)
    check_manifest(tmp_path, manifest)
    blocks = index_of(tmp_path, manifest)
    assert len(blocks) > 9
    assert manifest["compression"] == compression
    assert_same(by_seek(tmp_path, manifest, blocks), expected)
    arrays = {
        name: [np.asarray(row) if name in STORED else row for row in rows] for name, rows in expected.items()
    }
    assert_same(by_columns(tmp_path, manifest), arrays)


@pytest.mark.parametrize("compression", [None, "zstd", "lz4"])
def test_parquet_is_read_by_the_page_alone(tmp_path: Path, compression: str | None) -> None:
    expected = written(tmp_path, 300, compression=compression, format="parquet")
    manifest = newest(tmp_path)
    check_manifest(tmp_path, manifest)
    blocks = index_of(tmp_path, manifest)
    for block in blocks:
        shard = manifest["shards"][block["shard"]]
        data = (tmp_path / shard["file"]).read_bytes()[block["offset"] : block["offset"] + block["length"]]
        assert digest(shard["checksum"].split(":")[0], data) == block["checksum"]
        assert block["buffers"] == []
    for number, shard in enumerate(manifest["shards"]):
        groups = pq.ParquetFile(tmp_path / shard["file"]).metadata
        own = [block["rows"] for block in blocks if block["shard"] == number]
        assert own == [groups.row_group(place).num_rows for place in range(groups.num_row_groups)]
    stored = {tensor["name"]: tensor["stored"] for tensor in manifest["tensors"]}
    assert stored["matrix"] == ["n", "half"]
    assert_same(by_columns(tmp_path, manifest), parquet_bools(expected))


def test_a_dataset_without_rows(tmp_path: Path) -> None:
    written(tmp_path, 0)
    manifest = newest(tmp_path)
    check_manifest(tmp_path, manifest)
    assert index_of(tmp_path, manifest) == []
    assert manifest["shards"] == []
    assert manifest["rows"] == 0


def test_the_page_names_every_key(tmp_path: Path) -> None:
    written(tmp_path, 10)
    manifest = newest(tmp_path)
    page = (Path(__file__).parents[2] / "docs" / "format.md").read_text()
    told = set(re.findall(r"`(\w+)`", page)) | set(
        re.findall(r"\w+", "".join(re.findall(r"`{(.*?)}`", page)))
    )
    index = pa.ipc.open_file(tmp_path / manifest["index"]["file"]).schema
    buffers = index.field("buffers").type.value_type
    keys = {
        *manifest,
        *manifest["tensors"][0],
        *manifest["shards"][0],
        *manifest["index"],
        *manifest["source"],
    }
    assert keys | set(index.names) | {buffers.field(place).name for place in range(4)} <= told
