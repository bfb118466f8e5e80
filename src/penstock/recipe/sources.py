"""Where a recipe learns: a Spark DataFrame, or Arrow data in memory, in files or as a stream."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from penstock.backends import engine
from penstock.errors import FitError
from penstock.expr.check import Schema
from penstock.expr.statistics import Answers, Request


def is_spark(data: Any) -> bool:
    """Whether data is a Spark DataFrame, classic or over Connect; found without loading Spark."""
    return type(data).__module__.split(".")[0] == "pyspark" and hasattr(data, "sparkSession")


def _schema(name: str, schema: Any, columns: Sequence[str]) -> Schema:
    """All columns that expressions know; one that is needed and of another type is an error with the remedy."""
    found: Schema = engine(name).schema_of(schema)
    engine(name).schema_of(schema, [column for column in columns if column not in found])
    return found


class SparkSource:
    """A DataFrame; every `gather` is one Spark job for numbers and one for vocabularies."""

    def __init__(self, df: Any, columns: Sequence[str]) -> None:
        self._df = df
        self.schema = _schema("spark", df.schema, columns)

    def gather(self, requests: list[Request]) -> Answers:
        """The answers."""
        from penstock.backends.spark.statistics import gather

        return gather(self._df, requests, self.schema)


class ArrowSource:
    """Arrow data: a table, a record batch, a pyarrow dataset, a list of batches, or a stream of them.

    A stream can be read only once, and fitting may need more: then it is first written to a temporary file.
    """

    def __init__(self, data: Any, columns: Sequence[str]) -> None:
        import pyarrow as pa

        self._columns = columns
        self._file: Any = None
        if isinstance(data, pa.Table | pa.RecordBatch):
            self._again: Any = lambda: pa.table(data).to_batches() if isinstance(data, pa.Table) else [data]
            arrow_schema = data.schema
        elif hasattr(data, "scanner") and hasattr(data, "schema"):
            wanted = [name for name in columns if name in data.schema.names]
            self._again, arrow_schema = lambda: data.to_batches(columns=wanted), data.schema
        else:
            arrow_schema = self._spooled(data)
        self.schema = _schema("arrow", arrow_schema, columns)

    def _spooled(self, data: Any) -> Any:
        import pyarrow as pa

        batches = iter(_batches(data))
        first = next(batches, None)
        schema = (
            data.schema if isinstance(data, pa.RecordBatchReader) else None if first is None else first.schema
        )
        if schema is None:
            raise FitError("there is no batch to learn from. Give at least one, or a pyarrow Table.")
        wanted = [name for name in self._columns if name in schema.names]
        handle, path = tempfile.mkstemp(prefix="penstock-fit-", suffix=".arrow")
        os.close(handle)
        self._file = path
        narrow = pa.schema([schema.field(name) for name in wanted])
        with pa.ipc.new_file(path, narrow) as writer:
            for batch in _chained(first, batches):
                if batch is not None:
                    writer.write(batch.select(wanted))
        self._again = lambda: _read(path)
        return schema

    def gather(self, requests: list[Request]) -> Answers:
        """The answers, in one pass over the batches."""
        from penstock.backends.arrow.statistics import gather

        return gather(self._again(), requests, self.schema)

    def close(self) -> None:
        """Remove the temporary file."""
        if self._file is not None:
            os.unlink(self._file)
            self._file = None


def _batches(data: Any) -> Iterable[Any]:
    import pyarrow as pa

    if isinstance(data, str | bytes | dict) or not isinstance(data, Iterable):
        raise FitError(
            f"a recipe cannot learn from {type(data).__name__}. Give a Spark DataFrame, a pyarrow Table or Dataset, or "
            "record batches."
        )
    for batch in data:
        if not isinstance(batch, pa.RecordBatch):
            raise FitError(f"the stream gave {type(batch).__name__}, and should give pyarrow record batches.")
        yield batch


def _chained(first: Any, rest: Iterator[Any]) -> Iterator[Any]:
    yield first
    yield from rest


def _read(path: str) -> Iterator[Any]:
    import pyarrow as pa

    with pa.memory_map(path) as held, pa.ipc.open_file(held) as reader:
        for place in range(reader.num_record_batches):
            yield reader.get_batch(place)
