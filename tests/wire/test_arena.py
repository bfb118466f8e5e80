"""Memory that grows in place: nothing written is lost, nothing half written counts."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.wire import arena as arena_module
from penstock.wire.arena import FIRST_BYTES, Arena

U8 = np.dtype(np.uint8)


def pattern(seed: int, count: int) -> bytes:
    return np.random.default_rng(seed).bytes(count)


def content(arena: Arena) -> bytes:
    return arena.array(U8, (arena.used,)).tobytes()


@pytest.mark.parametrize("in_place", [True, False])
def test_contents_survive_growth(in_place: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """With and without a platform that can grow a map."""
    if not in_place:
        monkeypatch.setattr(arena_module, "_resize", lambda memory, size: False)
    sizes = [
        0,
        1,
        3,
        4095,
        4096,
        4097,
        FIRST_BYTES - 1,
        1,
        FIRST_BYTES,
        2 * FIRST_BYTES + 5,
        17,
        5 * FIRST_BYTES,
    ]
    arena, parts = Arena(), [pattern(seed, size) for seed, size in enumerate(sizes)]
    for part in parts:
        arena.append(part)
    assert arena.used == sum(sizes)
    assert content(arena) == b"".join(parts)


ACTIONS = st.lists(
    st.tuples(st.just("append"), st.integers(0, 5000))
    | st.tuples(st.just("fail"), st.integers(0, 5000))
    | st.tuples(st.just("rewind"), st.integers(0, 100)),
    max_size=20,
)


@given(ACTIONS)
def test_any_order_of_writes_failures_and_rewinds(actions: list[tuple[str, int]]) -> None:
    arena, expected = Arena(), b""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arena_module, "FIRST_BYTES", 64)
        for seed, (action, number) in enumerate(actions):
            if action == "append":
                arena.append(pattern(seed, number))
                expected += pattern(seed, number)
            elif action == "fail":
                with pytest.raises(OSError, match="cut"), arena.tail(number) as view:  # noqa: PT012
                    view[: number // 2] = b"x" * (number // 2)
                    raise OSError("cut")
            else:
                expected = expected[: len(expected) * number // 100]
                arena.rewind(len(expected))
            assert arena.used == len(expected)
    assert content(arena) == expected


def test_the_tail_is_exactly_as_long_as_asked() -> None:
    arena = Arena()
    arena.append(b"abc")
    with arena.tail(5) as view:
        assert (len(view), view.readonly) == (5, False)
        view[:] = b"12345"
        assert arena.used == 3
    assert content(arena) == b"abc12345"


def test_an_array_keeps_its_memory_when_the_arena_is_gone() -> None:
    arena, data = Arena(), pattern(1, 8 * 600_000)
    arena.append(data)
    array = arena.array(np.dtype(np.int64), (300_000, 2))
    assert arena.used == 0
    arena.append(b"other")  # the arena starts afresh, elsewhere
    del arena
    gc.collect()
    assert array.tobytes() == data
    assert array.flags.writeable
    assert array.flags.c_contiguous
    array[:] = 1
    assert array.sum() == 600_000


@pytest.mark.parametrize("touched", [False, True])
def test_no_bytes_at_all(touched: bool) -> None:
    arena = Arena()
    if touched:
        arena.append(b"gone")
        arena.rewind(0)
    array = arena.array(np.dtype(np.float32), (7, 0, 3))
    assert (array.shape, array.dtype) == ((7, 0, 3), np.float32)
