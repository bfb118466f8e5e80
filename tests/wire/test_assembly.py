"""Frames in any order, from attempts that break off or come twice: the tensors are the partitions, in order."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import CastError, DataError, NullError, RaggedError, TooLarge, TransferError
from penstock.wire.assembly import Assembly, Attempt
from penstock.wire.faults import Fault
from penstock.wire.frames import LENGTH_BYTES, Header, Summary
from penstock.wire.plan import Piece, Plan, TensorPlan
from penstock.wire.receive import take_blob
from penstock.wire.send import blobber, frames

WIDTH, FILL = 3, -1
PLAN = Plan(
    (
        TensorPlan("x", "float32", (Piece(("a", "b"), (None, None), packed=True),), True),
        TensorPlan("t", "int64", (Piece(("tokens",), (FILL,), depth=1),), False),
        TensorPlan("y", "uint8", (Piece(("label",), (None,)),), False),
    )
)
Frame = list[np.ndarray[Any, Any] | None]


def assembly(plan: Plan = PLAN, limit: int = 1 << 40) -> Assembly:
    return Assembly(plan, limit, "max_bytes", ["x", "t", "y"])


def frame(start: int, rows: int, told: bool = True) -> Frame:
    """Rows that no other frame has."""
    numbers = np.arange(start, start + rows)
    tokens = numbers[:, None] * 10 + np.arange(WIDTH)
    return [
        np.stack([numbers, -numbers], 1).astype(np.float32),
        tokens if told else None,
        (numbers % 251).astype(np.uint8),
    ]


def header_of(data: Frame) -> Header:
    rows = next(len(array) for array in data if array is not None)
    return Header(rows, tuple(None if array is None else array.shape[1:] for array in data))


def rows_in(sent: list[Frame]) -> int:
    return sum(header_of(data).rows for data in sent)


def send(made: Assembly, attempt: Attempt, data: Frame) -> None:
    with made.room(attempt, header_of(data)) as views:
        for view, array in zip(views, data, strict=True):
            content = b"" if array is None else array.tobytes()
            assert len(view) == len(content)
            view[:] = content


def send_all(
    made: Assembly, partition: int, number: int, sent: list[Frame], nulls: dict[str, int] | None = None
) -> None:
    attempt = made.begin(partition, number)
    for data in sent:
        send(made, attempt, data)
    made.end(attempt, Summary(rows_in(sent), nulls or {}))
    made.abandon(attempt)  # as the receiver does, whatever happened


def concatenated(partitions: dict[int, list[Frame]]) -> list[np.ndarray[Any, Any]]:
    whole: list[list[np.ndarray[Any, Any]]] = [
        [np.empty((0, 2), np.float32)],
        [np.empty((0, WIDTH), np.int64)],
        [np.empty(0, np.uint8)],
    ]
    for partition in sorted(partitions):
        for data in partitions[partition]:
            for place, array in enumerate(data):
                whole[place].append(np.full((len(data[0]), WIDTH), FILL) if array is None else array)  # type: ignore[arg-type]
    return [np.concatenate(parts) for parts in whole]


def check(arrays: list[np.ndarray[Any, Any]], partitions: dict[int, list[Frame]]) -> None:
    for array, expected, tensor in zip(arrays, concatenated(partitions), PLAN.tensors, strict=True):
        assert array.dtype == tensor.type.storage
        np.testing.assert_array_equal(array, expected)
        assert array.shape == expected.shape
        assert array.flags.c_contiguous


# Everything at once: partitions side by side, attempts that break off, rivals.


@dataclass
class Script:
    """One attempt: its frames, and how it ends."""

    partition: int
    number: int
    frames: list[Frame]
    fate: str
    """`end`, `cut` (between frames) or `torn` (inside its last frame)."""
    attempt: Attempt | None = None
    gone: bool = False


@dataclass
class World:
    made: Assembly
    scripts: list[Script]
    winners: dict[int, Script] = field(default_factory=dict)

    def run(self, script: Script, rude: bool) -> Iterator[None]:
        attempt = script.attempt = self.made.begin(script.partition, script.number)
        yield
        for place, data in enumerate(script.frames):
            if script.fate == "torn" and place == len(script.frames) - 1:
                with pytest.raises(ConnectionError), self.made.room(attempt, header_of(data)) as views:  # noqa: PT012
                    views[0][:4] = b"torn"
                    raise ConnectionError
                break
            send(self.made, attempt, data)
            yield
            if script.gone:
                return
        if script.fate == "end":
            while rivals := [other for other in self.scripts if self.blocks(other, script)]:
                if rude:
                    self.abandon(rivals[0])
                else:
                    yield  # `end` would wait for them
                    if script.gone:
                        return
            self.made.end(attempt, Summary(rows_in(script.frames), {}))
            self.winners.setdefault(script.partition, script)
        self.abandon(script)

    def blocks(self, other: Script, script: Script) -> bool:
        same = other is not script and other.partition == script.partition
        return (
            same
            and not other.gone
            and other.attempt is not None
            and other.attempt.direct
            and not other.attempt.ended
        )

    def abandon(self, script: Script) -> None:
        script.gone = True
        if script.attempt is not None:
            self.made.abandon(script.attempt)


@st.composite
def worlds(draw: st.DrawFn) -> tuple[list[Script], dict[int, list[int]]]:
    """Scripts, and for each the scripts that must be over before it starts (a retry waits, a rival does not)."""
    fresh, numbers = count(), count(100)
    scripts: list[Script] = []
    after: dict[int, list[int]] = {}
    start = 0
    for partition in draw(st.sets(st.integers(0, 7), max_size=5)):
        fates = draw(st.lists(st.sampled_from(["cut", "torn", "end"]), max_size=3))
        for fate in [*fates, "end"]:
            data = []
            for _ in range(draw(st.integers(0, 3))):
                rows = draw(st.integers(1, 4))
                data.append(frame(start, rows, told=draw(st.integers(0, 3)) > 0))
                start += rows
            mine = next(fresh)
            earlier = [place for place in range(mine) if scripts[place].partition == partition]
            after[mine] = earlier if draw(st.booleans()) else []
            scripts.append(Script(partition, next(numbers), data, fate))
    return scripts, after


@settings(max_examples=120)
@given(worlds(), st.randoms(use_true_random=False), st.booleans())
def test_partitions_come_out_in_order(
    drawn: tuple[list[Script], dict[int, list[int]]], chance: random.Random, rude: bool
) -> None:
    scripts, after = drawn
    world = World(assembly(), scripts)
    waiting = {place: world.run(script, rude) for place, script in enumerate(scripts)}
    while waiting:
        ready = [place for place in waiting if not any(other in waiting for other in after[place])]
        place = chance.choice(ready)
        if next(waiting[place], "over") == "over":
            del waiting[place]
    # A rude rival may have ended every attempt of a partition; Spark would start another.
    for partition in {script.partition for script in scripts} - set(world.winners):
        again = Script(partition, 900 + partition, [frame(10_000 * (partition + 1), 2)], "end")
        world.scripts.append(again)
        for _ in world.run(again, rude=True):
            pass
    partitions = {partition: script.frames for partition, script in world.winners.items()}
    kept = [data for sent in partitions.values() for data in sent]
    told_anywhere = any(data[1] is not None for script in scripts for data in script.frames)
    assert world.made.bytes_received == sum(sum(header_of(data).sizes(PLAN)) for data in kept)
    counted = {partition: script.number for partition, script in world.winners.items()}
    if kept and not told_anywhere and all(data[1] is None for data in kept):
        with pytest.raises(DataError, match="'tokens' holds no list"):
            world.made.finish(counted)
        return
    arrays = world.made.finish(counted)
    if not kept:
        assert [len(array) for array in arrays] == [0, 0, 0]
    elif any(data[1] is not None for data in kept):
        check(arrays, partitions)
    else:  # only an attempt that was forgotten told the length
        assert [len(array) for array in arrays] == [rows_in(kept)] * 3


def test_no_rows_give_empty_tensors() -> None:
    made = assembly()
    send_all(made, 0, 1, [])
    assert [array.shape for array in made.finish({0: 1})] == [(0, 2), (0, 0), (0,)]


def test_no_partitions_give_empty_tensors() -> None:
    assert [array.shape for array in assembly().finish({})] == [(0, 2), (0, 0), (0,)]


def test_small_frames_that_wait_take_little_memory() -> None:
    """A huge page for each would be 2 MB: 3 tensors of 64 frames took 384 MB."""
    made, sent = assembly(), [frame(rows * 300, 300) for rows in range(64)]
    before = psutil.Process().memory_info().rss
    waiting = made.begin(1, 1)
    for data in sent:
        send(made, waiting, data)
    assert not waiting.direct
    assert psutil.Process().memory_info().rss - before < 32_000_000
    made.end(waiting, Summary(rows_in(sent), {}))
    check(made.finish({1: 1}), {1: sent})


# Two attempts at one partition.


def run_in_thread(work: Callable[[], None]) -> tuple[threading.Thread, list[BaseException]]:
    errors: list[BaseException] = []

    def guarded() -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=guarded, daemon=True)
    thread.start()
    return thread, errors


@pytest.mark.parametrize("first_ends", [True, False])
def test_a_second_attempt_waits_for_one_that_writes_in_place(first_ends: bool) -> None:
    made = assembly()
    first, second = made.begin(0, 1), made.begin(0, 2)
    one, two, more = [frame(0, 3)], [frame(50, 2), frame(60, 3)], [frame(90, 2)]
    send(made, first, one[0])
    for data in two:
        send(made, second, data)
    assert (first.direct, second.direct) == (True, False)

    def end_second() -> None:
        made.end(second, Summary(rows_in(two), {}))
        made.abandon(second)

    thread, errors = run_in_thread(end_second)
    thread.join(0.1)
    assert thread.is_alive(), "it must not end while its rival writes"
    send_all(made, 1, 3, more)  # others are not held up
    if first_ends:
        made.end(first, Summary(rows_in(one), {}))
    made.abandon(first)
    thread.join(10)
    assert not thread.is_alive()
    assert errors == []
    winner, number = (one, 1) if first_ends else (two, 2)
    assert made.bytes_received == sum(sum(header_of(data).sizes(PLAN)) for data in [*winner, *more])
    check(made.finish({0: number, 1: 3}), {0: winner, 1: more})


@pytest.mark.parametrize("partition", [0, 1])
def test_a_loser_that_ends_late_is_forgotten(partition: int) -> None:
    """Before the front, and while its partition still waits behind it."""
    made = assembly()
    winner, loser = [frame(0, 3)], [frame(50, 2), frame(60, 4)]
    late = made.begin(partition, 2)
    if partition:
        send(made, late, loser[0])
    send_all(made, partition, 1, winner)
    before = made.bytes_received
    for data in loser[1 if partition else 0 :]:
        send(made, late, data)
    made.end(late, Summary(rows_in(loser), {}))
    made.abandon(late)
    assert made.bytes_received == before - sum(header_of(loser[0]).sizes(PLAN)) * partition
    check(made.finish({partition: 1}), {partition: winner})


def test_attempts_of_one_number_are_told_apart() -> None:
    made = assembly()
    first, second = made.begin(0, 1), made.begin(0, 1)
    made.abandon(second)
    send(made, first, frame(0, 2))
    assert first.direct
    third = made.begin(0, 2)
    send(made, third, frame(10, 2))
    assert not third.direct, "the first still writes in place"


@pytest.mark.parametrize("counted", [{}, {0: 1}, {0: 1, 1: 2, 2: 3}, {0: 1, 1: 9}, {0: 2, 1: 1}])
def test_spark_must_have_counted_the_same_attempts(counted: dict[int, int]) -> None:
    made = assembly()
    send_all(made, 0, 1, [frame(0, 2)])
    send_all(made, 1, 2, [frame(2, 2)])
    with pytest.raises(TransferError, match="Nothing was kept"):
        made.finish(counted)
    check(made.finish({0: 1, 1: 2}), {0: [frame(0, 2)], 1: [frame(2, 2)]})


@pytest.mark.parametrize("said", [0, 4, 6])
def test_a_partition_must_bring_as_many_rows_as_it_says(said: int) -> None:
    made = assembly()
    attempt = made.begin(0, 1)
    send(made, attempt, frame(0, 5))
    with pytest.raises(TransferError, match=rf"5 rows.*{said}|{said} rows.*5"):
        made.end(attempt, Summary(said, {}))


# What the data may not be.


def test_too_many_bytes() -> None:
    size = sum(header_of(frame(0, 2)).sizes(PLAN))
    made = assembly(limit=2 * size)
    send_all(made, 0, 1, [frame(0, 2)])
    second = made.begin(1, 2)
    send(made, second, frame(2, 2))  # exactly the limit
    with pytest.raises(TooLarge, match="max_bytes") as caught:
        send(made, second, frame(4, 1))
    assert (caught.value.seen, caught.value.limit) == (2 * size + size // 2, 2 * size)
    made.abandon(second)
    assert made.bytes_received == size
    send_all(made, 1, 3, [frame(2, 2)])
    check(made.finish({0: 1, 1: 3}), {0: [frame(0, 2)], 1: [frame(2, 2)]})


def test_losers_do_not_make_room_for_more_than_the_limit() -> None:
    size = sum(header_of(frame(0, 2)).sizes(PLAN))
    made = assembly(limit=2 * size)
    send_all(made, 0, 1, [frame(0, 2)])
    send_all(made, 0, 2, [frame(0, 2)])
    assert made.bytes_received == size
    with pytest.raises(TooLarge):
        send_all(made, 1, 3, [frame(2, 2), frame(4, 1)])


def test_nulls_are_summed_and_listed_as_selected() -> None:
    made = assembly()
    send_all(made, 1, 1, [], {"label": 1, "b": 2})
    send_all(made, 0, 2, [], {"tokens": 4, "b": 3, "a": 5})
    lost = made.begin(0, 3)
    made.end(lost, Summary(9, {"a": 100}))  # an attempt that does not count
    with pytest.raises(NullError) as caught:
        made.finish({0: 2, 1: 1})
    assert list(caught.value.counts.items()) == [("a", 5), ("b", 5), ("tokens", 4), ("label", 1)]


def test_a_fault_becomes_the_error() -> None:
    made = assembly()
    attempt = made.begin(0, 1)
    fault = Fault("cast", "a", value="300", dtype="int8", remedy="Clip it.")
    with pytest.raises(CastError, match="'a' holds 300") as caught:
        made.end(attempt, Summary(0, {}, fault.to_dict()))
    made.fail(caught.value)
    made.fail(TransferError("a later one"))
    assert made.failed.is_set()
    with pytest.raises(CastError):
        made.finish({0: 1})


def test_lists_of_unequal_length_across_partitions() -> None:
    made = assembly()
    send_all(made, 3, 1, [frame(0, 1)])
    wide = frame(9, 1)
    wide[1] = np.zeros((1, 5), np.int64)
    with pytest.raises(RaggedError) as caught:
        send_all(made, 0, 2, [wide])
    assert str(caught.value) == str(RaggedError("tokens", WIDTH, 5))


def lists(rows: list[Any], depth: int = 1) -> pa.Array:
    kind = pa.float32()
    for _ in range(depth):
        kind = pa.list_(kind)
    return pa.array(rows, kind)


def through(plan: Plan, partitions: list[list[pa.Array]]) -> list[np.ndarray[Any, Any]]:
    """One batch per partition, packed as executors do and taken in as the driver does."""
    made = assembly(plan)
    for partition, columns in enumerate(partitions):
        batch = pa.record_batch(columns, names=[f"p{place}" for place in range(len(columns))])
        attempt = made.begin(partition, partition)
        for row in blobber(plan, lambda: (0, 0))(iter([batch])):
            take_blob(made, attempt, row.column("payload")[0].as_py())
    return made.finish({partition: partition for partition in range(len(partitions))})


PAIR = Plan(
    (
        TensorPlan(
            "x",
            "float32",
            (Piece(("s",), (None,)), Piece(("v",), (None,), 1), Piece(("w",), (None,), 1)),
            True,
        ),
    )
)
DEEP = Plan((TensorPlan("x", "float32", (Piece(("v",), (0,), 2),), False),))


def test_lists_side_by_side_whose_lengths_only_add_up() -> None:
    """Without a look at each column, the second partition's values would land in the wrong columns."""
    scalar = pa.array([0.0])
    with pytest.raises(RaggedError) as caught:
        through(PAIR, [[scalar, lists([[1, 2]]), lists([[3]])], [scalar, lists([[1]]), lists([[2, 3]])]])
    assert str(caught.value) == str(RaggedError("v", 2, 1))


def test_unequal_lists_in_a_matrix_are_named_with_their_own_lengths() -> None:
    scalar = pa.array([0.0])
    with pytest.raises(RaggedError) as caught:
        through(
            PAIR, [[scalar, lists([[1, 2]]), lists([[3]])], [scalar, lists([[1, 2]]), lists([[3, 4, 5]])]]
        )
    assert str(caught.value) == str(RaggedError("w", 1, 3))


@pytest.mark.parametrize(("first", "length"), [([[]], 0), ([[None, None]], 2)])
def test_outer_lengths_count_where_inner_lists_tell_none(first: list[Any], length: int) -> None:
    """Neither an empty list nor one of nulls may be blown up to the other partitions' shape."""
    with pytest.raises(RaggedError) as caught:
        through(DEEP, [[lists(first, 2)], [lists([[[1], [2], [3]]], 2)]])
    assert str(caught.value) == str(RaggedError("v", length, 3))


def test_empty_lists_under_lists() -> None:
    (array,) = through(DEEP, [[lists([[], []], 2)], [lists([[]], 2)]])
    assert array.shape == (3, 0, 0)


# Stretches of nothing but null lists.


def test_untold_rows_get_the_fill_where_they_were() -> None:
    parts = {
        0: [frame(0, 2, told=False), frame(2, 1)],
        1: [frame(3, 1, told=False)],
        2: [],
        3: [frame(4, 2), frame(6, 2, told=False), frame(8, 1), frame(9, 1, told=False)],
    }
    for order in ([0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2]):
        made = assembly()
        for partition in order:
            send_all(made, partition, partition, parts[partition])
        check(made.finish({partition: partition for partition in parts}), parts)


def test_untold_rows_of_an_attempt_that_broke_off_are_forgotten() -> None:
    made = assembly()
    broken = made.begin(0, 1)
    send(made, broken, frame(0, 3, told=False))
    send(made, broken, frame(3, 1))
    assert broken.direct
    made.abandon(broken)
    send_all(made, 0, 2, [frame(3, 2), frame(5, 1, told=False)])
    check(made.finish({0: 2}), {0: [frame(3, 2), frame(5, 1, told=False)]})


def test_a_length_that_nothing_tells() -> None:
    made = assembly()
    send_all(made, 0, 1, [frame(0, 2, told=False)])
    send_all(made, 1, 2, [frame(2, 1, told=False)])
    with pytest.raises(DataError, match="'tokens' holds no list that could tell its length, only nulls"):
        made.finish({0: 1, 1: 2})


# As executors make the frames.


def test_once_a_null_is_refused_nothing_more_is_sent_but_all_are_counted() -> None:
    plan = Plan((TensorPlan("y", "int8", (Piece(("label",), (None,)),), False),))
    batches = [
        pa.record_batch([pa.array(rows, pa.int64())], names=["p0"])
        for rows in ([1, 2], [None, 3], [4], [None])
    ]
    sent = [b"".join(buffers) for buffers in frames(plan, iter(batches))]
    headers = [
        Header.decode(each[LENGTH_BYTES : LENGTH_BYTES + int.from_bytes(each[:LENGTH_BYTES], "little")])
        for each in sent
    ]
    assert [header.rows for header in headers] == [2, 0]
    assert headers[1].summary == Summary(6, {"label": 2})
    made = assembly(plan)
    attempt = made.begin(0, 1)
    for payload in sent:
        take_blob(made, attempt, payload)
    with pytest.raises(NullError) as caught:
        made.finish({0: 1})
    assert caught.value.counts == {"label": 2}
