"""The command line: parsing and printing. Each command calls one function.

`penstock --help` lists the commands. An error that Penstock raises on purpose is one paragraph on stderr and exit
code 1; `--debug` shows where it arose.
"""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

import penstock
from penstock.errors import PenstockError, SelectionError, humane_bytes

app = typer.Typer(
    name="penstock",
    help="Take a Spark DataFrame to a saturated GPU.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

Tensor = Annotated[
    list[str] | None,
    typer.Option(
        "--tensor",
        "-t",
        help="One tensor, repeated for more: 'x=a,b,c' (a matrix of columns), 'y=label' (a column), 'label', "
        "'tokens=ragged:tokens' (lists of unequal lengths). Without any, every column.",
    ),
]
DType = Annotated[
    list[str] | None, typer.Option("--dtype", help="'float32' for all, or 'x=float32' for one, repeated.")
]
Workers = Annotated[
    int | None, typer.Option(help="Make a multiple of so many even shards, one share per worker.")
]
Shards = Annotated[int | None, typer.Option(help="Make so many shards.")]
Shuffle = Annotated[bool, typer.Option(help="Spread and permute rows, or keep their order.")]
Seed = Annotated[int, typer.Option(help="Of the shuffle.")]
Format = Annotated[str, typer.Option(help="arrow or parquet.")]
Compression = Annotated[str | None, typer.Option(help="zstd or lz4, for storage far away.")]
Nulls = Annotated[str, typer.Option(help="What stands for a null: error, nan, or a number.")]
Mode = Annotated[
    str, typer.Option(help="Where there is a dataset already: error, overwrite, append or reuse.")
]


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"penstock {penstock.__version__}")
        raise typer.Exit


@app.callback()
def penstock_command(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback with errors.")] = False,
) -> None:
    """Take a Spark DataFrame to a saturated GPU."""


@app.command()
def demo(
    rows: Annotated[int, typer.Option(min=1000, help="Rows of the made-up table.")] = 1_000_000,
    device: Annotated[str | None, typer.Option(help="Where the torch tensor goes, such as cuda.")] = None,
) -> None:
    """Take a DataFrame to tensors, timed against the ways people usually do it.

    Example: penstock demo --rows 2000000
    """
    from penstock.tools.demo import run_demo

    run_demo(rows, device)


@app.command()
def write(
    source: Annotated[str, typer.Argument(help="A table's name, or a path of files that Spark reads.")],
    path: Annotated[str, typer.Argument(help="Where the dataset goes.")],
    tensor: Tensor = None,
    dtype: DType = None,
    source_format: Annotated[
        str, typer.Option(help="How Spark reads the source: parquet, orc, csv, ..., or table.")
    ] = "parquet",
    remote: Annotated[
        str | None, typer.Option(help="A Spark Connect server, such as sc://host:15002.")
    ] = None,
    workers: Workers = None,
    shards: Shards = None,
    shuffle: Shuffle = True,
    seed: Seed = 0,
    format: Format = "arrow",
    compression: Compression = None,
    nulls: Nulls = "error",
    mode: Mode = "error",
) -> None:
    """Write files or a table as a dataset, through Spark.

    Example: penstock write s3://lake/events s3://bucket/train -t x=price,age -t y=clicked --dtype float32 --workers 16
    """
    spark = penstock.session(remote=remote)
    df = spark.table(source) if source_format == "table" else spark.read.format(source_format).load(source)
    ds = penstock.write(
        df,
        path,
        _tensors(tensor),
        dtype=_dtypes(dtype),
        format=format,
        workers=workers,
        shards=shards,
        shuffle=shuffle,
        seed=seed,
        compression=compression,
        nulls=_nulls(nulls),
        mode=mode,
    )
    typer.echo(repr(ds))


@app.command()
def convert(
    source: Annotated[str, typer.Argument(help="A folder of Parquet or Arrow files, or one such file.")],
    path: Annotated[str, typer.Argument(help="Where the dataset goes.")],
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
) -> None:
    """Write Parquet or Arrow files as a dataset, without Spark.

    Example: penstock convert events/ train/ -t x=price,age -t y=clicked --dtype float32
    """
    ds = penstock.convert(
        source,
        path,
        _tensors(tensor),
        dtype=_dtypes(dtype),
        format=format,
        workers=workers,
        shards=shards,
        shuffle=shuffle,
        seed=seed,
        compression=compression,
        nulls=_nulls(nulls),
        mode=mode,
    )
    typer.echo(repr(ds))


@app.command()
def inspect(
    path: Annotated[str, typer.Argument(help="A dataset, or plain Parquet or Arrow files.")],
    version: Annotated[int | None, typer.Option(help="Another version than the newest.")] = None,
    json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Show what a dataset holds: tensors, rows, versions, and how even its shards are.

    Example: penstock inspect s3://bucket/train
    """
    from penstock.tools.inspect import as_json, show

    ds = penstock.open(path, version=version)
    if json:
        typer.echo(as_json(ds))
    else:
        show(ds)


@app.command()
def explain(
    target: Annotated[
        str,
        typer.Argument(help="A Python script (.py), a table's name, or a path of files that Spark reads."),
    ],
    arguments: Annotated[list[str] | None, typer.Argument(help="What the script gets, after --.")] = None,
    name: Annotated[
        str | None, typer.Option(help="The script's DataFrame; without it, all at its top level.")
    ] = None,
    analyze: Annotated[bool, typer.Option("--analyze", help="Run the query and measure it.")] = False,
    source_format: Annotated[
        str, typer.Option(help="How Spark reads files: parquet, orc, csv, ..., or table.")
    ] = "parquet",
    remote: Annotated[
        str | None, typer.Option(help="A Spark Connect server, such as sc://host:15002.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Show where a query's rows cross between the JVM and Python, and what to do about it.

    Example: penstock explain features.py --name df --analyze
    """
    from penstock.tools.explain_target import as_json, explained, frames, show

    found = explained(frames(target, name, arguments or [], source_format, remote), analyze)
    if json:
        typer.echo(as_json(found))
    else:
        show(found)


@app.command()
def verify(path: Annotated[str, typer.Argument(help="A dataset.")]) -> None:
    """Check every byte of a dataset against its checksums.

    Example: penstock verify s3://bucket/train
    """
    ds = penstock.open(path)
    ds.verify()
    typer.echo(
        f"{ds.path}, version {ds.version}: {len(ds.shards)} shards, {humane_bytes(ds.bytes)}, all as written."
    )


@app.command()
def vacuum(
    path: Annotated[str, typer.Argument(help="A dataset.")],
    keep: Annotated[int, typer.Option(min=1, help="How many of the newest versions stay.")] = 1,
    older_than: Annotated[
        float, typer.Option(min=0, help="Only files older than so many hours: writes under way keep theirs.")
    ] = 24.0,
) -> None:
    """Delete files that no kept version needs.

    Example: penstock vacuum s3://bucket/train --keep 2
    """
    ds = penstock.open(path)
    gone = ds.vacuum(keep=keep, older_than=older_than * 3600)
    typer.echo(f"{len(gone)} files deleted." if gone else "Nothing to delete.")


def _tensors(given: list[str] | None) -> Any:
    """The command line's tensors as a mapping; None for every column."""
    if not given:
        return None
    found: dict[str, Any] = {}
    for text in given:
        name, said, columns = text.partition("=")
        if not said:
            columns = name
        parts = [part for part in columns.split(",") if part]
        if not name or not parts:
            raise SelectionError(
                f"--tensor {text!r}: write name=column, name=column,column or a column alone."
            )
        if name in found:
            raise SelectionError(f"--tensor {text!r}: the tensor {name!r} is given twice.")
        if columns.startswith("ragged:"):
            found[name] = penstock.ragged(columns.removeprefix("ragged:"))
        else:
            found[name] = parts if "," in columns else parts[0]
    return found


def _dtypes(given: list[str] | None) -> Any:
    if not given:
        return None
    pairs = [text.partition("=") for text in given]
    if len(given) == 1 and not pairs[0][1]:
        return given[0]
    bad = [
        text for text, (name, said, dtype) in zip(given, pairs, strict=True) if not (said and name and dtype)
    ]
    if bad:
        raise SelectionError(f"--dtype {bad[0]!r}: write one dtype for all, or tensor=dtype for each.")
    return {name: dtype for name, _, dtype in pairs}


def _nulls(given: str) -> Any:
    if given in ("error", "nan"):
        return given
    try:
        return int(given)
    except ValueError:
        pass
    try:
        return float(given)
    except ValueError:
        raise SelectionError(f"--nulls {given!r}: pass error, nan, or a number.") from None


def main() -> None:
    """Run the command line."""
    try:
        app(prog_name="penstock")
    except PenstockError as error:
        if "--debug" in sys.argv:
            raise
        typer.secho(f"{type(error).__name__}: {error}", fg=typer.colors.RED, err=True)
        sys.exit(1)
