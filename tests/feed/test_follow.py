"""Training on a dataset while it is written: every row once, equal steps, and any end of the write is told."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from left_behind import ended, threads
from slow_writes import TENSORS, Writing, numbered, total, wait_for

import penstock as pk
from penstock.dataset import follow_log, local
from penstock.errors import DatasetError, FollowError, ManifestError, SelectionError, StillWriting
from penstock.feed.follow import joining
from penstock.feed.reading.source import RowSource

PARTS = 6


@pytest.fixture(autouse=True)
def parts_of_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "FOLLOWED_BYTES", 1)
    # Who opens a write under way waits for a beat of its heart; a heart may have no processor for a while.
    monkeypatch.setattr(follow_log, "BEAT_SECONDS", 0.2)
    monkeypatch.setattr(follow_log, "LOST_BEATS", 600)


def ids(batches: Iterator[dict[str, Any]]) -> list[list[int]]:
    """Per step, the ids; the words beside them must be theirs."""
    found = []
    for batch in batches:
        numbers = np.asarray(batch["id"]).tolist()
        lengths = np.diff(np.asarray(batch["words"].offsets)).tolist()
        assert lengths == [number % 3 for number in numbers]
        assert np.asarray(batch["words"].values).tolist() == [n for n in numbers for _ in range(n % 3)]
        found.append(numbers)
    return found


def flat(ranks: list[list[list[int]]]) -> list[int]:
    return sorted(number for steps in ranks for step in steps for number in step)


@pytest.mark.parametrize("world", [1, 2, 3])
@pytest.mark.parametrize("shuffle", [True, False])
def test_ranks_see_every_row_once_in_equal_steps(tmp_path: Path, world: int, shuffle: bool) -> None:
    begun = threading.Event()

    def gate(part: int) -> None:
        # The fifth part is written only after every rank has had a batch: they cannot have waited for the end.
        assert part < 4 or begun.wait(100)

    writing = Writing(tmp_path / "ds", numbered(PARTS, gate))
    had = threading.Barrier(world, begun.set)

    def rank(number: int) -> tuple[list[list[int]], Any]:
        loader = pk.open(tmp_path / "ds", follow=True, timeout=120).numpy(
            32, rank=number, world=world, shuffle=shuffle, last="short", lanes=4
        )
        batches = iter(loader)
        first = next(batches)
        assert not writing.ended
        had.wait(100)
        return ids(iter([first, *batches])), loader

    with ThreadPoolExecutor(world) as pool:
        ranks = list(pool.map(rank, range(world)))
    writing.join()
    assert flat([seen for seen, _ in ranks]) == list(range(total(PARTS)))
    assert len({len(seen) for seen, _ in ranks}) == 1
    assert all(len(step) == 32 for seen, _ in ranks for step in seen[:-1])
    in_order = [number for step in ranks[0][0] for number in step]
    assert in_order != sorted(in_order)
    # The second epoch is any dataset's.
    for number, (_, loader) in enumerate(ranks):
        plain = pk.open(tmp_path / "ds").numpy(
            32, rank=number, world=world, shuffle=shuffle, last="short", lanes=4
        )
        plain.set_epoch(1)
        assert len(loader) == len(plain)
        assert ids(loader) == ids(plain)
        assert loader.state_dict() == plain.state_dict()


def test_batches_span_parts_and_parts_come_in_the_order_of_the_log(tmp_path: Path) -> None:
    ds = Writing(tmp_path / "ds", numbered(PARTS), shuffle=False).join()
    steps = ids(pk.open(tmp_path / "ds", follow=True).numpy(150, last="short"))
    rows = [number for step in steps for number in step]
    assert rows != sorted(rows)
    first = 0
    for shard in ds.shards:
        assert sorted(rows[first : first + shard.rows]) == list(range(first, first + shard.rows))
        first += shard.rows


def test_who_comes_late_has_the_same_batches_even_without_the_log(tmp_path: Path) -> None:
    writing = Writing(tmp_path / "ds", numbered(PARTS))
    live = ids(pk.open(tmp_path / "ds", follow=True).numpy(32, seed=3))
    writing.join()
    assert ids(pk.open(tmp_path / "ds", follow=True).numpy(32, seed=3)) == live
    assert pk.open(tmp_path / "ds", follow=True).vacuum(older_than=0)
    assert not list((tmp_path / "ds" / "_penstock").glob("follow-*/*.json"))
    late = pk.open(tmp_path / "ds", follow=True)
    assert ids(late.numpy(32, seed=3)) == live
    assert ids(late.numpy(32, seed=4)) != live
    assert late.rows == total(PARTS)


@pytest.mark.parametrize(("before", "after"), [(2, 3), (3, 1), (1, 2)])
def test_resumed_in_the_followed_epoch_on_another_world(tmp_path: Path, before: int, after: int) -> None:
    resumed = threading.Event()
    writing = Writing(
        tmp_path / "ds", numbered(PARTS, lambda part: assert_true(part < 3 or resumed.wait(60)))
    )
    ranks, states = [], []
    for number in range(before):
        loader = pk.open(tmp_path / "ds", follow=True).numpy(24, rank=number, world=before, last="short")
        batches = iter(loader)
        ranks.append(ids(iter([next(batches) for _ in range(5)])))
        states.append(loader.state_dict())
        batches.close()
    assert states == [states[0]] * before
    assert states[0]["epoch"] == 0
    assert states[0]["t"] == 5 * 24 * before
    resumed.set()
    for number in range(after):
        loader = pk.open(tmp_path / "ds", follow=True).numpy(40, rank=number, world=after, last="short")
        loader.load_state_dict(states[0])
        ranks.append(ids(loader))
    assert flat(ranks) == list(range(total(PARTS)))
    writing.join()
    with pytest.raises(DatasetError, match=r"another fingerprint.*follow=True"):
        pk.open(tmp_path / "ds").numpy(40).load_state_dict(states[0])
    end = loader.state_dict()
    assert end["epoch"] == 1
    for opened in (pk.open(tmp_path / "ds"), pk.open(tmp_path / "ds", follow=True)):
        again = opened.numpy(40, rank=after - 1, world=after, last="short")
        again.load_state_dict(end)
        assert again.state_dict() == end


def assert_true(found: bool) -> None:
    assert found


def test_the_state_of_the_last_step_goes_on_to_the_next_epoch(tmp_path: Path) -> None:
    Writing(tmp_path / "ds", numbered(2)).join()
    loader = pk.open(tmp_path / "ds", follow=True).numpy(100)
    steps = []
    for batch in loader:
        steps.append((len(batch["id"]), loader.state_dict()))
    assert len(steps) == total(2) // 100
    loader.load_state_dict(steps[-1][1])
    assert list(loader) == []
    assert len(list(loader)) == len(loader) == len(steps)


def test_lengths_are_not_known_before_the_end(tmp_path: Path) -> None:
    go = threading.Event()
    writing = Writing(tmp_path / "ds", numbered(2, lambda part: assert_true(part < 1 or go.wait(60))))
    ds = pk.open(tmp_path / "ds", follow=True)
    assert [str(spec) for spec in ds.tensors.values()] == ["id: int64", "words: int32[*]"]
    loader = ds.numpy(50)
    for ask in (lambda: len(loader), lambda: len(ds), lambda: ds.fingerprint, lambda: ds.read()):
        with pytest.raises(StillWriting, match="still being written, and only the end of the write tells"):
            ask()
    assert "still being written" in repr(ds)
    go.set()
    assert len(list(loader)) == total(2) // 50
    assert "the write bounds" in loader.verdict() or loader.stats.writer_waited < loader.stats.waited
    writing.join()
    assert len(ds) == total(2)
    assert len(loader) == total(2) // 50


def test_the_first_epoch_has_no_length_after_the_write_either(tmp_path: Path) -> None:
    Writing(tmp_path / "ds", numbered(2)).join()
    loader = pk.open(tmp_path / "ds", follow=True).numpy(50)
    said = "is written, but its first epoch still follows the write, part by part, and only its end tells how many"
    with pytest.raises(StillWriting, match=said):
        len(loader)
    for _ in loader:
        with pytest.raises(StillWriting, match=said):
            len(loader)
    assert len(loader) == total(2) // 50
    for _ in loader:
        assert len(loader) == total(2) // 50


@pytest.mark.parametrize("storage", ["arrow", "parquet"])
def test_torch_padded_and_transformed(tmp_path: Path, storage: str) -> None:
    torch = pytest.importorskip("torch")
    writing = Writing(tmp_path / "ds", numbered(3), format=storage, compression="zstd")
    loader = pk.open(tmp_path / "ds", follow=True).torch(
        64, last="pad", pad={"words": 2}, transform=lambda batch: {**batch, "twice": batch["id"] * 2}
    )
    found = list(loader)
    writing.join()
    assert all(batch["words"].shape == (64, 2) for batch in found)
    valid = torch.cat([batch["valid"] for batch in found])
    rows = torch.cat([batch["id"] for batch in found])[valid]
    assert torch.equal(torch.cat([batch["twice"] for batch in found])[valid], rows * 2)
    lengths = torch.cat([batch["words_length"] for batch in found])[valid]
    assert torch.equal(lengths.long(), rows % 3)
    assert sorted(rows.tolist()) == list(range(total(3)))


@pytest.mark.parametrize("framework", ["tensorflow", "jax"])
def test_other_frameworks(tmp_path: Path, framework: str) -> None:
    pytest.importorskip(framework)
    writing = Writing(tmp_path / "ds", numbered(3), tensors={"id": "id"}, dtype="int32")
    ds = pk.open(tmp_path / "ds", follow=True)
    batches = getattr(ds, framework)(50, last="short")
    for _ in range(2):
        found = np.concatenate([np.asarray(batch["id"]) for batch in batches])
        assert sorted(found.tolist()) == list(range(total(3)))
    writing.join()


def test_object_stores_are_followed_too() -> None:
    path = "memory://followed/train"
    writing = Writing(path, numbered(3))
    loader = pk.open(path, follow=True, timeout=120).numpy(32, last="short")
    for _ in range(2):
        assert flat([ids(loader)]) == list(range(total(3)))
    writing.join()


def test_who_leaves_the_first_epoch_waits_for_the_second(tmp_path: Path) -> None:
    go = threading.Event()
    writing = Writing(tmp_path / "ds", numbered(3, lambda part: assert_true(part < 1 or go.wait(60))))
    loader = pk.open(tmp_path / "ds", follow=True).numpy(32, last="short")
    for _ in loader:
        break
    threading.Timer(0.3, go.set).start()
    assert flat([ids(loader)]) == list(range(total(3)))
    writing.join()


@pytest.mark.timeout(120)
def test_leaving_while_reads_wait_for_their_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Writing(tmp_path / "ds", numbered(PARTS)).join()
    read = RowSource.read

    def slowly(*arguments: Any) -> Any:
        time.sleep(0.05)
        return read(*arguments)

    monkeypatch.setattr(RowSource, "read", slowly)
    batches = iter(pk.open(tmp_path / "ds", follow=True).numpy(8))
    next(batches)
    batches.close()
    assert ended(), threads()


def test_a_failed_write_reaches_the_trainer_with_its_reason(tmp_path: Path) -> None:
    seen = threading.Event()

    def gate(part: int) -> None:
        if part == 3:
            assert seen.wait(60)
            raise ValueError("the sensor was unplugged")

    writing = Writing(tmp_path / "ds", numbered(PARTS, gate))
    loader = pk.open(tmp_path / "ds", follow=True, timeout=120).numpy(32)
    batches = iter(loader)
    next(batches)
    seen.set()
    with pytest.raises(
        FollowError, match=r"its write failed: ValueError: the sensor was unplugged\. Nothing was comm"
    ):
        list(batches)
    with pytest.raises(ValueError, match="unplugged"):
        writing.join()
    assert not list((tmp_path / "ds" / "shards").iterdir())
    # Who comes later waits for another write, and is told of the last one if there is none.
    with pytest.raises(
        FollowError, match=r"no write has begun there for 0\.3 s; the last one failed: ValueError"
    ):
        pk.open(tmp_path / "ds", follow=True, timeout=0.3)
    again = Writing(tmp_path / "ds", numbered(2))
    assert len(ids(pk.open(tmp_path / "ds", follow=True).numpy(32))) == total(2) // 32
    again.join()


def test_a_killed_writer_is_noticed_by_its_heart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = Path(__file__).parent / "slow_writes.py"
    with subprocess.Popen([sys.executable, str(script), str(tmp_path / "ds")]) as writer:
        try:
            loader = pk.open(tmp_path / "ds", follow=True, timeout=60).numpy(32, last="short")
            batches, rows = iter(loader), []
            for _ in range(10):
                rows += next(batches)["id"].tolist()
            wait_for(lambda: len(list((tmp_path / "ds" / "_penstock").glob("follow-*/0*.json"))) == 5)
        finally:
            writer.send_signal(signal.SIGKILL)
    monkeypatch.setattr(follow_log, "LOST_BEATS", 5)
    with pytest.raises(FollowError, match=r"ended without a word: its heartbeat stopped \d+ s ago"):
        rows.extend(number for batch in batches for number in batch["id"].tolist())
    # All that was whole was trained on, once; the step that the log does not cover was not begun.
    assert len(rows) == len(set(rows)) == total(5) // 32 * 32
    assert set(rows) <= set(range(total(5)))
    # What is left of it is nobody's dataset.
    with pytest.raises(FollowError, match="no write has begun"):
        pk.open(tmp_path / "ds", follow=True, timeout=2)


def test_a_writer_killed_after_the_commit_has_ended_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Writing(tmp_path / "ds", numbered(2)).join()
    [end] = (tmp_path / "ds" / "_penstock").glob("follow-*/end.json")
    end.unlink()
    sign = tmp_path / "ds" / "_penstock" / f"writing-{end.parent.name.removeprefix('follow-')}"
    sign.touch()
    monkeypatch.setattr(follow_log, "LOST_BEATS", 1)
    assert len(ids(pk.open(tmp_path / "ds", follow=True).numpy(32))) == total(2) // 32


def test_a_stalled_writer_is_warned_of_and_then_an_error(tmp_path: Path) -> None:
    go = threading.Event()
    writing = Writing(tmp_path / "ds", numbered(2, lambda part: assert_true(part < 1 or go.wait(60))))
    ds = pk.open(tmp_path / "ds", follow=True)
    batches = iter(ds.numpy(150))
    next(batches)
    ds._following.timeout = 1.2
    with (
        pytest.warns(UserWarning, match=r"no part has landed for [01] s, after 1 parts of 200 rows") as told,
        pytest.raises(
            FollowError, match=r"no part has landed for 1\.2 s, after 1 parts of 200 rows, though the wri"
        ),
    ):
        next(batches)
    assert len(told) == 1
    go.set()
    writing.join()


def test_opening_waits_for_the_write(tmp_path: Path) -> None:
    with pytest.raises(FollowError, match=r"no write has begun there for 0\.2 s\. Start pk\.write"):
        pk.open(tmp_path / "ds", follow=True, timeout=0.2)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(lambda: ids(pk.open(tmp_path / "ds", follow=True, timeout=120).numpy(32)))
        Writing(tmp_path / "ds", numbered(2)).join()
        assert len(waiting.result(150)) == total(2) // 32


def test_waiting_for_a_write_is_told_of_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joining, "TOLD_SECONDS", 0.1)
    monkeypatch.setattr(joining, "POLL_SECONDS", 0.02)

    def fail(part: int) -> None:
        raise ValueError("the sensor was unplugged")

    for reason in ("", "; the last one failed: ValueError: the sensor was unplugged"):
        with (
            pytest.warns(
                UserWarning, match=rf"waits for pk.write.*no write has begun there for \d s{reason}"
            ) as told,
            pytest.raises(FollowError, match="no write has begun there"),
        ):
            pk.open(tmp_path / "ds", follow=True, timeout=2)
        assert [Path(each.filename) for each in told] == [Path(__file__)]
        with pytest.raises(ValueError, match="unplugged"):
            Writing(tmp_path / "ds", numbered(1, fail)).join()


def test_plain_files_are_not_waited_for(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1, 2]}), tmp_path / "rows.parquet")
    with pytest.raises(
        FollowError, match=r"holds files that are no Penstock dataset \('rows\.parquet'\)"
    ) as refused:
        pk.open(tmp_path, follow=True)
    assert "without follow=True" in str(refused.value)


def test_an_ordinary_version_is_opened_as_it_is(tmp_path: Path) -> None:
    ds = pk.write(numbered(2), tmp_path / "ds", TENSORS)
    assert not list((tmp_path / "ds" / "_penstock").glob("follow-*"))
    assert "follow" not in ds.options
    loader = pk.open(tmp_path / "ds", follow=True).numpy(32)
    assert ids(loader) == ids(ds.numpy(32))


def test_a_dataset_without_rows_has_an_empty_epoch(tmp_path: Path) -> None:
    Writing(tmp_path / "ds", numbered(0), tensors={"id": "id"}).join()
    loader = pk.open(tmp_path / "ds", follow=True).numpy(32)
    assert list(loader) == []
    assert loader.state_dict()["epoch"] == 1


def test_a_log_that_cannot_be_believed_is_refused(tmp_path: Path) -> None:
    go = threading.Event()
    writing = Writing(tmp_path / "ds", numbered(3, lambda part: assert_true(part < 2 or go.wait(60))))
    folder = tmp_path / "ds" / "_penstock"
    wait_for(lambda: len(list(folder.glob("follow-*/0*.json"))) == 2)
    [first] = folder.glob("follow-*/000001.json")
    good = first.read_text()
    first.write_text(good.replace('"rows": 200', '"rows": 201', 1))
    with pytest.raises(ManifestError, match=r"000001\.json cannot be used: it says rows 201"):
        pk.open(tmp_path / "ds", follow=True).numpy(32)
    first.write_text((first.parent / "000002.json").read_text())
    with pytest.raises(ManifestError, match="it says that it is part 2"):
        pk.open(tmp_path / "ds", follow=True).numpy(32)
    first.write_text(good)
    go.set()
    writing.join()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"mode": "append"}, "a version of its own"),
        ({"mode": "reuse"}, "a version of its own"),
        ({"workers": 2}, "workers and shards cannot be chosen"),
        ({"shards": 2}, "workers and shards cannot be chosen"),
    ],
)
def test_what_cannot_be_followed_is_refused(tmp_path: Path, options: dict[str, Any], told: str) -> None:
    with pytest.raises(SelectionError, match=told):
        pk.write(numbered(1), tmp_path / "ds", TENSORS, follow=True, **options)


def test_a_new_version_is_followed_while_the_old_one_stands(tmp_path: Path) -> None:
    Writing(tmp_path / "ds", numbered(2)).join()
    go = threading.Event()
    rows = numbered(4, lambda part: assert_true(part < 2 or go.wait(60)), uneven=0)
    writing = Writing(tmp_path / "ds", rows, mode="overwrite")
    wait_for(lambda: len(list((tmp_path / "ds" / "_penstock").glob("follow-*/begin.json"))) == 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loader = pk.open(tmp_path / "ds", follow=True).numpy(100)
        batches = iter(loader)
        next(batches)
        go.set()
        assert len(list(batches)) + 1 == 4 * 200 // 100
    assert writing.join().version == 2
