"""A real receiver and senders in threads: rows arrive whole, the rest is forgotten, and nothing is left behind."""

from __future__ import annotations

import os
import socket
import struct
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.errors import CastError, NullError, RaggedError, TooLarge, TransferError
from penstock.wire.assembly import Assembly
from penstock.wire.frames import HELLO, LENGTH, MAX_HEADER, TOKEN_BYTES, Header, data_frame
from penstock.wire.plan import Piece, Plan, TensorPlan
from penstock.wire.receive import Receiver
from penstock.wire.send import ANSWER, Door, sender

PLAN = Plan(
    (
        TensorPlan("x", "float32", (Piece(("a", "b"), (None, None), packed=True),), True),
        TensorPlan("y", "int8", (Piece(("label",), (None,)),), False),
    )
)
PATIENCE = 20.0

pytestmark = pytest.mark.filterwarnings(
    "error::pytest.PytestUnraisableExceptionWarning"
)  # a socket left open


def receivers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "penstock-receive"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Sockets are made here; after each test neither a thread nor a file may be left."""
    short = tempfile.mkdtemp(prefix="w-")
    monkeypatch.setattr(tempfile, "tempdir", short)
    yield Path(short)
    assert receivers() == []
    assert os.listdir(short) == []
    os.rmdir(short)


@pytest.fixture(params=["unix", "tcp"])
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def assembly(limit: int = 1 << 40, plan: Plan = PLAN) -> Assembly:
    return Assembly(plan, limit, "max_bytes", ["x", "y"])


class Open:
    """A receiver, and the door as executors see it who can only go one way."""

    def __init__(self, made: Assembly, way: str) -> None:
        self.receiver, self.way = Receiver(made, "127.0.0.1" if way == "tcp" else None), way

    def __enter__(self) -> Door:
        door = self.receiver.__enter__()
        if self.way == "unix":
            assert door.path is not None
            assert (door.host, door.port) == (None, 0)
            return door
        assert door.port
        return replace(door, path=None)

    def __exit__(self, *error: Any) -> None:
        self.receiver.__exit__(*error)


def batch(start: int, rows: int, bad: dict[int, Any] | None = None) -> pa.RecordBatch:
    numbers = list(range(start, start + rows))
    labels: list[Any] = [number % 100 for number in numbers]
    for place, value in (bad or {}).items():
        labels[place] = value
    packed = pa.array([[number, number + 0.5] for number in numbers], pa.list_(pa.float32()))
    return pa.record_batch([packed, pa.array(labels, pa.int64())], names=["p0", "p1"])


def expected(batches: list[pa.RecordBatch]) -> list[list[Any]]:
    rows = [row for each in batches for row in each.column("p0").to_pylist()]
    return [rows, [label for each in batches for label in each.column("p1").to_pylist()]]


class Task(threading.Thread):
    """One task attempt, as Spark's Python worker would run it."""

    def __init__(self, door: Door, partition: int, attempt: int, batches: Any, plan: Plan = PLAN) -> None:
        super().__init__(daemon=True)
        self.result: list[tuple[int, int, bytes]] | None = None
        self.error: BaseException | None = None
        self._batches, self._send = batches, sender(plan, door, lambda: (partition, attempt))
        self.start()

    def run(self) -> None:
        try:
            rows = [row for out in self._send(iter(self._batches)) for row in out.to_pylist()]
            self.result = [(row["partition"], row["attempt"], row["payload"]) for row in rows]
        except BaseException as error:
            self.error = error

    def over(self) -> Task:
        self.join(PATIENCE)
        assert not self.is_alive(), "the task hangs"
        return self


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.002)


def test_many_partitions_at_once(way: str) -> None:
    made, chance = assembly(), np.random.default_rng(7)
    parts: list[list[pa.RecordBatch]] = []
    start = 0
    for _ in range(24):
        sizes = chance.integers(0, 300, chance.integers(0, 5)).tolist()
        parts.append([])
        for size in sizes:
            parts[-1].append(batch(start, size))
            start += size
    with Open(made, way) as door:
        tasks = [Task(door, partition, 100 + partition, batches) for partition, batches in enumerate(parts)]
        for task in tasks:
            assert task.over().error is None
    assert made.failure is None
    assert [task.result for task in tasks] == [[(partition, 100 + partition, b"")] for partition in range(24)]
    x, y = made.finish({partition: 100 + partition for partition in range(24)})
    rows, labels = expected([each for batches in parts for each in batches])
    assert x.tolist() == rows
    assert y.tolist() == labels
    assert made.rows_received == start


def test_a_frame_larger_than_any_buffer(way: str) -> None:
    made, big = assembly(), np.arange(3_000_000, dtype=np.float32)
    column = pa.ListArray.from_arrays(pa.array(np.arange(0, len(big) + 1, 2, dtype=np.int32)), pa.array(big))
    labels = pa.array(np.arange(len(column), dtype=np.int8))
    with Open(made, way) as door:
        task = Task(door, 0, 1, [pa.record_batch([column, labels], names=["p0", "p1"])]).over()
    assert task.error is None
    x, y = made.finish({0: 1})
    np.testing.assert_array_equal(x.reshape(-1), big)
    np.testing.assert_array_equal(y, labels.to_numpy())


def hello(door: Door, partition: int = 0, attempt: int = 0) -> bytes:
    return struct.pack(HELLO, door.token, partition, attempt)


def closed_by_driver(connection: socket.socket) -> bytes:
    connection.settimeout(PATIENCE)
    try:
        return connection.recv(1)
    except ConnectionResetError:  # what was not read is what resets
        return b""


def test_a_stranger_changes_nothing(way: str) -> None:
    made = assembly()
    with Open(made, way) as door:
        stranger = replace(door, token=bytes(TOKEN_BYTES))
        lost = [Task(stranger, 0, 1, [batch(500, 5)]).over() for _ in range(3)]
        with door.connect() as connection:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nAccept: everything\r\n\r\n")
            assert closed_by_driver(connection) == b""
        with door.connect() as connection:
            connection.sendall(b"short")
        good = Task(door, 0, 2, [batch(0, 3)]).over()
    assert [type(task.result) for task in lost] == [type(None)] * 3
    assert all(isinstance(task.error, OSError) for task in lost)
    assert good.error is None
    assert made.failure is None
    assert made.bytes_received == 3 * 9
    assert made.finish({0: 2})[1].tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    "cut", ["after the greeting", "in a length", "in a header", "in the bytes", "before the end"]
)
def test_a_connection_that_is_cut_is_forgotten(way: str, cut: str) -> None:
    made = assembly()
    content = [np.full((4, 2), 7, np.float32), np.full(4, 7, np.int8)]
    whole = b"".join(data_frame(4, list(content)))
    kept = {"after the greeting": 0, "in a length": 2, "in a header": 20, "in the bytes": len(whole) - 5}
    with Open(made, way) as door:
        with door.connect() as connection:
            connection.sendall(hello(door, 0, 1) + whole + whole[: kept.get(cut, len(whole))])
            until(lambda: made.rows_received >= 4)
        until(lambda: made.bytes_received == 0)
        assert Task(door, 0, 2, [batch(0, 2)]).over().error is None
        assert Task(door, 1, 3, [batch(2, 1)]).over().error is None
    assert made.failure is None
    x, y = made.finish({0: 2, 1: 3})
    assert (x.shape, y.tolist()) == ((3, 2), [0, 1, 2])


def test_a_fault_reaches_the_driver_and_the_task_ends_quietly(way: str) -> None:
    made = assembly()
    with Open(made, way) as door:
        task = Task(door, 4, 9, [batch(0, 3), batch(3, 3, {1: 300}), batch(6, 3)]).over()
        assert made.failed.wait(PATIENCE)
    assert task.error is None
    assert task.result == [(4, 9, b"")]
    assert isinstance(made.failure, CastError)
    assert str(made.failure).startswith("column 'label' holds 300, which does not fit int8.")
    with pytest.raises(CastError):
        made.finish({4: 9})


def test_too_many_bytes_stop_the_transfer_and_no_task_fails(way: str) -> None:
    """The driver hangs up in the middle of what is sent, and still its answer arrives."""
    made = assembly(limit=100_000)
    with Open(made, way) as door:
        tasks = [Task(door, partition, partition, [batch(0, 8000)] * 40) for partition in range(3)]
        assert made.failed.wait(PATIENCE)
        for task in tasks:
            task.over()
    assert isinstance(made.failure, TooLarge)
    assert [task.error for task in tasks] == [None] * 3


def test_lists_of_unequal_length_in_two_partitions(way: str) -> None:
    plan = Plan((TensorPlan("v", "float32", (Piece(("v",), (None,), 1),), False),))
    made = assembly(plan=plan)

    def one(row: list[int]) -> list[pa.RecordBatch]:
        return [pa.record_batch([pa.array([row], pa.list_(pa.int32()))], names=["p0"])]

    with Open(made, way) as door:
        assert Task(door, 0, 0, one([1, 2]), plan).over().error is None
        assert Task(door, 1, 1, one([1, 2, 3]), plan).over().error is None
    assert isinstance(made.failure, RaggedError)
    assert str(made.failure) == str(RaggedError("v", 2, 3))


def test_nulls_of_all_partitions_are_counted(way: str) -> None:
    made = assembly()
    with Open(made, way) as door:
        for partition in range(3):
            assert (
                Task(door, partition, partition, [batch(0, 3, {0: None}), batch(3, 2, {1: None})])
                .over()
                .error
                is None
            )
    with pytest.raises(NullError) as caught:
        made.finish({0: 0, 1: 1, 2: 2})
    assert caught.value.counts == {"label": 6}


@pytest.mark.parametrize("attack", ["length", "json"])
def test_nonsense_after_the_greeting_is_an_error_not_a_crash(way: str, attack: str) -> None:
    made = assembly()
    body = struct.pack(LENGTH, MAX_HEADER + 1) if attack == "length" else struct.pack(LENGTH, 4) + b"nope"
    with Open(made, way) as door:
        with door.connect() as connection:
            connection.sendall(hello(door) + body)
            assert closed_by_driver(connection) == (ANSWER if attack == "length" else b"")
        assert made.failed.wait(PATIENCE)
    assert isinstance(made.failure, TransferError)


def test_of_two_attempts_the_first_to_end_counts_even_if_the_other_hangs(way: str) -> None:
    made, released = assembly(), threading.Event()

    def slow() -> Iterator[pa.RecordBatch]:
        yield batch(0, 2)
        released.wait(PATIENCE)
        yield batch(2, 2)

    with Open(made, way) as door:
        first = Task(door, 0, 1, slow())
        until(lambda: made.rows_received == 2)
        copy = Task(door, 0, 2, [batch(0, 4)])
        assert copy.over().error is None
        released.set()
        assert isinstance(first.over().error, OSError), "a task whose rows were dropped must not count"
    assert made.bytes_received == 4 * 9
    assert made.finish({0: 2})[1].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("error", [OSError("the JVM is gone"), ValueError("a bug upstream")])
def test_batches_that_fail_end_the_task(way: str, error: Exception) -> None:
    """An OSError of theirs must not be taken for the driver's: nobody would ever answer."""
    made = assembly()

    def broken() -> Iterator[pa.RecordBatch]:
        yield batch(0, 2)
        raise error

    with Open(made, way) as door:
        task = Task(door, 0, 1, broken())
        task.join(5)
        hangs = task.is_alive()
    assert not hangs
    assert task.error is error
    assert made.failure is None
    assert made.bytes_received == 0


def test_closing_while_tasks_send_does_not_hang(way: str) -> None:
    made, stop = assembly(), threading.Event()

    def endless() -> Iterator[pa.RecordBatch]:
        while not stop.is_set():
            yield batch(0, 50)

    with Open(made, way) as door:
        silent, greeted = door.connect(), door.connect()
        greeted.sendall(hello(door, 9, 9))
        tasks = [Task(door, partition % 3, partition, endless()) for partition in range(6)]
        until(lambda: made.rows_received > 1000)
        began = time.monotonic()
    assert time.monotonic() - began < 5
    stop.set()
    assert all(isinstance(task.over().error, OSError) for task in tasks)
    for connection in (silent, greeted):
        assert closed_by_driver(connection) == b""
        connection.close()
    assert made.failure is None
    assert made.bytes_received == 0


def test_closing_while_tasks_arrive_leaves_nothing(way: str) -> None:
    """Connections come in at the very moment of closing; the fixture looks for threads, pytest for their errors."""
    for _ in range(60):
        made = assembly()
        with Open(made, way) as door:
            tasks = [Task(door, partition, partition, [batch(0, 2)]) for partition in range(3)]
        assert receivers() == []
        for task in tasks:
            task.over()
        assert made.failure is None


def test_a_connection_closed_before_it_is_served_is_no_error() -> None:
    made = assembly()
    receiver = Receiver(made)
    with receiver:
        mine, theirs = socket.socketpair()
        theirs.close()
        mine.close()
        receiver._serve(mine)
    assert made.failure is None


def test_an_error_inside_the_block_closes_the_door_too(folder: Path) -> None:
    with pytest.raises(KeyboardInterrupt), Receiver(assembly()) as door:  # noqa: PT012
        assert door.path is not None
        assert Path(door.path).parent.parent == folder
        raise KeyboardInterrupt
    assert not os.path.exists(door.path)
    with pytest.raises(ConnectionError):
        door.connect()


def test_only_this_user_can_open_the_socket() -> None:
    with Receiver(assembly()) as door:
        assert door.path is not None
        assert os.stat(os.path.dirname(door.path)).st_mode & 0o077 == 0


def test_each_receiver_has_a_token_of_its_own() -> None:
    with Receiver(assembly()) as first, Receiver(assembly()) as second:
        assert first.token != second.token
        assert len(first.token) == TOKEN_BYTES


def test_a_folder_too_deep_for_a_socket_falls_back_to_this_machines_loopback(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = folder / ("d" * 120)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    made = assembly()
    with Receiver(made) as door:
        assert (door.path, door.host) == (None, "127.0.0.1")
        assert Task(door, 0, 1, [batch(0, 2)]).over().error is None
    assert made.finish({0: 1})[1].tolist() == [0, 1]
    assert os.listdir(deep) == []
    deep.rmdir()


def test_the_answer_comes_only_after_the_closing_frame(way: str) -> None:
    made = assembly()
    frames = b"".join(data_frame(1, [np.zeros((1, 2), np.float32), np.zeros(1, np.int8)]))
    with Open(made, way) as door, door.connect() as connection:
        connection.sendall(hello(door, 0, 1) + frames)
        until(lambda: made.rows_received == 1)
        connection.settimeout(0.1)
        with pytest.raises(TimeoutError):
            connection.recv(1)
        connection.sendall(Header(0, (), None).encode()[:2])
        with pytest.raises(TimeoutError):
            connection.recv(1)
