"""Which object a name stands for, and when: lists that two names hold, loops over lists that grow, inner functions.

Each function here was once lifted to something else than Python computes, or refused as a mistake of the lifter's; or
it stands beside one that was, and stays lifted.
"""

from __future__ import annotations

import re
from datetime import date, datetime
from numbers import Number
from typing import Any, Optional

import numpy as np
import pytest

from penstock.backends.verify import compared, rows_for
from penstock.lifted import lift

NUMERIC = int | float
MAYBE = Optional[str]  # noqa: UP045  # an object of another class than str | None


def numbered(a: int) -> int:
    first = [place + value for place, value in enumerate((a,), start=True)]
    return sum([place * value for place, value in enumerate((a, 1), 3)]) + first[0]


def numbered_by_row(a: int, n: int) -> int:
    last = 0
    for place, _ in enumerate((a, 1), n):
        last = place
    return last


def numbered_by_text(a: int) -> int:
    return len(tuple(enumerate((a, 1), "b")))


def chosen_twice(x: int) -> int:
    return max([x // d for d in (0, 1, 2) if d if 10 // d > 1])


def nested_classes(x: float | None, s: str) -> bool:
    return isinstance(x, (str, (int, (float,)))) and not isinstance(s, NUMERIC)


def other_classes(x: float | None) -> int:
    return isinstance(x, Number) + 2 * isinstance(x, MAYBE)


def no_class(x: float) -> bool:
    return isinstance(x, (str, 5))


def number_of_classes(x: float) -> bool:
    return isinstance(x)


def comprehension_in_lambda(x: int) -> int:
    add = lambda k: sum([x for x in (1, 2)]) + x + k  # noqa: E731
    return add(1)


def names_of_inner_ones(x: int) -> int:
    y = 5

    def outer(k):
        def inner(z):
            y = z * 2
            return y

        return inner(k) + y

    return outer(x)


def made_in_comprehension(n: int) -> int:
    functions = [lambda: i for i in (1, 2, 3)]  # noqa: B023
    return n + functions[0]()


def kept_in_comprehension(n: int) -> int:
    functions = [lambda v, i=i: v + i for i in (1, 2, 3)]
    return functions[0](n) + functions[2](n)


def in_dict(x: int) -> int:
    found = [x]
    table = {"k": found}
    found.append(1)
    return len(table["k"])


def constants_in_dict(x: int) -> int:
    found = [1]
    table = {"k": found}
    found += [2]
    return len(table["k"]) + x


def out_of_dict(x: int) -> int:
    table = {"k": [x]}
    found = table["k"]
    found.append(1)
    return len(table["k"])


def in_dict_unchanged(x: int, s: str) -> int:
    found = [x, 2]
    table = {"k": found, "abc": [3]}
    return len(table["k"]) + found[0] + table["abc"][0]


def dict_of_lists(s: str) -> str:
    kinds = {"fruit": ["a", "abc"], "other": ["ABC"]}
    for kind, words in kinds.items():
        if s in words:
            return kind
    return ""


def in_default(x: int) -> int:
    found = [x]
    count = lambda of=found: len(of)  # noqa: E731
    found.append(1)
    return count()


def grows_in_loop(x: int) -> int:
    found = [x]
    for value in found:
        if len(found) < 5:
            found.append(value + 1)
    return len(found)


def grows_by_plus(x: int) -> int:
    found = [x]
    for value in found:
        if len(found) < 5:
            found += [value + 1]
    return len(found)


def grows_behind_enumerate(x: int) -> int:
    found = [x, 1]
    for place, value in enumerate(found):
        if place < 3:
            found.append(value + 1)
    return len(found)


def grows_behind_zip(x: int) -> int:
    found = [1, 2]
    for one, _ in zip(found, (1, 2, 3), strict=False):
        found.append(one)
    return len(found) + x


def grows_before_its_turn(x: int) -> int:
    found, total = [x], 0
    for values in ([1], found):
        total += len(values)
        if values[0] == 1 and total == 1:
            found.append(7)
    return total


def grows_beside_a_copy(x: int) -> int:
    found = [x]
    for value in list(found):
        found.append(value + 1)
    for value in found[:]:
        found.append(value)
    for place, value in enumerate(list(found)):
        found.append(value + place)
    return sum(found)


def elements_grow(x: int) -> int:
    total = 0
    for values in [[x], [1, 2]]:
        values.append(total)
        total += len(values) + values[0]
    return total


def key_of_date(d: date) -> int:
    raise KeyError(d)


def key_of_time(t: datetime) -> int:
    raise KeyError(t)


def key_of_numpy(x: float) -> int:
    raise KeyError(np.sqrt(x) > 1.0)


def key_of_number(n: int | None) -> int:
    raise KeyError(n)


def unpacked_midway(xs: list[int]) -> int:
    a = b = 0
    try:
        a, (b, c) = 7, xs
    except ValueError:
        return a
    return b + c


def unpacked_in_turn(xs: list[int]) -> int:
    both = [0]
    try:
        both = a, b = xs
    except ValueError:
        return len(both)
    return a + b


def unpacked_at_once(xs: list[int]) -> int:
    a = b = 1
    try:
        a, b = xs
    except ValueError:
        return a
    return b


def open_brace(x: int) -> str:
    return "{".format(x)  # noqa: F521


def open_brace_later(x: int) -> str:
    return "{} {0".format(x)  # noqa: F521


def numbered_first(x: int) -> str:
    return "{0} {}".format(x, x)  # noqa: F523, F525


def numbered_last(x: int) -> str:
    return "{} {0}".format(x, x)  # noqa: F523, F525


def numbered_twice(x: int) -> str:
    return "{0} {0} {name}".format(x, name=x) + "{} {}".format(x, 1)  # noqa: UP032


def superscript(x: int) -> str:
    return "{²}".format(x)  # noqa: F523, F524


def steps_of_nothing(x: int) -> int:
    return len((x, 1)[::0])


def steps_of_text(x: int) -> int:
    return len([x, 1]["a":])  # noqa: RUF016


LIFTED = [
    *(numbered, numbered_by_text, chosen_twice, nested_classes, other_classes, number_of_classes),
    *(comprehension_in_lambda, names_of_inner_ones, kept_in_comprehension, in_dict_unchanged, dict_of_lists),
    *(grows_beside_a_copy, elements_grow, key_of_number, unpacked_at_once),
    *(open_brace, open_brace_later, numbered_first, numbered_last, numbered_twice),
    *(steps_of_nothing, steps_of_text),
]


@pytest.mark.parametrize("function", LIFTED, ids=lambda one: one.__name__)
def test_it_is_lifted(function: Any) -> None:
    lifted = lift(function)
    assert lifted.body is not None, lifted.plan.refusal
    verdict = compared(lifted.body, lifted.body.function, rows_for(lifted.body, 300), seconds=20)
    assert verdict.differences == ()
    assert verdict.declined < verdict.rows / 2


GROWS, ALSO = (
    r"'found' in its place while a loop goes through it",
    r"'found' in its place, which something else",
)
REFUSED = [
    (numbered_by_row, 2, r"enumerate\(\) from a number that differs from row to row"),
    (no_class, 1, r"isinstance\(\) of something else than plain classes"),
    (made_in_comprehension, 1, r"<lambda>\(\) is defined inside a comprehension and reads its variable"),
    *((in_dict, 3, ALSO), (constants_in_dict, 3, ALSO), (out_of_dict, 3, ALSO), (in_default, 3, ALSO)),
    *((grows_in_loop, 4, GROWS), (grows_by_plus, 4, GROWS), (grows_behind_enumerate, 4, GROWS)),
    *((grows_behind_zip, 3, GROWS), (grows_before_its_turn, 5, GROWS)),
    (key_of_date, 1, r"KeyError shows a datetime\.date that differs from row to row as repr\(\) does"),
    (key_of_time, 1, r"KeyError shows a datetime\.datetime that differs"),
    (key_of_numpy, 1, r"KeyError shows a numpy\.bool"),
    (unpacked_midway, 5, r"'a' is read after a try that may have assigned it"),
    (unpacked_in_turn, 5, r"'both' is read after a try that may have assigned it"),
    (superscript, 1, r"the template '{²}'"),
]


@pytest.mark.parametrize(
    ("function", "after", "reason"), REFUSED, ids=[function.__name__ for function, *_ in REFUSED]
)
def test_it_is_refused_with_its_reason(function: Any, after: int, reason: str) -> None:
    refusal = lift(function).plan.refusal
    assert refusal is not None
    assert re.search(reason, refusal.reason), refusal
    assert refusal.line == function.__code__.co_firstlineno + after
