"""Starts a script as several ranks of one job on this machine, as a launcher would; they meet over loopback."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path


def start_ranks(
    world: int, script: Path, *arguments: str, environment: Mapping[str, str] | None = None
) -> list[subprocess.Popen[str]]:
    """One process for each rank; what they print can be read from their pipes."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shared = {
        **os.environ,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
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
