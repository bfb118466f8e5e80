"""The tensors in what a transform returned are found, whatever holds them."""

from __future__ import annotations

import collections
import sys
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

import pytest
import torch

from penstock.feed.cuda.batch_tensors import plain_tensors

X, Y = torch.zeros(2), torch.ones(3)


class Box(collections.UserDict):
    """As the batches of transformers are."""


@dataclass
class Fields:
    x: torch.Tensor
    more: object = None


class Pair(NamedTuple):
    x: torch.Tensor
    y: torch.Tensor


class Slots:
    __slots__ = ("unset", "x")

    def __init__(self, x: torch.Tensor) -> None:
        self.x = x


class Deeper(Slots):
    __slots__ = "y"

    def __init__(self, x: torch.Tensor, y: torch.Tensor) -> None:
        super().__init__(x)
        self.y = y


@pytest.mark.parametrize(
    "batch",
    [
        {"x": X, "y": {"deep": [Y]}},
        [X, (Y, None, "text", 1)],
        Pair(X, Y),
        Box(x=X, y=Y),
        MappingProxyType({"x": X, "y": Y}),
        Fields(X, Fields(Y)),
        Fields(X, {"y": Box(y=Y)}),
        Deeper(X, Y),
        collections.OrderedDict(x=X, y=Y),
    ],
    ids=lambda batch: type(batch).__name__,
)
def test_whatever_holds_them(batch: object) -> None:
    assert {id(each) for each in plain_tensors(batch)} == {id(X), id(Y)}


def test_what_holds_itself() -> None:
    batch = Fields(X)
    batch.more = [batch]
    assert [each is X for each in plain_tensors(batch)] == [True]


def test_not_through_all_that_an_object_refers_to() -> None:
    far = Fields(X)
    for _ in range(100):
        far = Fields(Y, far)
    assert len(plain_tensors([far, sys.modules[__name__], Slots])) < 10


@pytest.mark.parametrize("layout", ["coo", "csr", "csc", "bsr", "bsc"])
def test_sparse_ones_as_what_they_are_made_of(layout: str) -> None:
    dense = torch.eye(4)
    block = ((2, 2),) if layout.startswith("bs") else ()
    found = plain_tensors([getattr(dense, f"to_sparse_{layout}", dense.to_sparse)(*block)])
    assert len(found) == (2 if layout == "coo" else 3)
    assert all(each.untyped_storage().data_ptr() for each in found)


@pytest.mark.parametrize("layout", [torch.jagged, torch.strided])
def test_nested_ones_as_what_they_are_made_of(layout: torch.layout) -> None:
    nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=layout)
    found = plain_tensors({"nested": nested})
    assert found
    assert not any(each.is_nested for each in found)
    assert all(each.untyped_storage().data_ptr() for each in found)
