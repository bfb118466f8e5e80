"""`pk.size` and `penstock size`: the arithmetic, where answers flip, what is shown, and the loader's own memory."""

from __future__ import annotations

import io
import json
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.console import Console
from typer.testing import CliRunner

import penstock as pk
from penstock.cli import app
from penstock.dtypes import TensorSpec
from penstock.errors import MissingDependency, SizeError
from penstock.feed.places import CudaPlace, HostPlace
from penstock.feed.shaping import Shaping
from penstock.tools.size import Sizing, size
from penstock.tools.size_forms import LOADER_NARROW, LOADER_WIDE, MEASURED
from penstock.tools.size_measure import LEAST_BYTES
from penstock.tools.size_memory import device_costs, host_costs, loader_memory, planned_blocks, shard_blocks
from penstock.tools.size_pages import about_workers, course_sentence
from penstock.tools.size_plan import COMPUTE, STORAGE, Course, Epoch
from penstock.tools.size_tensors import parse_tensor, parse_tensors

TWO_BILLION = {"rows": 2e9, "tensors": {"x": ("float32", 256)}, "workers": 16}


def test_two_billion_records_on_sixteen_workers() -> None:
    found = size(**TWO_BILLION, bandwidth="2 GB/s", compute="3 min")
    assert found.epoch.stored == 2_048_000_000_000
    assert (found.shards, found.shard_bytes, found.epoch.worker_bytes) == (16, 128 * 10**9, 128 * 10**9)
    assert found.epoch.read_seconds == 64.0
    assert (found.epoch.bound, found.epoch.flip_workers) == (COMPUTE, 6)
    assert found.epoch.flip_bandwidth == pytest.approx(128e9 / 180)
    text = str(found)
    for said in ("2.048 TB", "128 GB", "64 s", "180 s", "711.1 MB/s", "5 workers or fewer"):
        assert said in text
    assert found.verdict == (
        "Computing bounds the epoch: a worker reads its 128 GB (2.048 TB / 16 workers) in 64 s at 2 GB/s, and "
        "computing takes 180 s; storage would bound below 711.1 MB/s a worker, or with 5 workers or fewer."
    )


def test_a_step_is_measured_where_a_function_takes_one() -> None:
    calls: list[int] = []

    def step() -> None:
        calls.append(1)
        time.sleep(0.005)

    found = size(rows=1000, tensors="x:float32", step=step, batch_size=100)
    assert found.step is not None
    assert found.step >= 0.005
    assert found.epoch.compute == pytest.approx(10 * found.step)
    assert len(calls) > 5

    def broken() -> None:
        raise RuntimeError("out of memory")

    with pytest.raises(
        SizeError, match=r"cannot be timed: it raised RuntimeError: out of memory\. Pass a function"
    ):
        size(rows=1000, tensors="x:float32", step=broken)


def test_at_a_tenth_of_the_bandwidth_storage_bounds() -> None:
    found = size(**TWO_BILLION, bandwidth="0.2 GB/s", compute="3 min")
    assert found.epoch.read_seconds == 640.0
    assert (found.epoch.bound, found.epoch.flip_workers) == (STORAGE, 57)
    assert found.verdict == (
        "Storage bounds the epoch: a worker reads its 128 GB (2.048 TB / 16 workers) in 640 s at 200 MB/s, and "
        "computing takes 180 s, so that it waits 72% of the time; it would keep up from 711.1 MB/s a worker, or from "
        "57 workers on."
    )


def test_storage_that_outruns_two_cores_is_told() -> None:
    found = size(**TWO_BILLION, bandwidth="20 GB/s", compute="10 s")
    assert found.making_seconds == 128e9 / LOADER_WIDE
    assert (found.wants_cores, found.epoch.bound) == (True, COMPUTE)
    assert found.verdict.startswith("Of storage and computing, computing bounds the epoch: ")
    text = " ".join(str(found).split())
    assert "takes 2 cores 13.72 s as measured (9.33 GB/s, docs/results.md): a worker needs more cores" in text
    assert "compute, if a worker has cores enough" in text
    assert found.to_dict()["wants_more_than_2_cores"] is True
    usual = size(**TWO_BILLION, bandwidth="2 GB/s", compute="3 min")
    assert not usual.wants_cores
    assert "But batches" not in str(usual)
    assert not size(**TWO_BILLION, bandwidth="20 GB/s").wants_cores, (
        "without computing nothing is said to bound"
    )


def test_making_batches_is_of_what_is_stored(tmp_path: Path) -> None:
    plain, parquet, packed = (
        size(dataset=make(tmp_path / name, 1000, **options), bandwidth="90 GB/s", compute="1 us")
        for name, options in (("a", {}), ("p", {"format": "parquet"}), ("z", {"compression": "zstd"}))
    )
    assert plain.making_seconds == plain.epoch.worker_bytes / LOADER_NARROW
    assert parquet.making_seconds == parquet.forms[1].decode_seconds
    assert (packed.making_seconds, packed.wants_cores) == (None, False)


def test_what_is_not_known_is_not_told() -> None:
    neither = size(**TWO_BILLION)
    assert (neither.epoch.read_seconds, neither.epoch.bound, neither.epoch.flip_bandwidth) == (
        None,
        None,
        None,
    )
    assert neither.verdict == "A worker reads 128 GB an epoch (2.048 TB / 16 workers)."
    read = size(**TWO_BILLION, bandwidth=2e9)
    assert (read.epoch.read_seconds, read.epoch.bound, read.epoch.flip_bandwidth) == (64.0, None, None)
    assert "if an epoch computes longer than that, computing bounds, and if less, it waits" in read.verdict
    compute = size(**TWO_BILLION, compute=64)
    assert (compute.epoch.flip_bandwidth, compute.epoch.bound) == (2e9, None)
    assert "from 2 GB/s a worker on" in compute.verdict


def test_steps_are_shared_out_so_no_number_of_workers_flips() -> None:
    found = size(**TWO_BILLION, bandwidth="2 GB/s", step="12 ms", batch_size=8192)
    assert found.epoch.compute == pytest.approx(0.012 * 15259)
    assert found.epoch.flip_workers is None
    assert "no number of workers changes the answer" in (about_workers(found.epoch) or "")
    twice = size(**{**TWO_BILLION, "workers": 32}, bandwidth="2 GB/s", step="12 ms")
    assert twice.epoch.compute == pytest.approx(found.epoch.compute / 2, rel=1e-3)
    assert twice.epoch.bound == found.epoch.bound


@given(
    rows=st.integers(1, 3000),
    row_bytes=st.integers(1, 64),
    bandwidth=st.integers(1, 4096).map(float),
    step=st.integers(1, 64).map(lambda n: n / 64),
    batch=st.integers(1, 64),
)
@example(rows=1000, row_bytes=1, bandwidth=8.0, step=1.0, batch=16)
def test_steps_that_are_not_full_flip_the_answer_where_told(
    rows: int, row_bytes: int, bandwidth: float, step: float, batch: int
) -> None:
    def epoch(workers: int) -> Epoch:
        found = size(
            rows=rows,
            tensors={"x": ("uint8", row_bytes)},
            workers=workers,
            bandwidth=bandwidth,
            step=step,
            batch_size=batch,
        ).epoch
        # Without what is rounded in bytes: the question is about steps.
        return Epoch(rows, rows * row_bytes, workers, bandwidth, found.compute, step, batch)

    least = epoch(1).flip_workers
    said = about_workers(epoch(1)) or ""
    if least is None:
        assert "no number of workers changes the answer" in said
        # Storage bounds for each, or computing does, down to a single row for each worker.
        assert len({epoch(workers).bound for workers in {1, 2, 3, -(-rows // batch), rows}}) == 1
        return
    assert "hardly change the answer" in said
    assert epoch(least).bound == epoch(rows).bound == COMPUTE
    if least > 1 and -(-rows // (least - 1)) <= batch:
        assert epoch(least - 1).bound == STORAGE


epochs = st.builds(
    Epoch,
    rows=st.integers(1, 10**13),
    stored=st.integers(1, 10**17),
    workers=st.integers(1, 10**5),
    bandwidth=st.floats(1, 1e12),
    compute=st.floats(1e-6, 1e9),
)


@given(epochs)
def test_the_answer_flips_at_the_bandwidth_told(epoch: Epoch) -> None:
    at = epoch.flip_bandwidth
    assert at is not None
    assert Epoch(epoch.rows, epoch.stored, epoch.workers, at * (1 - 1e-12), epoch.compute).bound == STORAGE
    assert Epoch(epoch.rows, epoch.stored, epoch.workers, at * (1 + 1e-12), epoch.compute).bound == COMPUTE


whole_rows = st.builds(
    lambda rows, row_bytes, bandwidth, compute: Epoch(rows, rows * row_bytes, 1, bandwidth, compute),
    st.integers(1, 10**12),
    st.integers(1, 10**5),
    st.floats(1, 1e12),
    st.floats(1e-6, 1e9),
)


@given(whole_rows)
def test_the_answer_flips_at_the_number_of_workers_told(epoch: Epoch) -> None:
    def bound(workers: int) -> str | None:
        return Epoch(epoch.rows, epoch.stored, workers, epoch.bandwidth, epoch.compute).bound

    least = epoch.flip_workers
    if least is None:
        # Not even a row for each worker is read in time.
        assert bound(epoch.rows) == STORAGE
        return
    assert bound(least) == COMPUTE
    assert least == 1 or bound(least - 1) == STORAGE


@given(epochs)
def test_shares_cover_all_and_the_longer_side_is_the_epoch(epoch: Epoch) -> None:
    assert epoch.worker_rows * epoch.workers >= epoch.rows
    assert (epoch.worker_rows - 1) * epoch.workers < epoch.rows
    assert epoch.worker_bytes * epoch.workers >= epoch.stored
    assert epoch.seconds == max(epoch.read_seconds, epoch.compute)
    if epoch.bound == STORAGE:
        assert epoch.read_seconds >= epoch.compute * (1 - 1e-12)
    else:
        assert epoch.read_seconds <= epoch.compute * (1 + 1e-12)


courses = st.builds(
    Course,
    prep=st.integers(1, 10**6).map(float),
    epoch=st.integers(1, 10**6).map(float),
    compute=st.integers(1, 10**6).map(float),
    epochs=st.integers(1, 1000),
)


@given(courses)
@example(Course(prep=4.0, epoch=2.0, compute=1.0))  # with two epochs it is a tie
def test_overlapping_saves_the_shorter_and_fusing_wins_up_to_the_epochs_told(course: Course) -> None:
    assert course.saved == min(course.prep, course.epoch)
    assert course.sequential / 2 <= course.overlapped < course.sequential
    assert course.longer == ("preparation" if course.prep > course.training else "training")

    def fused_wins(epochs: int) -> bool:
        other = Course(course.prep, course.epoch, course.compute, epochs)
        assert other.fused is not None
        return other.fused < other.sequential

    most = course.fuse_up_to
    if most is None:
        assert all(fused_wins(epochs) for epochs in (1, 2, 10**6))
    else:
        assert most == 0 or fused_wins(most)
        assert not fused_wins(most + 1)
    totals = {"sequential": course.sequential, "overlapped": course.overlapped, "fused": course.fused}
    assert totals[course.quickest] == min(totals.values())


def test_preparing_and_training() -> None:
    found = size(**TWO_BILLION, bandwidth="2 GB/s", compute="3 min", prep="20 min", epochs=10)
    course = found.course
    assert course is not None
    assert (course.sequential, course.overlapped, course.fused) == (3000.0, 2820.0, 12000.0)
    assert (course.longer, course.quickest, course.fuse_up_to) == ("training", "overlapped", 1)
    assert course_sentence(course) == (
        "The training is longer (preparation 20 min, training 30 min); overlapping the first epoch with the "
        "preparation saves 180 s of 50 min, at best, and fusing beats one after the other up to 1 epoch."
    )
    assert "overlapped  quickest" in str(found)
    # With storage that slow, reading what was prepared takes longer than preparing it anew.
    slow = size(**TWO_BILLION, bandwidth="0.02 GB/s", compute="3 min", prep="20 min", epochs=10).course
    assert slow is not None
    assert (slow.quickest, slow.fuse_up_to) == ("fused", None)
    with pytest.raises(SizeError, match="prep is held against training"):
        size(**TWO_BILLION, prep="20 min")


def test_what_other_forms_cost_is_measured_or_told_not_to_be() -> None:
    arrow, parquet, zstd = size(**TWO_BILLION, bandwidth="2 GB/s").forms
    assert (arrow.stored, arrow.read_seconds, arrow.write) == (2_048 * 10**9, 64.0, 1.0)
    assert parquet.decode_seconds == pytest.approx(128e9 / 1.38e9)
    assert zstd.stored == pytest.approx(2.048e12 * 543 / 640, rel=1e-9)
    assert zstd.decode_seconds is None
    text = str(size(**TWO_BILLION, bandwidth="2 GB/s"))
    assert "not measured" in text
    assert "docs/results.md" in text
    narrow = size(rows=10**6, tensors=["x:float32:40"]).forms[1]
    assert narrow.decoded == 0.64e9


def test_the_measured_ratios_stand_in_the_results() -> None:
    text = (Path(__file__).resolve().parents[1] / "docs" / "results.md").read_text("utf-8")

    def row(*words: str) -> list[str]:
        (found,) = [
            line for line in text.splitlines() if line.startswith("|") and all(w in line for w in words)
        ]
        return [cell.strip() for cell in found.strip("|").split("|")]

    plain, parquet, zstd = (
        row(f"| pk.write(shuffle=False{more}) |")
        for more in ("", ", format='parquet'", ", compression='zstd'")
    )
    arrow, by_parquet, by_zstd = MEASURED
    for form, cells in ((arrow, plain), (by_parquet, parquet), (by_zstd, zstd)):
        assert form.bytes == int(cells[4]) / int(plain[4])
        assert form.write == float(cells[1].split()[0]) / float(plain[1].split()[0])
    for form, name in ((arrow, "by hand: Arrow"), (by_parquet, "by hand: Parquet")):
        assert form.narrow == float(row("| 160 B |", name)[2].split()[0] + "e9")
        assert form.wide == float(row("| 1 KB |", name)[2].split()[0] + "e9")
    assert float(row("| 160 B |", "| ds.numpy, without numba |")[2].split()[0] + "e9") == LOADER_NARROW
    assert float(row("| 1 KB |", "| ds.numpy, without numba |")[2].split()[0] + "e9") == LOADER_WIDE


def make(path: Path, rows: int, **options: object) -> pk.Dataset:
    values = np.random.default_rng(0).random((rows, 40), np.float32)
    table = pa.table({"x": pa.FixedSizeListArray.from_arrays(values.ravel(), 40), "y": np.arange(rows)})
    return pk.write(table, path, **options)


def test_a_dataset_is_as_large_as_its_tensors_say(tmp_path: Path) -> None:
    ds = make(tmp_path / "d", 50_000, workers=4, block_bytes=1 << 18)
    found = size(dataset=ds.path, workers=4, bandwidth="1 GB/s", compute="1 s")
    planned = size(rows=50_000, tensors=["x:float32:40", "y:int64"], workers=4)
    assert (found.epoch.rows, found.row_bytes, found.shards) == (50_000, 168, 4)
    assert found.epoch.stored == ds.bytes
    assert found.shard_bytes == max(shard.bytes for shard in ds.shards)
    assert planned.epoch.stored == 50_000 * 168
    assert ds.bytes == pytest.approx(planned.epoch.stored, rel=0.01)
    assert found.forms[0].own
    assert found.forms[0].stored == ds.bytes
    assert [each.own for each in found.forms] == [True, False, False]
    larger = size(rows=50_000_000, dataset=ds, workers=16)
    assert larger.epoch.stored == ds.bytes * 1000
    assert (larger.shards, larger.epoch.worker_rows) == (16, 3_125_000)


def test_a_dataset_of_another_form_has_a_line_of_its_own(tmp_path: Path) -> None:
    ds = make(tmp_path / "d", 5_000, compression="lz4")
    found = size(dataset=ds, bandwidth="1 GB/s")
    assert [each.name for each in found.forms] == ["Arrow", "Parquet", "Arrow, zstd", "Arrow, lz4"]
    assert found.forms[-1].stored == ds.bytes
    assert found.epoch.read_seconds == ds.bytes / 1e9
    assert "Arrow, lz4" in str(found)


@pytest.mark.parametrize(("workers", "batch"), [(1, 64), (1, 4096), (4, 512), (3, 512), (3, 8)])
def test_the_loader_takes_the_memory_told(tmp_path: Path, workers: int, batch: int) -> None:
    ds = make(tmp_path / "d", 60_000, shards=3, block_bytes=1 << 16)
    loader = ds.numpy(batch, rank=0, world=workers)
    for _ in loader:
        pass
    blocks = shard_blocks(ds.shards, list(ds.tensors.values()), ds.options["block_bytes"])
    threads = loader.settings.threads
    found = loader_memory(blocks, 168, batch, workers, host_threads=threads)
    assert found.host == loader.stats.memory
    asked = size(dataset=ds, workers=workers, batch_size=batch).memory
    assert asked == loader_memory(blocks, 168, batch, workers)


def test_blocks_are_those_of_the_writer(tmp_path: Path) -> None:
    ds = make(tmp_path / "d", 300_000, shards=2)
    specs = list(ds.tensors.values())
    told = shard_blocks(ds.shards, specs, ds.options["block_bytes"])
    assert [len(told), sum(told)] == [sum(shard.blocks for shard in ds.shards), 300_000]
    assert planned_blocks(300_000, 2, specs, 168) == told


def test_costs_are_those_of_the_loaders_places(tmp_path: Path) -> None:
    ds = make(tmp_path / "d", 100)
    specs = tuple(ds.tensors.values())
    shape = Shaping({spec.name: spec.dtype for spec in specs}, {}, False)
    snapshot = ds.snapshot
    assert HostPlace(snapshot, specs, None, shape, dict).costs(4) == host_costs(168)
    assert CudaPlace(snapshot, specs, None, shape, "cuda").costs(8) == device_costs(168, 8)


@pytest.mark.parametrize(("workers", "batch"), [(1, 32), (3, 20), (3, 128), (16, 8), (16, 512)])
def test_a_part_of_a_large_dataset_tells_its_memory(
    workers: int, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks = planned_blocks(40_000_000, 4, [TensorSpec("x", "float32", (256,))], 1024)
    exact = loader_memory(blocks, 1024, batch, workers)
    monkeypatch.setattr("penstock.tools.size_memory.MOST_STEPS", 1 << 10)
    part = loader_memory(blocks, 1024, batch, workers)
    assert part.host == pytest.approx(exact.host, rel=0.4)
    assert part.device == pytest.approx(exact.device, rel=0.4)
    monkeypatch.undo()
    monkeypatch.setattr("penstock.tools.size_memory.MOST_BLOCKS", 1021)
    part = loader_memory(blocks, 1024, batch, workers)
    assert part.host == pytest.approx(exact.host, rel=0.4)
    assert part.device == pytest.approx(exact.device, rel=0.4)


def test_a_huge_dataset_is_answered_at_once() -> None:
    found = size(rows=1e15, tensors=["x:float32"], workers=100_000, batch_size=1, bandwidth=1e9, compute=1)
    assert found.epoch.stored == 4 * 10**15
    assert found.memory.host > 0
    assert size(rows=1, tensors=["x:uint8"], workers=7).epoch.worker_rows == 1


def test_a_fitted_recipe_tells_its_tensors(tmp_path: Path) -> None:
    table = pa.table({"a": [1.0, 2.0, None], "b": [0.5, 1.5, 2.5], "c": ["x", "y", "x"]})
    recipe = pk.Recipe(
        x=pk.stack(pk.col("a").fill("mean"), pk.col("b").log1p(), dtype="float32"), c=pk.col("c").index()
    )
    fitted = recipe.fit(table)
    found = size(rows=2e9, recipe=fitted, workers=16)
    ds = pk.write(table, tmp_path / "d", recipe=fitted)
    assert found.tensors == tuple(map(str, ds.tensors.values()))
    assert found.row_bytes == sum(spec.row_bytes for spec in ds.tensors.values())
    with pytest.raises(SizeError, match=r"recipe\.fit\(df\)"):
        size(rows=10, recipe=recipe)
    with pytest.raises(SizeError, match="Pass rows="):
        size(recipe=fitted)


def test_tensors_in_all_forms() -> None:
    same = [
        parse_tensors({"x": ("float32", (3, 4)), "y": "int64"}),
        parse_tensors({"x": (np.float32, [3, 4]), "y": ("int64", ())}),
        parse_tensors(["x:float32:3x4", "y:int64"]),
        parse_tensors([TensorSpec("x", "float32", (3, 4)), TensorSpec("y", "int64")]),
    ]
    assert len(set(same)) == 1
    assert sum(each.row_bytes for each in same[0]) == 56
    assert parse_tensor("t:int32:~2.5").row_bytes == 18
    assert parse_tensor("t:string:~60").row_bytes == 68
    assert parse_tensor("t:binary:~110 kB").row_bytes == 110_008
    assert size(rows=10, tensors="t:int32:~2.5").epoch.stored == 180


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"tensors": "x"}, "not understood"),
        ({"tensors": "x:float33:4"}, "float33"),
        ({"tensors": "x:float32:-4"}, "shape '-4'"),
        ({"tensors": "x:float32:~many"}, "mean length"),
        ({"tensors": "x:float32:1,024"}, "'x:float32:1,024': the shape .* Axes are parted by x"),
        ({"tensors": "x:float32:3,4"}, "Write 'x:float32:256', 'image:uint8:3x224x224'"),
        (
            {"tensors": "x:string:~abc"},
            "the tensor 'x:string:~abc': behind ~ stands a mean length, such as ~60",
        ),
        ({"tensors": "x:string:~1,5 kB"}, "the tensor 'x:string:~1,5 kB'"),
        ({"tensors": "t:string"}, "mean length of a row in bytes"),
        ({"tensors": []}, "no tensor"),
        ({"tensors": ["x:int8", "x:int16"]}, "given twice"),
        ({"tensors": {"x": TensorSpec("x", "int32", (), "ragged")}}, "Give a mean"),
        ({"tensors": "x:int8:0"}, "takes no bytes"),
        ({}, "none is given"),
        ({"tensors": "x:int8", "dataset": "d"}, "tensors and dataset are given"),
        ({"tensors": "x:int8", "workers": 0}, "workers=0"),
        ({"tensors": "x:int8", "workers": True}, "workers=True"),
        ({"tensors": "x:int8", "epochs": 1.5}, "epochs=1.5"),
        ({"tensors": "x:int8", "compute": 1, "step": 1}, "Pass one of them"),
        ({"tensors": "x:int8", "bandwidth": 1, "measure": "."}, "Pass one of them"),
        ({"tensors": "x:int8", "bandwidth": "2 GB"}, "is a size, not a speed"),
        ({"tensors": "x:int8", "rows": 1.5}, "whole number"),
        ({"tensors": "x:int8", "rows": float("nan")}, "rows=nan"),
    ],
)
def test_what_cannot_be_answered_says_why(asked: dict[str, object], said: str) -> None:
    with pytest.raises(SizeError, match=said):
        size(**{"rows": 100, **asked})  # type: ignore[arg-type]


def test_json_has_every_figure() -> None:
    found = size(**TWO_BILLION, bandwidth="2 GB/s", compute="3 min", prep="20 min")
    told = found.to_dict()
    assert json.loads(found.to_json()) == told
    assert (told["bytes"], told["shard_bytes"], told["read_seconds"]) == (2_048 * 10**9, 128 * 10**9, 64.0)
    assert (told["bound"], told["flip_workers"], told["preparation"]["longer"]) == (
        "compute",
        6,
        "preparation",
    )
    assert told["loader_memory"] == vars(found.memory)
    assert told["verdict"] == found.verdict


def test_it_is_drawn_on_terminals_and_frozen() -> None:
    found = size(**TWO_BILLION, bandwidth="2 GB/s", compute="3 min")
    page = io.StringIO()
    Console(file=page, force_terminal=True, width=120).print(found)
    assert "\x1b[1m" in page.getvalue()
    assert "2.048 TB" in page.getvalue()
    with pytest.raises(AttributeError):
        found.shards = 3  # type: ignore[misc]


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_the_plot_marks_the_crossing(tmp_path: Path, ending: str) -> None:
    pytest.importorskip("matplotlib")
    found = size(**TWO_BILLION, bandwidth="2 GB/s", compute="3 min")
    path = found.plot(tmp_path / f"size.{ending}")
    assert path.stat().st_size > 10_000
    if ending == "svg":
        assert "they cross at 711.1 MB/s" in path.read_text()


def test_plots_that_cannot_be_say_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = size(**TWO_BILLION, bandwidth="2 GB/s")
    with pytest.raises(SizeError, match="ends in none"):
        found.plot(tmp_path / "size.txt")
    assert found.plot(tmp_path / "new" / "folder" / "size.png").exists()
    (tmp_path / "file").touch()
    (tmp_path / "folder.png").mkdir()
    for path in (tmp_path / "file" / "size.png", tmp_path / "folder.png", Path("/proc/size.png")):
        with pytest.raises(SizeError, match=r"cannot be written to '.*\.png': .*Choose another place"):
            found.plot(path)
    with pytest.raises(SizeError, match="nothing to draw"):
        size(**TWO_BILLION).plot(tmp_path / "size.png")
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingDependency, match=r"penstock\[report\]"):
        found.plot(tmp_path / "size.png")


ASKED = ["--rows", "2e9", "--tensor", "x:float32:256", "--workers", "16", "--bandwidth", "2 GB/s"]


def test_the_command_shows_and_tells(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    shown = CliRunner().invoke(app, ["size", *ASKED, "--compute", "3 min", "--plot", str(tmp_path / "p.png")])
    assert shown.exit_code == 0, shown.output
    assert "2.048 TB" in shown.output
    assert (tmp_path / "p.png").exists()
    told = CliRunner().invoke(
        app, ["size", *ASKED, "--step", "12 ms", "--prep", "20 min", "--epochs", "3", "--json"]
    )
    found = json.loads(told.output)
    assert (found["read_seconds"], found["preparation"]["epochs"], found["step_seconds"]) == (64.0, 3, 0.012)


def test_the_command_takes_datasets_recipes_and_measures(tmp_path: Path) -> None:
    ds = make(tmp_path / "d", 1000)
    fitted = pk.Recipe(x=pk.col("y").log1p()).fit(pa.table({"y": [1.0, 2.0]}))
    fitted.save(tmp_path / "recipe")
    told = CliRunner().invoke(app, ["size", "--dataset", ds.path, "--bandwidth", "1 GB/s", "--json"])
    assert json.loads(told.output)["bytes"] == ds.bytes
    told = CliRunner().invoke(app, ["size", "--rows", "100", "--recipe", str(tmp_path / "recipe"), "--json"])
    assert json.loads(told.output)["bytes"] == 800
    small = ds.path + "/" + ds.shards[0].file
    told = CliRunner().invoke(app, ["size", "--dataset", ds.path, "--measure", small])
    assert (told.exit_code, "too little" in told.stderr) == (1, True)
    file = tmp_path / "large"
    file.write_bytes(bytes(LEAST_BYTES))
    told = CliRunner().invoke(app, ["size", "--dataset", ds.path, "--measure", str(file), "--json"])
    found = json.loads(told.output)
    assert found["bandwidth"] == found["measured"]["bandwidth"] > 0
    assert found["preparation"] is None
    told = CliRunner().invoke(app, ["size", "--rows", "2"])
    assert told.exit_code == 1
    assert told.stderr.startswith("SizeError: ")


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (["--rows", "2"], "(--tensor x:float32:256)"),
        (["-t", "x:int8"], "(--rows 2e9)"),
        (["--rows", "2", "-t", "x:int8", "--prep", "1 h"], "(--bandwidth '2 GB/s', --compute '3 min')"),
        (["--rows", "2", "-t", "x:int8", "--compute", "1 s", "--step", "1 s"], "(--compute or --step)"),
        (["--rows", "2", "-t", "x:int8", "--bandwidth", "0"], "Write '2 GB/s', '16 Gbit/s' or 2e9."),
        (
            ["--rows", "2", "-t", "x:int8", "--bandwidth", "2"],
            "has no unit, and would be bytes a second. Write '2 GB/s'",
        ),
        (["--rows", "2", "--recipe", "/missing"], "Name what fitted.save(path) wrote"),
        (["--rows", "2", "--recipe", __file__], "Name what fitted.save(path) wrote"),
    ],
)
def test_errors_of_the_command_name_its_options(asked: list[str], said: str) -> None:
    told = CliRunner().invoke(app, ["size", *asked])
    assert told.exit_code == 1
    assert told.stderr.startswith("SizeError: ")
    assert said in told.stderr


def test_what_a_measured_write_tells_about_preparing(tmp_path: Path) -> None:
    found = size(rows=10**6, tensors="x:float32", compute="1 s", measure=tmp_path)
    assert isinstance(found, Sizing)
    assert found.course is not None
    assert found.measured is not None
    assert found.course.prep == 4 * 10**6 / found.measured.write_bandwidth
    assert found.course.fused is None
    assert "computing the rows comes on top" in str(found)
    assert list(tmp_path.iterdir()) == []
