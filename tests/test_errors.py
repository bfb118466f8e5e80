"""Every error crosses from one process to another as it is."""

from __future__ import annotations

import copy
import inspect
import pickle
from typing import Any

import cloudpickle
import pytest

from penstock import errors
from penstock.errors import PenstockError

CLASSES = [
    each
    for each in vars(errors).values()
    if isinstance(each, type) and issubclass(each, PenstockError) and each.__module__ == errors.__name__
]
BY_TYPE: dict[str, Any] = {
    "int": 7,
    "float | None": 1.5,
    "int | None": 1,
    "bool": True,
    "object": ["x", "y"],
    "Sequence[str]": ["a", "b"],
    "Mapping[str, int]": {"age": 3},
}


def made(kind: type[PenstockError]) -> PenstockError:
    """One of a class, with something of its type for every argument."""
    if "__init__" not in {name for each in kind.__mro__ if each in CLASSES for name in vars(each)}:
        return kind("it went wrong")
    parameters = inspect.signature(kind).parameters
    return kind(
        **{
            name: f"some {name}" if parameter.annotation == "str" else BY_TYPE[parameter.annotation]
            for name, parameter in parameters.items()
        }
    )


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("packed", [pickle, cloudpickle], ids=["pickle", "cloudpickle"])
def test_every_error_can_be_sent(kind: type[PenstockError], packed: Any) -> None:
    error = made(kind)
    error.add_note("seen on rank 1")
    for again in (packed.loads(packed.dumps(error)), copy.copy(error)):
        assert type(again) is kind
        assert str(again) == str(error)
        assert again.args == error.args
        assert vars(again) == vars(error)


def test_one_of_a_users_own_class_too() -> None:
    error = Own("age", 3)
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.column, again.count) == ("age: 3", "age", 3)
    with pytest.raises(Own) as raised:
        raise again from ValueError("first")
    assert isinstance(raised.value.__cause__, ValueError)


class Own(PenstockError):
    def __init__(self, column: str, count: int) -> None:
        self.column, self.count = column, count
        super().__init__(f"{column}: {count}")
