"""The demo's Keras model and its training by `model.fit`; `train` runs in a process of its own, by `pk.launch`.

The same story as `torch_model`, in one process. A `tf.data.Dataset` has no state, so a killed training goes on at the
beginning of the epoch it was in.
"""

from __future__ import annotations

from itertools import count
from typing import Any

import penstock as pk
from penstock.tools.demo.training import (
    BATCH,
    DROPOUT,
    EMBEDDING,
    LEARNING_RATE,
    SCORED_AT_ONCE,
    SEED,
    WIDTH,
    Task,
    Trained,
    Watch,
)

MODEL_FILE = "model.keras"


def delay_model(recipe: Any, steps: int) -> Any:
    """How likely a flight is late: embeddings of the ids beside the numbers, and two layers over both."""
    import keras

    numbers, sizes = recipe.outputs["x"].type.length, recipe.outputs["ids"].ids
    x = keras.Input((numbers,), dtype="float32", name="x")
    places = keras.Input((len(sizes),), dtype="int32", name="ids")
    near = keras.initializers.RandomNormal(stddev=0.05)
    parts = [x]
    for place, size in enumerate(sizes):
        width = min(EMBEDDING, (size + 1) // 2)
        parts.append(keras.layers.Embedding(size, width, near)(places[:, place]))
    found = keras.layers.Concatenate()(parts)
    for width in (WIDTH, WIDTH // 2):
        found = keras.layers.Dense(width, "relu", kernel_initializer="he_uniform")(found)
        found = keras.layers.Dropout(DROPOUT)(found)
    score = keras.layers.Dense(1, "sigmoid", name="score")(found)
    model = keras.Model({"x": x, "ids": places}, score)
    rate = keras.optimizers.schedules.CosineDecay(
        LEARNING_RATE / 25, int(steps * 0.7), warmup_target=LEARNING_RATE, warmup_steps=int(steps * 0.3)
    )
    model.compile(keras.optimizers.AdamW(rate, weight_decay=0.01), "binary_crossentropy")
    return model


def train(task: Task) -> Trained:
    """Train with `model.fit`, and keep a checkpoint after each epoch."""
    import keras
    import tensorflow as tf

    if task.device == "cpu":
        tf.config.set_visible_devices([], "GPU")
    keras.utils.set_random_seed(SEED)
    ds = pk.open(f"{task.folder}/train")
    each = ds.rows // BATCH
    watch = Watch(task.epochs * each, rank=0, world=1, dies=task.dies)
    model = delay_model(ds.recipe, watch.steps)

    def keep(epoch: int, logs: dict[str, float]) -> None:
        step = (epoch + 1) * each
        pk.checkpoint(f"{task.folder}/run", model=model, optimizer=model.optimizer, step=step)

    at = pk.restore(f"{task.folder}/run", model=model, optimizer=model.optimizer)
    epoch = at.step // each
    batches = ds.tensorflow(BATCH, seed=SEED, epoch=epoch, log=f"{task.folder}/log.jsonl").map(pair)
    callbacks = [_watching(watch, at.step), keras.callbacks.LambdaCallback(on_epoch_end=keep)]
    model.fit(batches, initial_epoch=epoch, epochs=task.epochs, shuffle=False, verbose=0, callbacks=callbacks)
    return _evaluated(model, task, watch.steps, at.step)


def pair(batch: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    """What the model gets, and what it should say, as `model.fit` wants them."""
    return {"x": batch["x"], "ids": batch["ids"]}, batch["late"]


def _watching(watch: Watch, before: int) -> Any:
    """Has the training watched, from the step that is behind on."""
    import keras

    steps = count(before + 1)

    def after(batch: int, logs: dict[str, float]) -> None:
        step = next(steps)
        if watch.tells(step):
            watch.tell(step, logs["loss"])
        watch.after(step)

    return keras.callbacks.LambdaCallback(on_train_batch_end=after)


def _evaluated(model: Any, task: Task, steps: int, resumed_at: int) -> Trained:
    """The model with its scores of the days it has not seen, from the dataset as it lies on disk."""
    import numpy as np

    ds = pk.open(f"{task.folder}/evaluate")
    found = [
        (batch["late"].numpy(), model.predict_on_batch(pair(batch)[0])[:, 0])
        for batch in ds.tensorflow(SCORED_AT_ONCE, shuffle=False, last="short", rank=0, world=1)
    ]
    labels, scores = (np.concatenate(each) for each in zip(*found, strict=True))
    path = f"{task.folder}/{MODEL_FILE}"
    model.save(path)
    return Trained(path, labels, scores, steps, resumed_at)
