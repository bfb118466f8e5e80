"""What several commands take, and how it is read."""

from __future__ import annotations

from typing import Annotated, Any

import typer

import penstock
from penstock.errors import SelectionError

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
Remote = Annotated[str | None, typer.Option(help="A Spark Connect server, such as sc://host:15002.")]
SourceFormat = Annotated[
    str, typer.Option(help="How Spark reads the source: parquet, orc, csv, ..., or table.")
]
Version = Annotated[int | None, typer.Option(help="Another version than the newest.")]
Json = Annotated[bool, typer.Option("--json", help="As JSON, for machines.")]


def tensors_of(given: list[str] | None) -> Any:
    """The tensors of a command line as a mapping; None for every column.

    >>> tensors_of(["x=a,b", "y=label", "z"])
    {'x': ['a', 'b'], 'y': 'label', 'z': 'z'}
    """
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


def dtypes_of(given: list[str] | None) -> Any:
    """One dtype for all tensors, or one for each.

    >>> dtypes_of(["float32"]), dtypes_of(["x=float32"])
    ('float32', {'x': 'float32'})
    """
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


def nulls_of(given: str) -> Any:
    """A policy, or the number that stands for a null.

    >>> nulls_of("nan"), nulls_of("-1"), nulls_of("0.5")
    ('nan', -1, 0.5)
    """
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
