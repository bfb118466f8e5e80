"""`Dataset`, what users hold: one version of a dataset on storage. `pk.open` finds it, `pk.write` returns it.

Everything here is a look at a `Snapshot` (`penstock.dataset.snapshot`); nothing is read before it is asked for, but the
manifest and the index.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from penstock.dataset import commit
from penstock.dataset.manifest import Shard
from penstock.dataset.plain import is_file, open_plain
from penstock.dataset.snapshot import Snapshot, open_version
from penstock.dataset.store import disk_cache, open_store, with_cache
from penstock.dataset.verify import verify
from penstock.dataset.writing import named
from penstock.dtypes import TensorSpec
from penstock.errors import DatasetError, humane_bytes
from penstock.feed.loader import Loader
from penstock.feed.loaders import (
    chosen_specs,
    jax_loader,
    numpy_loader,
    reader_threads,
    tensorflow_dataset,
    torch_loader,
)
from penstock.feed.settings import Settings, Transform
from penstock.feed.shaping import Pad
from penstock.recipe.fitted import FittedRecipe
from penstock.recipe.loading import from_files
from penstock.recipe.storage import RECIPE_FILE
from penstock.wire.nulls import Nulls
from penstock.wire.selection import Tensors

if TYPE_CHECKING:
    import os

    import tensorflow as tf

DAY = 24 * 3600.0
LANES, WINDOW = 64, 1
"""How far shuffling mixes; see `penstock.feed.order`."""


class Dataset:
    """One version of a dataset; made by `pk.open` and `pk.write`.

    >>> import tempfile
    >>> import pyarrow as pa
    >>> import penstock as pk
    >>> ds = pk.write(pa.table({"a": [1, 2, 3], "b": [0.5, 1.5, 2.5]}), tempfile.mkdtemp(), shuffle=False)
    >>> len(ds), ds.read(slice(1, 3))["b"]
    (3, array([1.5, 2.5]))
    """

    def __init__(self, snapshot: Snapshot, reopen: Callable[[Tensors], Snapshot] | None = None) -> None:
        """`reopen`: the same plain files with other tensors."""
        self._snapshot, self._reopen = snapshot, reopen

    @property
    def path(self) -> str:
        """Where it lies, as it was asked for."""
        return self._snapshot.store.root

    @property
    def rows(self) -> int:
        """How many rows it has; `len()` says the same."""
        return self._snapshot.manifest.rows

    def __len__(self) -> int:
        return self.rows

    @property
    def bytes(self) -> int:
        """What its shards take on storage."""
        return self._snapshot.manifest.bytes

    @property
    def tensors(self) -> Mapping[str, TensorSpec]:
        """Its tensors by name."""
        return {spec.name: spec for spec in self._snapshot.manifest.tensors}

    @property
    def shards(self) -> Sequence[Shard]:
        """Its files, each with `file` (relative to the path), `rows` and `bytes`."""
        return self._snapshot.manifest.shards

    @property
    def version(self) -> int | None:
        """Its number; None for a folder that Penstock did not write."""
        return self._snapshot.manifest.version if self._snapshot.committed else None

    @property
    def fingerprint(self) -> str:
        """The content's identity: equal for equal tensors and equal bytes in equal order, wherever they lie."""
        return self._snapshot.manifest.fingerprint

    @property
    def recipe(self) -> FittedRecipe | None:
        """The recipe its rows came through, for serving and for more rows; None if they came through none."""
        found = self._snapshot.manifest.recipe
        if not found:
            return None
        store, folder = self._snapshot.store, found[0].removesuffix(RECIPE_FILE)
        return from_files(
            store.read(found[0]), lambda name: store.read(f"{folder}{name}"), store.locate(found[0])
        )

    @property
    def options(self) -> Mapping[str, Any]:
        """How it was written."""
        return self._snapshot.manifest.options

    def read(
        self, rows: slice | None = None, tensors: str | Sequence[str] | None = None, *, verify: bool = False
    ) -> dict[str, Any]:
        """Rows by their numbers, to look at: arrays, `Ragged` for ragged tensors, lists of str or bytes.

        With `verify` the bytes are checked against their checksums first; of a Parquet shard the whole file, once.
        """
        if verify:
            self._committed("no checksums")
        names = [tensors] if isinstance(tensors, str) else tensors
        return self._snapshot.read(rows if rows is not None else slice(None), names, verify)

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
        verify: bool = True,
        pad: Pad = None,
        nested: bool = False,
        transform: Transform | None = None,
    ) -> Loader:
        """Batches as dictionaries of torch tensors on `device`, epoch after epoch.

        `batch_size`: rows of each rank; or `global_batch_size`, of all ranks together. `last`: "drop" an incomplete
        last batch, "pad" it with zero rows (and a tensor `valid`), or give it "short".

        `shuffle`: rows come in an order of the seed and the epoch, whatever the number of ranks; False for the order
        of the files. `lanes` and `window` say how far it mixes: rows out of about lanes x window blocks.

        `rank`, `world`: found by themselves (torch.distributed, the launcher's environment, TF_CONFIG, JAX) when the
        first batch is asked for.

        `cache`: "host" or "device" keeps the dataset in memory once it was read; the batches are the same. `memory`:
        the most a rank may use beside that; it never changes the order, and too little is an error.

        `tensors`: the names of those wanted; of plain files also a mapping of columns, as in `to_torch`. Ragged ones
        come as values and offsets; with `pad` filled up with zeros to a length (one for all, or by name), beside a
        tensor `NAME_length`; with `nested=True` as torch's nested tensors in the jagged layout.

        `verify`: check every block's bytes the first time they are read. `transform`: a function of the batch; on a
        GPU it runs beside the training, on the stream that gathers.

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
            threads=reader_threads(on_device=str(device).partition(":")[0] != "cpu"),
            verify=verify,
            transform=transform,
            cache=cache,
            pad=pad,
            nested=nested,
        )
        specs = chosen_specs(snapshot, None if isinstance(tensors, Mapping) else tensors)
        return torch_loader(snapshot, specs, settings, device)

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
        verify: bool = True,
        pad: Pad = None,
        transform: Transform | None = None,
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
            threads=reader_threads(on_device=False),
            verify=verify,
            transform=transform,
            cache=cache,
            pad=pad,
        )
        specs = chosen_specs(snapshot, None if isinstance(tensors, Mapping) else tensors)
        return numpy_loader(snapshot, specs, settings)

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
        verify: bool = True,
        pad: Pad = None,
        transform: Transform | None = None,
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
            threads=reader_threads(on_device=False),
            verify=verify,
            transform=transform,
            cache=cache,
            pad=pad,
        )
        specs = chosen_specs(snapshot, None if isinstance(tensors, Mapping) else tensors)
        return jax_loader(snapshot, specs, settings, device)

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
        verify: bool = True,
        pad: Pad = None,
        transform: Transform | None = None,
    ) -> tf.data.Dataset:
        """A `tf.data.Dataset` of batches, each iteration of it an epoch; arguments as in `torch`.

        Ragged tensors come as `tf.RaggedTensor`. `transform` is mapped over the dataset, as TensorFlow's own code.
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
            threads=reader_threads(on_device=False),
            verify=verify,
            transform=transform,
            cache=cache,
            pad=pad,
        )
        specs = chosen_specs(snapshot, None if isinstance(tensors, Mapping) else tensors)
        return tensorflow_dataset(snapshot, specs, settings)

    def _chosen(self, tensors: Tensors) -> Snapshot:
        """The snapshot to read: of plain files, a mapping says which columns become which tensors."""
        if not isinstance(tensors, Mapping):
            return self._snapshot
        if self._reopen is None:
            raise DatasetError(
                f"{self.path} is a Penstock dataset, whose tensors are decided: name those you want, such as "
                f"tensors={list(self.tensors)[:2]}. A mapping of columns is for plain files."
            )
        return self._reopen(tensors)

    def verify(self) -> None:
        """Check every byte of every shard; `CorruptError` names each bad shard and block."""
        self._committed("no checksums")
        verify(self._snapshot.store, self._snapshot.manifest, self._snapshot.index)

    def versions(self) -> list[int]:
        """The versions that can be opened, oldest first."""
        return commit.versions(self._snapshot.store) if self._snapshot.committed else []

    def at(self, version: int) -> Dataset:
        """Another version of the same dataset."""
        self._committed("no versions")
        return Dataset(open_version(self._snapshot.store, version))

    def vacuum(self, *, keep: int = 1, older_than: float = DAY) -> list[str]:
        """Delete the files that the newest `keep` versions do not name; the files deleted.

        Only files older than `older_than` seconds: a write under way, and a training that still reads the version
        before, must not lose theirs.
        """
        self._committed("nothing to sweep")
        return commit.vacuum(self._snapshot.store, keep, older_than)

    def _committed(self, lacks: str) -> None:
        if not self._snapshot.committed:
            raise DatasetError(
                f"{self.path} is a folder of plain files, which has {lacks}. Make a dataset of it: "
                "penstock convert SOURCE PATH."
            )

    def __repr__(self) -> str:
        what = f"version {self.version}" if self._snapshot.committed else "plain files"
        tensors = ", ".join(str(spec) for spec in self._snapshot.manifest.tensors)
        return (
            f"Dataset({self.path!r}, {what}: {self.rows:,} rows, {len(self.shards)} shards, "
            f"{humane_bytes(self.bytes)}; {tensors})"
        )


def open(
    path: str | os.PathLike[str],
    *,
    version: int | None = None,
    tensors: Tensors = None,
    dtype: Any = None,
    nulls: Nulls = "error",
    cache_dir: str | os.PathLike[str] | None = None,
    cache_bytes: int | None = None,
) -> Dataset:
    """Open a dataset, or any folder of Parquet or Arrow files, or one such file.

    `version`: the newest, unless said. `tensors`, `dtype`, `nulls`: for plain files only, which columns become which
    tensors, as in `to_numpy`; without them every column becomes a tensor of its own, lists ragged ones.

    `cache_dir`: a folder of this machine that keeps what is read from an object store, so that later epochs and later
    runs need not fetch it again; all ranks of a machine share it, and datasets may. It takes up to `cache_bytes`
    (half of what the disk has free, unless said), then what was used longest ago makes room. What comes from it is
    checked each time; a full disk is told of once and read past. For a path of this machine it does nothing.

    >>> import tempfile
    >>> import pyarrow as pa
    >>> import penstock as pk
    >>> path = tempfile.mkdtemp()
    >>> _ = pk.write(pa.table({"a": [1, 2, 3]}), path)
    >>> pk.open(path).rows
    3
    >>> _ = pk.write(pa.table({"a": [1, 2, 3]}), "memory://far/away", shuffle=False)  # as "s3://bucket/train"
    >>> ds = pk.open("memory://far/away", cache_dir=path, cache_bytes=200 << 30)
    >>> ds.read()["a"].tolist()
    [1, 2, 3]
    """
    cache = disk_cache(cache_dir, cache_bytes)
    store = with_cache(open_store(path), cache)
    found = [] if is_file(path) else commit.versions(store)
    if not found:
        if version is not None:
            commit.load(store, version)
        one_dtype = None if isinstance(dtype, Mapping) else dtype
        return Dataset(
            open_plain(path, named(tensors), dtype, nulls, cache),
            reopen=lambda others: open_plain(path, others, one_dtype, nulls, cache),
        )
    if tensors is not None or dtype is not None or nulls != "error":
        raise DatasetError(
            f"{path} is a Penstock dataset, whose tensors are decided; tensors, dtype and nulls are for plain files."
        )
    return Dataset(open_version(store, version if version is not None else found[-1]))
