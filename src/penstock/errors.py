"""Every exception Penstock raises on purpose, drawn as a tree.

    PenstockError
    ├── MissingDependency        a library of an extra is not installed
    ├── SessionError             a Spark session cannot be had as asked
    │   └── JavaMissing          no Java runtime of version 17 or later
    ├── SelectionError           the tensors asked for do not fit the DataFrame's columns
    │   └── UnsupportedType      a column's type has no tensor form
    ├── DataError                a value in the data cannot become the tensor asked for
    │   ├── NullError            nulls where none were allowed
    │   ├── CastError            a value does not fit the dtype
    │   └── RaggedError          lists of unequal lengths in a fixed tensor
    ├── DeviceError              a framework or its device cannot hold the tensor
    ├── TooLarge                 more bytes than `max_bytes`
    └── TransferError            rows were lost or came twice on their way

Each message says what happened, to what, the value seen, and what to do next. The classes that know
enough build it themselves. Start reading at `penstock.jobs.transfer` for where most of them arise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence


class PenstockError(Exception):
    """Base of all of Penstock's errors.

    >>> issubclass(TooLarge, PenstockError)
    True
    """


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


class DataError(PenstockError):
    """A value in the data cannot become the tensor asked for."""


class NullError(DataError):
    """Nulls where none were allowed.

    >>> print(NullError({"age": 3}))
    nulls in columns that must have none: 'age' has 3. Fill them in Spark, or pass nulls="nan" \
(float tensors), nulls=0 (a value), or nulls={'age': 0} (a value per column).
    """

    def __init__(self, counts: Mapping[str, int]) -> None:
        self.counts = dict(counts)
        listed = ", ".join(f"{column!r} has {count}" for column, count in self.counts.items())
        first = next(iter(self.counts))
        super().__init__(
            f"nulls in columns that must have none: {listed}. Fill them in Spark, or pass "
            f'nulls="nan" (float tensors), nulls=0 (a value), or nulls={{{first!r}: 0}} '
            "(a value per column)."
        )


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
equal lengths: pad or cut the lists in Spark, or write a dataset, which keeps ragged tensors: \
pk.write(df, "path", tensors={'tokens': 'tokens'}).
    """

    def __init__(self, column: str, expected: int, seen: int) -> None:
        super().__init__(
            f"column {column!r} holds a list of length {seen} where the rows before it have {expected}. "
            "A fixed tensor needs equal lengths: pad or cut the lists in Spark, or write a dataset, which "
            f'keeps ragged tensors: pk.write(df, "path", tensors={{{column!r}: {column!r}}}).'
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
