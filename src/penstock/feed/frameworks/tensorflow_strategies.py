"""A `tf.data.Dataset` whose elements are batches of one rank: with a length, and left whole by `tf.distribute`.

Used by `tensorflow_batches`. A strategy takes any dataset for that of all workers together. It first cuts every batch
into a piece for each replica of each worker (`_create_cloned_datasets_from_dataset` in TensorFlow's
distribute/input_lib.py), whatever the options say, and then drops the pieces of the other workers, unless the policy
is OFF. A dataset that is shared out already wants neither: its policy is OFF, and of the cutting what is left is the
worker's own replicas.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

Number = Callable[[], int]
UNKNOWN = -2
"""What TensorFlow says of a dataset whose length it does not know."""
KEPT = ("map", "prefetch", "with_options", "shuffle", "cache")
"""Transformations that have an element for each of ours."""
COUNTED = ("take", "skip", "repeat")
"""Those that have some of our elements, or some of them again."""


def shared_out(dataset: Any) -> Any:
    """The same dataset, of which no worker of a strategy drops anything."""
    import tensorflow as tf

    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return dataset.with_options(options)


def rank_batches(dataset: Any, length: Number | None, world: Number) -> Any:
    """The same dataset, with a length that is looked up whenever it is asked for, and batches that stay whole.

    TensorFlow knows lengths only as numbers that are fixed when a dataset is made; and of one without a length Keras
    says that its input ran out of data. `world`: how many ranks there are, as far as it is known by then.
    """
    return _batches_class()(dataset, length, world)


@cache
def _batches_class() -> Any:
    import tensorflow as tf

    class Batches(tf.data.Dataset):  # type: ignore[misc]
        """Batches of a loader."""

        def __init__(self, inner: Any, length: Number | None, world: Number) -> None:
            self._inner, self._length, self._world = inner, length, world
            super().__init__(inner._variant_tensor)

        def _inputs(self) -> list[Any]:
            return [self._inner]

        @property
        def element_spec(self) -> Any:
            return self._inner.element_spec

        def cardinality(self) -> Any:
            # Batches of unknown sizes are cut by other code than `rebatch`, which asks nobody. There are more pieces
            # than batches then, and who believed in our number would leave the others out: Keras does.
            count = workers(tf)
            cut = count > 1 and (_rows(tf, self) is None or count != self._world())
            return tf.constant(UNKNOWN if cut or self._length is None else self._length(), tf.int64)

        def rebatch(self, batch_size: Any, drop_remainder: bool = False, name: str | None = None) -> Any:
            """As asked for. A strategy, which asks for pieces for all replicas of all workers, gets this worker's."""
            rows = _rows(tf, self)
            own = _own_pieces(tf, batch_size, rows, self._world())
            if own == 1:
                return self
            if own is not None and rows is not None:
                batch_size = [rows // own + (piece < rows % own) for piece in range(own)]
            return self._inner.rebatch(batch_size, drop_remainder, name)

    def kept(name: str) -> Any:
        def method(self: Any, *arguments: Any, **options: Any) -> Any:
            return Batches(getattr(self._inner, name)(*arguments, **options), self._length, self._world)

        return method

    def counted(name: str) -> Any:
        def method(self: Any, *arguments: Any, **options: Any) -> Any:
            def length() -> int:
                # TensorFlow counts what becomes of as many elements as we have.
                ours = tf.data.Dataset.range(self._length())
                return int(getattr(ours, name)(*arguments, **options).cardinality())

            found = getattr(self._inner, name)(*arguments, **options)
            return Batches(found, None if self._length is None else length, self._world)

        return method

    for name in KEPT:
        setattr(Batches, name, kept(name))
    for name in COUNTED:
        setattr(Batches, name, counted(name))
    return Batches


def workers(tf: Any) -> int:
    """Processes that a strategy of this one works with. Such a strategy has to be made before any dataset."""
    tasks = {each.name.partition("/device:")[0] for each in tf.config.list_logical_devices()}
    return len({task for task in tasks if "/job:" in task and "/job:localhost" not in task})


def _rows(tf: Any, dataset: Any) -> int | None:
    """How many rows each batch has, where its tensors say so and agree."""
    shapes = [getattr(spec, "shape", None) for spec in tf.nest.flatten(dataset.element_spec)]
    told = {None if shape is None or not shape.rank else shape[0] for shape in shapes}
    return told.pop() if len(told) == 1 else None


def _own_pieces(tf: Any, sizes: Any, rows: int | None, world: int) -> int | None:
    """Into how many pieces a batch is to be cut, if it is a strategy of several workers that asks; else None."""
    asked = np.asarray(tf.get_static_value(sizes))
    if not 1 < world == workers(tf) or asked.ndim != 1 or len(asked) % world or asked.sum() != rows:
        return None
    return len(asked) // world
