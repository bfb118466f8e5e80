"""The executor's half: a partition's batches become frames, sent to the driver or handed back as blobs.

Both functions here run inside Spark's Python workers through `mapInArrow`, shipped with the job; they need NumPy and
pyarrow alone. The row each partition yields tells the driver which task attempt Spark counted.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain

import pyarrow as pa

from penstock.wire.faults import BadValue, Fault
from penstock.wire.frames import HELLO, Summary, closing_frame, data_frame
from penstock.wire.pack import Packer
from penstock.wire.plan import Plan

CONNECT_SECONDS = 10.0
RESULT_DDL = "partition int, attempt long, payload binary"
RESULT_SCHEMA = pa.schema([("partition", pa.int32()), ("attempt", pa.int64()), ("payload", pa.binary())])
SOCKET_BUFFER = 1 << 20
ANSWER = b"k"

TaskIds = Callable[[], tuple[int, int]]
"""Partition and task attempt of the running task."""


@dataclass(frozen=True)
class Door:
    """Where the driver listens: a Unix socket's path, or a host and port; and the token it wants to see."""

    token: bytes
    path: str | None = None
    host: str | None = None
    port: int = 0

    def connect(self) -> socket.socket:
        """A connection to the driver; raises OSError where there is no way."""
        if self.path is not None and os.path.exists(self.path):
            connection = socket.socket(socket.AF_UNIX)
            try:
                connection.connect(self.path)
            except OSError:
                connection.close()
                raise
        elif self.host is not None:
            connection = socket.create_connection((self.host, self.port), CONNECT_SECONDS)
            connection.settimeout(None)
        else:
            raise ConnectionError(f"the driver's socket {self.path} is not on this machine")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BUFFER)
        return connection


def sender(
    plan: Plan, door: Door, task: TaskIds
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function for `mapInArrow` that sends a partition's tensors over a socket."""

    def send(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        partition, attempt = task()
        with door.connect() as connection:
            broken = _send_all(connection, door, plan, batches, partition, attempt)
            # The driver answers when it has taken everything in, or has found a reason to stop and has hung up: a task
            # never counts whose rows are lost, and none fails because the driver has seen enough.
            if _answer(connection) != ANSWER:
                raise broken or ConnectionError("the driver hung up before it had taken all rows in")
        yield result_row(partition, attempt, b"")

    return send


def _send_all(
    connection: socket.socket,
    door: Door,
    plan: Plan,
    batches: Iterator[pa.RecordBatch],
    partition: int,
    attempt: int,
) -> OSError | None:
    hello: list[bytes | memoryview] = [struct.pack(HELLO, door.token, partition, attempt)]
    for buffers in chain([hello], frames(plan, batches)):
        # Only the connection's own errors: one from the batches has to end the task, or both sides wait for ever.
        try:
            for buffer in buffers:
                connection.sendall(buffer)
        except OSError as error:
            return error
    return None


def _answer(connection: socket.socket) -> bytes:
    try:
        return connection.recv(1)
    except OSError:
        return b""


def blobber(plan: Plan, task: TaskIds) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function for `mapInArrow` that hands a partition's frames back as rows of bytes."""

    def blobs(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        partition, attempt = task()
        for buffers in frames(plan, batches):
            yield result_row(partition, attempt, b"".join(buffers))

    return blobs


def frames(plan: Plan, batches: Iterator[pa.RecordBatch]) -> Iterator[list[bytes | memoryview]]:
    """A partition's frames, the closing one included.

    Once a null is found that must not be there nothing more is sent, but the rest is still counted, so that the
    error can say how many there are. A fault ends the partition at once.
    """
    packer, rows, fault = Packer(plan), 0, None
    for batch in batches:
        try:
            arrays = packer.arrays(batch)
        except BadValue as bad:
            fault = bad.fault
            break
        rows += batch.num_rows
        if batch.num_rows and not packer.nulls:
            yield data_frame(batch.num_rows, arrays, packer.lengths)
    yield [closing_frame(Summary(rows, dict(packer.nulls), _plain(fault)))]


def _plain(fault: Fault | None) -> dict[str, object] | None:
    return None if fault is None else fault.to_dict()


def result_row(partition: int, attempt: int, payload: bytes) -> pa.RecordBatch:
    """One row of `RESULT_DDL`."""
    columns = [
        pa.array([partition], pa.int32()),
        pa.array([attempt], pa.int64()),
        pa.array([payload], pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=RESULT_SCHEMA)
