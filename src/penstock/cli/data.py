"""Commands about datasets: write them, look at them, check them, sweep behind them."""

from __future__ import annotations

import json as json_text
from typing import TYPE_CHECKING, Annotated

import typer

import penstock
from penstock.cli.options import (
    Compression,
    DType,
    Format,
    Json,
    Mode,
    Nulls,
    Remote,
    Seed,
    Shards,
    Shuffle,
    SourceFormat,
    Tensor,
    Version,
    Workers,
    dtypes_of,
    nulls_of,
    tensors_of,
)
from penstock.errors import humane_bytes

if TYPE_CHECKING:
    from penstock.feed.dataset import Dataset

Destination = Annotated[str, typer.Argument(help="Where the dataset goes: a folder, or s3://bucket/train.")]
There = Annotated[str, typer.Argument(help="A dataset.")]


def write(
    source: Annotated[str, typer.Argument(help="A table's name, or a path of files that Spark reads.")],
    path: Destination,
    tensor: Tensor = None,
    dtype: DType = None,
    source_format: SourceFormat = "parquet",
    remote: Remote = None,
    workers: Workers = None,
    shards: Shards = None,
    shuffle: Shuffle = True,
    seed: Seed = 0,
    format: Format = "arrow",
    compression: Compression = None,
    nulls: Nulls = "error",
    mode: Mode = "error",
    json: Json = False,
) -> None:
    """Write files or a table as a dataset, through Spark.

    Examples:

    penstock write s3://lake/events s3://ml/train -t x=price,age --workers 16

    penstock write sales train/ --source-format table --remote sc://spark:15002
    """
    spark = penstock.session(remote=remote)
    df = spark.table(source) if source_format == "table" else spark.read.format(source_format).load(source)
    ds = penstock.write(
        df,
        path,
        tensors_of(tensor),
        dtype=dtypes_of(dtype),
        format=format,
        workers=workers,
        shards=shards,
        shuffle=shuffle,
        seed=seed,
        compression=compression,
        nulls=nulls_of(nulls),
        mode=mode,
    )
    _written(ds, json)


def convert(
    source: Annotated[str, typer.Argument(help="A folder of Parquet or Arrow files, or one such file.")],
    path: Destination,
    tensor: Tensor = None,
    dtype: DType = None,
    workers: Workers = None,
    shards: Shards = None,
    shuffle: Shuffle = True,
    seed: Seed = 0,
    format: Format = "arrow",
    compression: Compression = None,
    nulls: Nulls = "error",
    mode: Mode = "error",
    json: Json = False,
) -> None:
    """Write Parquet or Arrow files as a dataset, without Spark.

    Examples:

    penstock convert events/ train/ -t x=price,age -t y=clicked --dtype float32

    penstock convert texts/ train/ -t tokens=ragged:tokens --compression zstd
    """
    ds = penstock.convert(
        source,
        path,
        tensors_of(tensor),
        dtype=dtypes_of(dtype),
        format=format,
        workers=workers,
        shards=shards,
        shuffle=shuffle,
        seed=seed,
        compression=compression,
        nulls=nulls_of(nulls),
        mode=mode,
    )
    _written(ds, json)


def _written(ds: Dataset, json: bool) -> None:
    from penstock.tools.inspect import as_json

    typer.echo(as_json(ds) if json else repr(ds))


def inspect(
    path: Annotated[str, typer.Argument(help="A dataset, or plain Parquet or Arrow files.")],
    version: Version = None,
    json: Json = False,
) -> None:
    """Show what a dataset holds: tensors, rows, versions, and how even its shards are.

    Examples:

    penstock inspect s3://bucket/train

    penstock inspect train/ --version 1 --json
    """
    from penstock.tools.inspect import as_json, show

    ds = penstock.open(path, version=version)
    if json:
        typer.echo(as_json(ds))
    else:
        show(ds)


def verify(path: There, version: Version = None, json: Json = False) -> None:
    """Check every byte of a dataset against its checksums.

    Examples:

    penstock verify s3://bucket/train

    penstock verify train/ --version 1 && penstock train script.py
    """
    from penstock.tools.size_units import show_many

    ds = penstock.open(path, version=version)
    ds.verify()
    if json:
        found = {"path": ds.path, "version": ds.version, "shards": len(ds.shards), "bytes": ds.bytes}
        typer.echo(json_text.dumps(found))
        return
    shards = show_many(len(ds.shards), "shard")
    typer.echo(f"{ds.path}, version {ds.version}: {shards}, {humane_bytes(ds.bytes)}, all as written.")


def vacuum(
    path: There,
    keep: Annotated[int, typer.Option(min=1, help="How many of the newest versions stay.")] = 1,
    older_than: Annotated[
        float, typer.Option(min=0, help="Only files older than so many hours: writes under way keep theirs.")
    ] = 24.0,
    json: Json = False,
) -> None:
    """Delete files that no kept version needs.

    Examples:

    penstock vacuum s3://bucket/train

    penstock vacuum train/ --keep 2 --older-than 1
    """
    from penstock.tools.size_units import show_many

    gone = penstock.open(path).vacuum(keep=keep, older_than=older_than * 3600)
    if json:
        typer.echo(json_text.dumps({"deleted": list(gone)}))
        return
    typer.echo(f"{show_many(len(gone), 'file')} deleted." if gone else "Nothing to delete.")
