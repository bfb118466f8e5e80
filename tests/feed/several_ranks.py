"""Starts a script as several ranks of one job on this machine, as a launcher would, and waits for them to end.

They meet over loopback.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

_turn = itertools.count()


def free_port() -> int:
    """A port that stays free until a rank listens there.

    Not one that the system gives out by itself, to any connection; and in each process of tests another one.
    """
    for _ in range(1000):
        port = 10_000 + (os.getpid() % 200) * 100 + next(_turn) % 100
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port
    raise OSError("no port is free")


def start_ranks(
    world: int, script: Path, *arguments: str, environment: Mapping[str, str] | None = None
) -> list[subprocess.Popen[str]]:
    """One process for each rank; what they print can be read from their pipes."""
    shared = {
        **os.environ,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
        "WORLD_SIZE": str(world),
        "LOCAL_WORLD_SIZE": str(world),
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": "lo",
        **(environment or {}),
    }
    return [
        subprocess.Popen(
            [sys.executable, str(script), *arguments],
            env={**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(world)
    ]


def finished(ranks: list[subprocess.Popen[str]]) -> list[subprocess.CompletedProcess[str]]:
    """What became of ranks that were started, in the order of ranks."""
    done = []
    for rank in ranks:
        try:
            out, errors = rank.communicate(timeout=100)
        except subprocess.TimeoutExpired:
            for each in ranks:
                each.kill()
            raise
        done.append(subprocess.CompletedProcess(rank.args, rank.returncode, out, errors))
    return done
