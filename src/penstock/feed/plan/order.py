"""Who reads which rows when: one global order of an epoch's rows, the same for any number of workers.

Pure functions over the rows of the blocks: no files, no clock, no environment. Blocks are permuted and laid end to end,
and cut into C lanes; a lane is cut into windows of w blocks, and the rows of a window are permuted. Row t of the epoch
is row t // C of lane t % C. So the order depends on the blocks, the seed, the epoch, C and w alone, and where a lane
stands at any t is computed directly: to resume is to begin elsewhere.

Inside a window the permutation is integer arithmetic, place by place (`scramble`), the same in NumPy, in torch on the
CPU and on the GPU. Memory grows with blocks, never with rows. `route` is a rank's way through this order.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from penstock.dataset.hashing import hashed, mix
from penstock.dtypes import Array

ROUNDS = 6
MASK = 0xFFFFFFFF
CHUNK = 1 << 14
"""Rows are permuted so many at a time on the host: what lies between then stays in the processor's cache."""
STAGGER = 64
"""First windows have so many different lengths, so that lanes ask for their next blocks at different times."""
LAST = ("drop", "pad", "short")


def permutation(rows: int, keys: Array) -> Array:
    """The order of a window's rows: at place i stands the row of this number.

    Places are scrambled in a grid of cells, a few more than there are rows; a place that falls beyond the rows is
    scrambled again until it falls among them, which keeps the whole a bijection.

    >>> permutation(5, np.arange(6)).tolist()
    [4, 2, 1, 3, 0]
    """
    sides = grid(np.array([rows]))
    a, b = int(sides[0][0]), int(sides[1][0])
    cells = scrambled_grid(a, b, keys)
    found = cells[:rows]
    beyond = np.flatnonzero(found >= rows)
    while len(beyond):
        found[beyond] = cells[found[beyond]]
        beyond = beyond[found[beyond] >= rows]
    return found


def grid(rows: Array) -> tuple[Array, Array]:
    """The sides of nearly square grids with at least so many cells, and fewer than one side too many.

    >>> grid(np.array([10, 16]))
    (array([4, 4]), array([3, 4]))
    """
    a = np.maximum(np.ceil(np.sqrt(rows.astype(np.float64))).astype(np.int64), 1)
    return a, np.maximum(-(-rows // a), 1)


def scramble(cells: Any, a: Any, b: Any, keys: Any) -> Any:
    """A bijection of the cells 0..a*b-1: a Feistel network whose halves count modulo a and modulo b.

    Works alike on arrays of NumPy and of torch on any device: only sums, products, shifts and masks of whole numbers
    below 2**63 are used.
    """
    left = cells // b
    right = cells - left * b
    for number in range(0, ROUNDS, 2):
        left = left + _share(right, keys[number], a)
        left = left - a * (left >= a)
        right = right + _share(left, keys[number + 1], b)
        right = right - b * (right >= b)
    return left * b + right


class _Workspace(threading.local):
    """Arrays that a thread computes permutations in: memory asked for anew each time costs more than they do."""

    def __init__(self) -> None:
        self._arrays = np.empty((3, 0), np.int64)

    def of(self, lines: int, width: int) -> tuple[Array, Array, Array]:
        if self._arrays.shape[1] < lines * width:
            self._arrays = np.empty((3, max(lines * width, CHUNK)), np.int64)
        first, second, third = self._arrays[:, : lines * width].reshape(3, lines, width)
        return first, second, third


_workspace = _Workspace()


def scrambled_grid(a: int, b: int, keys: Array) -> Array:
    """`scramble` of all cells, in NumPy: what a half is shifted by depends on the other half alone, so it is looked up.

    Few calls, each over many cells: threads that gather meanwhile hand the interpreter's lock over at every one. Halves
    are not brought back below their sides in between; the tables go on as far as they may grow.
    """
    ways = ROUNDS // 2
    left_at, right_at = np.arange(a), np.arange(b)
    left_by, right_by, left_ends, right_ends = (
        np.concatenate([table] * (ways + 1), axis=-1)
        for table in (
            _share(right_at, keys[::2, None], a),
            _share(left_at, keys[1::2, None], b),
            left_at * b,
            right_at,
        )
    )
    found = np.empty((a, b), np.int64)
    lines = max(CHUNK // b, 1)
    for start in range(0, a, lines):
        part = found[start : start + lines]
        left, right, shift = _workspace.of(*part.shape)
        np.add(left_at[start : start + lines, None], left_by[0, :b], out=left)
        np.take(right_by[0], left, out=right, mode="clip")
        right += right_at
        for way in range(1, ways):
            left += np.take(left_by[way], right, out=shift, mode="clip")
            right += np.take(right_by[way], left, out=shift, mode="clip")
        np.take(left_ends, left, out=part, mode="clip")
        part += np.take(right_ends, right, out=shift, mode="clip")
    return found.reshape(-1)


def _share(value: Any, key: Any, side: Any) -> Any:
    """A number in 0..side-1 that looks random, from a value and a 32-bit key."""
    x = ((value ^ key) * 0x9E3779B1) & MASK
    x = ((x ^ (x >> 15)) * 0x85EBCA77) & MASK
    x = x ^ (x >> 13)
    return (x * side) >> 32


@dataclass(frozen=True)
class Pieces:
    """The runs of rows a rank reads: in the order of lanes and of places inside them, windows one after the other."""

    lane: Array
    window: Array
    """The number of the window among all."""
    block: Array
    first: Array
    """The run's first row in its block."""
    rows: Array
    start: Array
    """The place of its first row when all lanes are laid end to end."""


@dataclass(frozen=True)
class Windows:
    """The windows of all lanes, laid end to end."""

    lane: Array
    start: Array
    """The place of its first row when all lanes are laid end to end."""
    rows: Array
    keys: Array
    """Of the permutation of its rows: ROUNDS x windows, 32 bits each."""


@dataclass(frozen=True)
class Order:
    """The order of one epoch.

    >>> order = Order((4, 4, 2), seed=7, epoch=0, lanes=2, window=1)
    >>> blocks, rows = order.locate(np.arange(10))
    >>> sorted(zip(blocks.tolist(), rows.tolist())) == [
    ...     (b, r) for b, n in enumerate((4, 4, 2)) for r in range(n)
    ... ]
    True
    """

    blocks: tuple[int, ...]
    """Rows of every block."""
    seed: int
    epoch: int
    lanes: int = 64
    window: int = 1
    shuffle: bool = True

    def __post_init__(self) -> None:
        if self.lanes < 1 or self.window < 1:
            raise ValueError(f"lanes={self.lanes} and window={self.window} must be at least 1")
        if not self.shuffle and self.lanes != 1:
            raise ValueError(f"lanes={self.lanes}: the order of the files is a single lane")

    @cached_property
    def rows(self) -> int:
        """All rows of the epoch."""
        return sum(self.blocks)

    @cached_property
    def lane_starts(self) -> Array:
        """Where each lane begins when all are laid end to end, and the end; the first N mod C are one row longer."""
        lanes = np.arange(self.lanes + 1, dtype=np.int64)
        each, more = divmod(self.rows, self.lanes)
        return np.asarray(lanes * each + np.minimum(lanes, more))

    @cached_property
    def pieces(self) -> Pieces:
        """Every lane's runs of rows, cut at the edges of lanes and of first windows."""
        return _pieces(self)

    @cached_property
    def windows(self) -> Windows:
        """Every lane's windows."""
        pieces = self.pieces
        heads = np.flatnonzero(np.diff(pieces.window, prepend=-1))
        starts = pieces.start[heads]
        rows = np.diff(np.append(starts, self.rows))
        lane = pieces.lane[heads]
        first_of_lane = np.searchsorted(lane, lane)
        inner = np.arange(len(heads)) - first_of_lane
        salt = mix(lane.astype(np.uint64), hashed(1, self.seed, self.epoch))
        words = [mix(mix(inner.astype(np.uint64), salt), number) for number in range(ROUNDS // 2)]
        keys = np.stack([half for word in words for half in (word & np.uint64(MASK), word >> np.uint64(32))])
        return Windows(lane, starts, rows, keys.astype(np.int64))

    def locate(self, t: Array) -> tuple[Array, Array]:
        """The block, and the row in it, of the rows of these numbers in the epoch."""
        t = np.asarray(t, np.int64)
        place = self.lane_starts[t % self.lanes] + t // self.lanes
        windows, pieces = self.windows, self.pieces
        window = np.searchsorted(windows.start, place, "right") - 1
        start = windows.start[window]
        inside = np.empty_like(place)
        for number in np.unique(window):
            rows = int(windows.rows[number])
            found = np.arange(rows)
            if self.shuffle:
                found = permutation(rows, windows.keys[:, number])
            chosen = window == number
            inside[chosen] = found[(place - start)[chosen]]
        piece = np.searchsorted(pieces.start, start + inside, "right") - 1
        return pieces.block[piece], pieces.first[piece] + start + inside - pieces.start[piece]


def _pieces(order: Order) -> Pieces:
    rows = np.array(order.blocks, np.int64)
    turn = np.arange(len(rows))
    if order.shuffle:
        turn = np.argsort(mix(turn, hashed(0, order.seed, order.epoch)), kind="stable")
    turn = turn[rows[turn] > 0]
    ends = np.cumsum(rows[turn])
    # Cuts at block ends and lane starts; then, per lane, one more inside its first window.
    edges = np.unique(np.concatenate([[0], ends, order.lane_starts]))
    edges = edges[edges < order.rows]
    lane = np.searchsorted(order.lane_starts, edges, "right") - 1
    number = np.arange(len(edges)) - np.searchsorted(lane, lane)
    cuts = _first_windows(order, edges, lane, number)
    starts = np.union1d(edges, cuts)
    lane = np.searchsorted(order.lane_starts, starts, "right") - 1
    # A window begins at every w-th run of a lane and at the cut inside the first one.
    run = np.searchsorted(edges, starts, "right") - 1
    place = number[run]
    begins = ((place % order.window == 0) & np.isin(starts, edges)) | np.isin(starts, cuts)
    at = np.searchsorted(ends, starts, "right")
    block = turn[at]
    first = starts - (ends - rows[turn])[at]
    return Pieces(lane, np.cumsum(begins) - 1, block, first, np.diff(np.append(starts, order.rows)), starts)


def _first_windows(order: Order, edges: Array, lane: Array, number: Array) -> Array:
    """Where each lane's first window ends: at (lane mod STAGGER + 1) / STAGGER of its first w runs."""
    heads = np.flatnonzero(number == 0)
    after = np.append(heads[1:], len(edges))
    ends = np.append(edges, order.rows)[np.minimum(heads + order.window, after)]
    begin = edges[heads]
    share = lane[heads] % STAGGER + 1
    cut = begin + (ends - begin) * share // STAGGER
    return np.asarray(cut[(cut > begin) & (cut < ends)])


@dataclass(frozen=True)
class Steps:
    """How the rows of an epoch fall into steps; `route` and `shares` say which of a step's rows are a rank's.

    >>> Steps(rows=10, batch=4, last="drop").count, Steps(rows=10, batch=4, last="pad").count
    (2, 3)
    """

    rows: int
    batch: int
    """Rows of a step on all ranks together."""
    last: str = "drop"

    @property
    def count(self) -> int:
        """Steps of the epoch; equal on all ranks."""
        return self.left(0)

    def left(self, start: int) -> int:
        """Steps from row `start` of the epoch on."""
        rows = max(self.rows - start, 0)
        return rows // self.batch if self.last == "drop" else -(-rows // self.batch)
