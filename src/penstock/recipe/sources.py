"""Where a recipe learns: a Spark DataFrame, or Arrow data in memory, in files or as a stream."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from penstock.backends import engine
from penstock.errors import ExpressionError, FitError
from penstock.expr.check import Schema, two_columns
from penstock.expr.statistics import Answers, Request
from penstock.expr.types import FLOAT64, VECTOR, list_of


def is_spark(data: Any) -> bool:
    """Whether data is a Spark DataFrame, classic or over Connect; found without loading Spark."""
    return type(data).__module__.split(".")[0] == "pyspark" and hasattr(data, "sparkSession")


def _schema(name: str, schema: Any, columns: Sequence[str]) -> Schema:
    """All columns that expressions know; one that is needed and of another type is an error with the remedy."""
    for column in columns:
        if list(schema.names).count(column) > 1:
            raise ExpressionError(two_columns(column))
    found: Schema = engine(name).schema_of(schema)
    engine(name).schema_of(schema, [column for column in columns if column not in found])
    return found


class SparkSource:
    """A DataFrame; every `gather` is one Spark job for numbers and one for vocabularies."""

    def __init__(self, df: Any, columns: Sequence[str], computed: Sequence[str]) -> None:
        """`computed`: the columns that operations read. There vectors of MLlib are lists; elsewhere they stay."""
        self._df = df
        self.schema = _schema("spark", df.schema, columns)
        vectors = [name for name in computed if self.schema.get(name) == VECTOR]
        if vectors:
            from penstock.backends.spark.columns import named
            from penstock.backends.spark.inputs import vector_as_list

            self._df = df.withColumns({name: vector_as_list(named(name)) for name in vectors})
            self.schema = {**self.schema, **dict.fromkeys(vectors, list_of(FLOAT64))}

    def gather(self, requests: list[Request]) -> Answers:
        """The answers."""
        from penstock.backends.spark.statistics import gather

        return gather(self._df, requests, self.schema)


class ArrowSource:
    """Arrow data: a table, a record batch, a pyarrow dataset, a list of batches, a stream of them, or what gives one
    (polars, duckdb, pandas).

    A stream can be read only once, and fitting may need more: then it is first written to a temporary file.
    """

    def __init__(self, data: Any, columns: Sequence[str]) -> None:
        self._columns = columns
        self._file: str | None = None
        try:
            self._open(data)
        except BaseException:
            self.close()
            raise

    def _open(self, data: Any) -> None:
        """Find the schema, and make `_again`, which gives the batches each time it is called."""
        import pyarrow as pa

        if isinstance(data, pa.Table | pa.RecordBatch):
            self.schema = _schema("arrow", data.schema, self._columns)
            self._again: Any = data.to_batches if isinstance(data, pa.Table) else lambda: [data]
        elif hasattr(data, "scanner") and hasattr(data, "schema"):
            self.schema = _schema("arrow", data.schema, self._columns)
            wanted = [name for name in self._columns if name in data.schema.names]
            self._again = lambda: data.to_batches(columns=wanted)
        else:
            stream = hasattr(data, "__arrow_c_stream__") and not isinstance(data, pa.RecordBatchReader)
            self._spool(pa.RecordBatchReader.from_stream(data) if stream else data)

    def _spool(self, data: Any) -> None:
        import pyarrow as pa

        batches = iter(_batches(data))
        first = next(batches, None)
        schema = (
            data.schema if isinstance(data, pa.RecordBatchReader) else None if first is None else first.schema
        )
        if schema is None:
            raise FitError("there is no batch to learn from. Give at least one, or a pyarrow Table.")
        self.schema = _schema("arrow", schema, self._columns)
        kept = [field for field in schema if field.name in self._columns]
        narrow = pa.schema([field.with_type(_decoded(field.type)) for field in kept])
        handle, path = tempfile.mkstemp(prefix="penstock-fit-", suffix=".arrow")
        os.close(handle)
        self._file = path
        with pa.ipc.new_file(path, narrow) as writer:
            for place, batch in enumerate(_chained(first, batches)):
                if batch is not None:
                    writer.write(_like(batch, narrow, place))
        self._again = lambda: _read(path)

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
            f"a recipe cannot learn from {type(data).__name__}. Give a Spark DataFrame, a pyarrow Table or Dataset, "
            "record batches, or anything with __arrow_c_stream__ (polars, duckdb, pandas)."
        )
    for batch in data:
        if not isinstance(batch, pa.RecordBatch):
            raise FitError(f"the stream gave {type(batch).__name__}, and should give pyarrow record batches.")
        yield batch


def _decoded(of: Any) -> Any:
    """The type without dictionaries: a file holds one for all batches, and each batch of a stream may have its own."""
    import pyarrow as pa

    if pa.types.is_dictionary(of):
        return of.value_type
    if pa.types.is_list(of) and pa.types.is_dictionary(of.value_type):
        return pa.list_(of.value_type.value_type)
    return of


def _like(batch: Any, narrow: Any, place: int) -> Any:
    """The columns of a batch that are kept, if they are of the types that the stream began with."""
    import pyarrow as pa

    arrays = []
    for kept in narrow:
        found = batch.schema.get_all_field_indices(kept.name)
        seen = [str(_decoded(batch.schema.types[at])) for at in found]
        if seen not in ([str(kept.type)], ["null"]):
            raise FitError(
                f"batch {place} of the stream has {' and '.join(seen) or 'nothing'} for column {kept.name!r}, and the "
                f"stream began with {kept.type}. Give all batches one schema: batch.cast(schema)."
            )
        arrays.append(batch.column(found[0]).cast(kept.type))
    # Where no column is kept the number of rows is.
    return pa.RecordBatch.from_arrays(arrays, schema=narrow) if arrays else batch.select([])


def _chained(first: Any, rest: Iterator[Any]) -> Iterator[Any]:
    yield first
    yield from rest


def _read(path: str) -> Iterator[Any]:
    import pyarrow as pa

    with pa.memory_map(path) as held, pa.ipc.open_file(held) as reader:
        for place in range(reader.num_record_batches):
            yield reader.get_batch(place)
