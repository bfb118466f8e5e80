"""Folders of Parquet or Arrow files that Penstock did not write: Spark's output, Hive-style folders, a single file.

Their footers give the index: a row group or a record batch is a block. There are no versions and no checksums;
everything else is as with a dataset of our own. `penstock.dataset.local` turns such files into one.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np
import pyarrow as pa

from penstock.dataset.blocks import ArrowBlocks
from penstock.dataset.files import first_line, open_file
from penstock.dataset.index import BUFFER_DTYPE, Index
from penstock.dataset.manifest import IndexFile, Manifest, Shard
from penstock.dataset.part import silent, spec_of
from penstock.dataset.snapshot import Snapshot
from penstock.dataset.store import Content, DiskCache, Entry, Store, knowing, open_store, with_cache
from penstock.dtypes import TensorSpec
from penstock.errors import DatasetError, DatasetMissing, listed
from penstock.wire.arrow_source import select_arrow
from penstock.wire.faults import BadValue
from penstock.wire.nulls import Nulls
from penstock.wire.pack import Packer
from penstock.wire.plan import TensorPlan
from penstock.wire.selection import RaggedColumn, Tensors

SUFFIXES = (".parquet", ".pq", ".arrow", ".feather", ".ipc")
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
THREADS = 16


@dataclass(frozen=True)
class PlainFile:
    """One file: its columns, the rows of its blocks, and what its path says."""

    entry: Entry
    schema: pa.Schema
    rows: tuple[int, ...]
    path_values: dict[str, str]


def find_files(path: str | os.PathLike[str]) -> tuple[Store, list[PlainFile]]:
    """The data files at a path, in the order of their names, with what their footers tell."""
    text = os.fspath(path)
    store, entries = _entries(text)
    if not entries:
        raise DatasetMissing(
            f"{text} holds neither a Penstock dataset nor Parquet or Arrow files ({', '.join(SUFFIXES)}). "
            "Check the path; a write that failed leaves no dataset."
        )
    with ThreadPoolExecutor(THREADS) as pool:
        files = list(
            pool.map(lambda entry: _footer(store, entry), sorted(entries, key=lambda each: each.name))
        )
    _check_alike(files)
    return store, files


def _entries(path: str) -> tuple[Store, list[Entry]]:
    local = local_path(path)
    if local is not None and is_file(path):
        # Not by listing the folder it is in, which may be large, and is none of ours.
        folder, name = os.path.split(os.path.abspath(local))
        status = os.stat(local)
        if not name.endswith(SUFFIXES):
            raise DatasetMissing(
                f"{path} is a file that is read neither as Parquet nor as Arrow: its name ends in none of "
                f"{', '.join(SUFFIXES)}."
            )
        return open_store(folder), [Entry(name, status.st_size, status.st_mtime)]
    folder, _, name = path.rstrip("/").rpartition("/")
    if local is None and name.endswith(SUFFIXES) and not folder.endswith(":/"):
        store = open_store(folder)
        with suppress(FileNotFoundError):
            store.size(name)
            return store, [entry for entry in store.entries() if entry.name == name]
    store = open_store(path)
    return store, [entry for entry in store.entries() if _is_data(entry.name)]


def is_file(path: str | os.PathLike[str]) -> bool:
    """Whether the path is one file of this machine."""
    local = local_path(os.fspath(path))
    return local is not None and os.path.isfile(local)


def local_path(path: str) -> str | None:
    """The path on this machine, or None where the address is another's."""
    if "://" not in path:
        return path
    return unquote(urlsplit(path).path) if path.startswith("file://") else None


def _is_data(name: str) -> bool:
    """Spark's rule: what begins with _ or . is not data."""
    return name.endswith(SUFFIXES) and not any(
        part.startswith((".", "_")) and "=" not in part for part in name.split("/")
    )


def _footer(store: Store, entry: Entry) -> PlainFile:
    try:
        with store.open_input(entry.name) as file:
            found = open_file(file, entry.name)
            rows = tuple(found.rows())
            schema = found.schema
    except (pa.ArrowException, OSError) as error:
        raise DatasetError(
            f"{store.locate(entry.name)} cannot be read as {entry.name.rpartition('.')[2]}: {first_line(error)}. Check "
            "the file, or leave it out."
        ) from None
    pairs = [part.partition("=") for part in entry.name.split("/")[:-1] if "=" in part]
    return PlainFile(entry, schema, rows, {unquote(key): unquote(value) for key, _, value in pairs})


def _check_alike(files: Sequence[PlainFile]) -> None:
    first = files[0]
    for file in files[1:]:
        if not file.schema.equals(first.schema) or file.path_values.keys() != first.path_values.keys():
            mine = {field.name: str(field.type) for field in first.schema} | dict.fromkeys(
                first.path_values, "in the path"
            )
            its = {field.name: str(field.type) for field in file.schema} | dict.fromkeys(
                file.path_values, "in the path"
            )
            odd = sorted(name for name in mine.keys() | its.keys() if mine.get(name) != its.get(name))
            raise DatasetError(
                f"the files have different columns: {first.entry.name} and {file.entry.name} differ in "
                f"{listed(odd) or 'whether nulls are allowed'}. Rewrite them alike, or open fewer of them."
            )


def path_columns(files: Sequence[PlainFile]) -> list[pa.RecordBatch]:
    """Per file one row of the columns that its path gives, in types that hold all values: int64, float64 or text."""
    columns: dict[str, pa.Array] = {}
    for name in files[0].path_values:
        values = [file.path_values[name] for file in files]
        known = [None if value == NO_VALUE else value for value in values]
        columns[name] = _typed(known)
    return [
        pa.RecordBatch.from_pydict({name: column.slice(place, 1) for name, column in columns.items()})
        for place in range(len(files))
    ]


def _typed(values: Sequence[str | None]) -> pa.Array:
    texts = pa.array(values, pa.string())
    for kind in (pa.int64(), pa.float64()):
        try:
            return texts.cast(kind)
        except pa.ArrowInvalid:
            continue
    return texts


def full_schema(files: Sequence[PlainFile], extra: Sequence[pa.RecordBatch]) -> pa.Schema:
    """The files' columns, and those of their paths."""
    return pa.schema([*files[0].schema, *extra[0].schema])


def request_for(schema: pa.Schema, tensors: Tensors) -> Tensors:
    """Without a request, every column; lists become ragged tensors, because nothing promises equal lengths."""
    if tensors is not None:
        return tensors
    return {field.name: RaggedColumn(field.name) if _is_list(field.type) else field.name for field in schema}


def _is_list(kind: pa.DataType) -> bool:
    checks = (pa.types.is_list, pa.types.is_large_list, pa.types.is_list_view, pa.types.is_large_list_view)
    return any(check(kind) for check in checks)


def open_plain(
    path: str | os.PathLike[str], tensors: Tensors, dtype: Any, nulls: Nulls, cache: DiskCache | None = None
) -> Snapshot:
    """A folder (or file) of plain files, as a snapshot."""
    store, files = find_files(path)
    store = knowing(with_cache(store, cache), {file.entry.name: _content(file.entry) for file in files})
    extra = path_columns(files)
    request = request_for(full_schema(files, extra), tensors)
    selection = select_arrow(full_schema(files, extra), request, dtype, nulls)
    named = {plan.name: _asked(plan) for plan in selection.plan.tensors}
    dtypes = {plan.name: plan.dtype for plan in selection.plan.tensors if plan.kind in ("fixed", "ragged")}
    shards = tuple(
        Shard(file.entry.name, sum(file.rows), file.entry.bytes, len(file.rows), f"{file.entry.modified}")
        for file in files
    )
    index = _index(files)
    ordinals = np.array([number for file in files for number, rows in enumerate(file.rows) if rows], np.int64)

    def blocks(specs: tuple[TensorSpec, ...]) -> ArrowBlocks:
        return ArrowBlocks(store, specs, shards, index, named, dtypes, nulls, tuple(extra), ordinals)

    specs = [_known_spec(plan) for plan in selection.plan.tensors]
    if any(spec is None for spec in specs):
        unknown = tuple(TensorSpec(plan.name, plan.dtype, (), plan.kind) for plan in selection.plan.tensors)
        specs = list(_learn(blocks(unknown), selection))
    known = tuple(spec for spec in specs if spec is not None)
    manifest = Manifest(
        version=1,
        tensors=known,
        shards=shards,
        index=IndexFile("", 0, ""),
        storage="parquet",
        columns={plan.name: plan.columns for plan in selection.plan.tensors},
    )
    return Snapshot(store, manifest, index, blocks(known), committed=False)


def _content(entry: Entry) -> Content:
    """Plain files may be replaced, and then have another time, size or tag when they are opened the next time."""
    return Content(entry.bytes, f"{entry.modified} {entry.tag}")


def _asked(plan: TensorPlan) -> Any:
    columns = plan.columns
    if plan.kind == "ragged":
        return RaggedColumn(columns[0])
    return list(columns) if plan.matrix else columns[0]


def _known_spec(plan: TensorPlan) -> TensorSpec | None:
    if plan.kind in ("string", "binary"):
        return TensorSpec(plan.name, plan.dtype, (), plan.kind)
    if plan.kind == "ragged" and plan.pieces[0].depth == 1:
        return TensorSpec(plan.name, plan.dtype, (), plan.kind)
    return None if plan.fixed_shape is None else TensorSpec(plan.name, plan.dtype, plan.fixed_shape)


def _learn(blocks: ArrowBlocks, selection: Any) -> list[TensorSpec]:
    """The shapes that only rows tell, from the first block that does; mostly its first row is enough."""
    for number in range(len(blocks.index)):
        batch = blocks.batch(number, [plan.name for plan in selection.plan.tensors])[1]
        for rows in (batch.slice(0, 1), batch):
            try:
                tensors = Packer(selection.plan).arrays(selection.prepare(rows))
            except BadValue as bad:
                raise bad.fault.to_error() from None
            if not any(silent(each) for each in tensors):
                return [spec_of(*pair) for pair in zip(selection.plan.tensors, tensors, strict=True)]
    return [
        TensorSpec(plan.name, plan.dtype, plan.empty_shape[plan.kind == "ragged" :], plan.kind)
        for plan in selection.plan.tensors
    ]


def _index(files: Sequence[PlainFile]) -> Index:
    shard = [place for place, file in enumerate(files) for rows in file.rows if rows]
    rows = [rows for file in files for rows in file.rows if rows]
    nothing = np.zeros(len(rows), np.int64)
    return Index(
        np.array(shard, np.int32),
        np.array(rows, np.int64),
        nothing,
        nothing,
        nothing.astype(np.uint64),
        np.empty((len(rows), 0), BUFFER_DTYPE),
    )
