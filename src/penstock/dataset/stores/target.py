"""How executors write shards: with the standard library on a shared disk, with pyarrow's filesystems elsewhere.

Targets are made by a driver's `Store.target()` and travel with the job by value: executors have neither penstock nor
obstore. They carry addresses, never secrets; credentials are those of the executors' own environment.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from penstock.dataset.stores.terms import refusal, telling
from penstock.errors import StorageError


@dataclass(frozen=True)
class LocalTarget:
    """A folder that driver and executors share.

    >>> import pathlib, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> output = LocalTarget(folder).open("shards/a")
    >>> output.write([b"ab", b"c"])
    >>> output.close()
    >>> pathlib.Path(folder, "shards", "a").read_bytes()
    b'abc'
    """

    root: str

    def open(self, name: str) -> LocalOutput:
        """Begin a file, which must not exist."""
        path = os.path.join(self.root, *name.split("/"))
        with telling("write", path):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            return LocalOutput(path, os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))


class LocalOutput:
    """A local file being written; it is unlinked on the first error."""

    def __init__(self, path: str, descriptor: int) -> None:
        self._path, self._descriptor = path, descriptor

    def write(self, pieces: Sequence[Any]) -> None:
        """Append bytes-like pieces, as many at once as the system takes."""
        views = [view for view in (memoryview(piece).cast("B") for piece in pieces) if view.nbytes]
        most, first = 1024, 0  # IOV_MAX on Linux
        try:
            while first < len(views):
                done = os.writev(self._descriptor, views[first : first + most])
                while first < len(views) and done >= views[first].nbytes:
                    done -= views[first].nbytes
                    first += 1
                if done:
                    views[first] = views[first][done:]
        except OSError as error:
            self.abort()
            raise refusal("write", self._path, error) from error

    def close(self) -> None:
        """End the file."""
        descriptor, self._descriptor = self._descriptor, -1
        try:
            os.close(descriptor)  # quotas of network filesystems may speak up only here
        except OSError as error:
            self.abort()
            raise refusal("write", self._path, error) from error

    def abort(self) -> None:
        """Close and unlink, whether the file was ended or not; harmless when done before."""
        descriptor, self._descriptor = self._descriptor, -1
        with suppress(OSError):  # closed already; what led here is the error to tell
            os.close(descriptor)
        with suppress(OSError):
            os.unlink(self._path)


@dataclass(frozen=True)
class RemoteTarget:
    """A filesystem of pyarrow's, by the address it is reached at.

    `kind` is s3, gs or az, with `root` as bucket and prefix; or uri, with `root` as pyarrow or fsspec take it.
    Creation is not exclusive here: names must be unique by themselves, as those of attempts are.
    """

    kind: str
    root: str
    endpoint: str | None = None
    region: str | None = None
    account: str | None = None

    def open(self, name: str) -> RemoteOutput:
        """Begin a file; it is there once closed."""
        with telling("write", f"{self.root}/{name}"):
            filesystem, root = self.filesystem()
            path = f"{root}/{name}"
            if self.kind == "uri":  # object stores have no folders to make
                filesystem.create_dir(path.rpartition("/")[0], recursive=True)
            return RemoteOutput(filesystem, path, filesystem.open_output_stream(path))

    def filesystem(self) -> tuple[Any, str]:
        """The pyarrow filesystem, and the root's path in it."""
        from pyarrow import fs

        scheme, _, host = (self.endpoint or "").rpartition("://")
        if self.kind == "s3":
            options = {"endpoint_override": host, "scheme": scheme or "https"} if host else {}
            if self.region:
                options["region"] = self.region
            return fs.S3FileSystem(**options), self.root
        if self.kind == "gs":
            options = {"endpoint_override": host, "scheme": scheme or "https"} if host else {}
            return fs.GcsFileSystem(**options), self.root
        if self.kind == "az":
            return fs.AzureFileSystem(
                account_name=self.account,
                account_key=os.environ.get("AZURE_STORAGE_ACCOUNT_KEY"),
                sas_token=os.environ.get("AZURE_STORAGE_SAS_TOKEN"),
            ), self.root
        return from_uri(self.root)


def from_uri(uri: str) -> tuple[Any, str]:
    """The filesystem of a URI and the path in it: pyarrow's own, or else fsspec's."""
    import pyarrow as pa
    from pyarrow import fs

    try:
        filesystem, path = fs.FileSystem.from_uri(uri)
    except pa.ArrowInvalid:
        try:
            from fsspec.core import url_to_fs

            found, path = url_to_fs(uri)
        except (ImportError, ValueError) as error:
            raise StorageError(
                "open",
                uri,
                f"neither pyarrow nor fsspec knows how ({error})",
                "Check the part before '://', or install fsspec and the package for this kind of storage.",
            ) from None
        filesystem = fs.PyFileSystem(fs.FSSpecHandler(found))
    return filesystem, path.rstrip("/")


class RemoteOutput:
    """A remote file being written."""

    def __init__(self, filesystem: Any, path: str, stream: Any) -> None:
        self._filesystem, self._path, self._stream = filesystem, path, stream

    def write(self, pieces: Sequence[Any]) -> None:
        """Append bytes-like pieces."""
        try:
            for piece in pieces:
                self._stream.write(memoryview(piece).cast("B"))
        except Exception as error:
            self.abort()
            raise refusal("write", self._path, error) from error

    def close(self) -> None:
        """End the file; an upload is complete, and seen, only now."""
        try:
            self._stream.close()
        except Exception as error:
            self.abort()
            raise refusal("write", self._path, error) from error

    def abort(self) -> None:
        """Give the file up. pyarrow cannot cancel an upload: it is ended, then deleted."""
        with suppress(Exception):  # the failure that led here is the one to tell
            self._stream.close()
        with suppress(Exception):
            self._filesystem.delete_file(self._path)
