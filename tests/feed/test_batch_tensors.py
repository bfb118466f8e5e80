"""The tensors in what a transform returned are found, whatever holds them."""

from __future__ import annotations

import collections
import sys
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

import pytest
import torch
from torch.masked import masked_tensor
from torch.testing._internal.two_tensor import TwoTensor

from penstock.feed.cuda.batch_tensors import plain_tensors

X, Y = torch.zeros(2), torch.ones(2)


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


class Private:
    __slots__ = ("__x", "__y")

    def __init__(self, x: torch.Tensor, y: torch.Tensor) -> None:
        self.__x, self.__y = x, y


@pytest.mark.parametrize(
    "batch",
    [
        collections.deque([X, Y]),
        Private(X, Y),
        TwoTensor(X, Y),
        {"vocabulary": dict.fromkeys(range(100_000), 1), "x": X, "y": {X, Y}},
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


def test_what_tells_rows_of_nested_ones_apart_is_found_too() -> None:
    """Lengths are made where the tensor is, and are memory like any other."""
    starts, lengths = torch.tensor([0, 1, 0]), torch.tensor([2, 3, 1])
    nested = torch.nested.narrow(torch.ones(3, 5), 1, starts, lengths, layout=torch.jagged)
    memory = {each.untyped_storage().data_ptr() for each in plain_tensors(nested)}
    assert {
        each.untyped_storage().data_ptr() for each in (nested.values(), nested.offsets(), nested.lengths())
    } <= memory


@pytest.mark.filterwarnings("ignore:The PyTorch API of MaskedTensors")
def test_a_tensor_that_hides_others() -> None:
    found = plain_tensors([masked_tensor(X, X == 0)])
    assert [each.dtype for each in found] == [torch.float32, torch.bool]
    assert all(each.untyped_storage().data_ptr() for each in found)
