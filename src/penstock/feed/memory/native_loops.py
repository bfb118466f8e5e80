"""The loops of `row_loops` as machine code, made by numba where that is installed.

A gather of scattered rows waits for memory, not for the processor: so its loops ask for what they will need some rows
ahead, which NumPy cannot. Rows of each size have a loop of their own, since a copy of so many bytes as are known
beforehand is a few moves instead of a call. `LoopChoice` says when that pays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from penstock.dtypes import Array
from penstock.feed.machine_code import machine_code
from penstock.feed.memory.row_loops import NUMPY, Blocks, RowLoops
from penstock.feed.plan.order import ROUNDS, grid

PAYS_FROM = 1 << 30
"""Bytes of rows. Making machine code takes about a second, and who reads so much is likely to read more of it."""
MOST_SIZES = 16
"""Rows of more different sizes are left to NumPy: each loop takes a tenth of a second to make."""
LINE = 64
"""Bytes that memory gives at once."""
MOST_LINES = 16
"""So many of a row are asked for; that longer ones go on, the processor finds out by itself."""
AHEAD_BYTES, LEAST_AHEAD, MOST_AHEAD = 8192, 8, 64
"""How far ahead rows are asked for."""
ONE_BLOCK = 62
"""Bits for the rows of a source that is one block."""

Permute = Callable[[Array, int, int, Array], None]
"""Keys, the sides of the grid, and what is filled."""
Interleave = Callable[[Array, Array, Array, int, int, int, Array], None]
"""As `RowLoops.interleaved`, into the last argument."""
Take = Callable[[Array, int, int, Array], None]
"""Addresses of the blocks, the bits of a row's number in one, the address of what is filled, and the rows to take."""
TakeRuns = Callable[[Array, Array, Array, Array, Array, int, int], None]
"""Addresses of the sources, the arguments of `RowLoops.take_runs`, the address of what is filled, bytes of a value."""


class NativeLoops:
    """Machine code for the loops over rows."""

    def __init__(
        self,
        permute: Permute,
        interleave: Interleave,
        takes: dict[int, Take],
        take_runs: TakeRuns | None,
    ) -> None:
        """`takes`: by the size of a row."""
        self._permute, self._interleave, self._takes = permute, interleave, takes
        self._take_runs = take_runs

    def permutation(self, rows: int, keys: Array) -> Array:
        """Several cells of the grid at once."""
        a, b = grid(np.array([rows]))
        found = np.empty(rows, np.int64)
        self._permute(np.ascontiguousarray(keys), int(a[0]), int(b[0]), found)
        return found

    def interleaved(
        self, numbers: Array, starts: Array, lengths: Array, lanes: int, low: int, high: int
    ) -> Array:
        """All lanes side by side."""
        found = np.empty(high - low, np.int64)
        self._interleave(numbers, starts, lengths, lanes, low, high, found)
        return found

    def take(self, source: Array, index: Array, out: Array) -> None:
        """From address to address; by NumPy where there is no loop for rows of this size."""
        # Not by the strides: of rows without bytes they are not zero.
        take = self._takes.get(out.nbytes // max(len(out), 1))
        if take is None or not (source.flags.c_contiguous and out.flags.c_contiguous):
            NUMPY.take(source, index, out)
        else:
            take(np.array([source.ctypes.data]), ONE_BLOCK, out.ctypes.data, index)

    def take_of_blocks(self, blocks: Blocks, index: Array, out: Array) -> None:
        """Likewise, wherever blocks lie."""
        take = self._takes.get(out.nbytes // max(len(out), 1))
        if take is None or not out.flags.c_contiguous:
            NUMPY.take_of_blocks(blocks, index, out)
        else:
            take(blocks.addresses, blocks.bits, out.ctypes.data, index)

    def take_runs(
        self,
        sources: Sequence[Array],
        numbers: Array,
        starts: Array,
        lengths: Array,
        targets: Array,
        out: Array,
    ) -> None:
        """From address to address."""
        if self._take_runs is None:
            NUMPY.take_runs(sources, numbers, starts, lengths, targets, out)
        elif out.size:
            addresses = np.array([each.ctypes.data for each in sources], np.int64)
            size = out.nbytes // len(out)
            self._take_runs(addresses, numbers, starts, lengths, targets, out.ctypes.data, size)


class LoopChoice:
    """Which loops the epochs of a loader use: NumPy's, until so much was asked for that machine code pays."""

    def __init__(self, row_sizes: Sequence[int], row_bytes: int, ragged: bool = False) -> None:
        """`row_sizes`: of tensors whose rows have one. `row_bytes`: what a row of all tensors takes, or the mean."""
        self._row_sizes, self._row_bytes, self._ragged = row_sizes, row_bytes, ragged
        self._asked = 0
        self.loops: RowLoops = NUMPY
        """Of the newest epoch."""

    def begin(self, rows: int) -> None:
        """An epoch of so many rows."""
        self._asked += rows * self._row_bytes
        found = native_loops(self._row_sizes, self._ragged) if self._asked >= PAYS_FROM else None
        self.loops = found or NUMPY


def native_loops(row_sizes: Sequence[int], ragged: bool = False) -> NativeLoops | None:
    """The loops for rows of these sizes, and for ragged ones; None where numba is not installed or does not work."""
    permute, interleave = _permute(), _interleave()
    if permute is None or interleave is None:
        return None
    sizes = sorted(set(row_sizes) - {0})[-MOST_SIZES:]
    takes = {size: take for size in sizes if (take := _take(size)) is not None}
    return NativeLoops(permute, interleave, takes, _take_runs() if ragged else None)


@cache
def _permute() -> Permute | None:
    found: Permute | None = machine_code("void(int64[::1],int64,int64,int64[::1])", _permute_loop)
    return found


@cache
def _interleave() -> Interleave | None:
    found: Interleave | None = machine_code(
        "void(int64[::1],int64[::1],int64[::1],int64,int64,int64,int64[::1])", _interleave_loop
    )
    return found


@cache
def _take(size: int) -> Take | None:
    found: Take | None = machine_code("void(int64[::1],int64,uint64,int64[::1])", lambda: _take_loop(size))
    return found


@cache
def _take_runs() -> TakeRuns | None:
    found: TakeRuns | None = machine_code(
        "void(int64[::1],int64[::1],int64[::1],int64[::1],int64[::1],int64,int64)", _take_runs_loop
    )
    return found


def _permute_loop() -> Callable[..., None]:
    import numba

    # What `order.scramble` says, in whole numbers of 32 bits, of which a processor takes eight and more at a time.
    first_factor, second_factor, half = np.uint32(0x9E3779B1), np.uint32(0x85EBCA77), np.uint64(32)
    first_shift, second_shift = np.uint32(15), np.uint32(13)

    @numba.njit
    def added(value: Any, other: Any, key: Any, side: Any) -> Any:  # pragma: no cover, compiled
        x = np.uint32(np.uint32(other ^ key) * first_factor)
        x = np.uint32(np.uint32(x ^ (x >> first_shift)) * second_factor)
        x = np.uint32(x ^ (x >> second_shift))
        value = np.uint32(value + np.uint32((np.uint64(x) * np.uint64(side)) >> half))
        # Below zero is far above all sides.
        return min(value, np.uint32(value - side))

    @numba.njit
    def scrambled(left: Any, right: Any, a: Any, b: Any, keys: Any) -> Any:  # pragma: no cover, compiled
        for number in range(0, ROUNDS, 2):
            left = added(left, right, keys[number], a)
            right = added(right, left, keys[number + 1], b)
        return np.int64(left) * np.int64(b) + np.int64(right)

    def permute(keys: Any, side_a: int, side_b: int, out: Any) -> None:  # pragma: no cover, compiled
        rows, by = len(out), keys.astype(np.uint32)
        a, b = np.uint32(side_a), np.uint32(side_b)
        for left in range(side_a):
            start = left * side_b
            for right in range(min(side_b, rows - start)):
                out[start + right] = scrambled(np.uint32(left), np.uint32(right), a, b, by)
        for row in range(rows):
            while out[row] >= rows:
                left, right = out[row] // side_b, out[row] % side_b
                out[row] = scrambled(np.uint32(left), np.uint32(right), a, b, by)

    return permute


def _interleave_loop() -> Callable[..., None]:
    prefetch, _ = _instructions()
    together, each = LINE // 8, np.uint64(8)

    def interleave(
        numbers: Any, starts: Any, lengths: Any, lanes: int, low: int, high: int, found: Any
    ) -> None:  # pragma: no cover, compiled
        memory = np.uint64(numbers.ctypes.data)
        rows = lengths.sum() // lanes
        run, at, left = np.empty(lanes, np.int64), np.empty(lanes, np.int64), np.empty(lanes, np.int64)
        number = 0
        for lane in range(lanes):
            run[lane], at[lane], left[lane] = number, starts[number], lengths[number]
            passed = 0
            while passed < rows:
                passed += lengths[number]
                number += 1
        row = 0
        while row < rows:
            # As many rows as all lanes go on without another run, and as one line of memory holds.
            count = min(together, rows - row)
            for lane in range(lanes):
                count = min(count, left[lane])
                prefetch(memory + np.uint64(at[lane] + 4 * together) * each)
            for place in range(count):
                first = (row + place) * lanes - low
                for lane in range(max(-first, 0), min(lanes, high - low - first)):
                    found[first + lane] = numbers[at[lane] + place]
            row += count
            for lane in range(lanes):
                at[lane] += count
                left[lane] -= count
                if left[lane] == 0 and row < rows:
                    run[lane] += 1
                    at[lane], left[lane] = starts[run[lane]], lengths[run[lane]]

    return interleave


def _take_loop(size: int) -> Callable[..., None]:
    prefetch, copy = _instructions()
    ahead = min(max(AHEAD_BYTES // size, LEAST_AHEAD), MOST_AHEAD)
    lines, last = min(-(-size // LINE), MOST_LINES), np.uint64(min(size, MOST_LINES * LINE) - 1)

    def take(addresses: Any, bits: int, target: int, index: Any) -> None:  # pragma: no cover, compiled
        rows, each, mask = len(index), np.uint64(size), (1 << bits) - 1
        for row in range(rows):
            later, now = index[min(row + ahead, rows - 1)], index[row]
            coming = np.uint64(addresses[later >> bits] + (later & mask) * size)
            for line in range(lines):
                prefetch(coming + np.uint64(LINE * line))
            # A row that begins within a line may end in one more.
            prefetch(coming + last)
            found = np.uint64(addresses[now >> bits] + (now & mask) * size)
            copy(target + np.uint64(row) * each, found, size)

    return take


def _take_runs_loop() -> Callable[..., None]:
    prefetch, copy = _instructions()
    ahead, most, line = LEAST_AHEAD, MOST_LINES * LINE, LINE

    def take_runs(
        sources: Any, numbers: Any, starts: Any, lengths: Any, targets: Any, target: int, size: int
    ) -> None:  # pragma: no cover, compiled
        # Addresses are less than half of what 64 bits hold, so that signed numbers do.
        last = len(numbers) - 1
        for run in range(len(numbers)):
            later = min(run + ahead, last)
            coming = sources[numbers[later]] + starts[later] * size
            for place in range(0, min(lengths[later] * size, most), line):
                prefetch(np.uint64(coming + place))
            found = sources[numbers[run]] + starts[run] * size
            copy(np.uint64(target + targets[run] * size), np.uint64(found), lengths[run] * size)

    return take_runs


def _instructions() -> tuple[Any, Any]:
    """What numba has no words for: to ask for a line of memory, and to copy bytes from address to address."""
    from llvmlite import ir
    from numba import types
    from numba.core import cgutils
    from numba.extending import intrinsic

    tools: Any = cgutils  # without types
    byte, code = ir.IntType(8).as_pointer(), ir.IntType(32)

    @intrinsic
    def prefetch(context: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            kind = ir.FunctionType(ir.VoidType(), [byte, code, code, code])
            asked = tools.get_or_insert_function(builder.module, kind, "llvm.prefetch")
            # To be read, used often, data.
            builder.call(asked, [builder.inttoptr(arguments[0], byte), code(0), code(3), code(1)])
            return context.get_dummy_value()

        return types.void(types.uint64), generate

    @intrinsic
    def copy(context: Any, target: Any, source: Any, size: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            to, what = (builder.inttoptr(each, byte) for each in arguments[:2])
            tools.raw_memcpy(builder, to, what, arguments[2], ir.IntType(64)(1))
            return context.get_dummy_value()

        return types.void(types.uint64, types.uint64, types.int64), generate

    return prefetch, copy
