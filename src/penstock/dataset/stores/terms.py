"""What all stores share: how a file is listed, what executors write through, and how a refusal is told.

`store` is the interface itself. Two things a caller must tell apart from a refusal keep Python's own errors:
`FileNotFoundError` for a name that is not there, `EOFError` for a range past a file's end.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from penstock.errors import StorageError

if TYPE_CHECKING:
    from penstock.dataset.shards import Output


@dataclass(frozen=True)
class Entry:
    """A file under a dataset's root.

    >>> Entry("shards/a.arrow", 4096, 1.5e9).name
    'shards/a.arrow'
    """

    name: str
    bytes: int
    modified: float
    """Seconds since the epoch; the time of listing where the store does not know."""
    tag: str = ""
    """What the store calls this content (an object's ETag), where it does."""


class Target(Protocol):
    """Where executors write: a small value that travels with the job and needs nothing there but pyarrow."""

    def open(self, name: str) -> Output:
        """Begin a file."""


def refusal(action: str, where: str, error: BaseException) -> StorageError:
    """What the storage said, in words, with what to do about it.

    >>> print(refusal("write", "/data/a", OSError(errno.ENOSPC, "No space left on device")))
    cannot write /data/a: No space left on device. Free space there or choose another path; nothing was committed.
    """
    # A table at module level would do, but this travels to executors by value: the less it drags along, the better.
    code = error.errno if isinstance(error, OSError) else None
    text = _plain(error)
    if code in (errno.ENOSPC, errno.EDQUOT):
        remedy = "Free space there or choose another path; nothing was committed."
    elif code == errno.EFBIG:
        remedy = (
            "A limit on the size of a file was met (ulimit -f, or the filesystem's own): raise it, or write "
            "more and smaller shards. Nothing was committed."
        )
    elif code in (errno.EACCES, errno.EPERM, errno.EROFS) or _denied(text):
        remedy = "Check the permissions and the credentials in use, or choose another path."
    elif code in (errno.ENOTDIR, errno.EEXIST):
        remedy = "A file stands where a folder is needed: remove it or choose another path."
    else:
        remedy = "Check the path and the connection, then try again."
    return StorageError(action, where, text, remedy)


def _denied(text: str) -> bool:
    return (
        re.search(r"access.?denied|permission|forbidden|unauthori[sz]ed|\b40[13]\b", text, re.I) is not None
    )


def _plain(error: BaseException) -> str:
    """The error's own words, less the stacks and documents that libraries append."""
    if isinstance(error, OSError) and error.errno is not None:
        return os.strerror(error.errno)
    text = str(error).partition("\n\nDebug source")[0]
    told = re.search(r"<Message>(.*?)</Message>", text, re.S)
    head = re.split(r"[:\s]*<\?xml|\n", text)[0].strip()
    words = f"{head} ({told[1].rstrip('.')})" if told else head
    return words.rstrip(". ") or type(error).__name__


@contextmanager
def telling(action: str, where: str, *, absent: bool = False) -> Iterator[None]:
    """Turn what a library raises into a StorageError; `absent` lets FileNotFoundError through, with the name.

    >>> with telling("read", "/data/a"):
    ...     raise OSError(errno.EACCES, "Permission denied")
    Traceback (most recent call last):
    penstock.errors.StorageError: cannot read /data/a: Permission denied. Check the permissions and ...
    """
    try:
        yield
    except (StorageError, EOFError, TypeError, AttributeError, LookupError, AssertionError):
        raise  # told already, or a mistake in the program, which no remedy of ours would fit
    except FileNotFoundError as error:
        if absent:
            raise FileNotFoundError(errno.ENOENT, "there is no such file", where) from None
        raise refusal(action, where, error) from error
    except Exception as error:
        # Object store clients raise classes of their own, which are not to be imported here.
        raise refusal(action, where, error) from error


def ended_early(where: str, offset: int, length: int, size: int) -> EOFError:
    """The error for a range that a file does not have.

    >>> print(ended_early("/data/a", 4, 8, 10))
    /data/a ends at byte 10, and bytes 4 to 12 were asked for
    """
    return EOFError(f"{where} ends at byte {size}, and bytes {offset} to {offset + length} were asked for")
