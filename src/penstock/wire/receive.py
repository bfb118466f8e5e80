"""The driver's half of a socket transfer: listen, read frames, and put their bytes where they belong.

One thread per sending task; all of them spend their time in `recv_into`, which leaves the interpreter free. The socket
is a file only this user can open where the executors are on this machine, else a port that asks for a random token.
"""

from __future__ import annotations

import hmac
import os
import secrets
import shutil
import socket
import struct
import tempfile
import threading
from contextlib import suppress
from types import TracebackType

from penstock.errors import PenstockError, TransferError
from penstock.wire.assembly import Assembly, Attempt
from penstock.wire.frames import HELLO, LENGTH, LENGTH_BYTES, MAX_HEADER, TOKEN_BYTES, Header
from penstock.wire.send import ANSWER, SOCKET_BUFFER, Door

UNIX_PATH_LIMIT = 100


class Receiver:
    """Listens while it is open; leaves no thread, socket or file behind.

    `host`: the address executors know this machine by; None keeps the transfer on this machine.
    """

    def __init__(self, assembly: Assembly, host: str | None = None) -> None:
        self._assembly, self._host = assembly, host
        self._token = secrets.token_bytes(TOKEN_BYTES)
        self._listeners: list[socket.socket] = []
        self._connections: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._folder: str | None = None
        self._closing = False
        self._lock = threading.Lock()

    def __enter__(self) -> Door:
        """Start to listen."""
        path, port = self._listen_unix(), 0
        host = self._host if path is not None or self._host is not None else "127.0.0.1"
        if host is not None:
            listener = socket.create_server(("127.0.0.1" if host == "127.0.0.1" else "", 0), backlog=128)
            port = listener.getsockname()[1]
            self._listeners.append(listener)
        for listener in self._listeners:
            self._spawn(self._accept, listener)
        return Door(self._token, path, host, port)

    def _listen_unix(self) -> str | None:
        if not hasattr(socket, "AF_UNIX"):
            return None
        self._folder = tempfile.mkdtemp(prefix="penstock-")
        path = os.path.join(self._folder, "door")
        if len(path) > UNIX_PATH_LIMIT:
            return None
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        listener.listen(128)
        self._listeners.append(listener)
        return path

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop listening, drop connections, wait for the threads."""
        with self._lock:
            self._closing = True
            sockets = [*self._listeners, *self._connections]
        for each in sockets:
            _hang_up(each)
            each.close()
        for thread in list(self._threads):
            thread.join()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _spawn(self, target: object, argument: socket.socket) -> None:
        thread = threading.Thread(target=target, args=(argument,), name="penstock-receive", daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with self._lock:
                if self._closing:
                    connection.close()
                    return
                self._connections.add(connection)
                self._threads = [thread for thread in self._threads if thread.is_alive()]
                # Under the lock, so that `__exit__` knows every thread it has to wait for.
                self._spawn(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        attempt: Attempt | None = None
        try:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SOCKET_BUFFER)
            token, partition, number = struct.unpack(HELLO, _read(connection, struct.calcsize(HELLO)))
            if not hmac.compare_digest(token, self._token):
                return
            attempt = self._assembly.begin(partition, number, lambda: _hang_up(connection))
            try:
                self._read_frames(connection, attempt)
            except PenstockError as error:
                self._assembly.fail(error)
            connection.sendall(ANSWER)
        except OSError:
            pass  # The task died or was cancelled: Spark knows, and retries or reports it.
        except Exception as error:
            self._assembly.fail(TransferError(f"the driver could not take in a task's rows: {error!r}"))
        finally:
            if attempt is not None:
                self._assembly.abandon(attempt)
            with self._lock:
                self._connections.discard(connection)
            connection.close()

    def _read_frames(self, connection: socket.socket, attempt: Attempt) -> None:
        while True:
            (length,) = struct.unpack(LENGTH, _read(connection, LENGTH_BYTES))
            if length > MAX_HEADER:
                raise TransferError(
                    f"a frame's header claims {length} bytes; at most {MAX_HEADER} are possible."
                )
            header = Header.decode(_read(connection, length))
            if header.summary is not None:
                self._assembly.end(attempt, header.summary)
                return
            with self._assembly.room(attempt, header) as views:
                for view in views:
                    _read_into(connection, view)


def _hang_up(connection: socket.socket) -> None:
    """Wake whoever waits on a socket; closing it alone does not."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def _read(connection: socket.socket, count: int) -> bytes:
    data = bytearray(count)
    with memoryview(data) as view:
        _read_into(connection, view)
    return bytes(data)


def _read_into(connection: socket.socket, view: memoryview) -> None:
    done = 0
    while done < len(view):
        got = connection.recv_into(view[done:])
        if not got:
            raise ConnectionError("the sending task closed its connection before all of its rows had come")
        done += got


def take_blob(assembly: Assembly, attempt: Attempt, payload: bytes) -> None:
    """Take in one frame that came as a blob instead."""
    (length,) = struct.unpack_from(LENGTH, payload)
    header = Header.decode(payload[LENGTH_BYTES : LENGTH_BYTES + length])
    if header.summary is not None:
        assembly.end(attempt, header.summary)
        return
    place = LENGTH_BYTES + length
    with assembly.room(attempt, header) as views:
        for view in views:
            view[:] = payload[place : place + len(view)]
            place += len(view)
