"""What `Dataset.tensorflow` does: a loader's epochs as a `tf.data.Dataset`, which TensorFlow and Keras take as it is.

TensorFlow wants shapes and a length when the dataset is made; how many ranks there are may be told only later, and is
looked for when an epoch begins. So what depends on ranks is said at once only where they are told already.
`loaders` has the other frameworks, and the loader below this one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from penstock.dataset.snapshot import Snapshot
from penstock.dtypes import TensorSpec
from penstock.errors import SelectionError
from penstock.feed.follow.following import Following
from penstock.feed.frameworks import tensorflow as tensorflow_feed
from penstock.feed.frameworks.tensorflow_strategies import rank_batches, shared_out, workers
from penstock.feed.loaders import VALID, batch_dtypes, numpy_loader
from penstock.feed.settings import Settings
from penstock.feed.shaping import length_name, padded_lengths
from penstock.feed.world import World, told_world
from penstock.wire.ragged import Ragged


def tensorflow_dataset(
    snapshot: Snapshot,
    specs: tuple[TensorSpec, ...],
    settings: Settings,
    following: Following | None = None,
    epoch: int = 0,
) -> Any:
    """A `tf.data.Dataset` of dictionaries; each iteration of it is one epoch, the first of them `epoch`."""
    if not isinstance(epoch, int) or isinstance(epoch, bool) or epoch < 0:
        raise SelectionError(f"epoch={epoch!r}: a whole number of at least 0 is wanted.")
    tensorflow_feed.check([spec.dtype for spec in specs], None)
    import tensorflow as tf

    # A transform is TensorFlow's own: it changes what the elements are.
    loader = numpy_loader(snapshot, specs, replace(settings, transform=None), following)
    loader.set_epoch(epoch)
    world, together = told_world(settings.rank, settings.world), workers(tf)
    if world is None and together > 1:
        raise SelectionError(
            f"TensorFlow works with {together} workers, and nothing says which of them this is: TF_CONFIG is not set. "
            f"Pass rank=strategy.cluster_resolver.task_id, world={together}; or rank=0, world=1, for every worker to "
            "read all rows, of which the strategy then gives it a share."
        )
    dtypes = batch_dtypes(specs, settings)

    def batches() -> Iterator[dict[str, Any]]:
        for batch in loader:
            yield {name: _tensor(tf, each, dtypes[name]) for name, each in batch.items()}

    signature = _signatures(tf, specs, settings, _rows(settings, world))
    found = tf.data.Dataset.from_generator(batches, output_signature=signature)
    length = (lambda: len(loader)) if following is None else None
    if world is None or world.size > 1:
        found = rank_batches(shared_out(found), length, lambda: loader.world().size)
    elif length is not None and len(loader):
        found = found.apply(tf.data.experimental.assert_cardinality(len(loader)))
    return found if settings.transform is None else found.map(settings.transform)


def _rows(settings: Settings, world: World | None) -> int | None:
    """Rows of each batch, where it is known that all have as many."""
    if settings.last == "short":
        return None
    if world is None:
        return settings.batch_size
    return settings.batch(world.size) // world.size


def _signatures(
    tf: Any, specs: tuple[TensorSpec, ...], settings: Settings, rows: int | None
) -> dict[str, Any]:
    """What each tensor of a batch is."""
    lengths = padded_lengths(settings.pad, specs)
    found = {spec.name: _signature(tf, spec, rows, lengths.get(spec.name)) for spec in specs}
    found |= {length_name(name): tf.TensorSpec((rows,), tf.int32) for name in lengths}
    if settings.last == "pad":
        found[VALID] = tf.TensorSpec((rows,), tf.bool)
    return found


def _signature(tf: Any, spec: TensorSpec, rows: int | None, length: int | None) -> Any:
    dtype = getattr(tf, spec.dtype)
    if length is not None:
        return tf.TensorSpec((rows, length, *spec.shape), dtype)
    if spec.ragged:
        return tf.RaggedTensorSpec((rows, None, *spec.shape), dtype, ragged_rank=1, row_splits_dtype=tf.int64)
    return tf.TensorSpec((rows, *spec.shape), dtype)


def _tensor(tf: Any, rows: Any, dtype: str) -> Any:
    if isinstance(rows, Ragged):
        values, splits = _tensor(tf, rows.values, dtype), _tensor(tf, rows.offsets, "int64")
        return tf.RaggedTensor.from_row_splits(values, splits, validate=False)
    # A copy: TensorFlow ends the process over memory that is not aligned, as the middle of a gather is.
    return tf.convert_to_tensor(rows.view(tf.bfloat16.as_numpy_dtype) if dtype == "bfloat16" else rows)
