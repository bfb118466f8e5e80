"""The same batches in every framework, and trainings on them."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
import torch

import penstock as pk
from penstock.errors import DeviceError

ROWS = 300


@pytest.fixture(scope="module")
def ds(tmp_path_factory: pytest.TempPathFactory) -> pk.Dataset:
    random = np.random.default_rng(0)
    x = random.random((ROWS, 4), dtype=np.float32)
    table = pa.table(
        {
            "x": pa.FixedSizeListArray.from_arrays(x.reshape(-1), 4),
            "y": (x.sum(1) > 2).astype(np.float32),
            "half": x[:, 0].astype(np.float16),
            "flag": x[:, 1] > 0.5,
            "tokens": [list(range(row % 3)) for row in range(ROWS)],
        }
    )
    tensors = {"x": "x", "y": "y", "half": "half", "flag": "flag", "tokens": pk.ragged("tokens")}
    dtype = {"half": "bfloat16", "tokens": "int32"}
    return pk.write(table, tmp_path_factory.mktemp("frameworks"), tensors, dtype=dtype, block_bytes=2000)


def test_jax_has_the_same_batches(ds: pk.Dataset) -> None:
    import jax

    names = ["x", "y", "half", "flag"]
    for ours, theirs in zip(
        ds.numpy(32, tensors=names, last="pad"), ds.jax(32, tensors=names, last="pad"), strict=True
    ):
        assert isinstance(theirs["x"], jax.Array)
        assert theirs["half"].dtype == jax.numpy.bfloat16
        for name in ("x", "y", "flag", "valid"):
            assert np.array_equal(ours[name], np.asarray(theirs[name]))
        assert np.array_equal(ours["half"], np.asarray(theirs["half"]).view(np.uint16))


def test_jax_narrows_nothing_in_silence(tmp_path) -> None:
    wide = pk.write(pa.table({"n": [1, 2]}), tmp_path)
    with pytest.raises(DeviceError, match="narrow"):
        wide.jax(1)


def test_tensorflow_has_the_same_batches_and_says_what_they_are(ds: pk.Dataset) -> None:
    import tensorflow as tf

    found = ds.tensorflow(32)
    assert found.element_spec["x"] == tf.TensorSpec((32, 4), tf.float32)
    assert found.element_spec["half"] == tf.TensorSpec((32,), tf.bfloat16)
    assert isinstance(found.element_spec["tokens"], tf.RaggedTensorSpec)
    assert int(found.cardinality()) == ROWS // 32
    for ours, theirs in zip(ds.numpy(32), found, strict=True):
        for name in ("x", "y", "flag"):
            assert np.array_equal(ours[name], theirs[name].numpy())
        assert np.array_equal(ours["tokens"].values, theirs["tokens"].values.numpy())
        assert np.array_equal(ours["tokens"].offsets, theirs["tokens"].row_splits.numpy())


def test_keras_fits_on_it(ds: pk.Dataset) -> None:
    import keras

    model = keras.Sequential([keras.layers.Dense(1, activation="sigmoid")])
    model.compile("adam", "binary_crossentropy")
    pairs = ds.tensorflow(50, tensors=["x", "y"]).map(lambda batch: (batch["x"], batch["y"]))
    history = model.fit(pairs, epochs=3, verbose=0)
    assert len(history.history["loss"]) == 3
    assert history.history["loss"][-1] < history.history["loss"][0]


def second_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = {"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 1}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(cluster))


@pytest.mark.parametrize(
    ("sizes", "rows"), [({"batch_size": 24}, 24), ({"global_batch_size": 48}, None)], ids=["own", "global"]
)
@pytest.mark.parametrize("last", ["drop", "pad"])
def test_tensorflow_finds_its_rank_when_it_is_iterated(
    ds: pk.Dataset, monkeypatch: pytest.MonkeyPatch, sizes: dict[str, int], rows: int | None, last: str
) -> None:
    found = ds.tensorflow(**sizes, last=last, pad=2)
    assert {name: spec.shape[0] for name, spec in found.element_spec.items()} == dict.fromkeys(
        ["x", "y", "half", "flag", "tokens", "tokens_length", *(["valid"] if last == "pad" else [])], rows
    )
    second_of_two(monkeypatch)
    expected = ds.numpy(24, last=last, pad=2, rank=1, world=2)
    for _ in range(2):
        assert int(found.cardinality()) == len(expected) == ROWS // 48 + (last == "pad")
        for ours, theirs in zip(expected, found, strict=True):
            for name in set(ours) - {"half"}:
                assert np.array_equal(ours[name], theirs[name].numpy()), name


def test_tensorflow_knows_the_shape_where_the_ranks_are_told(
    ds: pk.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ds.tensorflow(global_batch_size=48, rank=1, world=2).element_spec["x"].shape[0] == 24
    second_of_two(monkeypatch)
    found = ds.tensorflow(global_batch_size=48)
    assert found.element_spec["x"].shape[0] == 24
    # TensorFlow's own count: it also holds after transformations that know nothing of ours.
    assert int(found.filter(lambda batch: True).cardinality()) < 0
    assert int(found.take(100).cardinality()) == ROWS // 48


def test_tensorflow_keeps_its_length_when_it_is_mapped(ds: pk.Dataset) -> None:
    found = ds.tensorflow(32, tensors=["x"], transform=lambda batch: batch["x"])
    assert len(found) == len(found.map(lambda x: x + 1).prefetch(2)) == ROWS // 32
    assert sum(len(x) for x in found.map(lambda x: x + 1).prefetch(2)) == ROWS // 32 * 32


def test_keras_fits_on_the_rank_that_is_told_after_it_was_made(
    ds: pk.Dataset, monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    import keras
    import tensorflow as tf

    seen: list[np.ndarray] = []

    def pair(batch: dict[str, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
        tf.numpy_function(lambda x: seen.append(x) or np.int64(0), [batch["x"]], tf.int64)
        return batch["x"], batch["y"]

    pairs = ds.tensorflow(global_batch_size=50, tensors=["x", "y"]).map(pair)
    second_of_two(monkeypatch)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1, activation="sigmoid")])
    model.compile("adam", "binary_crossentropy")
    history = model.fit(pairs, epochs=2, verbose=0, shuffle=False)
    assert len(history.history["loss"]) == 2
    expected = ds.numpy(global_batch_size=50, tensors=["x"], rank=1, world=2)
    assert np.array_equal(np.stack(seen), np.stack([batch["x"] for _ in range(2) for batch in expected]))
    assert not [each for each in recwarn if "ran out of data" in str(each.message)]


def test_torch_trains_on_it(ds: pk.Dataset) -> None:
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.Adam(model.parameters(), 0.05)
    loader = ds.torch(50, tensors=["x", "y"])
    losses = []
    for _ in range(20):
        for batch in loader:
            loss = torch.nn.functional.binary_cross_entropy_with_logits(model(batch["x"])[:, 0], batch["y"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    assert len(losses) == 20 * len(loader)
    assert np.mean(losses[-6:]) < 0.7 * np.mean(losses[:6])
    assert "bounds" in loader.verdict()
    assert loader.stats.rows == ROWS


INSIDE = """
import sys, torch
import penstock as pk

class Wrapped(torch.utils.data.IterableDataset):
    def __init__(self, loader):
        self.loader = loader
    def __iter__(self):
        return iter(self.loader)

inside = Wrapped(pk.open(sys.argv[1]).torch(50, tensors=["x"]))
print(len(list(torch.utils.data.DataLoader(inside, batch_size=None))))
list(torch.utils.data.DataLoader(inside, batch_size=None, num_workers=1))
"""


def test_inside_worker_processes_it_refuses_with_the_line_to_write(ds: pk.Dataset) -> None:
    done = subprocess.run(
        [sys.executable, "-c", INSIDE, ds.path], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode != 0
    assert done.stdout.strip() == str(ROWS // 50), "without worker processes it works"
    assert "for batch in ds.torch(batch_size=...)" in done.stderr
