"""The rows that a gather takes, computed on a GPU: `order.permutation` place by place, as one kernel.

The host sends a small table of the windows a gather touches. Every row finds its window there by search, is scrambled
as `order.scramble` does until it falls among the window's rows, and is moved to where that window lies. What the
kernel does is written a second time in torch, for devices that cannot compile it, and for reading.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from penstock.dtypes import Array
from penstock.feed.memory.arena import Runs
from penstock.feed.memory.host_arena import as_torch
from penstock.feed.plan.order import ROUNDS, grid, scramble
from penstock.feed.plan.route import Route

KEY, ROWS, SIDE_A, SIDE_B = range(4)
PAIRS = 4
PIECES = PAIRS + ROUNDS // 2
"""The columns of a window's row in the table. KEY orders windows by lane and place; PAIRS are the keys of its
permutation, two in one number; then come, for every piece, its first place and what turns places into rows of the
arena."""

KERNEL = """
template <typename T> T row_of(T v, T first, T modulus, T below, T stride, T table, T windows, T wide, T pieces,
                               T shuffled) {
    const T* rows = (const T*)table;
    T number = v + first;
    T wanted = (number % modulus - below) * stride + number / modulus;
    T low = 0, high = windows;
    while (high - low > 1) {
        T middle = (low + high) / 2;
        if (rows[middle * wide] <= wanted) low = middle; else high = middle;
    }
    const T* own = rows + low * wide;
    T place = wanted - own[0], count = own[1], a = own[2], b = own[3];
    if (shuffled) {
        do {
            T left = place / b, right = place - left * b;
            for (int pair = 0; pair < 3; ++pair) {
                for (int half = 0; half < 2; ++half) {
                    unsigned long long key = ((unsigned long long)own[4 + pair] >> (32 * half)) & 0xFFFFFFFFull;
                    unsigned long long x = (unsigned long long)(half ? left : right);
                    x = ((x ^ key) * 0x9E3779B1ull) & 0xFFFFFFFFull;
                    x = ((x ^ (x >> 15)) * 0x85EBCA77ull) & 0xFFFFFFFFull;
                    x = x ^ (x >> 13);
                    T share = (T)((x * (unsigned long long)(half ? b : a)) >> 32);
                    if (half) {
                        right += share;
                        if (right >= b) right -= b;
                    } else {
                        left += share;
                        if (left >= a) left -= a;
                    }
                }
            }
            place = left * b + right;
        } while (place >= count);
    }
    T shift = own[8];
    for (T piece = 1; piece < pieces; ++piece) {
        if (place >= own[7 + 2 * piece]) shift = own[8 + 2 * piece];
    }
    return place + shift;
}
"""
SCALARS = ("first", "modulus", "below", "stride", "table", "windows", "wide", "pieces", "shuffled")


def row_kernel(device: Any) -> Any:
    """The kernel, compiled when first used; None where this torch, or the device, cannot."""
    import torch

    make = getattr(getattr(torch.cuda, "jiterator", None), "_create_jit_fn", None)
    if make is None or ROUNDS != 6 or device.type != "cuda":
        return None
    return make(KERNEL, **dict.fromkeys(SCALARS, 0))


class DeviceWindows:
    """A rank's windows in one epoch, as the device has to know them."""

    def __init__(
        self,
        route: Route,
        device: Any,
        kernel: Any,
        slot_rows: int,
        starts: Array | None,
        send: Callable[[Array], Any] | None = None,
        place: Callable[[Array, str], Any] | None = None,
    ) -> None:
        """Windows lie in slots of so many rows; or, where `starts` of all blocks are given, their blocks lie there.

        `send` brings the table of a gather to the device, and `place` other arrays; torch, where that is not said.
        """
        import torch

        self._torch, self._device, self._kernel, self._slot_rows = torch, device, kernel, slot_rows
        self._send_table, self._place = send or self._send, place or partial(_placed, device)
        self._route = route
        self._table = _table(route, starts)
        self._resident = self._send(self._table) if starts is not None else None
        self._counting: Any = None

    def index(self, runs: Runs) -> Any:
        """The rows of the arena to gather, in the order of the epoch."""
        route = self._route
        if self._resident is None:
            inner = runs.windows >= 0
            used, slots = runs.windows[inner], runs.slots[inner]
            if not route.even:
                # Step by step; where lanes have one owner, windows come once, and in their order.
                used, at = np.unique(used, return_index=True)
                slots = slots[at]
            host = self._table[used]
            host[:, PIECES + 1] = slots * self._slot_rows
            table = self._send_table(host)
        else:
            table = self._resident
        if route.even:
            numbers, first = self._numbers(runs.rows), runs.first
            modulus, below = len(route.lanes), 0
        else:
            numbers, first = self._send(_numbers_of(runs, route.order.lanes)), 0
            modulus, below = route.order.lanes, int(route.lanes[0])
        if self._kernel is None:
            return _rows(numbers + first, modulus, below, route.windows.stride, table, route.order.shuffle)
        return self._kernel(
            numbers,
            first=first,
            modulus=modulus,
            below=below,
            stride=route.windows.stride,
            table=table.data_ptr(),
            windows=table.shape[0],
            wide=table.shape[1],
            pieces=(table.shape[1] - PIECES) // 2,
            shuffled=int(route.order.shuffle),
        )

    def _numbers(self, count: int) -> Any:
        """0, 1, 2, ... on the device, kept from one gather to the next."""
        if self._counting is None or len(self._counting) < count:
            self._counting = self._torch.arange(count, device=self._device)
        return self._counting[:count]

    def _send(self, array: Array) -> Any:
        return self._place(np.ascontiguousarray(array), "int64")


def _placed(device: Any, array: Array, dtype: str) -> Any:
    return as_torch(array, dtype).to(device)


def _numbers_of(runs: Runs, lanes: int) -> Array:
    """The numbers of all rows in the epoch: a lane's next row comes when all other lanes have had one."""
    before = np.cumsum(runs.lengths) - runs.lengths
    return np.repeat(runs.t - lanes * before, runs.lengths) + lanes * np.arange(runs.rows)


def _table(route: Route, starts: Array | None) -> Array:
    """All windows of the rank, in their order. Without `starts` a window's one piece is the slot it will lie in."""
    windows, order = route.windows, route.order
    first = np.searchsorted(order.pieces.window, np.arange(len(order.windows.start) + 1))
    begin, end = first[windows.number], first[windows.number + 1]
    pieces = int((end - begin).max(initial=1)) if starts is not None else 1
    table = np.zeros((len(windows.start), PIECES + 2 * pieces), np.int64)
    table[:, KEY], table[:, ROWS] = windows.keyed, windows.rows
    table[:, SIDE_A], table[:, SIDE_B] = grid(windows.rows)
    table[:, PAIRS:PIECES] = (windows.keys[::2] | (windows.keys[1::2] << 32)).T
    if starts is None:
        return table
    for number in range(pieces):
        there, piece = begin + number < end, np.minimum(begin + number, end - 1)
        place = order.pieces.start[piece] - order.windows.start[windows.number]
        base = starts[order.pieces.block[piece]] + order.pieces.first[piece] - place
        table[:, PIECES + 2 * number] = np.where(there, place, windows.rows)
        table[:, PIECES + 2 * number + 1] = base
    return table


def _rows(numbers: Any, modulus: int, below: int, stride: int, table: Any, shuffled: bool) -> Any:
    """What the kernel computes, in torch."""
    import torch

    row = numbers // modulus
    wanted = (numbers - row * modulus - below) * stride + row
    window = torch.searchsorted(table[:, KEY].contiguous(), wanted, right=True) - 1
    of = table.index_select(0, window).t()
    place = wanted - of[KEY]
    if shuffled:
        keys = [half for pair in of[PAIRS:PIECES] for half in (pair & 0xFFFFFFFF, (pair >> 32) & 0xFFFFFFFF)]
        place = scramble(place, of[SIDE_A], of[SIDE_B], keys)
        while bool((place >= of[ROWS]).any()):
            again = scramble(place, of[SIDE_A], of[SIDE_B], keys)
            place = torch.where(place >= of[ROWS], again, place)
    shift = of[PIECES + 1]
    for piece in range(PIECES + 2, table.shape[1], 2):
        shift = torch.where(place >= of[piece], of[piece + 1], shift)
    return place + shift
