"""`Dataset`, what users hold: one version of a dataset on storage. `opening` finds it, `pk.write` returns it.

Everything here is a look at a `Snapshot` (`penstock.dataset.snapshot`); nothing is read before it is asked for, but the
manifest and the index.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from penstock.dataset import commit
from penstock.dataset.manifest import Shard
from penstock.dataset.snapshot import Snapshot, open_version
from penstock.dataset.verify import verify
from penstock.dtypes import TensorSpec
from penstock.errors import DatasetError, humane_bytes
from penstock.feed.follow.following import Following
from penstock.feed.frameworks.tensorflow_batches import tensorflow_dataset
from penstock.feed.loader import Loader
from penstock.feed.loaders import (
    chosen_specs,
    jax_loader,
    numpy_loader,
    reader_threads,
    torch_loader,
)
from penstock.feed.settings import Settings, Transform
from penstock.feed.shaping import Pad
from penstock.recipe.fitted import FittedRecipe
from penstock.recipe.loading import from_files
from penstock.recipe.storage import RECIPE_FILE
from penstock.wire.selection import Tensors

if TYPE_CHECKING:
    import os

    import tensorflow as tf

Reopen = Callable[[Tensors], Snapshot]
DAY = 24 * 3600.0
LANES, WINDOW = 64, 1
"""How far shuffling mixes; see `penstock.feed.plan.order`."""


class Dataset:
    """One version of a dataset; made by `pk.open` and `pk.write`.

    >>> import tempfile
    >>> import pyarrow as pa
    >>> import penstock as pk
    >>> ds = pk.write(pa.table({"a": [1, 2, 3], "b": [0.5, 1.5, 2.5]}), tempfile.mkdtemp(), shuffle=False)
    >>> len(ds), ds.read(slice(1, 3))["b"]
    (3, array([1.5, 2.5]))
    """

    def __init__(self, opened: Snapshot | Following, reopen: Reopen | None = None) -> None:
        """`reopen`: the same plain files with other tensors."""
        self._opened, self._reopen = opened, reopen
        self._following = opened if isinstance(opened, Following) else None

    @property
    def snapshot(self) -> Snapshot:
        """What lies below: the manifest, the index of blocks, and the blocks themselves."""
        found = self._opened
        return found.committed("what the dataset is") if isinstance(found, Following) else found

    @property
    def _sample(self) -> Snapshot:
        return self._opened.sample() if isinstance(self._opened, Following) else self._opened

    @property
    def path(self) -> str:
        """Where it lies, as it was asked for."""
        return self._opened.store.root

    @property
    def rows(self) -> int:
        """How many rows it has; `len()` says the same."""
        return self.snapshot.manifest.rows

    def __len__(self) -> int:
        return self.rows

    @property
    def bytes(self) -> int:
        """What its shards take on storage."""
        return self.snapshot.manifest.bytes

    @property
    def tensors(self) -> Mapping[str, TensorSpec]:
        """Its tensors by name."""
        return {spec.name: spec for spec in self._sample.manifest.tensors}

    @property
    def shards(self) -> Sequence[Shard]:
        """Its files, each with `file` (relative to the path), `rows` and `bytes`."""
        return self.snapshot.manifest.shards

    @property
    def version(self) -> int | None:
        """Its number; None for a folder that Penstock did not write."""
        return self.snapshot.manifest.version if self.snapshot.committed else None

    @property
    def fingerprint(self) -> str:
        """The content's identity: equal for equal tensors and equal bytes in equal order, wherever they lie."""
        return self.snapshot.manifest.fingerprint

    @property
    def recipe(self) -> FittedRecipe | None:
        """The recipe its rows came through, for serving and for more rows; None if they came through none."""
        found = self.snapshot.manifest.recipe
        if not found:
            return None
        store, folder = self.snapshot.store, found[0].removesuffix(RECIPE_FILE)
        return from_files(
            store.read(found[0]), lambda name: store.read(f"{folder}{name}"), store.locate(found[0])
        )

    @property
    def options(self) -> Mapping[str, Any]:
        """How it was written."""
        return self.snapshot.manifest.options

    def read(
        self, rows: slice | None = None, tensors: str | Sequence[str] | None = None, *, verify: bool = False
    ) -> dict[str, Any]:
        """Rows by their numbers, to look at: arrays, `Ragged` for ragged tensors, lists of str or bytes.

        With `verify` the bytes are checked against their checksums first; of a Parquet shard the whole file, once.
        """
        if verify:
            self._committed("no checksums")
        names = [tensors] if isinstance(tensors, str) else tensors
        return self.snapshot.read(rows if rows is not None else slice(None), names, verify)

    def torch(
        self,
        batch_size: int | None = None,
        *,
        device: Any = "cpu",
        shuffle: bool = True,
        seed: int = 0,
        tensors: Tensors = None,
        global_batch_size: int | None = None,
        last: str = "drop",
        rank: int | None = None,
        world: int | None = None,
        lanes: int = LANES,
        window: int = WINDOW,
        cache: str | None = None,
        memory: int | None = None,
        threads: int | None = None,
        verify: bool = True,
        pad: Pad = None,
        nested: bool = False,
        transform: Transform | None = None,
        log: str | os.PathLike[str] | None = None,
    ) -> Loader:
        """Batches as dictionaries of torch tensors on `device`, epoch after epoch.

        `batch_size`: rows of each rank; or `global_batch_size`, of all ranks together. `last`: "drop" an incomplete
        last batch, "pad" it with zero rows (and a tensor `valid`), or give it "short".

        `shuffle`: rows come in an order of the seed and the epoch, whatever the number of ranks; False for the order
        of the files. `lanes` and `window` say how far it mixes: rows out of about lanes x window blocks.

        `rank`, `world`: found by themselves (torch.distributed, the launcher's environment, TF_CONFIG, JAX) when the
        first batch is asked for. Where both are passed, nothing is compared with the process group: ranks that read the
        same rows may, such as those that share one model, and one rank alone takes rank=0, world=1.

        `cache`: "host" or "device" keeps the dataset in memory once it was read; the batches are the same. `memory`:
        the most a rank may use beside that; it never changes the order, and too little is an error. What `pad` fills
        up counts, what `transform` makes does not. Ragged rows count by their mean, of Parquet as it is compressed.
        `threads`: threads that read for one rank; None for as many as suit the machine, which the launcher's ranks
        there share.

        `tensors`: the names of those wanted; of plain files also a mapping of columns, as in `to_torch`. Ragged ones
        come as values and offsets; with `pad` filled up with zeros to a length (one for all, or by name), beside a
        tensor `NAME_length`; with `nested=True` as torch's nested tensors in the jagged layout.

        `verify`: check every block's bytes the first time they are read. `transform`: a function of the batch, called
        once for each and in their order: when a batch is asked for, by who asks; for a GPU one batch ahead, on the
        stream that gathers, so that its kernels run beside the training: what it uses there is to be made before the
        loop. It may return tensors in whatever holds them, and writes to none that it returned before.

        `log`: a file that gets a line about the feed each second, and what `loader.note` is told, for `pk.report`. With
        several ranks each has its own, `log-rank0.jsonl` for "log.jsonl"; a run that goes on appends to it.

        >>> import tempfile
        >>> import pyarrow as pa
        >>> import penstock as pk
        >>> ds = pk.write(pa.table({"a": list(range(10))}), tempfile.mkdtemp(), shuffle=False)
        >>> [batch["a"].tolist() for batch in ds.torch(batch_size=5, shuffle=False)]
        [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]
        """
        snapshot = self._chosen(tensors)
        settings = Settings(
            batch_size=batch_size,
            shuffle=shuffle,
            seed=seed,
            global_batch_size=global_batch_size,
            last=last,
            rank=rank,
            world=world,
            lanes=lanes,
            window=window,
            memory=memory,
            threads=reader_threads(
                threads, snapshot, world, on_device=str(device).partition(":")[0] != "cpu"
            ),
            verify=verify,
            transform=transform,
            cache=cache,
            pad=pad,
            nested=nested,
            device=str(device),
            log=log,
        )
        specs = chosen_specs(snapshot, None if isinstance(tensors, Mapping) else tensors)
        return torch_loader(snapshot, specs, settings, device, self._following)

    def numpy(
        self,
        batch_size: int | None = None,
        *,
        shuffle: bool = True,
        seed: int = 0,
        tensors: Tensors = None,
        global_batch_size: int | None = None,
        last: str = "drop",
        rank: int | None = None,
        world: int | None = None,
        lanes: int = LANES,
        window: int = WINDOW,
        cache: str | None = None,
        memory: int | None = None,
        threads: int | None = None,
        verify: bool = True,
        pad: Pad = None,
        transform: Transform | None = None,
        log: str | os.PathLike[str] | None = None,
    ) -> Loader:
        """Batches as dictionaries of NumPy arrays; arguments as in `torch`."""
        snapshot = self._chosen(tensors)
        settings = Settings(
            batch_size=batch_size,
            shuffle=shuffle,
            seed=seed,
            global_batch_size=global_batch_size,
            last=last,
            rank=rank,
            world=world,
            lanes=lanes,
            window=window,
            memory=memory,
            threads=reader_threads(threads, snapshot, world),
            verify=verify,
            transform=transform,
            cache=cache,
            pad=pad,
            log=log,
        )
        specs = chosen_specs(snapshot, None if isinstance(tensors, Mapping) else tensors)
        return numpy_loader(snapshot, specs, settings, self._following)

    def jax(
        self,
        batch_size: int | None = None,
        *,
        device: Any = None,
        shuffle: bool = True,
        seed: int = 0,
        tensors: Tensors = None,
        global_batch_size: int | None = None,
        last: str = "drop",
        rank: int | None = None,
        world: int | None = None,
        lanes: int = LANES,
        window: int = WINDOW,
        cache: str | None = None,
        memory: int | None = None,
        threads: int | None = None,
        verify: bool = True,
        pad: Pad = None,
        transform: Transform | None = None,
        log: str | os.PathLike[str] | None = None,
    ) -> Loader:
        """Batches as dictionaries of JAX arrays on `device`; arguments as in `torch`."""
        snapshot = self._chosen(tensors)
        settings = Settings(
            batch_size=batch_size,
            shuffle=shuffle,
            seed=seed,
            global_batch_size=global_batch_size,
            last=last,
            rank=rank,
            world=world,
            lanes=lanes,
            window=window,
            memory=memory,
            threads=reader_threads(threads, snapshot, world),
            verify=verify,
            transform=transform,
            cache=cache,
            pad=pad,
            device="default" if device is None else str(device),
            log=log,
        )
        specs = chosen_specs(snapshot, None if isinstance(tensors, Mapping) else tensors)
        return jax_loader(snapshot, specs, settings, device, self._following)

    def tensorflow(
        self,
        batch_size: int | None = None,
        *,
        shuffle: bool = True,
        seed: int = 0,
        tensors: Tensors = None,
        global_batch_size: int | None = None,
        last: str = "drop",
        rank: int | None = None,
        world: int | None = None,
        lanes: int = LANES,
        window: int = WINDOW,
        cache: str | None = None,
        memory: int | None = None,
        threads: int | None = None,
        verify: bool = True,
        pad: Pad = None,
        transform: Transform | None = None,
        log: str | os.PathLike[str] | None = None,
        epoch: int = 0,
    ) -> tf.data.Dataset:
        """A `tf.data.Dataset` of batches, each iteration of it an epoch; arguments as in `torch`.

        Ragged tensors come as `tf.RaggedTensor`. `transform` is mapped over the dataset, as TensorFlow's own code. A
        `log` has the feed alone: there is no `note`. Ranks may be told after it is made and before it is iterated;
        until then a `global_batch_size` leaves the number of rows in `element_spec` open.

        `epoch`: the first one it gives, such as Keras' `initial_epoch`. That is all a training that goes on can say: a
        `tf.data.Dataset` has no state, and in the middle of an epoch go on the loaders of `torch`, `numpy` and `jax`.

        Under a strategy of `tf.distribute` a batch is of one worker, and split among its replicas; TensorFlow shares
        out no rows a second time, unless `rank=0, world=1` leaves all of it to the strategy.
        """
        snapshot = self._chosen(tensors)
        settings = Settings(
            batch_size=batch_size,
            shuffle=shuffle,
            seed=seed,
            global_batch_size=global_batch_size,
            last=last,
            rank=rank,
            world=world,
            lanes=lanes,
            window=window,
            memory=memory,
            threads=reader_threads(threads, snapshot, world),
            verify=verify,
            transform=transform,
            cache=cache,
            pad=pad,
            log=log,
        )
        specs = chosen_specs(snapshot, None if isinstance(tensors, Mapping) else tensors)
        return tensorflow_dataset(snapshot, specs, settings, self._following, epoch)

    def _chosen(self, tensors: Tensors) -> Snapshot:
        """The snapshot to read: of plain files, a mapping says which columns become which tensors."""
        if not isinstance(tensors, Mapping):
            return self._sample
        if self._reopen is None:
            raise DatasetError(
                f"{self.path} is a Penstock dataset, whose tensors are decided: name those you want, such as "
                f"tensors={list(self.tensors)[:2]}. A mapping of columns is for plain files."
            )
        return self._reopen(tensors)

    def verify(self) -> None:
        """Check every byte of every shard; `CorruptError` names each bad shard and block."""
        self._committed("no checksums")
        verify(self.snapshot.store, self.snapshot.manifest, self.snapshot.index)

    def versions(self) -> list[int]:
        """The versions that can be opened, oldest first."""
        return commit.versions(self.snapshot.store) if self.snapshot.committed else []

    def at(self, version: int) -> Dataset:
        """Another version of the same dataset."""
        self._committed("no versions")
        return Dataset(open_version(self.snapshot.store, version))

    def vacuum(self, *, keep: int = 1, older_than: float = DAY) -> list[str]:
        """Delete the files that the newest `keep` versions do not name; the files deleted.

        Only files older than `older_than` seconds: a write under way, and a training that still reads the version
        before, must not lose theirs.
        """
        self._committed("nothing to sweep")
        return commit.vacuum(self.snapshot.store, keep, older_than)

    def _committed(self, lacks: str) -> None:
        if not self.snapshot.committed:
            raise DatasetError(
                f"{self.path} is a folder of plain files, which has {lacks}. Make a dataset of it: "
                "penstock convert SOURCE PATH."
            )

    def __repr__(self) -> str:
        if self._following and not self._following.end:
            return f"Dataset({self.path!r}, still being written: {self._following.rows:,} rows so far)"
        what = f"version {self.version}" if self.snapshot.committed else "plain files"
        tensors = ", ".join(str(spec) for spec in self.snapshot.manifest.tensors)
        shards = "1 shard" if len(self.shards) == 1 else f"{len(self.shards)} shards"
        return f"Dataset({self.path!r}, {what}: {self.rows:,} rows, {shards}, {humane_bytes(self.bytes)}; {tensors})"
