"""Manifests and indexes that somebody else wrote, or that a disk has changed: a clear error, or the right rows."""

from __future__ import annotations

import io
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import xxhash

import penstock as pk
from penstock.dataset import index
from penstock.dataset.manifest import parse_manifest
from penstock.errors import CorruptError, DatasetError, ManifestError

LIST = pk.ragged("t")


def table(rows: int = 100) -> pa.Table:
    return pa.table(
        {
            "a": np.arange(rows, dtype=np.int32),
            "b": np.arange(rows) * 0.5,
            "t": [[n] * (n % 3) for n in range(rows)],
            "w": [f"w{n}" for n in range(rows)],
        }
    )


TENSORS = {"x": ["a", "b"], "t": LIST, "w": "w"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    pk.write(table(), tmp_path / "ds", TENSORS, shards=2, block_bytes=1024)
    return tmp_path / "ds"


def manifest_of(root: Path) -> Path:
    return root / "_penstock" / "v000001.json"


def forged(root: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change a manifest, and make its own sums and fingerprint right again."""
    path = manifest_of(root)
    found = json.loads(path.read_text())
    change(found)
    path.write_text(json.dumps(found))
    for _ in range(3):  # the message tells what would have been right
        try:
            parse_manifest(path.read_bytes(), "")
            return
        except ManifestError as error:
            said = re.search(r"it says (\w+) .*, and its shards and tensors give '?(\w+)'?\.", str(error))
            if said is None:
                return
            found[said[1]] = said[2] if said[1] == "fingerprint" else int(said[2])
            path.write_text(json.dumps(found))


JUNK = {
    "empty": b"",
    "not JSON": b"{",
    "not text": b"\xff\xfe\x00",
    "a list": b"[]",
    "a number": b"7",
    "null": b"null",
    "deep": b"[" * 200_000,
    "deep objects": b'{"a":' * 100_000,
    "10 MB": b"x" * 10_000_000,
    "10 MB of text": b'"' + b"x" * 10_000_000 + b'"',
    "endless digits": b'{"format": "penstock-dataset", "format_version": ' + b"9" * 10_000 + b"}",
    "NaN": b'{"format": "penstock-dataset", "format_version": NaN}',
}


@pytest.mark.parametrize("junk", JUNK.values(), ids=JUNK)
def test_no_manifest_at_all(root: Path, junk: bytes) -> None:
    manifest_of(root).write_bytes(junk)
    with pytest.raises(ManifestError, match=r"v000001\.json cannot be used: it ") as caught:
        pk.open(root)
    assert len(str(caught.value)) < 1000


OUTSIDE = [
    "../secret",
    "/etc/passwd",
    "shards/../../secret",
    "shards\\a",
    "C:/a",
    "C:a",
    "s3://bucket/a",
    "a\0b",
    "",
]
OUTSIDE += ["./a", "shards//a", "shards/", "~\ud800", "file:/etc/passwd", "a\nb", "."]


@pytest.mark.parametrize("path", OUTSIDE)
@pytest.mark.parametrize("where", ["shard", "index", "recipe"])
def test_paths_that_lead_outside(root: Path, path: str, where: str) -> None:
    (root.parent / "secret").write_bytes(b"secret")

    def change(found: dict[str, Any]) -> None:
        if where == "recipe":
            found["recipe"] = [path]
        else:
            (found["shards"][1] if where == "shard" else found["index"])["file"] = path

    forged(root, change)
    with pytest.raises(
        ManifestError, match=r"v000001\.json cannot be used: (it names the file|its '\w+' is)"
    ):
        pk.open(root)


KEYS = [
    "format",
    "format_version",
    "version",
    "created",
    "fingerprint",
    "rows",
    "bytes",
    "storage",
    "tensors",
]
KEYS += ["shards", "index"]
FOR_PEOPLE = ["created", "source", "options", "writer", "recipe", "compression"]
ODD: list[Any] = [None, True, 1.0, -1, 1 << 70, 1e300, "", "x", [], [1], {}, {"a": 1}, [[]], [{}], [None]]


@pytest.mark.parametrize("key", [*KEYS, *FOR_PEOPLE[1:]])
def test_values_of_every_wrong_kind(root: Path, key: str) -> None:
    path = manifest_of(root)
    before = json.loads(path.read_text())
    expected = pk.open(root).read()["x"].tolist()
    gone = {name: value for name, value in before.items() if name != key}
    for changed in [gone, *({**before, key: odd} for odd in ODD)]:
        path.write_text(json.dumps(changed))
        try:
            found = pk.open(root)
        except ManifestError:
            continue
        assert key in FOR_PEOPLE, changed.get(key)
        assert found.read(verify=True)["x"].tolist() == expected


@pytest.mark.parametrize("part", ["tensors", "shards", "index"])
def test_wrong_values_inside(root: Path, part: str) -> None:
    path = manifest_of(root)
    before = path.read_text()
    inner = json.loads(before)[part]
    for key in inner if part == "index" else inner[0]:
        for odd in [
            *ODD,
            "gone",
            [1 << 56] * 3,
            [0, 1 << 56, 1 << 56],
            [True],
            ["\ud800"],
            "crc32:" + "g" * 16,
        ]:

            def change(found: dict[str, Any], key: str = key, odd: Any = odd) -> None:
                target = found[part] if part == "index" else found[part][0]
                if odd == "gone":
                    del target[key]
                else:
                    target[key] = odd

            path.write_text(before)
            forged(root, change)
            try:
                ds = pk.open(root)
                ds.verify()
                ds.read(verify=True)
            except DatasetError:
                continue
            # A name may be any, and what the rows were made of is for people.
            assert part == "tensors"
            assert key in ("name", "columns", "stored"), odd


def test_sums_are_checked(root: Path) -> None:
    path = manifest_of(root)
    before = json.loads(path.read_text())
    for key in ("rows", "bytes"):
        path.write_text(json.dumps({**before, key: before[key] + 1}))
        with pytest.raises(ManifestError, match=f"it says {key} {before[key] + 1}, and its shards"):
            pk.open(root)
    path.write_text(json.dumps({**before, "fingerprint": "0" * 32}))
    with pytest.raises(ManifestError, match="it says fingerprint '000"):
        pk.open(root)


def test_another_format_version(root: Path) -> None:
    for version in (2, 0, "1", True, 1.0):
        forged(root, lambda found, version=version: found.update(format_version=version))
        with pytest.raises(ManifestError, match=f"format version {version!r}, and this Penstock reads 1"):
            pk.open(root)


def test_a_manifest_under_another_number(root: Path) -> None:
    shutil.copy(manifest_of(root), root / "_penstock" / "v000007.json")
    with pytest.raises(ManifestError, match=r"v000007\.json cannot be used: it says that it is version 1"):
        pk.open(root)
    assert pk.open(root, version=1).rows == 100


def test_names_that_only_look_like_manifests(root: Path) -> None:
    for name in (
        "v0000009.json",
        "v\u0660\u0660\u0660\u0660\u0660\u0669.json",
        "v000009.json.tmp",
        "xv000009.json",
        "v9.json",
    ):
        (root / "_penstock" / name).write_bytes(b"{}")
    (root / "_penstock" / "sub").mkdir()
    (root / "_penstock" / "sub" / "v000009.json").write_bytes(b"{}")
    assert pk.open(root).versions() == [1]


def test_twice_the_same(root: Path) -> None:
    before = manifest_of(root).read_text()
    forged(root, lambda found: found["tensors"].append(found["tensors"][0]))
    with pytest.raises(ManifestError, match="no name twice"):
        pk.open(root)
    manifest_of(root).write_text(before)
    forged(root, lambda found: found["shards"].append(found["shards"][0]))
    with pytest.raises(ManifestError, match="it names a shard twice"):
        pk.open(root)


def reindexed(
    root: Path, change: Callable[[list[dict[str, Any]]], object], schema: pa.Schema = index.SCHEMA
) -> None:
    """Replace the index, with the checksum it should have."""
    path = next((root / "_penstock").glob("*.arrow"))
    blocks = pa.ipc.open_file(path).read_all().to_pylist()
    change(blocks)
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, schema) as writer:
        writer.write_table(pa.Table.from_pylist(blocks, schema))
    data = sink.getvalue()
    path.write_bytes(data)

    def believe(found: dict[str, Any]) -> None:
        found["index"].update(bytes=len(data), checksum=f"xxh3-64:{xxhash.xxh3_64_hexdigest(data)}")

    forged(root, believe)


BLOCKS: dict[str, Callable[[list[dict[str, Any]]], object]] = {
    "no blocks": lambda blocks: blocks.clear(),
    "one less": lambda blocks: blocks.pop(),
    "another order": lambda blocks: blocks.reverse(),
    "no such shard": lambda blocks: blocks[-1].update(shard=2),
    "negative shard": lambda blocks: blocks[0].update(shard=-1),
    "no rows": lambda blocks: blocks[0].update(rows=0),
    "negative rows": lambda blocks: blocks[0].update(rows=-5),
    "huge rows": lambda blocks: blocks[0].update(rows=(1 << 63) - 1),
    "negative offset": lambda blocks: blocks[0].update(offset=-8),
    "negative length": lambda blocks: blocks[0].update(length=-8),
    "huge offset": lambda blocks: blocks[0].update(offset=(1 << 63) - 1),
    "huge length": lambda blocks: blocks[0].update(length=(1 << 63) - 1),
    "no buffers": lambda blocks: blocks[0].update(buffers=[]),
    "buffers moved": lambda blocks: (
        blocks[1]["buffers"].append(blocks[0]["buffers"].pop()),
        blocks[0]["buffers"],
    ),
    "buffer before": lambda blocks: blocks[1]["buffers"][0].update(offset=0),
    "buffer after": lambda blocks: blocks[0]["buffers"][0].update(offset=1 << 40),
    "buffer of negative length": lambda blocks: blocks[0]["buffers"][0].update(length=-64),
    "buffer of least length": lambda blocks: blocks[0]["buffers"][0].update(length=-(1 << 63)),
    "short buffer": lambda blocks: blocks[0]["buffers"][0].update(length=8),
    "huge buffer": lambda blocks: blocks[0]["buffers"][0].update(raw=1 << 60),
    "huge values": lambda blocks: blocks[0]["buffers"][2].update(raw=1 << 60),
    "short offsets": lambda blocks: blocks[0]["buffers"][1].update(length=8, raw=8),
    "buffers over each other": lambda blocks: blocks[0]["buffers"][4].update(
        offset=blocks[0]["buffers"][0]["offset"]
    ),
    "half an element": lambda blocks: blocks[0]["buffers"][2].update(length=7, raw=7),
}


@pytest.mark.parametrize("change", BLOCKS.values(), ids=BLOCKS)
def test_an_index_that_cannot_be(root: Path, change: Callable[[list[dict[str, Any]]], object]) -> None:
    assert len(pa.ipc.open_file(next((root / "_penstock").glob("*.arrow"))).read_all()) > 2
    reindexed(root, change)
    with pytest.raises(CorruptError, match=r"damaged at the index .*\.arrow: its? "):
        pk.open(root)


def test_an_index_with_other_columns(root: Path) -> None:
    schema = index.SCHEMA.set(1, pa.field("rows", pa.int32(), False))
    reindexed(root, lambda blocks: None, schema)
    with pytest.raises(CorruptError, match=r"the index .*: its columns are"):
        pk.open(root)


def test_an_index_with_nulls(root: Path) -> None:
    path = next((root / "_penstock").glob("*.arrow"))
    found = pa.ipc.open_file(path).read_all()
    rows = pa.array([None] * len(found), pa.int64())
    forged_table = pa.Table.from_arrays([found[0], rows, *found.columns[2:]], schema=index.SCHEMA)
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, index.SCHEMA) as writer:
        writer.write_table(forged_table)
    path.write_bytes(sink.getvalue())
    said = {"bytes": len(sink.getvalue()), "checksum": f"xxh3-64:{xxhash.xxh3_64_hexdigest(sink.getvalue())}"}
    forged(root, lambda manifest: manifest["index"].update(said))
    with pytest.raises(CorruptError, match="it holds nulls"):
        pk.open(root)


def test_an_index_that_is_no_arrow_file(root: Path) -> None:
    path = next((root / "_penstock").glob("*.arrow"))
    for data in (b"", b"ARROW1", b"x" * 1000):
        path.write_bytes(data)
        with pytest.raises(CorruptError, match=r"its bytes are not those"):
            pk.open(root)
        said = {"bytes": len(data), "checksum": f"xxh3-64:{xxhash.xxh3_64_hexdigest(data)}"}
        forged(root, lambda manifest, said=said: manifest["index"].update(said))
        with pytest.raises(CorruptError, match=r"the index .*\.arrow"):
            pk.open(root)
    path.unlink()
    with pytest.raises(CorruptError, match=r"the index .*\.arrow: the file is not there"):
        pk.open(root)
