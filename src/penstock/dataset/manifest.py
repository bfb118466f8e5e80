"""The manifest of one committed version: what it holds, how it is written and read.

It is read as a stranger's input: a manifest may come from anywhere, so every number and path is checked before it is
believed, and nothing is ever unpickled or executed. `index` lists the blocks, `commit` publishes manifests,
`snapshot` opens them. The written form is described in `docs/format.md`.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from penstock.dataset import checksum
from penstock.dtypes import DTYPES, KINDS, TensorSpec
from penstock.errors import ManifestError

FORMAT, FORMAT_VERSION = "penstock-dataset", 1
STORAGES = ("arrow", "parquet")
COMPRESSIONS = (None, "zstd", "lz4")
MOST_ROWS, MOST_BYTES, MOST_AXES = 1 << 56, 1 << 60, 32
"""Beyond these a number is a mistake or an attack, not a dataset."""


@dataclass(frozen=True)
class Shard:
    """One file of a dataset.

    >>> Shard("shards/a.arrow", rows=10, bytes=4096, blocks=1, checksum="crc32:00000000000000ff").rows
    10
    """

    file: str
    rows: int
    bytes: int
    blocks: int
    checksum: str


@dataclass(frozen=True)
class IndexFile:
    """The file that holds the index of a version."""

    file: str
    bytes: int
    checksum: str


@dataclass(frozen=True)
class Manifest:
    """One committed version of a dataset."""

    version: int
    tensors: tuple[TensorSpec, ...]
    shards: tuple[Shard, ...]
    index: IndexFile
    storage: str = "arrow"
    compression: str | None = None
    created: str = ""
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Tensor -> the source's columns it was made of."""
    stored: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Tensor -> the columns of the files that hold it; in Arrow shards always the one of its name."""
    source: Mapping[str, Any] = field(default_factory=dict)
    """Where the rows came from: the schema, and what `mode="reuse"` compares."""
    options: Mapping[str, Any] = field(default_factory=dict)
    writer: Mapping[str, str] = field(default_factory=dict)
    recipe: tuple[str, ...] = ()
    """The files of the recipe the rows came through, its JSON first; empty where there was none."""

    @property
    def rows(self) -> int:
        """Rows of all shards."""
        return sum(shard.rows for shard in self.shards)

    @property
    def bytes(self) -> int:
        """Bytes of all shards."""
        return sum(shard.bytes for shard in self.shards)

    @property
    def fingerprint(self) -> str:
        """The content's identity: equal for equal tensors and equal bytes in equal order, wherever they lie."""
        content = {
            "tensors": [{**_tensor_json(spec), "stored": self._stored(spec)} for spec in self.tensors],
            "shards": [[shard.rows, shard.bytes, shard.checksum] for shard in self.shards],
        }
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:32]

    def to_json(self) -> str:
        """The manifest as it is written."""
        written = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "version": self.version,
            "created": self.created,
            "fingerprint": self.fingerprint,
            "rows": self.rows,
            "bytes": self.bytes,
            "storage": self.storage,
            "compression": self.compression,
            "tensors": [
                {
                    **_tensor_json(spec),
                    "columns": list(self.columns.get(spec.name, ())),
                    "stored": self._stored(spec),
                }
                for spec in self.tensors
            ],
            "shards": [vars(shard) for shard in self.shards],
            "index": vars(self.index),
            "source": dict(self.source),
            "options": dict(self.options),
            "writer": dict(self.writer),
            "recipe": list(self.recipe) or None,
        }
        return json.dumps(written, indent=1) + "\n"

    def _stored(self, spec: TensorSpec) -> list[str]:
        return list(self.stored.get(spec.name, (spec.name,)))


def _tensor_json(spec: TensorSpec) -> dict[str, Any]:
    return {"name": spec.name, "dtype": spec.dtype, "shape": list(spec.shape), "kind": spec.kind}


def parse_manifest(data: bytes, where: str) -> Manifest:
    """A manifest out of a file's bytes; `ManifestError` names `where` and what is wrong.

    >>> parse_manifest(b"[]", "v000001.json")
    Traceback (most recent call last):
    ...
    penstock.errors.ManifestError: v000001.json cannot be used: it holds a list where an object belongs. Restore it \
from a copy, or write the dataset anew.
    """
    try:
        return _Reader(where).manifest(_json(data))
    except _Wrong as wrong:
        raise ManifestError(where, str(wrong)) from None


class _Wrong(Exception):
    """What is wrong with a manifest."""


def _json(data: bytes) -> Any:
    def refuse(name: str) -> None:
        raise _Wrong(f"it holds {name}, which is not a JSON number")

    try:
        return json.loads(data.decode("utf-8"), parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise _Wrong(f"it is not JSON ({error!s:.200})") from None


class _Reader:
    """Takes a parsed manifest apart, checking every value."""

    def __init__(self, where: str) -> None:
        self.where = where

    def manifest(self, found: Any) -> Manifest:
        top = self.mapping(found)
        if top.get("format") != FORMAT:
            raise _Wrong(f"its format is {top.get('format')!r:.100}, not {FORMAT!r}")
        number = top.get("format_version")
        if not _same(number, FORMAT_VERSION):
            raise _Wrong(
                f"it is of format version {number!r:.100}, and this Penstock reads {FORMAT_VERSION}; "
                "a newer Penstock may read it"
            )
        tensors = self.items(top, "tensors")
        manifest = Manifest(
            version=self.number(top, "version", 1, 10**9),
            tensors=tuple(self.tensor(each) for each in tensors),
            shards=tuple(self.shard(each) for each in self.items(top, "shards")),
            index=self.index(self.mapping(top.get("index"))),
            storage=self.choice(top, "storage", STORAGES),
            compression=self.choice(top, "compression", COMPRESSIONS),
            created=self.string(top, "created"),
            columns=self.names(tensors, "columns"),
            stored=self.names(tensors, "stored"),
            source=self.mapping(top.get("source", {})),
            options=self.mapping(top.get("options", {})),
            writer=self.mapping(top.get("writer", {})),
            recipe=self.recipe(top),
        )
        names = [spec.name for spec in manifest.tensors]
        if len(set(names)) < len(names) or not names:
            raise _Wrong(f"its tensors are named {names!r:.200}; there must be some, and no name twice")
        if len({shard.file for shard in manifest.shards}) < len(manifest.shards):
            raise _Wrong("it names a shard twice")
        for key, seen in (
            ("rows", manifest.rows),
            ("bytes", manifest.bytes),
            ("fingerprint", manifest.fingerprint),
        ):
            if not _same(top.get(key), seen):
                raise _Wrong(f"it says {key} {top.get(key)!r:.100}, and its shards and tensors give {seen!r}")
        self.check_sizes(manifest)
        return manifest

    def recipe(self, top: Mapping[str, Any]) -> tuple[str, ...]:
        return () if top.get("recipe") is None else tuple(map(inner_path, self.texts(top, "recipe")))

    def check_sizes(self, manifest: Manifest) -> None:
        for spec in manifest.tensors:
            size = DTYPES[spec.dtype].bytes * math.prod(max(axis, 1) for axis in spec.shape)
            size *= 1 if spec.ragged else max(manifest.rows, 1)
            if manifest.rows > MOST_ROWS or size > MOST_BYTES:
                raise _Wrong(f"its tensor {spec!s:.200} of {manifest.rows} rows is larger than any dataset")

    def names(self, tensors: Sequence[Any], key: str) -> dict[str, tuple[str, ...]]:
        return {self.string(each, "name"): tuple(self.texts(each, key)) for each in tensors}

    def texts(self, given: Mapping[str, Any], key: str) -> list[str]:
        found = self.items(given, key)
        if not all(_text(each) for each in found) or (key == "stored" and not found):
            raise _Wrong(f"its {key!r} is {found!r:.100}, not a list of names")
        return list(found)

    def tensor(self, found: Any) -> TensorSpec:
        given = self.mapping(found)
        shape = self.items(given, "shape")
        if len(shape) > MOST_AXES or not all(_whole(axis, 0, MOST_ROWS) for axis in shape):
            raise _Wrong(f"a tensor has the shape {shape!r:.100}")
        kind, dtype = self.choice(given, "kind", KINDS), self.choice(given, "dtype", tuple(DTYPES))
        assert kind is not None
        assert dtype is not None
        if kind in ("string", "binary") and (shape or dtype != "uint8"):
            raise _Wrong(f"a tensor of kind {kind!r} has the shape {shape!r:.100} and the dtype {dtype!r}")
        return TensorSpec(self.string(given, "name"), dtype, tuple(shape), kind)

    def shard(self, found: Any) -> Shard:
        given = self.mapping(found)
        return Shard(
            file=inner_path(self.string(given, "file")),
            rows=self.number(given, "rows", 0, MOST_ROWS),
            bytes=self.number(given, "bytes", 0, MOST_BYTES),
            blocks=self.number(given, "blocks", 0, MOST_ROWS),
            checksum=self.checksum(given),
        )

    def index(self, given: Mapping[str, Any]) -> IndexFile:
        size = self.number(given, "bytes", 0, MOST_BYTES)
        return IndexFile(inner_path(self.string(given, "file")), size, self.checksum(given))

    def checksum(self, given: Mapping[str, Any]) -> str:
        written = self.string(given, "checksum")
        try:
            checksum.parse(written)
        except ValueError as error:
            raise _Wrong(str(error)) from None
        return written

    def mapping(self, found: Any) -> Mapping[str, Any]:
        if not isinstance(found, dict):
            raise _Wrong(f"it holds a {type(found).__name__} where an object belongs")
        return found

    def items(self, given: Mapping[str, Any], key: str) -> Sequence[Any]:
        found = given.get(key)
        if not isinstance(found, list):
            raise _Wrong(f"its {key!r} is {found!r:.100}, not a list")
        return found

    def string(self, given: Mapping[str, Any], key: str) -> str:
        found = given.get(key)
        if not _text(found):
            raise _Wrong(f"its {key!r} is {found!r:.100}, not a text")
        return str(found)

    def number(self, given: Mapping[str, Any], key: str, low: int, high: int) -> int:
        found = given.get(key)
        if not _whole(found, low, high):
            raise _Wrong(f"its {key!r} is {found!r:.100}, not a whole number from {low} to {high}")
        return int(found)  # type: ignore[arg-type]

    def choice(self, given: Mapping[str, Any], key: str, choices: Sequence[str | None]) -> Any:
        found = given.get(key)
        if found not in choices:
            raise _Wrong(f"its {key!r} is {found!r:.100}, not one of {list(choices)}")
        return found


def _same(found: Any, expected: int | str) -> bool:
    """Equal and of one type: to Python, true is 1 and so is 1.0."""
    return type(found) is type(expected) and bool(found == expected)


def _text(found: Any) -> bool:
    """Whether it is a text that can be written: JSON can spell halves of characters, which no file or screen takes."""
    return isinstance(found, str) and not any("\ud800" <= letter <= "\udfff" for letter in found)


def _whole(found: Any, low: int, high: int) -> bool:
    return isinstance(found, int) and not isinstance(found, bool) and low <= found <= high


def inner_path(written: str) -> str:
    """A path of a manifest, relative to the dataset's root and inside it; anything else is refused."""
    path = PurePosixPath(written)
    bad = (
        not written
        or path.is_absolute()
        or any(part in ("..", ".") for part in written.split("/"))
        or "\\" in written
        or ":" in written.split("/")[0]
        or any(ord(letter) < 32 for letter in written)
        or str(path) != written
    )
    if bad:
        raise _Wrong(f"it names the file {written!r:.200}, and only paths inside the dataset are allowed")
    return written
