"""One task of a barrier stage: run its rank as a process of its own, and hand its end back.

The task never fails because its rank did: the report of that is its result. Tasks learn of each other's failures by
`launch_alarm`, and what a rank prints goes to the driver by `launch_channel`. Sent with the job, by value; needs
pyarrow, and PySpark, which is there. Made by `launch_spark`.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.jobs.launch_alarm import Alarm, AlarmHub
from penstock.jobs.launch_channel import WHERE, Channel
from penstock.jobs.launch_ends import End
from penstock.jobs.launch_processes import Processes
from penstock.jobs.launch_worker import WHERE_SIGNAL
from penstock.jobs.launch_world import Place, environments, held_ports
from penstock.machine import usable_cores
from penstock.wire.send import Door

if TYPE_CHECKING:
    from pyspark import BarrierTaskContext

RESULT_DDL = "piece binary"
PIECE = 1 << 20
"""Bytes of a row. Spark Connect collects rows into messages of a few MB, and no message may be beyond its limit."""
LOOK_SECONDS = 0.2
WHERE_SECONDS = 0.5


@dataclass(frozen=True)
class Order:
    """What every task is to do."""

    payload: bytes
    package: bytes
    door: Door
    workers: int
    gpus: int | None


def barrier_task(order: Order) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function for `mapInArrow(barrier=True)`."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            pass
        data = pickle.dumps(_run_rank(order))
        for start in range(0, len(data), PIECE):
            yield pa.RecordBatch.from_pydict({"piece": [data[start : start + PIECE]]})

    return run


def _run_rank(order: Order) -> dict[str, Any]:
    """The rank's end, and the lines that did not reach the driver."""
    from pyspark import BarrierTaskContext

    context = BarrierTaskContext.get()
    rank = context.partitionId()
    hosts = [info.address.rpartition(":")[0] for info in context.getTaskInfos()]
    channel = Channel(order.door, rank)
    with held_ports("", 2) as (master, own):
        hub = AlarmHub(order.workers, "") if rank == 0 else None
        told = {"host": hosts[rank], "port": own, "master": master, "gpus": _gpus_of(context)}
        if hub is not None:
            told |= {"alarm": hub.port, "token": hub.token.hex()}
        every = [json.loads(text) for text in context.allGather(json.dumps(told))]
        first = every[0]
        alarm = hub or Alarm(rank, hosts[0], first["alarm"], bytes.fromhex(first["token"]))
        with alarm:
            # Nobody starts before all are connected: a rank 0 that fails at once would hang up on later ones.
            context.barrier()
            end = _watched(order, rank, _environment(order, rank, every), channel, alarm)
            if end.failed:
                alarm.ring()
            else:
                alarm.done()
                alarm.wait()
    return {"end": end.earlier(alarm.ahead).to_dict(), "lines": channel.close()}


def _environment(order: Order, rank: int, every: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """This rank's environment, from what all tasks told."""
    hosts = {told["host"] for told in every}
    # Ranks of one machine meet there, whatever its name leads to.
    places = [Place("127.0.0.1" if len(hosts) == 1 else told["host"], told["port"]) for told in every]
    own = environments(places, every[0]["master"], os.environ, usable_cores())[rank]
    # Modules that the session sent along stand on this worker's own path, and nowhere else.
    own["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    given = every[rank]["gpus"]
    if order.gpus == 0:
        own["CUDA_VISIBLE_DEVICES"] = ""
    elif given is not None:
        own |= {"CUDA_VISIBLE_DEVICES": ",".join(given), "LOCAL_RANK": "0"}
    return own


def _gpus_of(context: BarrierTaskContext) -> list[str] | None:
    """The GPUs that Spark gave this task, as CUDA_VISIBLE_DEVICES names them; None where Spark shares out none."""
    found = context.resources().get("gpu")
    if found is None:
        return None
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if not visible:
        return list(found.addresses)
    # Spark numbers those that the executor may see.
    names = visible.split(",")
    return [names[int(address)] for address in found.addresses]


def _watched(
    order: Order, rank: int, environment: Mapping[str, str], channel: Channel, alarm: Alarm | AlarmHub
) -> End:
    with (
        _importable(order.package) as package,
        Processes(order.payload, [environment], package, channel.show) as ranks,
    ):
        word = b""
        while ranks.running and not (ranks.trouble or alarm.rang.is_set() or word):
            ranks.pump(LOOK_SECONDS)
            word = channel.word()
        if word == WHERE:
            ranks.ask(WHERE_SIGNAL)
            ranks.pump(WHERE_SECONDS)
        elif ranks.trouble:
            alarm.ring()
    return ranks.ends[rank]


@contextmanager
def _importable(package: bytes) -> Iterator[str]:
    """A path to import the package from while the block runs; on Linux no kill of this process leaves a file.

    A file without a name has one in /proc while its process lives, for the rank and for all that the rank starts; and
    ranks end with this process.

    >>> with _importable(b"content") as path, open(path, "rb") as file:
    ...     file.read()
    b'content'
    """
    with tempfile.TemporaryFile() as nameless:
        nameless.write(package)
        nameless.flush()
        path = f"/proc/{os.getpid()}/fd/{nameless.fileno()}"
        if os.access(path, os.R_OK):
            yield path
            return
    with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
        path = os.path.join(folder, "penstock.zip")
        with open(path, "wb") as file:
            file.write(package)
        yield path
