"""`ds.tensorflow` under the strategies of `tf.distribute`, at another epoch, and when it is left early."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import strategy_ranks
from left_behind import ended, left_over, threads
from slow_writes import Writing, numbered

import penstock as pk
from penstock.errors import SelectionError
from penstock.feed.frameworks import tensorflow_batches, tensorflow_strategies

ROWS = 400


@pytest.fixture(scope="module")
def ds(tmp_path_factory: pytest.TempPathFactory) -> pk.Dataset:
    table = pa.table(
        {
            "id": np.arange(ROWS),
            "x": np.arange(ROWS, dtype=np.float32) / ROWS,
            "tokens": [list(range(row % 3)) for row in range(ROWS)],
        }
    )
    tensors = {"id": "id", "x": "x", "tokens": pk.ragged("tokens")}
    return pk.write(table, tmp_path_factory.mktemp("tensorflow"), tensors, shards=3, block_bytes=1024)


def ids(batches: Any) -> list[list[int]]:
    return [np.asarray(batch["id"]).tolist() for batch in batches]


@pytest.fixture(scope="module")
def workers(ds: pk.Dataset, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, list[list[int]]]]:
    """What each of two workers got, by how it asked."""
    folder = tmp_path_factory.mktemp("workers")
    pk.launch(strategy_ranks.distributed, ds.path, str(folder), workers=2, timeout=250)
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(2)]


def epochs_of(ds: pk.Dataset, rank: int, size: int, last: str = "drop", epochs: int = 1) -> list[list[int]]:
    loader = ds.numpy(size, seed=3, last=last, rank=rank, world=2)
    return [each for _ in range(epochs) for each in ids(loader)]


@pytest.mark.timeout(300)
def test_workers_of_a_strategy_get_the_batches_that_were_asked_for(ds: pk.Dataset, workers: Any) -> None:
    for rank, found in enumerate(workers):
        expected = epochs_of(ds, rank, 20)
        for way in ("own", "mapped", "global"):
            assert found[way] == expected, way
        assert found["padded"] == epochs_of(ds, rank, 30, "pad")
        assert found["by function"] == epochs_of(ds, rank, 30, "short")
        assert found["some"] == epochs_of(ds, rank, 20, epochs=2)[3:15]
    assert sorted(row for found in workers for batch in found["own"] for row in batch) == list(range(ROWS))


@pytest.mark.timeout(300)
def test_keras_fits_every_row_once_an_epoch_on_two_workers(ds: pk.Dataset, workers: Any) -> None:
    assert [found["fit"] for found in workers] == [epochs_of(ds, rank, 20, epochs=2) for rank in range(2)]


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("way", "epochs"), [("short", 1), ("zipped", 1), ("fit short", 2), ("whole", 1)])
def test_batches_that_a_strategy_cuts_lose_no_row(workers: Any, way: str, epochs: int) -> None:
    """Of unknown sizes, or changed by what knows nothing of ranks; or left to the strategy, all of them on each."""
    rows = [row for found in workers for batch in found[way] for row in batch]
    assert sorted(rows) == sorted(list(range(ROWS)) * epochs)
    assert len(workers[0][way]) == len(workers[1][way])
    assert max(len(batch) for found in workers for batch in found[way]) <= 15


MIRRORED = """
import json, sys
import numpy as np, tensorflow as tf
import penstock as pk

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
ds = pk.open(sys.argv[1])
found = []
for last in ("drop", "short"):
    batches = strategy.experimental_distribute_dataset(ds.tensorflow(30, seed=3, last=last))
    found.append([[ids.numpy().tolist() for ids in batch["id"].values] for batch in batches])
print(json.dumps(found))
"""


def test_replicas_of_one_process_share_its_batches(ds: pk.Dataset) -> None:
    told = subprocess.run(
        [sys.executable, "-c", MIRRORED, ds.path], capture_output=True, text=True, timeout=200, check=False
    )
    assert told.returncode == 0, told.stderr
    for last, found in zip(("drop", "short"), json.loads(told.stdout.splitlines()[-1]), strict=True):
        assert [first + second for first, second in found] == ids(ds.numpy(30, seed=3, last=last))
        assert all(len(first) == len(second) for first, second in found)


def test_a_worker_with_several_replicas_splits_its_own_batch(
    ds: pk.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As TensorFlow asks with two GPUs on each of two workers, of which there are none here."""
    import tensorflow as tf

    monkeypatch.setattr(tensorflow_strategies, "workers", lambda tf: 2)
    found = ds.tensorflow(25, seed=3, rank=1, world=2)
    assert (
        found.options().experimental_distribute.auto_shard_policy == tf.data.experimental.AutoShardPolicy.OFF
    )
    asked = tf.constant([6, 6, 7, 6], tf.int64)
    whole = epochs_of(ds, 1, 25)
    assert ids(found.rebatch(asked)) == [part for batch in whole for part in (batch[:13], batch[13:])]
    assert [len(batch) for batch in ids(found.rebatch(50))] == [50] * 4, "who asks for a size gets that"


def test_what_a_strategy_cuts_has_no_length(ds: pk.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keras would end an epoch after so many pieces of batches."""
    import tensorflow as tf

    found = ds.tensorflow(25, rank=1, world=2)
    unknown = found.map(lambda batch: tf.py_function(lambda x: x, [batch["id"]], tf.int64))
    scalar = found.map(lambda batch: batch["id"][0])
    short, other = ds.tensorflow(25, rank=1, world=2, last="short"), ds.tensorflow(25, rank=1, world=4)
    assert [len(each) for each in (found, unknown, scalar, short, other)] == [8, 8, 8, 8, 4]
    monkeypatch.setattr(tensorflow_strategies, "workers", lambda tf: 2)
    assert len(found) == 8
    assert [int(each.cardinality()) for each in (unknown, scalar, short, other)] == [-2] * 4


def test_a_worker_that_does_not_know_its_rank_is_told_what_to_pass(
    ds: pk.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where another resolver than TF_CONFIG's tells a strategy of its workers."""
    monkeypatch.setattr(tensorflow_batches, "workers", lambda tf: 2)
    with pytest.raises(SelectionError, match=r"2 workers, .*rank=strategy.cluster_resolver.task_id, world=2"):
        ds.tensorflow(20)
    assert len(ds.tensorflow(20, rank=1, world=2)) == 10
    assert len(ds.tensorflow(20, rank=0, world=1)) == 20


def test_lengths_after_transformations(ds: pk.Dataset) -> None:
    found = ds.tensorflow(20, seed=3)
    assert [len(each) for each in (found.take(3), found.skip(3), found.repeat(2), found.shuffle(4))] == [
        3,
        17,
        40,
        20,
    ]
    assert int(found.repeat().cardinality()) == -1
    assert len(found.take(3).map(lambda batch: batch["id"]).prefetch(1)) == 3
    assert [len(each) for each in (ids(found.take(3)), ids(found.skip(3)))] == [3, 17]


def test_it_begins_at_any_epoch(ds: pk.Dataset) -> None:
    loader = ds.numpy(32, seed=3)
    orders = [ids(loader) for _ in range(4)]
    found = ds.tensorflow(32, seed=3, epoch=2)
    assert [ids(found), ids(found)] == orders[2:]
    assert len({str(order) for order in orders}) == 4


@pytest.mark.parametrize("epoch", [-1, 1.0, "1", True, None])
def test_an_epoch_is_a_number(ds: pk.Dataset, epoch: Any) -> None:
    with pytest.raises(SelectionError, match=r"epoch=.*: a whole number of at least 0"):
        ds.tensorflow(32, epoch=epoch)


def left_in_the_middle(batches: Any) -> None:
    for _ in batches:
        break


def thrown_away(batches: Any) -> None:
    iterator = iter(batches)
    next(iterator)
    del iterator


def some_taken(batches: Any) -> None:
    assert len(list(batches.take(3))) == 3


def failing(batches: Any) -> None:
    def fail(_: Any) -> Any:
        raise OSError("in the middle")

    import tensorflow as tf

    mapped = batches.map(lambda batch: tf.py_function(fail, [batch["id"]], tf.int64))
    with pytest.raises(tf.errors.OpError, match="in the middle"):
        next(iter(mapped))


def raised_in_its_body(batches: Any) -> None:
    def train() -> None:
        for _ in batches.prefetch(2):
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        train()


def interrupted_fit(batches: Any) -> None:
    import keras

    def interrupt(batch: int, logs: dict[str, float]) -> None:
        raise KeyboardInterrupt

    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    pairs = batches.map(lambda batch: (batch["x"][:, None], batch["x"]))
    with pytest.raises(KeyboardInterrupt):
        model.fit(
            pairs,
            verbose=0,
            shuffle=False,
            callbacks=[keras.callbacks.LambdaCallback(on_train_batch_end=interrupt)],
        )


ENDINGS = [left_in_the_middle, thrown_away, some_taken, failing, raised_in_its_body, interrupted_fit]


@pytest.mark.parametrize("ending", ENDINGS, ids=lambda each: each.__name__)
def test_an_iteration_that_does_not_come_to_its_end_leaves_nothing(
    ds: pk.Dataset, ending: Callable[[Any], None]
) -> None:
    batches = ds.tensorflow(2, seed=3)
    ending(batches)
    if ending is interrupted_fit:
        gc.collect()  # Keras holds its iterator in a cycle
    assert ended(), threads()
    assert left_over(ds) == []
    assert len(list(batches)) == ROWS // 2


def test_a_shard_that_is_gone_is_an_error_that_names_it(ds: pk.Dataset, tmp_path: Path) -> None:
    import tensorflow as tf

    lost = pk.write(pa.table({"id": np.arange(ROWS)}), tmp_path / "lost", shards=2)
    batches = lost.tensorflow(20)
    Path(lost.path, lost.shards[1].file).unlink()
    with pytest.raises(tf.errors.OpError, match=lost.shards[1].file):
        list(batches)
    assert ended(), threads()
    assert left_over(lost) == []


def test_a_write_that_is_followed_begins_at_any_epoch_too(tmp_path: Path) -> None:
    """Its first epoch as it lands; any other when it has ended, since before there is no order of all rows."""
    writing = Writing(tmp_path / "ds", numbered(3))
    following = pk.open(tmp_path / "ds", follow=True)
    first, second = (following.tensorflow(50, seed=3, tensors="id", epoch=epoch) for epoch in (0, 1))
    later = ids(second)
    written = writing.join().numpy(50, seed=3, tensors="id")
    orders = [ids(written) for _ in range(3)]
    assert later == orders[1]
    assert ids(second) == orders[2]
    assert len(ids(first)) == len(orders[0])
    assert ids(first) == orders[1]
