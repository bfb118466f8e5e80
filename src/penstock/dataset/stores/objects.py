"""Datasets in object stores (s3, gs, az) through obstore: ranges at once, creation that fails if a name is taken.

Endpoint, region and credentials come from the usual environment (AWS_ENDPOINT_URL, AWS_REGION, AWS_ACCESS_KEY_ID and
their like for the others). Files are opened, and executors write, through pyarrow's filesystems, which are given the
same endpoint and region. See `store` for the contract.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from penstock.dataset.stores.target import RemoteTarget
from penstock.dataset.stores.terms import Entry, ended_early, telling
from penstock.dtypes import Array
from penstock.errors import MissingDependency, StorageError

SCHEMES = {
    "s3": "s3",
    "s3a": "s3",
    "gs": "gs",
    "az": "az",
    "azure": "az",
    "abfs": "az",
    "abfss": "az",
}
"""The part of an address before '://', and the kind of store it means."""

NEAR = 1 << 20
"""Ranges less than so many bytes apart are fetched as one: a request costs more than the bytes between."""
PART = 8 << 20
"""Longer ranges come in parts of about this size, at once: a connection to S3 gives some 50 to 90 MB/s."""
NO_BUCKET = "NoSuchBucket|ContainerNotFound|bucket does not exist"
"""How stores say so; obstore has no error of its own for it."""
AT_ONCE = 10
RETRIES = 6  # with waits that double, some 10 seconds


class ObjectStore:
    """A prefix in a bucket; creation is exclusive."""

    exclusive = True

    def __init__(self, root: str) -> None:
        self.root = root.rstrip("/")
        self.local: str | None = None
        address = urlsplit(self.root)
        self._kind = SCHEMES[address.scheme]
        self._target = _target(self._kind, address.netloc, address.path.strip("/"))
        self._store = _connect(self.root, self._target)
        self._filesystem: tuple[Any, str] | None = None

    def locate(self, name: str) -> str:
        """The object's address."""
        return f"{self.root}/{name}" if name else self.root

    def prepare(self) -> None:
        """See that the bucket is there and answers."""
        import obstore

        with telling("write", self.root):
            try:
                next(iter(obstore.list(self._store, chunk_size=1)), None)
            except Exception as error:
                if not re.search(NO_BUCKET, str(error)):
                    raise
                raise StorageError(
                    "write", self.root, "there is no such bucket", "Create it first, or choose another path."
                ) from None

    def read(self, name: str) -> bytes:
        """The whole object."""
        import obstore

        with telling("read", self.locate(name), absent=True):
            return bytes(obstore.get(self._store, name).bytes())

    def read_range(self, name: str, offset: int, length: int) -> Any:
        """Some bytes of the object."""
        import obstore

        if length == 0:
            return b""
        with telling("read", self.locate(name), absent=True):
            try:
                found = obstore.get_range(self._store, name, start=offset, length=length)
            except FileNotFoundError:
                raise
            except Exception:
                # A range wholly past the end is an error like any other to a server; its size tells.
                if offset + length > (size := self.size(name)):
                    raise ended_early(self.locate(name), offset, length, size) from None
                raise
            if len(found) < length:
                raise ended_early(self.locate(name), offset, length, offset + len(found))
            return found

    def read_ranges(self, name: str, ranges: Sequence[tuple[int, int]]) -> list[Any]:
        """Several ranges, in parallel; neighbours come in one request, long ones in several.

        obstore has a call for it, which panics when the object is shorter than a range.
        """
        groups = neighbours(ranges)
        spans = self._spans(name, [span for span, _ in groups])
        found: list[Any] = [b""] * len(ranges)
        for ((start, _), members), span in zip(groups, spans, strict=True):
            view = memoryview(span)
            for place in members:
                offset, length = ranges[place]
                found[place] = view[offset - start : offset - start + length]
        return found

    def _spans(self, name: str, spans: Sequence[tuple[int, int]]) -> list[Any]:
        if sum(len(_parts(*span)) for span in spans) < 2:
            return [self.read_range(name, *span) for span in spans]
        found: list[Any] = []
        jobs = []
        with ThreadPoolExecutor(AT_ONCE) as threads:
            for start, length in spans:
                whole = np.empty(length, np.uint8)
                found.append(memoryview(whole.data))
                for part in _parts(start, length):
                    place = whole[part[0] - start : part[0] - start + part[1]]
                    jobs.append(threads.submit(self._read_into, name, part, place))
            for job in jobs:
                job.result()
        return found

    def _read_into(self, name: str, part: tuple[int, int], place: Array) -> None:
        # NumPy lets other threads run while it copies; joining bytes would not.
        np.copyto(place, np.frombuffer(self.read_range(name, *part), np.uint8))

    def size(self, name: str) -> int:
        """Bytes of the object."""
        import obstore

        with telling("read", self.locate(name), absent=True):
            return int(obstore.head(self._store, name)["size"])

    def open_input(self, name: str) -> Any:
        """The object, as a file of pyarrow's."""
        with telling("read", self.locate(name), absent=True):
            if (
                self._filesystem is None
            ):  # with connections of its own: one for every file opened would be dear
                self._filesystem = self._target.filesystem()
            filesystem, root = self._filesystem
            return filesystem.open_input_file(f"{root}/{name}")

    def entries(self, folder: str = "") -> list[Entry]:
        """All objects below a folder, sorted by name."""
        import obstore

        with telling("list", self.locate(folder)):
            found = [
                Entry(meta["path"], meta["size"], meta["last_modified"].timestamp(), meta.get("e_tag") or "")
                for some in obstore.list(self._store, folder or None, chunk_size=1000)
                for meta in some
            ]
        return sorted(
            (entry for entry in found if entry.bytes or self._is_object(entry.name)),
            key=lambda entry: entry.name,
        )

    def _is_object(self, name: str) -> bool:
        """Not an empty object `name/`, by which pyarrow and others mark a folder; obstore lists it as `name`."""
        try:
            return self.size(name) == 0
        except FileNotFoundError:
            return False

    def create(self, name: str, data: Any) -> bool:
        """Write a new object; False when the name is taken."""
        import obstore
        from obstore.exceptions import AlreadyExistsError

        with telling("create", self.locate(name)):
            try:
                obstore.put(self._store, name, _octets(data), mode="create")
            except AlreadyExistsError:
                return False
            return True

    def put(self, name: str, data: Any) -> None:
        """Write an object, in place of one that may be there."""
        import obstore

        with telling("write", self.locate(name)):
            obstore.put(self._store, name, _octets(data))

    def touch(self, name: str) -> None:
        """Write an empty file anew."""
        self.put(name, b"")

    def delete(self, names: Sequence[str]) -> None:
        """Remove objects."""
        import obstore

        for name in names if self._kind != "s3" else []:
            with telling("delete", self.locate(name)):
                try:
                    obstore.delete(self._store, name)
                except FileNotFoundError:
                    continue  # the others say so; S3 does not
        if self._kind == "s3" and names:
            with telling("delete", self.locate(names[0])):
                obstore.delete(self._store, list(names))

    def target(self) -> RemoteTarget:
        """The same place, for executors."""
        return self._target


def _octets(data: Any) -> memoryview:
    """Any buffer as unsigned bytes, the only ones obstore takes; Arrow's are signed."""
    return memoryview(data).cast("B")


def neighbours(ranges: Sequence[tuple[int, int]]) -> list[tuple[tuple[int, int], list[int]]]:
    """Ranges grouped into spans (offset, length), with the numbers of those in each; empty ones are left out.

    >>> neighbours([(0, 10), (1 << 30, 5), (20, 10)])
    [((0, 30), [0, 2]), ((1073741824, 5), [1])]
    """
    groups: list[tuple[tuple[int, int], list[int]]] = []
    for place in sorted(range(len(ranges)), key=lambda place: ranges[place]):
        offset, length = ranges[place]
        if length == 0:
            continue
        if groups:
            (start, span), members = groups[-1]
            if offset - (start + span) < NEAR:
                groups[-1] = ((start, max(span, offset + length - start)), [*members, place])
                continue
        groups.append(((offset, length), [place]))
    return groups


def _parts(offset: int, length: int) -> list[tuple[int, int]]:
    """A span cut into equal parts of about PART.

    >>> _parts(100, 20 << 20)
    [(100, 10485760), (10485860, 10485760)]
    """
    count = max(round(length / PART), 1)
    edges = [offset + length * place // count for place in range(count + 1)]
    return [(start, stop - start) for start, stop in pairwise(edges)]


def _target(kind: str, host: str, prefix: str) -> RemoteTarget:
    bucket, _, domain = host.partition("@")  # abfss://container@account.dfs...
    root = f"{bucket}/{prefix}" if prefix else bucket
    first = os.environ.get
    if kind == "s3":
        endpoint = first("AWS_ENDPOINT_URL_S3") or first("AWS_ENDPOINT_URL") or first("AWS_ENDPOINT")
        return RemoteTarget(kind, root, endpoint, first("AWS_REGION") or first("AWS_DEFAULT_REGION"))
    if kind == "az":
        account = domain.partition(".")[0] or first("AZURE_STORAGE_ACCOUNT_NAME")
        return RemoteTarget(kind, root, account=account)
    return RemoteTarget(kind, root)


def _connect(root: str, target: RemoteTarget) -> Any:
    try:
        from obstore.store import from_url
    except ImportError:
        raise MissingDependency("obstore", extra="cloud") from None
    settings: dict[str, Any] = {}
    if target.endpoint:
        settings["endpoint"] = target.endpoint
    if target.region:
        settings["region"] = target.region
    plain = (target.endpoint or "").startswith("http://")
    with telling("open", root):
        return from_url(  # type: ignore[call-overload]  # the overloads are one per store
            root,
            config=settings or None,
            client_options={"allow_http": True} if plain else None,
            retry_config={"max_retries": RETRIES},
        )
