"""What ranks on executors print, on its way to the driver while they run; and the driver's word that they are to
stop.

The driver listens (`Listener`), every task connects (`Channel`) and sends its rank's lines. Where executors cannot
reach the driver, as behind a remote Spark Connect server, a task keeps the last of them, they come with its
report, and Spark alone stops the task.
"""

from __future__ import annotations

import hmac
import json
import os
import secrets
import shutil
import socket
import struct
import tempfile
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from penstock.jobs.launch_lines import Show
from penstock.wire.send import Door

HELLO = "<16si"
KEPT_LINES = 2000
STOP, WHERE = b"s", b"w"
"""The driver's words: stop your rank; and the same, having it print where it stands."""
UNIX_PATH_LIMIT = 100


class Channel:
    """A task's end: lines go to the driver, or are kept.

    >>> channel = Channel(Door(b"", path="/no/such/socket"), rank=0)
    >>> channel.show(0, False, "epoch 1")
    >>> channel.close()
    [(False, 'epoch 1')]
    """

    def __init__(self, door: Door, rank: int) -> None:
        self._kept: deque[tuple[bool, str]] = deque(maxlen=KEPT_LINES)
        self._wire: socket.socket | None = None
        try:
            self._wire = door.connect()
            self._wire.sendall(struct.pack(HELLO, door.token, rank))
        except OSError:
            self._hang_up()

    def show(self, rank: int, error: bool, line: str) -> None:
        """Send one line, or keep it."""
        if self._wire is not None:
            try:
                self._wire.sendall(json.dumps([error, line]).encode() + b"\n")
                return
            except OSError:
                self._hang_up()
        self._kept.append((error, line))

    def word(self) -> bytes:
        """The driver's word, if it has come. One that hung up says nothing: connections break for many reasons."""
        if self._wire is None:
            return b""
        try:
            return self._wire.recv(1, socket.MSG_DONTWAIT)
        except OSError:
            return b""

    def _hang_up(self) -> None:
        if self._wire is not None:
            self._wire.close()
        self._wire = None

    def close(self) -> list[tuple[bool, str]]:
        """Hang up; the lines that were kept."""
        self._hang_up()
        return list(self._kept)


class Listener:
    """The driver's end, while it is open; leaves no thread, socket or file behind.

    `host`: the address by which executors of a cluster reach this process; None keeps to this machine.
    """

    def __init__(self, show: Show, host: str | None) -> None:
        self._show, self._host = show, host
        self._token = secrets.token_bytes(16)
        self._folder = tempfile.mkdtemp(prefix="penstock-")
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._closing = False
        self._lock = threading.Lock()
        self._tasks: list[socket.socket] = []
        self.seen: set[int] = set()
        """Ranks that have connected."""

    def __enter__(self) -> Door:
        path = os.path.join(self._folder, "door")
        port = 0
        if len(path) <= UNIX_PATH_LIMIT:
            unix = socket.socket(socket.AF_UNIX)
            self._sockets.append(unix)
            unix.bind(path)
            unix.listen(128)
        if self._host is not None:
            server = socket.create_server(("", 0), backlog=128)
            self._sockets.append(server)
            port = server.getsockname()[1]
        for each in list(self._sockets):
            self._spawn(self._accept, each)
        return Door(self._token, path, self._host, port)

    def _spawn(self, target: Callable[[socket.socket], None], wire: socket.socket) -> None:
        thread = threading.Thread(target=target, args=(wire,), name="penstock-lines", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self, server: socket.socket) -> None:
        while True:
            try:
                wire, _ = server.accept()
            except OSError:
                return
            with self._lock:
                if self._closing:
                    wire.close()
                    return
                self._sockets.append(wire)
                self._spawn(self._listen, wire)

    def _listen(self, wire: socket.socket) -> None:
        with suppress(OSError, ValueError, struct.error), wire.makefile("rb") as lines:
            token, rank = struct.unpack(HELLO, lines.read(struct.calcsize(HELLO)))
            if not hmac.compare_digest(token, self._token):
                return
            self.seen.add(rank)
            self._tasks.append(wire)
            for line in lines:
                # What cannot be shown, on an output that is closed, is dropped. Were reading to end here, the rank
                # would wait in its next print for ever.
                with suppress(Exception):
                    error, text = json.loads(line)
                    self._show(rank, error, text)

    def tell(self, word: bytes) -> None:
        """Say a word to every task."""
        for wire in list(self._tasks):
            with suppress(OSError):
                wire.sendall(word)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._closing = True
            wires = list(self._sockets)
        for wire in wires:
            # Reading ends here and not before: what tasks sent before they ended is still shown.
            with suppress(OSError):
                wire.shutdown(socket.SHUT_RD)
        for thread in list(self._threads):
            thread.join()
        for wire in wires:
            wire.close()
        shutil.rmtree(self._folder, ignore_errors=True)
