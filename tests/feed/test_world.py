"""Rank and world, from wherever they are told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from several_ranks import free_port

import penstock as pk
from penstock.errors import SelectionError
from penstock.feed.world import World, find_world

CLUSTER = {"chief": ["a:1"], "worker": ["b:1", "c:1"]}


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, World(0, 1)),
        ({"RANK": "2", "WORLD_SIZE": "4"}, World(2, 4)),
        ({"RANK": "2"}, World(0, 1)),
        ({"TF_CONFIG": json.dumps({"cluster": CLUSTER, "task": {"type": "chief", "index": 0}})}, World(0, 3)),
        (
            {"TF_CONFIG": json.dumps({"cluster": CLUSTER, "task": {"type": "worker", "index": 1}})},
            World(2, 3),
        ),
        ({"TF_CONFIG": json.dumps({"cluster": CLUSTER, "task": {"type": "ps", "index": 0}})}, World(0, 1)),
        # The coordinator of parameter servers reads for all.
        (
            {
                "TF_CONFIG": json.dumps(
                    {"cluster": {**CLUSTER, "ps": ["d:1"]}, "task": {"type": "chief", "index": 0}}
                )
            },
            World(0, 1),
        ),
        ({"TF_CONFIG": "{}"}, World(0, 1)),
    ],
)
def test_the_environment_tells(environment, expected) -> None:
    assert find_world(environment=environment) == expected


def test_arguments_come_first() -> None:
    assert find_world(1, 2, environment={"RANK": "0", "WORLD_SIZE": "4"}) == World(1, 2)


@pytest.mark.parametrize(
    ("rank", "world", "environment"),
    [
        (1, None, {}),
        (None, 2, {}),
        (2, 2, {}),
        (-1, 2, {}),
        (None, None, {"RANK": "x", "WORLD_SIZE": "2"}),
        (None, None, {"TF_CONFIG": "not json"}),
        (None, None, {"TF_CONFIG": "[1]"}),
        (
            None,
            None,
            {
                "RANK": "0",
                "WORLD_SIZE": "2",
                "TF_CONFIG": json.dumps({"cluster": CLUSTER, "task": {"type": "worker", "index": 1}}),
            },
        ),
    ],
)
def test_nonsense_and_contradictions_are_refused(rank, world, environment) -> None:
    with pytest.raises(SelectionError):
        find_world(rank, world, environment)


JAX = """
import json, sys
import jax
import penstock as pk

loader = pk.open(sys.argv[1]).jax(10, seed=3)
alone = loader.world()
jax.distributed.initialize(sys.argv[2], 2, int(sys.argv[3]))
world, named = loader.world(), list(pk.open(sys.argv[1]).jax(10, seed=3, device="cpu:0"))
here = [batch["id"].devices() <= set(jax.local_devices()) for batch in (next(iter(loader)), named[0])]
print(json.dumps([alone.size, world.rank, world.size, *here, [batch["id"].tolist() for batch in named]]))
"""


def test_processes_of_jax_are_ranks_on_devices_of_their_own(tmp_path: Path) -> None:
    ds = pk.write(pa.table({"id": np.arange(100, dtype=np.int32)}), tmp_path / "ds")
    unsaid = {
        name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE", "TF_CONFIG")
    }
    port = free_port()
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", JAX, ds.path, f"127.0.0.1:{port}", str(index)],
            env={**unsaid, "JAX_PLATFORMS": "cpu"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for index in range(2)
    ]
    try:
        told = [process.communicate(timeout=100) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert [process.returncode for process in processes] == [0, 0], told
    for index, (printed, _) in enumerate(told):
        loader = ds.numpy(10, seed=3, rank=index, world=2)
        assert json.loads(printed) == [1, index, 2, True, True, [batch["id"].tolist() for batch in loader]]
