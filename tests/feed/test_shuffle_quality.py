"""Rows are mixed as a perfect shuffle mixes them, on data sorted by label; by the measures of the benchmark.

`benchmarks/shuffle_quality.py` holds the measures and their limits: a perfect shuffle passes them, and data that was
written in order and read by one lane has to fail.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import penstock as pk

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "shuffle_quality.py"
ROWS, BATCH, BLOCK = 200_000, 250, 4096


@pytest.fixture(scope="module")
def quality() -> ModuleType:
    spec = importlib.util.spec_from_file_location("shuffle_quality", BENCHMARK)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def mixed(quality: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> pk.Dataset:
    path = tmp_path_factory.mktemp("mixed")
    return pk.write(quality.sorted_rows(ROWS), path, shuffle=True, block_bytes=BLOCK)


@pytest.fixture(scope="module")
def kept(quality: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> pk.Dataset:
    path = tmp_path_factory.mktemp("kept")
    return pk.write(quality.sorted_rows(ROWS), path, shuffle=False, block_bytes=BLOCK)


@pytest.mark.parametrize("seed", range(3))
def test_a_perfect_shuffle_passes(quality: ModuleType, seed: int) -> None:
    assert quality.beyond(quality.measure(quality.perfect(ROWS), seed, BATCH)) == []


@pytest.mark.parametrize("seed", range(3))
def test_sorted_data_arrives_mixed(quality: ModuleType, mixed: pk.Dataset, seed: int) -> None:
    found = quality.measure(quality.penstock(mixed, BATCH), seed, BATCH)
    assert quality.beyond(found) == [], found
    assert 0.9 < found[quality.TOGETHER] < 1.3, "batches are made up anew each epoch"


def test_other_batches_and_fewer_lanes_are_mixed_as_well(quality: ModuleType, mixed: pk.Dataset) -> None:
    found = quality.measure(quality.penstock(mixed, BATCH, lanes=16, window=2), 7, BATCH)
    assert quality.beyond(found) == [], found


def test_what_was_written_in_order_and_read_by_one_lane_fails(quality: ModuleType, kept: pk.Dataset) -> None:
    found = quality.beyond(quality.measure(quality.penstock(kept, BATCH, lanes=1), 0, BATCH))
    assert {"label variance", "chi-square", "label drift, sigmas", "next row, sigmas"} < set(found)
    assert {"worst lag, sigmas", "next batch, sigmas"} < set(found)


def test_the_order_of_the_files_fails_every_measure(quality: ModuleType, kept: pk.Dataset) -> None:
    found = quality.measure(quality.penstock(kept, BATCH, shuffle=False), 0, BATCH)
    assert quality.beyond(found) == list(quality.LIMITS)


def test_written_in_order_even_many_lanes_do_not_hide_it(quality: ModuleType, kept: pk.Dataset) -> None:
    found = quality.beyond(quality.measure(quality.penstock(kept, BATCH), 0, BATCH))
    assert "worst lag, sigmas" in found


def test_a_shuffle_that_repeats_itself_fails(quality: ModuleType) -> None:
    def always(seed: int, epoch: int) -> np.ndarray:
        return quality.perfect(ROWS)(0, 0)

    found = quality.measure(always, 0, BATCH)
    assert quality.beyond(found) == ["next epoch, correlation", "next seed, correlation"]
    assert found[quality.TOGETHER] > 100
