"""What each rank finds in its environment: who it is, of how many, where rank 0 is, and its share of the machine.

`torch.distributed` reads RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT; `tf.distribute` reads TF_CONFIG; JAX takes
rank 0's address from JAX_COORDINATOR_ADDRESS; Penstock's loaders read any of them. One rule holds everywhere: a
rank's GPU is `cuda:LOCAL_RANK`. Pure functions, besides `held_ports`.
"""

from __future__ import annotations

import json
import re
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from penstock.errors import LaunchError

OUTER = (
    "RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE GROUP_RANK GROUP_WORLD_SIZE ROLE_RANK ROLE_NAME ROLE_WORLD_SIZE "
    "NODE_RANK MASTER_ADDR MASTER_PORT TF_CONFIG"
)
"""What an outer launcher may have left; its ranks are not ours. With TORCHELASTIC_*, rank 0 would open no store."""


@dataclass(frozen=True)
class Place:
    """Where a rank runs, and the port on which its TensorFlow server is to listen."""

    host: str
    port: int


def environments(
    places: Sequence[Place],
    master_port: int,
    inherited: Mapping[str, str],
    cores: int,
    gpus: Sequence[str] | None = None,
) -> list[dict[str, str]]:
    """Each rank's environment, in order; `gpus` has each rank's own, where they are shared out.

    >>> two = environments(
    ...     [Place("127.0.0.1", 41), Place("127.0.0.1", 42)], 40, {"TORCHELASTIC_RUN_ID": "outer"}, 8
    ... )
    >>> [two[1][name] for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_PORT", "OMP_NUM_THREADS")]
    ['1', '2', '1', '40', '4']
    >>> two[1]["TF_CONFIG"]
    '{"cluster": {"worker": ["127.0.0.1:41", "127.0.0.1:42"]}, "task": {"type": "worker", "index": 1}}'
    """
    kept = {
        name: value
        for name, value in inherited.items()
        if name not in OUTER.split() and not name.startswith("TORCHELASTIC_")
    }
    hosts = [place.host for place in places]
    cluster = {"worker": [f"{place.host}:{place.port}" for place in places]}
    found = []
    for rank, host in enumerate(hosts):
        together = hosts.count(host)
        own = {
            "RANK": str(rank),
            "WORLD_SIZE": str(len(places)),
            # With GPUs of its own a rank sees no others, and its first is number 0.
            "LOCAL_RANK": str(hosts[:rank].count(host) if gpus is None else 0),
            "LOCAL_WORLD_SIZE": str(together),
            "MASTER_ADDR": hosts[0],
            "MASTER_PORT": str(master_port),
            "TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": "worker", "index": rank}}),
            "JAX_COORDINATOR_ADDRESS": f"{hosts[0]}:{master_port}",
            "PYTHONUNBUFFERED": "1",  # lines are shown when they are printed
        }
        if gpus is not None:
            own["CUDA_VISIBLE_DEVICES"] = gpus[rank]
        fallback = {
            # Unless said: the cores divided among the machine's ranks, instead of all of them for each.
            "OMP_NUM_THREADS": str(max(cores // together, 1)),
            # `launch_lines` reads UTF-8, whatever the locale here; and no printed character is an error.
            "PYTHONIOENCODING": "utf-8:backslashreplace",
        }
        # Gloo looks the host's own name up, which need not lead anywhere. Other systems have other names for lo.
        if together == len(places) and sys.platform == "linux":
            fallback["GLOO_SOCKET_IFNAME"] = "lo"
        found.append({**fallback, **kept, **own})
    return found


def shared_gpus(workers: int, each: int | None, visible: Sequence[str]) -> list[str] | None:
    """CUDA_VISIBLE_DEVICES of each rank, or None to leave every GPU visible to all.

    >>> shared_gpus(2, 2, ["0", "1", "2", "3"]), shared_gpus(2, None, ["0"]), shared_gpus(2, 0, ["0"])
    (['0,1', '2,3'], None, ['', ''])
    """
    if each is None:
        return None
    if each * workers > len(visible):
        raise LaunchError(
            f"gpus={each} for each of {workers} ranks makes {each * workers}, and this machine has {len(visible)} "
            f"{'that this process may use' if visible else 'of them'}. Pass fewer workers or a smaller gpus=."
        )
    return [",".join(visible[rank * each : (rank + 1) * each]) for rank in range(workers)]


def visible_gpus(environment: Mapping[str, str], devices: Path = Path("/dev")) -> list[str]:
    """The GPUs that a process here may use, as CUDA_VISIBLE_DEVICES would name them; no library is loaded for it.

    >>> visible_gpus({"CUDA_VISIBLE_DEVICES": "2,GPU-ab"})
    ['2', 'GPU-ab']
    """
    said = environment.get("CUDA_VISIBLE_DEVICES")
    if said is not None:
        return [name.strip() for name in said.split(",") if name.strip() not in ("", "-1")]
    count = sum(1 for path in devices.glob("nvidia*") if re.fullmatch(r"nvidia\d+", path.name))
    return [str(number) for number in range(count)]


@contextmanager
def held_ports(host: str, count: int) -> Iterator[list[int]]:
    """Free ports that stay free for the ranks, and only for them, while the block runs.

    They are bound here and not listened on, with SO_REUSEADDR: the kernel gives them to nobody who asks for any port,
    and lets a rank bind its own, since torch and gRPC set SO_REUSEADDR too. A port that is let go and named could be
    taken by another process before rank 0 listens on it.

    >>> with held_ports("127.0.0.1", 2) as ports:
    ...     len(set(ports))
    2
    """
    with ExitStack() as open_sockets:
        ports = []
        for _ in range(count):
            held = open_sockets.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            held.bind((host, 0))
            ports.append(held.getsockname()[1])
        yield ports
