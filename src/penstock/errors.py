"""Every exception Penstock raises on purpose, drawn as a tree.

    PenstockError
    ├── MissingDependency        a library of an extra is not installed
    ├── SessionError             a Spark session cannot be had as asked
    │   └── JavaMissing          no Java runtime of version 17 or later
    ├── SelectionError           the tensors asked for do not fit the DataFrame's columns
    │   └── UnsupportedType      a column's type has no tensor form
    ├── ExpressionError          an expression is not legal, or does not fit the columns
    │   ├── NotLifted            a Python function has no expression; says where and why
    │   └── UnsupportedOperation the engine asked to compute it does not offer one of its operations
    ├── DataError                a value in the data cannot become the tensor asked for
    │   ├── NullError            nulls where none were allowed
    │   ├── NullReached          a null came out of an expression that makes a tensor
    │   ├── CastError            a value does not fit the dtype
    │   ├── RowError             a lifted function raised an error of the user's own class
    │   ├── OutOfReach           a lifted function met a value that Python alone can hold
    │   ├── RowRefused           a model cannot score a row
    │   └── RaggedError          lists of unequal lengths in a fixed tensor
    ├── PredictError             a model cannot be used for scoring as asked
    │   └── ReturnsError         its results are not what `returns` says
    ├── FitError                 a recipe cannot learn what it asks for from the data
    ├── RecipeError              a recipe cannot be read back
    ├── DeviceError              a framework or its device cannot hold the tensor
    ├── TooLarge                 more bytes than `max_bytes`
    ├── TransferError            rows were lost or came twice on their way
    ├── JobError                 a Spark job failed for a reason of its own
    ├── WaysDiffer               ways that a benchmark compares do not compute the same
    ├── LaunchError              a rank that was launched failed, or ran out of time
    ├── CheckpointError          a checkpoint cannot be written, or not be restored
    ├── SizeError                a question about sizes is not understood, or a path cannot be measured
    ├── ReportError              a report cannot be made of what was given
    └── DatasetError             a dataset on storage cannot be written or read as asked
        ├── DatasetExists        there is something where a new one should be written
        ├── DatasetMissing       there is none
        ├── ManifestError        its manifest cannot be believed
        ├── CorruptError         bytes are not those that were written
        ├── StorageError         the storage refused: permission, space, network
        └── FollowError          a write that is followed failed, ended without a word, or does not get on
            └── StillWriting     asked before the write has ended, and only its end tells

Each message says what happened, to what, the value seen, and what to do next. The classes that know
enough build it themselves. Start reading at `penstock.jobs.transfer` for where most of them arise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


class PenstockError(Exception):
    """Base of all of Penstock's errors.

    >>> issubclass(TooLarge, PenstockError)
    True
    """

    def __reduce__(self) -> tuple[Any, ...]:
        """By what is in it: Python would call the class with the finished message, which few of them take."""
        return _made, (type(self), self.args), self.__dict__ or None


def _made(kind: type[PenstockError], args: tuple[Any, ...]) -> PenstockError:
    """An error as it was before it was pickled; its class has no say."""
    return kind.__new__(kind, *args)


class MissingDependency(PenstockError):
    """A library that an optional part needs is not installed.

    >>> print(MissingDependency("torch", extra="torch"))
    torch is not installed, and this call needs it. Install it with: pip install "penstock[torch]"
    """

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(
            f"{what} is not installed, and this call needs it. "
            f'Install it with: pip install "penstock[{extra}]"'
        )


class SessionError(PenstockError):
    """A Spark session cannot be had as asked."""


class JavaMissing(SessionError):
    """No Java runtime that Spark 4 can use (17 or later) was found."""


class SelectionError(PenstockError):
    """The tensors asked for do not fit the DataFrame's columns."""


class UnsupportedType(SelectionError):
    """A column's type has no tensor form.

    >>> print(UnsupportedType("city", "string", "Index or hash it first."))
    column 'city' is of type string, which has no tensor form. Index or hash it first.
    """

    def __init__(self, column: str, spark_type: str, remedy: str) -> None:
        super().__init__(f"column {column!r} is of type {spark_type}, which has no tensor form. {remedy}")


class ExpressionError(PenstockError):
    """An expression is not legal, or does not fit the columns it is asked to compute with."""


class UnsupportedOperation(ExpressionError):
    """An engine does not offer an operation.

    >>> print(UnsupportedOperation("torch", "lower", "tensors hold no texts. Hash them before."))
    the torch engine does not compute lower(): tensors hold no texts. Hash them before.
    """

    def __init__(self, engine: str, operation: str, reason: str) -> None:
        self.engine, self.operation, self.reason = engine, operation, reason
        called = f"{operation}()" if operation.isidentifier() else operation
        super().__init__(f"the {engine} engine does not compute {called}: {reason}")


class NotLifted(ExpressionError):
    """A Python function, or the place in it, that no expression says exactly.

    >>> print(NotLifted("score", 3, 8, "while loops have no expression", "Write for i in range(...)."))
    score() is not lifted, line 3, column 8: while loops have no expression. Write for i in range(...).
    """

    def __init__(self, function: str, line: int, column: int, reason: str, advice: str) -> None:
        self.function, self.line, self.column = function, line, column
        self.reason, self.advice = reason, advice
        super().__init__(
            f"{function}() is not lifted, line {line}, column {column}: {reason}. {advice}".strip()
        )


class DataError(PenstockError):
    """A value in the data cannot become the tensor asked for."""


class NullError(DataError):
    """Nulls where none were allowed.

    >>> print(NullError({"age": 3}))
    nulls in columns that must have none: 'age' has 3. Fill them in Spark, or pass nulls="nan" \
(float tensors), nulls=0 (a value), or nulls={'age': 0} (a value per column).
    """

    def __init__(self, counts: Mapping[str, int], at_least: bool = False) -> None:
        self.counts = dict(counts)
        more = "at least " if at_least else ""
        listed = ", ".join(f"{column!r} has {more}{count}" for column, count in self.counts.items())
        first = next(iter(self.counts))
        super().__init__(
            f"nulls in columns that must have none: {listed}. Fill them in Spark, or pass "
            f'nulls="nan" (float tensors), nulls=0 (a value), or nulls={{{first!r}: 0}} '
            "(a value per column)."
        )


class NullReached(DataError):
    """A null came out of an expression that makes a tensor."""


class RowError(DataError):
    """A lifted function raised an error whose class is the user's own; the class is named, not made.

    >>> print(RowError("BadPrice", "price is -1", 7))
    BadPrice: price is -1 (raised by a lifted function for row 7 of its input)
    """

    def __init__(self, kind: str, text: str, row: int) -> None:
        self.kind, self.text, self.row = kind, text, row
        super().__init__(f"{kind}: {text} (raised by a lifted function for row {row} of its input)")


class OutOfReach(DataError):
    """A lifted function met a value that Python can hold and no column can: a whole number beyond 64 bits, mostly.

    >>> print(OutOfReach("a * b leaves 64 bits", 7))
    a * b leaves 64 bits, in row 7. Compute with floats there, or run the function as plain Python.
    """

    def __init__(self, what: str, row: int) -> None:
        self.what, self.row = what, row
        super().__init__(
            f"{what}, in row {row}. Compute with floats there, or run the function as plain Python."
        )


class RowRefused(DataError):
    """A row that a model cannot score, with its first kept columns.

    >>> print(RowRefused("id=7 (number 3 of partition 0)", "null in column 'age'"))
    row id=7 (number 3 of partition 0) cannot be scored: null in column 'age'. Mend it in Spark, or pass \
on_error="column": such rows then have no result, and a column 'error' that says why.
    """

    def __init__(self, row: str, fault: str) -> None:
        self.row, self.fault = row, fault
        super().__init__(
            f'row {row} cannot be scored: {fault.rstrip(".")}. Mend it in Spark, or pass on_error="column": such '
            "rows then have no result, and a column 'error' that says why."
        )


class PredictError(PenstockError):
    """A model cannot be used for scoring as asked."""


class ReturnsError(PredictError):
    """A model's results are not what `returns` says.

    >>> print(ReturnsError("column 'score' came as float32[8, 3], and [8] is wanted for 8 rows", "score float"))
    column 'score' came as float32[8, 3], and [8] is wanted for 8 rows (declared: score float). Change returns, or \
what the model returns.
    """

    def __init__(self, what: str, declared: str) -> None:
        super().__init__(f"{what} (declared: {declared}). Change returns, or what the model returns.")


class FitError(PenstockError):
    """A recipe cannot learn what it asks for from the data."""


class RecipeError(PenstockError):
    """A recipe cannot be read back.

    >>> print(RecipeError("recipe.json", "it is no JSON"))
    the recipe recipe.json cannot be used: it is no JSON.
    """

    def __init__(self, where: str, what: str) -> None:
        super().__init__(f"the recipe {where} cannot be used: {what.rstrip('.')}.")


class CastError(DataError):
    """A value does not fit the dtype.

    >>> print(CastError("age", "300", "int8", "It must lie between -128 and 127."))
    column 'age' holds 300, which does not fit int8. It must lie between -128 and 127.
    """

    def __init__(self, column: str, value: str, dtype: str, remedy: str) -> None:
        super().__init__(f"column {column!r} holds {value}, which does not fit {dtype}. {remedy}")


class RaggedError(DataError):
    """Lists of unequal lengths in a column that should give a fixed tensor.

    >>> print(RaggedError("tokens", 3, 5))
    column 'tokens' holds a list of length 5 where the rows before it have 3. A fixed tensor needs \
equal lengths: pad or cut the lists first, or write a dataset, which keeps ragged tensors: \
pk.write(df, "path", tensors={'tokens': pk.ragged('tokens')}).
    """

    def __init__(self, column: str, expected: int, seen: int) -> None:
        super().__init__(
            f"column {column!r} holds a list of length {seen} where the rows before it have {expected}. "
            "A fixed tensor needs equal lengths: pad or cut the lists first, or write a dataset, which keeps "
            f'ragged tensors: pk.write(df, "path", tensors={{{column!r}: pk.ragged({column!r})}}).'
        )


class DeviceError(PenstockError):
    """A framework or its device cannot hold the tensor as asked."""


class TooLarge(PenstockError):
    """More bytes came than `max_bytes` allows.

    >>> print(TooLarge(2_000_000, 1_000_000, ["x", "y"], "max_bytes"))
    stopped after 2.0 MB: the tensors are larger than the 1.0 MB allowed (max_bytes). Nothing was \
kept. Write a dataset and stream it instead: pk.write(df, "path", tensors=['x', 'y']); or pass a \
larger max_bytes.
    """

    def __init__(self, seen: int, limit: int, tensors: object, source: str) -> None:
        self.seen, self.limit = seen, limit
        super().__init__(
            f"stopped after {humane_bytes(seen)}: the tensors are larger than the {humane_bytes(limit)} "
            f"allowed ({source}). Nothing was kept. Write a dataset and stream it instead: "
            f'pk.write(df, "path", tensors={tensors!r}); or pass a larger max_bytes.'
        )


class TransferError(PenstockError):
    """Rows were lost, or came twice, between the executors and the driver."""


class JobError(PenstockError):
    """A Spark job failed for a reason of its own; the whole of Spark's message is its cause (`__cause__`)."""


class LaunchError(PenstockError):
    """A rank failed first (`rank`, `exit_code`, `trace`), and the others were stopped; or none did, and time ran out.

    What the rank raised is the error's cause (`__cause__`), where it could be sent back.

    >>> print(
    ...     LaunchError(
    ...         "ValueError: no rows", rank=1, trace="Traceback ...", others=["rank 0: it was stopped"]
    ...     )
    ... )
    rank 1 failed: ValueError: no rows
    <BLANKLINE>
    Traceback ...
    <BLANKLINE>
    Then rank 0: it was stopped.
    """

    def __init__(
        self,
        what: str,
        rank: int | None = None,
        exit_code: int = 1,
        trace: str = "",
        others: Sequence[str] = (),
    ) -> None:
        self.rank, self.exit_code, self.trace = rank, exit_code, trace
        parts = [what if rank is None else f"rank {rank} failed: {what}"]
        parts += [trace.rstrip()] if trace else []
        parts += ["Then " + "; ".join(others) + "."] if others else []
        super().__init__("\n\n".join(parts))


class CheckpointError(PenstockError):
    """A checkpoint cannot be written, or what is there cannot be restored.

    >>> print(CheckpointError("model", "it is a function", "Pass an object with state_dict()."))
    model cannot be kept in a checkpoint: it is a function. Pass an object with state_dict().
    """

    def __init__(
        self, what: str, reason: str, remedy: str = "", doing: str = "be kept in a checkpoint"
    ) -> None:
        super().__init__(f"{what} cannot {doing}: {reason.rstrip('.')}. {remedy}".strip())


class SizeError(PenstockError):
    """A question about sizes is not understood, or a path cannot be measured."""


class WaysDiffer(PenstockError):
    """Ways that a benchmark compares do not compute the same, so their times would mean nothing.

    >>> print(WaysDiffer("arrow_udf", "udf", 7, 1.5, -0.0, 0.0, 2, 1000))
    arrow_udf and udf differ in 2 of 1,000 rows. The first is row 7: of 1.5 udf makes 0.0, and arrow_udf -0.0. \
Nothing was timed; correct the way that is wrong.
    """

    def __init__(
        self,
        way: str,
        other: str,
        row: int,
        value: float | None,
        seen: float | None,
        wanted: float | None,
        count: int,
        rows: int,
    ) -> None:
        self.way, self.other, self.row = way, other, row
        self.value, self.seen, self.wanted = value, seen, wanted
        super().__init__(
            f"{way} and {other} differ in {count:,} of {rows:,} rows. The first is row {row:,}: of {value!r} {other} "
            f"makes {wanted!r}, and {way} {seen!r}. Nothing was timed; correct the way that is wrong."
        )


class ReportError(PenstockError):
    """A report cannot be made of the log, the explanation or the place that was given."""


class DatasetError(PenstockError):
    """A dataset on storage cannot be written or read as asked."""


class DatasetExists(DatasetError):
    """There is something already where a new dataset should be written.

    >>> print(DatasetExists("/data/train", "a dataset (version 3)"))
    /data/train holds a dataset (version 3) already. Pass mode="overwrite" for a new version of it, mode="append" to \
add rows, mode="reuse" to take it when it is the same, or choose another path.
    """

    def __init__(self, path: str, found: str) -> None:
        super().__init__(
            f'{path} holds {found} already. Pass mode="overwrite" for a new version of it, mode="append" to add rows, '
            'mode="reuse" to take it when it is the same, or choose another path.'
        )


class DatasetMissing(DatasetError):
    """There is no dataset at the path given."""


class ManifestError(DatasetError):
    """A manifest cannot be believed.

    >>> print(ManifestError("v000001.json", "it is not JSON"))
    v000001.json cannot be used: it is not JSON. Restore it from a copy, or write the dataset anew.
    """

    def __init__(self, where: str, what: str) -> None:
        super().__init__(
            f"{where} cannot be used: {what}. Restore it from a copy, or write the dataset anew."
        )


class CorruptError(DatasetError):
    """Bytes on storage are not those that were written; `places` names every shard and block.

    >>> print(CorruptError(["shards/a.arrow, block 3"], "its checksum is wrong"))
    the dataset is damaged at shards/a.arrow, block 3: its checksum is wrong. Restore these files from a copy, or \
write the dataset anew.
    """

    def __init__(self, places: Sequence[str], what: str) -> None:
        self.places = list(places)
        shown = "; ".join(self.places[:12])
        more = f" and {len(places) - 12} more" if len(places) > 12 else ""
        super().__init__(
            f"the dataset is damaged at {shown}{more}: {what}. Restore these files from a copy, or write the dataset "
            "anew."
        )


class StorageError(DatasetError):
    """The storage refused: permission, space, network.

    >>> print(StorageError("write", "/data/train/shards/a.arrow", "No space left on device"))
    cannot write /data/train/shards/a.arrow: No space left on device. Nothing was committed.
    """

    def __init__(self, action: str, where: str, what: str, remedy: str = "Nothing was committed.") -> None:
        super().__init__(f"cannot {action} {where}: {what}. {remedy}".strip())


class FollowError(DatasetError):
    """A write that is followed failed, ended without a word, or does not get on.

    >>> print(
    ...     FollowError(
    ...         "/data/train", "its write failed: NullError: nulls in 'age'", "Repair it and write again."
    ...     )
    ... )
    /data/train cannot be followed: its write failed: NullError: nulls in 'age'. Repair it and write again.
    """

    def __init__(self, path: str, what: str, remedy: str) -> None:
        super().__init__(f"{path} cannot be followed: {what.rstrip('.')}. {remedy}")


class StillWriting(FollowError, TypeError):
    """Asked before the write has ended, and only its end tells. A TypeError too, as `len` of what has no length is.

    >>> print(StillWriting("/data/train", "its rows"))
    /data/train is still being written, and only the end of the write tells its rows. Ask after the first epoch, or \
open it without follow=True once it is written.
    """

    def __init__(self, path: str, what: str, ended: bool = False) -> None:
        """`ended`: the write is over, and the epoch that follows it is not."""
        Exception.__init__(
            self,
            f"{path} is written, but its first epoch still follows the write, part by part, and only its end tells "
            f"{what}. Ask after the first epoch, or open it without follow=True."
            if ended
            else f"{path} is still being written, and only the end of the write tells {what}. Ask after the first "
            "epoch, or open it without follow=True once it is written.",
        )


def humane_bytes(count: int) -> str:
    """A byte count as people write it, in powers of ten.

    >>> humane_bytes(640_000_000), humane_bytes(12)
    ('640.0 MB', '12 B')
    """
    value, units = float(count), ("B", "kB", "MB", "GB", "TB")
    for unit in units:
        if value < 1000 or unit == units[-1]:
            return f"{count} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    raise AssertionError("unreachable: the last unit always returns")


def listed(names: Sequence[str], limit: int = 12) -> str:
    """Names for a message: all of them while few, else the first ones and how many more.

    >>> listed(["a", "b"])
    "'a', 'b'"
    """
    shown = ", ".join(repr(name) for name in names[:limit])
    return shown if len(names) <= limit else f"{shown} and {len(names) - limit} more"
