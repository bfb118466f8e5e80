"""Tasks of one barrier stage tell each other that a rank has failed, so that none waits for it for ever.

Spark does so when a task fails, but takes seconds to kill the others, and of the error only a text is left. So
tasks end well, each with a report of its rank, and the alarm goes over connections of their own: every task holds
one to task 0, which passes a failure, or a connection that broke, on to all. Machines' clocks differ, and which rank
failed first is told by them: so task 0 tells the others its time. Runs on executors; see `launch_task`.
"""

from __future__ import annotations

import hmac
import secrets
import socket
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress

HELLO, TIME = "<16si", "<d"
FAILED, DONE, STOP = b"f", b"d", b"s"
CONNECT_SECONDS = 60.0


class Alarm:
    """One task's end of the wire; `rang` is set once any rank has failed.

    >>> hub = AlarmHub(2)
    >>> with hub, Alarm(1, "127.0.0.1", hub.port, hub.token) as other:
    ...     other.ring()
    ...     hub.rang.wait(10)
    True
    """

    def __init__(self, rank: int, host: str, port: int, token: bytes) -> None:
        self.rang = threading.Event()
        self._done = False
        self._wire = socket.create_connection((host, port), CONNECT_SECONDS)
        asked = time.time()
        self._wire.sendall(struct.pack(HELLO, token, rank))
        self.ahead = self._compared(asked)
        """Seconds by which this machine's clock is ahead of task 0's; 0 where they may well be the same."""
        self._wire.settimeout(None)
        self._listener = threading.Thread(target=self._listen, name="penstock-alarm", daemon=True)
        self._listener.start()

    def _compared(self, asked: float) -> float:
        with suppress(OSError, struct.error):
            (theirs,) = struct.unpack(TIME, self._wire.recv(struct.calcsize(TIME), socket.MSG_WAITALL))
            return clock_difference(asked, theirs, time.time())
        return 0.0

    def _listen(self) -> None:
        with suppress(OSError):
            self._wire.recv(1)
        # Whatever came, a word or the end of the connection: task 0 says nothing while all is well.
        if not self._done:
            self.rang.set()

    def ring(self) -> None:
        """This task's rank has failed."""
        with suppress(OSError):
            self._wire.sendall(FAILED)

    def done(self) -> None:
        """This task's rank has ended well."""
        self._done = True
        with suppress(OSError):
            self._wire.sendall(DONE)

    def wait(self) -> None:
        """Only task 0 has others to wait for."""

    def __enter__(self) -> Alarm:
        return self

    def __exit__(self, *_: object) -> None:
        self._done = True
        with suppress(OSError):
            self._wire.shutdown(socket.SHUT_RDWR)
        self._listener.join()
        self._wire.close()


def clock_difference(asked: float, theirs: float, answered: float) -> float:
    """By how much our clock is ahead of theirs, which they read between the two moments; 0 where it may be the same.

    >>> clock_difference(10.0, 10.1, 10.2), clock_difference(10.0, 3.0, 10.5)
    (0.0, 7.25)
    """
    return 0.0 if asked <= theirs <= answered else (asked + answered) / 2 - theirs


class AlarmHub:
    """Task 0's end, which the others connect to."""

    ahead = 0.0
    """Its own clock is the one that counts."""

    def __init__(self, workers: int, host: str = "127.0.0.1") -> None:
        self.rang = threading.Event()
        self.token = secrets.token_bytes(16)
        self._server = socket.create_server((host, 0), backlog=workers)
        self.port: int = self._server.getsockname()[1]
        self._left = set(range(1, workers))
        self._wires: list[socket.socket] = []
        self._changed = threading.Condition()
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> AlarmHub:
        self._spawn(self._accept)
        return self

    def _spawn(self, target: Callable[..., None], *args: socket.socket) -> None:
        thread = threading.Thread(target=target, args=args, name="penstock-alarm", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                wire, _ = self._server.accept()
            except OSError:
                return
            with self._changed:
                self._wires.append(wire)
            self._spawn(self._listen, wire)

    def _listen(self, wire: socket.socket) -> None:
        rank, word = None, b""
        with suppress(OSError, struct.error):
            wire.settimeout(CONNECT_SECONDS)
            token, said = struct.unpack(HELLO, wire.recv(struct.calcsize(HELLO), socket.MSG_WAITALL))
            if hmac.compare_digest(token, self.token):
                rank = said
                wire.sendall(struct.pack(TIME, time.time()))
                if self.rang.is_set():  # it comes late
                    wire.sendall(STOP)
                wire.settimeout(None)
                word = wire.recv(1)
        if rank is None:  # a stranger
            wire.close()
            return
        if word != DONE:
            self.ring()
        with self._changed:
            self._left.discard(rank)
            self._changed.notify_all()

    def ring(self) -> None:
        """A rank has failed: tell all."""
        with self._changed:
            self.rang.set()
            for wire in self._wires:
                with suppress(OSError):
                    wire.sendall(STOP)
            self._changed.notify_all()

    def done(self) -> None:
        """Task 0's own rank has ended well; nobody else need know."""

    def wait(self) -> None:
        """Wait until every other task has ended its rank, or one has failed."""
        with self._changed:
            self._changed.wait_for(lambda: not self._left or self.rang.is_set())

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        for wire in self._wires:
            with suppress(OSError):
                wire.shutdown(socket.SHUT_RDWR)
            wire.close()
        for thread in self._threads:
            thread.join()
