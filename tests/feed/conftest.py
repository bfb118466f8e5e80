"""Lets the tests of the feed import what they share, such as `several_ranks`, and notes what was there before each."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def what_was_there_before() -> None:
    import left_behind

    left_behind.begin()


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """SIGINT as a terminal's: where tests run in the background, a shell has had it ignored."""
    assert threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
