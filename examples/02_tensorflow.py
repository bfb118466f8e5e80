"""TensorFlow: a DataFrame as tensors for Keras, and a dataset as a tf.data.Dataset.

What fits into memory becomes tensors in one call, and `model.fit` takes them. What does not is written once, and
read as a `tf.data.Dataset` that shuffles anew in every epoch. Under `tf.distribute` every worker finds its share by
TF_CONFIG.

Expect two losses that fall, one for each way.

    python examples/02_tensorflow.py --rows 200000
"""

from __future__ import annotations

import argparse
import os
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # TensorFlow talks a lot while it is imported

import tensorflow as tf

import penstock as pk


def model() -> tf.keras.Model:
    tf.keras.utils.set_random_seed(0)
    layers = [tf.keras.layers.Dense(32, activation="relu"), tf.keras.layers.Dense(1)]
    found = tf.keras.Sequential([tf.keras.Input((2,)), *layers])
    found.compile(tf.keras.optimizers.Adam(0.01), loss="mse")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=200_000)
    given = parser.parse_args()

    spark = pk.session()
    df = (
        spark.range(given.rows)
        .selectExpr(
            "pmod(xxhash64(id, 'a'), 1000) / 1000 as a",
            "pmod(xxhash64(id, 'b'), 1000) / 1000 as b",
        )
        .selectExpr("a", "b", "sin(3 * a) + b * b as y")
    )

    tensors = pk.to_tensorflow(df, {"x": ["a", "b"], "y": "y"}, dtype="float32")
    history = model().fit(tensors["x"], tensors["y"], batch_size=512, epochs=2, verbose=0)
    print("from memory: loss", " -> ".join(f"{loss:.4f}" for loss in history.history["loss"]))

    with tempfile.TemporaryDirectory() as path:
        ds = pk.write(df, path, {"x": ["a", "b"], "y": "y"}, dtype="float32")
        batches = ds.tensorflow(batch_size=512, seed=7, transform=lambda batch: (batch["x"], batch["y"]))
        print("each epoch:", len(batches), "batches of", batches.element_spec[0].shape)
        history = model().fit(batches, epochs=2, shuffle=False, verbose=0)  # it comes shuffled
    print("from shards: loss", " -> ".join(f"{loss:.4f}" for loss in history.history["loss"]))


if __name__ == "__main__":
    main()
