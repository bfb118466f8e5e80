"""Several real processes over gloo: equal steps, every row once, killed and resumed on another number of ranks."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from several_ranks import finished, start_ranks

import penstock as pk

SCRIPT = Path(__file__).parent / "one_rank.py"
DISAGREEING = Path(__file__).parent / "disagreeing_rank.py"
SIZES = (700, 3, 150, 1, 46)
BATCH = 16
"""Of one_rank.py."""


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Shards of very uneven sizes."""
    path = tmp_path_factory.mktemp("uneven") / "ds"
    first = 0
    for size in SIZES:
        rows = pa.table({"id": np.arange(first, first + size)})
        ds = pk.write(rows, path, shards=1, block_bytes=1024, mode="append")
        first += size
    assert [shard.rows for shard in ds.shards] == list(SIZES)
    return str(path)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The same rows as other people's files; some of them are empty, which `pk.write` leaves out."""
    path, first = tmp_path_factory.mktemp("files"), 0
    for number, size in enumerate((0, *SIZES[:2], 0, *SIZES[2:], 0)):
        rows = pa.table({"id": np.arange(first, first + size)})
        pq.write_table(rows, path / f"{number}.parquet", row_group_size=128)
        first += size
    assert sum(shard.rows == 0 for shard in pk.open(path).shards) == 3
    return str(path)


def run(world: int, dataset: str, folder: Path, *more: str) -> list[subprocess.CompletedProcess[str]]:
    return finished(start_ranks(world, SCRIPT, dataset, str(folder), *more))


def seen(folder: Path, world: int) -> list[list[list[int]]]:
    """Per rank, per step, the ids."""
    found = []
    for rank in range(world):
        lines = (folder / f"rank-{rank}.txt").read_text().splitlines()
        found.append([[int(number) for number in line.split()] for line in lines])
    return found


@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    ("world", "kind"),
    [
        *((world, "dataset") for world in range(1, 5)),
        (3, "files"),
        pytest.param(5, "dataset", marks=pytest.mark.long),
        pytest.param(4, "files", marks=pytest.mark.long),
    ],
)
def test_ranks_have_equal_steps_and_see_every_row_once(
    request: pytest.FixtureRequest, tmp_path: Path, world: int, kind: str
) -> None:
    done = run(world, request.getfixturevalue(kind), tmp_path)
    assert [each.returncode for each in done] == [0] * world, done[0].stderr
    steps = seen(tmp_path, world)
    assert len({len(rank) for rank in steps}) == 1
    ids = sorted(number for rank in steps for step in rank for number in step)
    assert ids == list(range(sum(SIZES)))


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    ("first", "second", "third", "stop"), [(3, 2, 4, 5), pytest.param(2, 5, 1, 7, marks=pytest.mark.long)]
)
def test_a_killed_training_goes_on_twice_on_other_worlds(
    dataset: str, tmp_path: Path, first: int, second: int, third: int, stop: int
) -> None:
    ids: list[int] = []
    state = "-"
    for number, (world, steps) in enumerate(((first, stop), (second, 3), (third, None))):
        folder = tmp_path / str(number)
        folder.mkdir()
        more = (state, str(steps), "--die") if steps is not None else (state,)
        done = run(world, dataset, folder, *more)
        if steps is None:
            assert [each.returncode for each in done] == [0] * world, done[0].stderr
        else:
            assert all(each.returncode != 0 for each in done)
        logged = seen(folder, world)
        # What counts is what the state says: steps that every rank had behind it.
        states = [json.loads((folder / f"state-{rank}.json").read_text()) for rank in range(world)]
        safe = min(range(world), key=lambda rank: (states[rank]["epoch"], states[rank]["t"] or 10**9))
        counted = min(len(rank) for rank in logged)
        ids += [each for rank in logged for step in rank[:counted] for each in step]
        state = str(folder / f"state-{safe}.json")
    assert sorted(ids) == list(range(sum(SIZES)))


def behind(folder: Path, world: int) -> int:
    """The rows of the epoch that every rank has behind it, as the states tell."""
    states = [folder / f"state-{rank}.json" for rank in range(world)]
    if not all(state.exists() for state in states):
        return 0
    return min(json.loads(state.read_text())["t"] for state in states)


@pytest.mark.timeout(240)
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long)])
def test_a_training_that_is_killed_at_any_moment_goes_on(dataset: str, tmp_path: Path, seed: int) -> None:
    """From outside, so between any two lines of it: what the states say is what counts."""
    world, first = 2, random.Random(seed).randrange(1, 20)
    # They stay before the end, or the epoch could be over before it is seen how far they are.
    killed = start_ranks(world, SCRIPT, dataset, str(tmp_path), "--stay")
    until = time.monotonic() + 100
    try:
        while behind(tmp_path, world) < first * BATCH * world and time.monotonic() < until:
            time.sleep(0.001)
    finally:
        for rank in killed:
            rank.kill()
        done = finished(killed)
    assert [each.returncode for each in done] == [-signal.SIGKILL] * world, done[0].stderr
    steps = behind(tmp_path, world) // (BATCH * world)
    assert steps >= first
    ids = [each for rank in seen(tmp_path, world) for step in rank[:steps] for each in step]
    safe = min(range(world), key=lambda rank: json.loads((tmp_path / f"state-{rank}.json").read_text())["t"])
    rest = tmp_path / "rest"
    rest.mkdir()
    done = run(3, dataset, rest, str(tmp_path / f"state-{safe}.json"))
    assert [each.returncode for each in done] == [0] * 3, done[0].stderr
    ids += [each for rank in seen(rest, 3) for step in rank for each in step]
    assert sorted(ids) == list(range(sum(SIZES)))


@pytest.mark.timeout(120)
def test_ranks_that_do_not_read_the_same_are_told(dataset: str, tmp_path: Path) -> None:
    other = pk.write(pa.table({"id": np.arange(900)}), tmp_path / "other", shards=1)
    done = finished(start_ranks(2, DISAGREEING, dataset, other.path, str(tmp_path)))
    assert [each.returncode for each in done] == [0, 0], done[0].stderr
    for rank in range(2):
        told = json.loads((tmp_path / f"rank-{rank}.json").read_text())
        assert (told["alone"], told["agreed"]) == ("no error", "no error")
        assert told["other ranks"] == "no error", "said by hand, they are of some other grouping"
        for what, values in (("fingerprint", None), ("seed", (0, 1)), ("batch", (32, 34))):
            here = f"SelectionError: rank {rank} and rank {1 - rank} do not read the same: "
            assert told[what].startswith(here)
            assert f"{what}: " in told[what]
            if values is not None:
                assert f"{what}: {values[rank]} here, {values[1 - rank]} there" in told[what]
        assert told["contradiction"] == (
            "SelectionError: the sources of rank and world disagree: torch.distributed says rank "
            f"{rank} of 2; RANK and WORLD_SIZE says rank {1 - rank} of 2. Pass rank= and world=."
        )
