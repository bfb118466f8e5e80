"""What `test_tensorflow` launches as two workers of `tf.distribute`, kept where workers can import it from."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import penstock as pk


def distributed(dataset: str, folder: str) -> None:
    """Write the ids of each batch of this worker, as a loop of one's own and as Keras' fit gets them."""
    import tensorflow as tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    ds = pk.open(dataset)

    def ids(batches: Any) -> list[list[int]]:
        return [batch["id"].values[0].numpy().tolist() for batch in batches]

    def looped(made: Any) -> list[list[int]]:
        return ids(strategy.experimental_distribute_dataset(made))

    def short(_: object) -> Any:
        return ds.tensorflow(30, seed=3, last="short")

    tensors = ["id", "tokens"]
    found = {
        "own": looped(ds.tensorflow(20, seed=3, tensors=tensors)),
        "mapped": looped(ds.tensorflow(20, seed=3, transform=lambda batch: batch).map(dict).prefetch(2)),
        "global": looped(ds.tensorflow(global_batch_size=40, seed=3)),
        "padded": looped(ds.tensorflow(30, seed=3, last="pad")),
        "some": looped(ds.tensorflow(20, seed=3).repeat().skip(3).take(12)),
        "short": looped(short(None)),
        "zipped": looped(tf.data.Dataset.zip((ds.tensorflow(20, seed=3),)).map(lambda batch: batch)),
        "by function": ids(strategy.distribute_datasets_from_function(short)),
        "whole": looped(ds.tensorflow(20, seed=3, rank=0, world=1)),
        "fit": fitted(strategy, ds.tensorflow(20, seed=3)),
        "fit short": fitted(strategy, short(None)),
    }
    Path(folder, f"{os.environ['RANK']}.json").write_text(json.dumps(found))


def fitted(strategy: Any, batches: Any) -> list[list[int]]:
    """The ids of two epochs of `model.fit`."""
    import keras
    import tensorflow as tf

    seen: list[list[int]] = []

    def note(ids: Any) -> None:
        seen.append(ids.numpy().tolist())

    class Model(keras.Model):
        """As Keras has it, but for what fails in Keras 3.15 with any dataset on several workers (its issue 20585)."""

        def _maybe_symbolic_build(self, *_: object, **__: object) -> None:
            """It reduces whole batches of PerReplica, which TensorFlow does not take."""

        def train_step(self, data: Any) -> dict[str, Any]:
            tf.py_function(note, [data[1]], [])
            return {"loss": super().train_step(data)["loss"][None]}  # it reduces over an axis of scalars

    with strategy.scope():
        x = keras.Input((1,))
        model = Model(x, keras.layers.Dense(1)(x))
        model.compile("sgd", "mse")
    model.fit(
        batches.map(lambda batch: (batch["x"][:, None], batch["id"])), epochs=2, verbose=0, shuffle=False
    )
    return seen
