"""How much memory an epoch takes on a rank, and how it is shared out: windows, what is read ahead, what is gathered.

Pure functions. A smaller `memory` makes gathers smaller, reads less far ahead and with fewer threads, and never changes
the order; below what the lanes themselves need it is an error that says what would fit.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.errors import SelectionError, humane_bytes
from penstock.feed.plan.route import Route

SPREAD = 2.25
"""A gather of several steps may touch so many times the windows of a gather of one. Each gather costs the interpreter
about a millisecond, in which readers wait for it: with 1.5 an H200 was fed a tenth slower."""


IN_ORDER = 16
"""Windows that a gather may touch without a shuffle, where there is one lane, and one step touches next to none. By
the rule above alone one of eight ranks was fed a sixth to a quarter slower, on two cores."""


@dataclass(frozen=True)
class Costs:
    """What rows cost where they lie."""

    row: int
    """Bytes of a row, as it lies."""
    beside: int
    """Bytes kept beside each row of a window."""
    gather: int
    """Bytes that are gathered at once, or filled up at once, unless a batch is larger."""
    gathers: int
    """How many gathers exist at a time."""
    staged: int
    """Bytes that all readers have for themselves, whatever the blocks."""
    cached: bool = False
    """Whether rows lie in a cache, and windows take only what is kept beside them."""
    decoded: int = 0
    """Bytes of blocks that all readers have for themselves, where blocks cannot be read to where they go."""
    at_once: int = 1
    """Runs of rows that a reader may read at a time. Between two times it waits for the interpreter, which whoever
    trains may not give up for milliseconds."""
    filled: int = 0
    """Bytes of a row of tensors that are filled up, which come on top of those as they lie."""
    fillings: int = 0
    """How many gathers exist at a time with their rows filled up."""


@dataclass(frozen=True)
class Budget:
    """What an epoch is given."""

    together: int
    """Steps gathered at once."""
    slots: int
    enough: int
    """Slots with which it goes nearly as well: an arena that has so many is not made anew."""
    rows: int
    """Of a slot."""
    window_row: int
    """Bytes of a row of a slot."""
    bytes: int
    readers: int
    """Threads that read."""

    def bytes_with(self, slots: int, rows: int) -> int:
        """Likewise with so many slots of so many rows, where there are more than were asked for.

        >>> Budget(1, slots=4, enough=4, rows=100, window_row=8, bytes=5000, readers=1).bytes_with(8, 100)
        8200
        """
        return self.bytes + max(slots * rows - self.slots * self.rows, 0) * self.window_row


def budget(route: Route, costs: Costs, threads: int, memory: int | None) -> Budget:
    """Share memory out: as many steps at once as the gather is to have, and windows ahead for every reader."""
    # A step has no more rows than there are, unless it is padded to the size asked for.
    batch = route.steps.batch
    if route.steps.last != "pad":
        batch = min(batch, route.order.rows)
    each = -(-batch // route.world)
    step, filled = max(each * costs.row, 1), each * costs.filled
    most = max(min(costs.gather // max(step, filled), route.steps.left(0)), 1)
    # Windows in a cache take next to nothing, so that a gather may touch as many as it likes.
    together = most if costs.cached else _together(route, most)
    rows = int(route.windows.rows.max(initial=1))
    # A window for every run that is being read, and one more that waits for its reader.
    least = 2 * threads + len(route.lanes) // 8
    ahead, readers = least + (costs.at_once - 1) * threads, threads
    while True:
        most = route.most_windows(together)
        slots = min(most + ahead, max(len(route.windows.start), 1))
        of_readers = (costs.staged + costs.decoded) * readers // threads
        made = together * (costs.gathers * step + costs.fillings * filled)
        size = slots * _window(costs, rows) + of_readers + made
        enough = min(most + costs.at_once * readers, slots)
        found = Budget(together, slots, enough, rows, _window(costs, 1), size, readers)
        if memory is None or found.bytes <= memory:
            return found
        if ahead > least:
            ahead = least
        elif together > 1:
            together //= 2
        elif ahead > 1:
            ahead //= 2
            # A reader that has memory of its own is to have a window to read as well.
            readers = min(readers, ahead) if of_readers else readers
        else:
            raise _too_little(route, costs, found, memory, costs.decoded * readers // threads)


def _together(route: Route, most: int) -> int:
    windows = SPREAD * route.most_windows(1)
    if not route.order.shuffle:
        windows = max(windows, IN_ORDER)
    if route.most_windows(most) <= windows:
        return most  # which need not be a power of two
    together = 1
    while together * 2 <= most and route.most_windows(together * 2) <= windows:
        together *= 2
    return together


def _window(costs: Costs, rows: int) -> int:
    return rows * (costs.beside + (0 if costs.cached else costs.row))


def _too_little(route: Route, costs: Costs, least: Budget, memory: int, decoded: int) -> SelectionError:
    order = route.order
    windows = least.slots * _window(costs, least.rows)
    rest = least.bytes - windows - decoded
    lanes = int(order.lanes * max(memory - rest - decoded, 0) / max(windows, 1))
    lanes = lanes // route.world * route.world
    share = max(memory - rest, 0) / max(windows + decoded, 1)
    block = int(least.rows * costs.row * share) // order.window
    ways = [f"lanes={lanes}"] if lanes else []
    ways += [f"blocks of {humane_bytes(block)} (block_bytes= of pk.write)"] if block else ["smaller batches"]
    return SelectionError(
        f"the loader needs {humane_bytes(least.bytes)} on each rank ({least.slots} windows of {least.rows:,} rows, "
        f"from lanes={order.lanes} and window={order.window}, what is gathered, and what is being read), and "
        f"memory={humane_bytes(memory)}. It would fit with {' or '.join(ways)}; more ranks help too. "
        "(A smaller memory never changes the order.)"
    )
