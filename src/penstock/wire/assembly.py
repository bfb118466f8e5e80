"""Frames from many partitions at once become whole tensors, in partition order.

Partitions arrive side by side, their sizes unknown. The first one still open (the front) is written straight into
the tensors' arenas; the others wait in chunks of their own, which are freed one by one as they are moved behind it. So
the bytes held never exceed the bytes received, and about one in the number of running tasks is written only once.

A task attempt that breaks off is forgotten as if it had never been; of two attempts at one partition the first to
end counts, and `finish` checks that Spark counted the same one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import numpy as np

from penstock.dtypes import Array
from penstock.errors import NullError, PenstockError, RaggedError, TooLarge, TransferError
from penstock.wire.arena import Arena, Spares
from penstock.wire.cast import fill_in_storage
from penstock.wire.faults import Fault
from penstock.wire.frames import Header, Summary
from penstock.wire.plan import Plan, TensorPlan

SPARE_SHARE = 0.1
"""Of the bytes received: memory that emptied chunks may keep for the next ones."""


@dataclass(eq=False)
class Attempt:
    """One task attempt's frames that wait for their turn; `direct` once it writes into the arenas itself.

    `hang_up` ends its connection, which makes whoever reads it abandon the attempt.
    """

    partition: int
    attempt: int
    hang_up: Callable[[], None] | None = None
    direct: bool = False
    ended: bool = False
    frames: list[tuple[Header, list[Arena]]] = field(default_factory=list)
    received: int = 0
    rows: int = 0


class Column:
    """One tensor being filled: its arena, and the row shape once a list has told it."""

    def __init__(self, plan: TensorPlan) -> None:
        self.plan = plan
        self.arena = Arena()
        self.shape = plan.fixed_shape
        self.untold: list[tuple[int, int]] = []
        """(first row, rows) of stretches whose every list was null: the fill, once the shape is known."""

    def learn(self, shape: tuple[int, ...] | None) -> None:
        """Take a frame's row shape; all must agree."""
        if shape is None or shape == self.shape:
            return
        if self.shape is not None:
            expected, seen = next((a, b) for a, b in zip(self.shape, shape, strict=True) if a != b)
            raise RaggedError(self._array_column(), expected, seen)
        self.shape = shape

    def _array_column(self) -> str:
        return next(piece.columns[0] for piece in self.plan.pieces if piece.depth)

    def finish(self, rows: int) -> Array:
        """The whole tensor."""
        dtype = self.plan.type.storage
        if self.shape is None and rows:
            remedy = "Fill it with lists of the right length in Spark, or drop it from the selection."
            raise Fault("unknown-length", self._array_column(), remedy=remedy).to_error()
        shape = self.shape if self.shape is not None else self.plan.empty_shape
        untold_rows = sum(count for _, count in self.untold)
        array = self.arena.array(dtype, (rows - untold_rows, *shape))
        return self._spread(array, rows, shape) if self.untold else array

    def _spread(self, array: Array, rows: int, shape: tuple[int, ...]) -> Array:
        """Put the rows that were nothing but nulls back where they were."""
        fill = self.plan.pieces[0].fills[0]
        present = np.ones(rows, bool)
        for first, count in self.untold:
            present[first : first + count] = False
        whole = np.empty((rows, *shape), array.dtype)
        whole[present] = array
        whole[~present] = fill_in_storage(0 if fill is None else fill, self.plan.type)
        return whole


class Assembly:
    """Takes frames from any number of threads; see the module's text for the scheme."""

    def __init__(self, plan: Plan, limit: int, limit_source: str, wanted: object) -> None:
        self.plan = plan
        self._limit, self._limit_source, self._wanted = limit, limit_source, wanted
        self._columns = [Column(tensor) for tensor in plan.tensors]
        self._lock = threading.Condition(threading.RLock())
        self._front = 0
        self._rows = 0
        self._front_start: tuple[int, list[int], list[int]] = (0, [0] * len(self._columns), [])
        self._spares = Spares()
        self._open: list[Attempt] = []
        self._ended: dict[int, Attempt] = {}
        self._accepted: dict[int, int] = {}
        self._nulls: dict[str, int] = {}
        self._lengths: dict[tuple[str, int], int] = {}
        self.bytes_received = 0
        self.rows_received = 0
        self.failure: PenstockError | None = None
        self.failed = threading.Event()

    def begin(self, partition: int, attempt: int, hang_up: Callable[[], None] | None = None) -> Attempt:
        """A task attempt starts to send."""
        with self._lock:
            begun = Attempt(partition, attempt, hang_up)
            self._open.append(begun)
            return begun

    def abandon(self, attempt: Attempt) -> None:
        """A task attempt broke off: nothing of it stays."""
        with self._lock:
            if attempt.ended:
                return
            if attempt.direct:
                self._rewind()
            self._forget(attempt)
            self._lock.notify_all()

    def _forget(self, attempt: Attempt) -> None:
        self.bytes_received -= attempt.received
        attempt.received = 0
        attempt.frames.clear()
        if attempt in self._open:
            self._open.remove(attempt)

    @contextmanager
    def room(self, attempt: Attempt, header: Header) -> Iterator[list[memoryview]]:
        """Memory for a data frame's bytes, one view per tensor; they count when the block ends without error."""
        sizes = header.sizes(self.plan)
        with self._lock:
            self.bytes_received += sum(sizes)
            attempt.received += sum(sizes)
            if self.bytes_received > self._limit:
                raise TooLarge(self.bytes_received, self._limit, self._wanted, self._limit_source)
            for name, level, length in header.lengths:
                if length != (expected := self._lengths.setdefault((name, level), length)):
                    raise RaggedError(name, expected, length)
            for column, shape in zip(self._columns, header.shapes, strict=True):
                column.learn(shape)
            self._promote(attempt)
            arenas = [column.arena for column in self._columns]
            if not attempt.direct:
                arenas = [self._spares.take(size) for size in sizes]
        with ExitStack() as views:
            yield [views.enter_context(arena.tail(size)) for arena, size in zip(arenas, sizes, strict=True)]
        with self._lock:
            self.rows_received += header.rows
            attempt.rows += header.rows
            if attempt.direct:
                self._count(header)
            else:
                attempt.frames.append((header, arenas))

    def _promote(self, attempt: Attempt) -> None:
        """Let an attempt at the front partition write in place, unless another attempt already does."""
        if attempt.direct or attempt.partition != self._front:
            return
        if any(other.direct for other in self._open):
            return
        self._front_start = self._position()
        self._drain(attempt)
        attempt.direct = True

    def _drain(self, attempt: Attempt) -> None:
        frames, attempt.frames = attempt.frames[::-1], []
        while frames:
            header, arenas = frames.pop()
            for column, arena in zip(self._columns, arenas, strict=True):
                arena.pour_into(column.arena)
                self._spares.give(arena, int(SPARE_SHARE * self.bytes_received))
            self._count(header)

    def _count(self, header: Header) -> None:
        for column, shape in zip(self._columns, header.shapes, strict=True):
            if shape is None:
                column.untold.append((self._rows, header.rows))
        self._rows += header.rows

    def _position(self) -> tuple[int, list[int], list[int]]:
        used = [column.arena.used for column in self._columns]
        return self._rows, used, [len(column.untold) for column in self._columns]

    def _rewind(self) -> None:
        self._rows, used, untold = self._front_start
        for column, bytes_used, stretches in zip(self._columns, used, untold, strict=True):
            column.arena.rewind(bytes_used)
            del column.untold[stretches:]

    def end(self, attempt: Attempt, summary: Summary) -> None:
        """A task attempt sent all it had."""
        if summary.fault is not None:
            raise Fault(**summary.fault).to_error()
        with self._lock:
            # Another attempt at this partition may be writing in place (speculation), and may hang: it has lost.
            for rival in self._direct_rivals(attempt):
                if rival.hang_up is not None:
                    rival.hang_up()
            self._lock.wait_for(lambda: not self._direct_rivals(attempt))
            if attempt.partition in self._accepted:
                self._forget(attempt)
                return
            if not summary.nulls and summary.rows != attempt.rows:
                raise TransferError(
                    f"partition {attempt.partition} sent {summary.rows} rows and {attempt.rows} rows arrived. "
                    "Nothing was kept; run the call again."
                )
            self._accepted[attempt.partition] = attempt.attempt
            self._open.remove(attempt)
            attempt.ended = True
            for column, count in summary.nulls.items():
                self._nulls[column] = self._nulls.get(column, 0) + count
            self._ended[attempt.partition] = attempt
            self._advance()
            self._lock.notify_all()

    def _direct_rivals(self, attempt: Attempt) -> list[Attempt]:
        same = [
            other for other in self._open if other.partition == attempt.partition and other is not attempt
        ]
        return [other for other in same if other.direct]

    def _advance(self) -> None:
        while self._front in self._ended:
            self._drain(self._ended.pop(self._front))
            self._front += 1

    def fail(self, error: PenstockError) -> None:
        """Remember the first error; whoever runs the job stops it."""
        with self._lock:
            if self.failure is None:
                self.failure = error
        self.failed.set()

    def finish(self, counted: Mapping[int, int]) -> list[Array]:
        """The tensors, given the task attempt that Spark counted for each partition."""
        if self.failure is not None:
            raise self.failure
        if dict(counted) != self._accepted:
            raise TransferError(
                f"Spark counted task attempts {dict(counted)} and the driver received {self._accepted}: a task was "
                "run again after its rows had arrived. Nothing was kept; run the call again."
            )
        if self._nulls:
            order = [
                name for tensor in self.plan.tensors for piece in tensor.pieces for name in piece.columns
            ]
            raise NullError({name: self._nulls[name] for name in dict.fromkeys(order) if name in self._nulls})
        for partition in sorted(self._ended):
            self._drain(self._ended.pop(partition))
        return [column.finish(self._rows) for column in self._columns]
