"""Loops over rows as machine code: the same as NumPy's, to the bit; made when that pays, and never needed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as pk
from penstock.feed.memory import mapped, native_loops
from penstock.feed.memory.native_loops import MOST_AHEAD, MOST_LINES, MOST_SIZES, LoopChoice, NativeLoops
from penstock.feed.memory.row_loops import NUMPY, Blocks
from penstock.feed.plan.order import ROUNDS
from penstock.wire.ragged import Ragged

SIZES = (1, 2, 3, 4, 7, 8, 12, 16, 52, 64, 65, 104, 160, 1000, 64 * MOST_LINES + 40, 5000)
ROWS = 5 * MOST_AHEAD
MADE = (native_loops._permute, native_loops._interleave, native_loops._take, native_loops._take_runs)


@pytest.fixture(scope="module")
def native() -> NativeLoops:
    found = native_loops.native_loops(SIZES, ragged=True)
    assert found is not None
    return found


@settings(max_examples=200)
@given(st.integers(1, 20_000), st.lists(st.integers(0, 2**32 - 1), min_size=ROUNDS, max_size=ROUNDS))
def test_windows_are_permuted_alike(native: NativeLoops, rows: int, keys: list[int]) -> None:
    ours = native.permutation(rows, np.array(keys))
    assert (ours == NUMPY.permutation(rows, np.array(keys))).all()
    assert (np.sort(ours) == np.arange(rows)).all()


@st.composite
def lanes_of_runs(draw) -> tuple:
    """Runs of a table of numbers, as many in all of each lane, and which of the outcome is wanted."""
    lanes, rows = draw(st.integers(1, 20)), draw(st.integers(1, 60))
    starts, lengths = [], []
    for _ in range(lanes):
        cuts = sorted(draw(st.sets(st.integers(1, rows - 1), max_size=4))) if rows > 1 else []
        for begin, end in zip([0, *cuts], [*cuts, rows], strict=True):
            lengths.append(end - begin)
            starts.append(draw(st.integers(0, 1000)))
    low = draw(st.integers(0, lanes * rows))
    return np.array(starts), np.array(lengths), lanes, low, draw(st.integers(low, lanes * rows))


@given(lanes_of_runs())
def test_lanes_are_interleaved_alike(native: NativeLoops, wanted: tuple) -> None:
    numbers = np.random.default_rng(0).integers(0, 2**60, 1060)
    assert (native.interleaved(numbers, *wanted) == NUMPY.interleaved(numbers, *wanted)).all()


def test_of_lanes_that_only_fill_up_nothing_is_read(native: NativeLoops) -> None:
    """Their runs begin where there may be no memory: here the first row, but for one of its lanes."""
    far = 1 << 50
    starts, lengths = np.array([far, 0, far, 5, 7]), np.array([1, 2, 1, 2, 3])
    assert native.interleaved(np.arange(10), starts, lengths, 3, 2, 9).tolist() == [7, 0, 5, 8, 1, 6, 9]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("count", [0, 1, MOST_AHEAD - 1, ROWS])
def test_rows_are_taken_alike(native: NativeLoops, size: int, count: int) -> None:
    generator = np.random.default_rng(size)
    # Between other bytes, that a copy too long would show in.
    source = generator.integers(0, 256, (ROWS + 2, size), np.uint8)[1:-1]
    room = np.full((count + 2, size), 7, np.uint8)
    index = generator.integers(0, ROWS, count)
    assert size in native._takes
    native.take(source, index, room[1:-1])
    assert (room[1:-1] == source[index]).all()
    assert (room[[0, -1]] == 7).all()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("count", [0, 1, MOST_AHEAD - 1, ROWS])
def test_rows_of_blocks_are_taken_alike(native: NativeLoops, size: int, count: int) -> None:
    """Blocks that lie in another order than they are counted, with rows of nobody between."""
    generator = np.random.default_rng(size)
    array = generator.integers(0, 256, (1000, size), np.uint8)
    rows, first_rows = np.array([70, 1, 64]), np.array([500, 20, 100])
    addresses = array.ctypes.data + first_rows * size
    blocks = Blocks(7, array, first_rows, addresses)
    block = generator.integers(0, 3, count)
    row = generator.integers(0, rows[block])
    for loops in (native, NUMPY):
        room = np.full((count + 2, size), 7, np.uint8)
        loops.take_of_blocks(blocks, (block << 7) + row, room[1:-1])
        assert (room[1:-1] == array[first_rows[block] + row]).all(), loops
        assert (room[[0, -1]] == 7).all(), loops


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint16", "float16", "int32", "float32", "int64", "float64"]
)
def test_of_every_dtype_and_shape(native: NativeLoops, dtype: str) -> None:
    index = np.array([3, 0, 3, 1])
    for shape in [(), (4,), (2, 2), (13,)]:
        source = np.random.default_rng(1).integers(0, 100, (4, *shape)).astype(dtype)
        out = np.empty_like(source)
        native.take(source, index, out)
        assert (out == source[index]).all()


def test_rows_without_bytes_write_none(native: NativeLoops) -> None:
    """NumPy gives them the strides of rows that have some."""
    room = np.full(100, 7, np.float32)
    out = room[:0].reshape(100, 0)[:50]
    assert out.strides[0] in native._takes
    native.take(np.zeros((100, 0), np.float32), np.arange(50), out)
    assert (room == 7).all()


def test_rows_that_do_not_lie_side_by_side_are_left_to_numpy(native: NativeLoops) -> None:
    source = np.arange(40, dtype=np.int64).reshape(10, 4)[:, :1]
    out = np.zeros((3, 1), np.int64)
    native.take(source, np.array([9, 0, 5]), out)
    assert out.tolist() == [[36], [0], [20]]
    strided = np.zeros((6, 1), np.int64)
    native.take(source, np.array([9, 0, 5]), strided[::2])
    assert strided.ravel().tolist() == [36, 0, 0, 0, 20, 0]


@st.composite
def runs_of_values(draw) -> tuple:
    """Sources of some lengths, runs of them, and where those go: with gaps between, which nobody writes."""
    sizes = draw(st.lists(st.integers(0, 300), min_size=1, max_size=6))
    source, starts, lengths, targets, end = [], [], [], [], 0
    for _ in range(draw(st.integers(0, 60))):
        number = draw(st.integers(0, len(sizes) - 1))
        start = draw(st.integers(0, sizes[number]))
        length = draw(st.integers(0, sizes[number] - start))
        source.append(number)
        starts.append(start)
        lengths.append(length)
        targets.append(end := end + draw(st.integers(0, 2)))
        end += length
    order = draw(st.permutations(range(len(source))))
    arrays = [np.array(each, np.int64)[list(order)] for each in (source, starts, lengths, targets)]
    return sizes, arrays, end + 2


@settings(max_examples=300)
@given(runs_of_values(), st.sampled_from(["uint8", "int32", "float64"]), st.sampled_from([(), (3,)]))
def test_runs_of_values_are_taken_alike(native: NativeLoops, wanted: tuple, dtype: str, shape: tuple) -> None:
    sizes, (source, starts, lengths, targets), size = wanted
    generator = np.random.default_rng(0)
    sources = [generator.integers(0, 200, (each, *shape)).astype(dtype) for each in sizes]
    expected = np.full((size, *shape), 201, dtype)
    for number, start, length, target in zip(source, starts, lengths, targets, strict=True):
        expected[target : target + length] = sources[number][start : start + length]
    for loops in (native, NUMPY):
        out = np.full((size, *shape), 201, dtype)
        loops.take_runs(sources, source, starts, lengths, targets, out)
        assert (out == expected).all(), loops


def test_runs_of_values_without_bytes(native: NativeLoops) -> None:
    out = np.zeros((4, 0), np.float32)
    one = np.array([0])
    for loops in (native, NUMPY):
        loops.take_runs([np.zeros((9, 0), np.float32)], one, one, np.array([4]), one, out)


def test_of_many_sizes_the_largest_have_loops() -> None:
    found = native_loops.native_loops(range(0, 8 * (MOST_SIZES + 5), 8))
    assert found is not None
    assert sorted(found._takes) == list(range(40, 8 * (MOST_SIZES + 5), 8))


def test_who_asks_for_little_waits_for_no_compiler() -> None:
    choice = LoopChoice([4], 1)
    choice.begin(native_loops.PAYS_FROM - 1)
    assert choice.loops is NUMPY
    choice.begin(1)
    assert isinstance(choice.loops, NativeLoops)


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_loops, "PAYS_FROM", 0)
    monkeypatch.setattr(mapped, "LEAST_BUFFER", 0)


@pytest.fixture(scope="module", params=[{}, {"compression": "zstd"}], ids=str)
def ds(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> pk.Dataset:
    rows = 3001
    table = pa.table(
        {
            "id": np.arange(rows),
            "even": np.arange(rows) % 2 == 0,
            "x": pa.FixedSizeListArray.from_arrays(np.arange(rows * 160, dtype=np.float32), 160),
            "tokens": [list(range(row % 5)) for row in range(rows)],
        }
    )
    rows_of_nothing = pa.array([[]] * rows, pa.list_(pa.int64(), 0))
    table = table.append_column("none", rows_of_nothing)
    tensors = {"id": "id", "even": "even", "x": "x", "none": "none", "tokens": pk.ragged("tokens")}
    return pk.write(table, tmp_path_factory.mktemp("native"), tensors, block_bytes=100_000, **request.param)


def taken(ds: pk.Dataset, tensors: list[str], **settings: object) -> Iterator[list]:
    loader = ds.numpy(100, tensors=tensors, seed=3, **settings)
    for _ in range(2):
        for batch in loader:
            for each in batch.values():
                yield (
                    [each.values.tolist(), each.offsets.tolist()]
                    if isinstance(each, Ragged)
                    else each.tolist()
                )


@pytest.mark.parametrize(
    "given_settings",
    [
        {"lanes": 8},
        {"lanes": 8, "window": 3, "last": "pad"},
        {"lanes": 8, "cache": "host"},
        {"lanes": 8, "rank": 1, "world": 3, "last": "short"},
        {"lanes": 12, "rank": 1, "world": 3, "last": "short"},
        {"shuffle": False},
    ],
    ids=str,
)
@pytest.mark.parametrize("tensors", [["id", "even", "x"], ["x"], ["id", "none"], ["id", "tokens"]], ids=str)
@pytest.mark.parametrize("narrow", [False, True], ids=["read", "mapped"])
def test_batches_are_the_same(ds, given_settings, tensors, narrow, at_once, monkeypatch) -> None:
    asked: dict[str, int] = dict.fromkeys(("take", "take_of_blocks", "take_runs"), 0)

    def counted(way: str) -> Callable[..., None]:
        take = getattr(NativeLoops, way)

        def count(loops: NativeLoops, source: object, index: np.ndarray, *more: object) -> None:
            asked[way] += len(index)
            take(loops, source, index, *more)

        return count

    for way in asked:
        monkeypatch.setattr(NativeLoops, way, counted(way))
    monkeypatch.setattr(mapped, "WIDE", 1 << 30)
    if not narrow:
        monkeypatch.setattr(mapped, "_gain_narrow", lambda *_: False)
    ours = list(taken(ds, tensors, **given_settings))
    fixed = not {"none", "tokens"} & set(tensors)
    as_it_lies = ds.snapshot.manifest.compression is None and "cache" not in given_settings
    assert (asked["take_of_blocks"] > 0) == (narrow and fixed and as_it_lies)
    assert (asked["take"] > 0) == (asked["take_of_blocks"] == 0)
    assert (asked["take_runs"] > 0) == ("tokens" in tensors)
    monkeypatch.setattr(native_loops, "PAYS_FROM", 1 << 60)
    before = asked.copy()
    assert ours == list(taken(ds, tensors, **given_settings))
    assert asked == before


@pytest.mark.parametrize(
    "without",
    ['sys.modules["numba"] = None', 'import os; os.environ["NUMBA_DISABLE_JIT"] = "1"'],
    ids=["gone", "off"],
)
def test_without_numba_numpy_does_it(tmp_path: Path, without: str) -> None:
    pk.write(pa.table({"a": np.arange(1000)}), tmp_path)
    script = f"""
import sys
{without}
import penstock as pk
from penstock.feed.memory import native_loops
from penstock.feed.memory import row_loops
native_loops.PAYS_FROM = 0
loader = pk.open(sys.argv[1]).numpy(100)
choice = native_loops.LoopChoice([8], 8)
choice.begin(1)
print(sum(int(batch["a"].sum()) for batch in loader), choice.loops is row_loops.NUMPY)
"""
    found = subprocess.run(
        [sys.executable, "-c", script, tmp_path], capture_output=True, text=True, check=True
    )
    assert found.stdout.split() == [str(sum(range(1000))), "True"]


def test_what_does_not_compile_is_left_to_numpy(monkeypatch: pytest.MonkeyPatch, at_once: None) -> None:
    def broken() -> None:
        raise TypeError("no such instruction")

    for made in MADE:
        made.cache_clear()
    monkeypatch.setattr(native_loops, "_instructions", broken)
    try:
        choice = LoopChoice([4], 4)
        choice.begin(1)
        assert choice.loops is NUMPY
    finally:
        for made in MADE:
            made.cache_clear()


FORK = """
import os, signal, sys, threading, time
import numpy as np, pyarrow as pa
import penstock as pk
from penstock.feed import machine_code
from penstock.feed.cuda import native_reads
from penstock.feed.memory import native_loops

native_loops.PAYS_FROM = 0
loader = pk.write(pa.table({"a": np.arange(1000)}), sys.argv[1]).numpy(100)

def rows():
    return sorted(row for batch in loader for row in batch["a"].tolist()) == list(range(1000))

def reading():
    assert native_reads.compiled(native_reads.Functions(1, 2, 3, 4)) is not None

made = threading.Thread(target=rows if sys.argv[2] == "loops over rows" else reading)
made.start()
while not machine_code.MAKING.lock.locked():
    time.sleep(0.001)
process = os.fork()
if process == 0:
    signal.alarm(60)
    print(rows(), native_loops.native_loops([8]), flush=True)
    os._exit(0)
assert os.waitpid(process, 0)[1] == 0
made.join()
print(rows(), native_loops.native_loops([8]) is not None)
"""


@pytest.mark.parametrize("what", ["loops over rows", "a reader's loop"])
def test_a_fork_while_it_is_made_does_without(tmp_path: Path, what: str) -> None:
    """Nobody there gives up the locks of the compiler, which it would wait for."""
    command = [sys.executable, "-c", FORK, str(tmp_path), what]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["True None", "True True"]
