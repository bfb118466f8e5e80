"""Several real processes over gloo: equal steps, every row once, killed and resumed on another number of ranks."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from several_ranks import start_ranks

import penstock as pk

SCRIPT = Path(__file__).parent / "one_rank.py"
SIZES = (700, 3, 150, 1, 46)


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


def run(world: int, dataset: str, folder: Path, *more: str) -> list[subprocess.CompletedProcess[str]]:
    ranks = start_ranks(world, SCRIPT, dataset, str(folder), *more)
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


def seen(folder: Path, world: int) -> list[list[list[int]]]:
    """Per rank, per step, the ids."""
    found = []
    for rank in range(world):
        lines = (folder / f"rank-{rank}.txt").read_text().splitlines()
        found.append([[int(number) for number in line.split()] for line in lines])
    return found


@pytest.mark.timeout(180)
@pytest.mark.parametrize("world", [1, 2, 3, 4, pytest.param(5, marks=pytest.mark.long)])
def test_ranks_have_equal_steps_and_see_every_row_once(dataset: str, tmp_path: Path, world: int) -> None:
    done = run(world, dataset, tmp_path)
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
