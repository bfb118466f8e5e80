"""How many threads read for one rank: as many as are said, else a share of the machine's cores."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import penstock as pk
from penstock import machine
from penstock.errors import SelectionError
from penstock.feed.frameworks import tensorflow_batches
from penstock.feed.loader import Loader
from penstock.feed.loaders import DEVICE_THREADS, HOST_THREADS, reader_threads

FRAMEWORKS = ("torch", "numpy", "jax", "tensorflow")


@pytest.fixture(scope="module")
def ds(tmp_path_factory: pytest.TempPathFactory) -> pk.Dataset:
    rows = pa.table({"id": np.arange(1000, dtype="int32")})
    return pk.write(rows, tmp_path_factory.mktemp("threads"), shards=1, block_bytes=1024)


@pytest.fixture
def sixteen_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "usable_cores", lambda root: 16)
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_as_many_read_as_are_said(ds: pk.Dataset, framework: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Loader] = []
    below = tensorflow_batches.numpy_loader
    monkeypatch.setattr(
        tensorflow_batches, "numpy_loader", lambda *given: made.append(below(*given)) or made[-1]
    )
    found = getattr(ds, framework)(100, threads=7)
    loader = made[0] if framework == "tensorflow" else found
    assert loader.settings.threads == 7
    for _ in found:
        pass
    assert loader.stats.threads == 7


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("wrong", [0, -1, True, 2.5, "4"])
def test_numbers_that_are_none_are_refused(ds: pk.Dataset, framework: str, wrong: object) -> None:
    with pytest.raises(SelectionError, match=r"threads=.*a whole number of at least 1"):
        getattr(ds, framework)(100, threads=wrong)


@pytest.mark.parametrize(
    ("ranks", "world", "on_host", "on_device"),
    [
        (None, None, HOST_THREADS, DEVICE_THREADS),
        ("1", None, HOST_THREADS, DEVICE_THREADS),
        ("4", None, 4, 4),
        ("8", None, 2, 2),
        ("64", None, 2, 2),
        ("8", 16, 2, 2),
        ("8", 2, 2, 2),
        ("8", 1, HOST_THREADS, DEVICE_THREADS),
        (None, 16, HOST_THREADS, DEVICE_THREADS),
    ],
)
def test_the_ranks_of_a_machine_share_its_cores(
    ds: pk.Dataset,
    sixteen_cores: None,
    monkeypatch: pytest.MonkeyPatch,
    ranks: str | None,
    world: int | None,
    on_host: int,
    on_device: int,
) -> None:
    """As the launcher counts them, also where groups of them read the same; who says world=1 is alone."""
    if ranks is not None:
        monkeypatch.setenv("LOCAL_WORLD_SIZE", ranks)
    rank = None if world is None else 0
    for framework in ("torch", "numpy", "jax"):
        assert getattr(ds, framework)(100, rank=rank, world=world).settings.threads == on_host
    assert reader_threads(None, ds.snapshot, world, on_device=True) == on_device
    assert reader_threads(5, ds.snapshot, world, on_device=True) == 5


def test_a_folder_of_other_peoples_files_takes_them_too(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"id": np.arange(100)}), tmp_path / "a.parquet")
    loader = pk.open(tmp_path).numpy(10, threads=3)
    assert sum(len(batch["id"]) for batch in loader) == 100
    assert loader.stats.threads == 3
