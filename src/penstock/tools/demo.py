"""`penstock demo`: a DataFrame goes to tensors, timed against the ways people usually do it.

A table of sensor readings is made in Spark, with numbers of three types, a list and a timestamp; nothing is
downloaded. The slow ways get fewer rows and are scaled up, and the table says so. For figures that count, see
`benchmarks/transfer.py`: one run of each way says little on a busy machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from penstock.errors import humane_bytes
from penstock.jobs.session import session
from penstock.jobs.tensors import to_numpy, to_torch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NUMBERS = 24
SLOW_PART = 20


@dataclass(frozen=True)
class Timing:
    """One way, and its seconds for all rows; `part` tells that it got one in so many of them."""

    name: str
    seconds: float
    part: int = 1


def run_demo(rows: int, device: str | None) -> None:
    """Show the whole way, then what it took."""
    console = Console()
    began = time.perf_counter()
    with console.status("Starting Spark (no Java needed on the machine)"):
        spark = session()
    console.print(f"Spark {spark.version} is up after {time.perf_counter() - began:.1f} s.")
    with console.status(f"Making {rows:,} rows"):
        df = sensor_readings(spark, rows).cache()
        few = sensor_readings(spark, rows // SLOW_PART).cache()
        df.count(), few.count()
    features = [f"reading_{place}" for place in range(NUMBERS)]
    console.print(
        f"A DataFrame of {rows:,} rows: {NUMBERS} numbers, an embedding of 8, a timestamp, a label.\n"
    )

    console.print(
        '[bold]pk.to_torch(df, {"x": features, "embedding": "embedding", "at": "at", "y": "label"})'
    )
    tensors = to_torch(
        df,
        {"x": features, "embedding": "embedding", "at": "at", "y": "label"},
        dtype={"x": "float32"},
        device=device,
    )
    assert isinstance(tensors, dict)
    for name, tensor in tensors.items():
        size = humane_bytes(tensor.numel() * tensor.element_size())
        console.print(
            f"  {name:10} {tensor.dtype!s:14} {tuple(tensor.shape)!s:16} {size:>10} on {tensor.device}"
        )
    del tensors

    console.print("\nThe numbers alone, as one float32 matrix:")
    timings = measure(df.select(*features), few.select(*features))
    console.print(table_of(timings))
    console.print(
        "One run each; benchmarks/transfer.py measures with care. Next: README.md, docs/results.md."
    )


def sensor_readings(spark: SparkSession, rows: int) -> DataFrame:
    """Made-up readings: floats, doubles and ints, a list, a timestamp and a label, the same on every run."""
    from pyspark.sql import functions as F

    columns = []
    for place in range(NUMBERS):
        value = F.xxhash64(F.col("id"), F.lit(place)) % 100_000
        kind = ("float", "double", "int")[place % 3]
        columns.append((value / 7).cast(kind).alias(f"reading_{place}"))
    embedding = F.array(*(F.sin(F.col("id") * place).cast("float") for place in range(8)))
    return spark.range(0, rows, 1, 8).select(
        *columns,
        embedding.alias("embedding"),
        F.timestamp_seconds(F.lit(1_700_000_000) + F.col("id")).alias("at"),
        (F.col("id") % 2).cast("byte").alias("label"),
    )


def measure(df: DataFrame, few: DataFrame) -> list[Timing]:
    """Each way once, the slow ones on fewer rows."""
    import numpy as np

    columns = df.columns
    to_numpy(few, columns, dtype="float32"), _through_pandas(few)  # imports, and the JVM's compiler
    return [
        _timed("pk.to_numpy(df, columns, dtype='float32')", lambda: to_numpy(df, columns, dtype="float32")),
        _timed("df.toPandas().to_numpy('float32')", lambda: _through_pandas(df)),
        _timed("np.array(df.collect(), 'float32')", lambda: np.array(few.collect(), "float32"), SLOW_PART),
    ]


def _through_pandas(df: DataFrame) -> Any:
    frame: Any = df.toPandas()
    return frame.to_numpy("float32")


def _timed(name: str, run: Callable[[], Any], part: int = 1) -> Timing:
    began = time.perf_counter()
    run()
    return Timing(name, (time.perf_counter() - began) * part, part)


def table_of(timings: list[Timing]) -> Table:
    """A table with the first way as the measure of the others."""
    table = Table("way", "seconds", "against Penstock", box=None, pad_edge=False)
    for timing in timings:
        scaled = f" (1/{timing.part} of the rows, scaled)" if timing.part > 1 else ""
        ratio = f"{timing.seconds / timings[0].seconds:.1f} x"
        table.add_row(timing.name + scaled, f"{timing.seconds:.2f}", ratio)
    return table
