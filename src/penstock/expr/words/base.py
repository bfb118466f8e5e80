"""What the families of methods stand on: a way to make an operation of the expression they belong to."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.expr.nodes import Expression


class Words(ABC):
    """A family of methods."""

    __slots__ = ()

    @abstractmethod
    def _call(self, op: str, *others: object, params: Mapping[str, Any] | None = None) -> Expression:
        """The operation on this expression and on others."""

    @abstractmethod
    def _turned(self, op: str, other: object) -> Expression:
        """The operation with this expression on its right."""


def plain(value: Any) -> Any:
    """A parameter's value without the classes of NumPy and the like; lists become tuples.

    >>> plain([1, 2.5])
    (1, 2.5)
    """
    if isinstance(value, list | tuple):
        return tuple(plain(one) for one in value)
    if not isinstance(value, str) and hasattr(value, "item") and getattr(value, "ndim", 0) == 0:
        return value.item()
    return value
