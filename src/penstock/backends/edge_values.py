"""Values that are likely to tell a lifted function from the original: edges of a type, and what lies around constants.

Used by `penstock.backends.verify`. Seeded, so a verdict is the same every time.
"""

from __future__ import annotations

import itertools
import math
import random
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Any

from penstock.backends.edge_constants import named_by, written_in
from penstock.expr.lift.forms import BY_TYPE, Form

ROWS = 300
MEETINGS = 72
"""Rows in which two arguments are equal."""
NEAREST = 3
"""Of the values around a constant that the function names: as many."""
SEED = 20_240_229

EDGES: dict[str, list[Any]] = {
    "bool": [True, False],
    "int": [
        *(
            0,
            1,
            -1,
            2,
            3,
            5,
            -7,
            10,
            24,
            60,
            99,
            100,
            101,
            365,
            1000,
            2**31 - 1,
            -(2**31),
            2**31,
            2**53 - 1,
            2**53 + 1,
        ),
        *(2**62, 2**63 - 1, -(2**63)),
    ],
    "float": [
        *(
            0.0,
            -0.0,
            1.0,
            -1.0,
            0.5,
            -0.5,
            1.5,
            2.5,
            -2.5,
            2.675,
            0.1,
            3.7,
            42.0,
            99.99,
            100.0,
            -100.0,
            1e-10,
            5e-324,
        ),
        *(
            float("nan"),  # not the very object that a function may name
            math.inf,
            -math.inf,
            1e16,
            1e300,
            -1e300,
            2.0**53,
            2.0**63,
            -(2.0**63),
            709.9,
            1234567.891,
        ),
    ],
    "str": [
        *(
            "",
            " ",
            "a",
            "abc",
            "ABC",
            " x ",
            "\t",
            "\n",
            "\u00a0x",
            "\U0001f600",
            "a\U0001f600b",
            "e\u0301",
            "ß",
            "İ",
        ),
        *(
            "١٢",
            "0",
            "12",
            "-3",
            "3.5",
            " 42 ",
            "1_000",
            "+7",
            "nan",
            "1e5",
            "inf",
            "a,b",
            "a.b.c",
            ",",
            "a b  c",
            "x=1",
        ),
        *("2024-02-29", "Foo_Bar", "aaa", "A-1", "007"),
    ],
    "date": [
        date(1970, 1, 1),
        date(2024, 2, 29),
        date(1999, 12, 31),
        date(2023, 7, 3),
        date(1, 1, 1),
        date(9999, 12, 31),
    ],
    "datetime": [
        datetime(1970, 1, 1),
        datetime(2024, 2, 29, 23, 59, 59, 999_999),
        datetime(1999, 12, 31, 12),
        datetime(2023, 7, 3, 0, 0, 1),
        datetime(1900, 1, 1, 6, 30),
        datetime(1969, 12, 31, 23, 59, 59, 1),
        datetime(1, 1, 1),
        datetime(9999, 12, 31, 23, 59, 59, 120_000),
    ],
}


def inputs(
    arguments: Mapping[str, Form], function: types.FunctionType | types.MethodType
) -> Iterator[tuple[Any, ...]]:
    """Rows of arguments without end: every edge value of each argument first, then random meetings of them."""
    for row in _meetings(arguments, function):
        yield tuple(map(_as_from_a_column, row))


def _as_from_a_column(value: Any) -> Any:
    """No two values of columns are one object, and `in` would take one nan for itself."""
    if isinstance(value, list):
        return [_as_from_a_column(one) for one in value]
    return float("nan") if isinstance(value, float) and math.isnan(value) else value


def _meetings(
    arguments: Mapping[str, Form], function: types.FunctionType | types.MethodType
) -> Iterator[tuple[Any, ...]]:
    chance = random.Random(SEED)
    written, named = written_in(function), named_by(function)
    pools = [_pool(form, written, named) for form in arguments.values()]
    if not pools:
        yield ()
        return
    combinations = math.prod(len(pool) for pool in pools)
    if combinations <= ROWS:
        yield from itertools.product(*pools)
    else:
        yield from _together(list(arguments.values()), pools)
        shuffled = [chance.sample(pool, len(pool)) for pool in pools]
        for place in range(max(map(len, pools))):
            yield tuple(pool[place % len(pool)] for pool in shuffled)
    while True:
        yield tuple(
            _random(form, chance) if chance.random() < 0.25 else chance.choice(pool)
            for form, pool in zip(arguments.values(), pools, strict=True)
        )


def _together(forms: list[Form], pools: list[list[Any]]) -> Iterator[tuple[Any, ...]]:
    """Rows in which arguments meet on one value, as those shuffled apart rarely do: first all, then any two."""
    chance = random.Random(SEED + 1)
    for asked in TELLING:
        having = [[value for value in pool if asked(value)] for pool in pools]
        if sum(map(bool, having)) > 1:
            yield tuple(chance.choice(some or pool) for some, pool in zip(having, pools, strict=True))
    pairs = [pair for pair in itertools.combinations(range(len(forms)), 2) if _may_meet(forms, *pair)]
    rounds = [[(*pair, value) for value in _shared(forms, pools, *pair, chance)] for pair in pairs]
    # One value of every pair, and then the next.
    turns = itertools.chain.from_iterable(itertools.zip_longest(*rounds))
    for one, other, value in itertools.islice(filter(None, turns), MEETINGS):
        row = [chance.choice(pool) for pool in pools]
        row[one], row[other] = (_as_form(forms[place], value) for place in (one, other))
        yield tuple(row)


def _may_meet(forms: list[Form], one: int, other: int) -> bool:
    """Whether two arguments may be equal, but for whole numbers and truth values, which few functions take for one."""
    return forms[one].type == forms[other].type or {forms[one].kind, forms[other].kind} == {"int", "float"}


def _shared(
    forms: list[Form], pools: list[list[Any]], one: int, other: int, chance: random.Random
) -> list[Any]:
    """Values that both of two arguments can have, those first that most often tell."""
    whole = other if forms[other].kind == "int" else one
    both = [
        value
        for value in pools[whole]
        if value is not None or (forms[one].optional and forms[other].optional)
    ]
    mixed = chance.sample(both, len(both))
    return sorted(mixed, key=lambda value: not any(asked(value) for asked in TELLING))


def _as_form(form: Form, value: Any) -> Any:
    return float(value) if form.kind == "float" and isinstance(value, int) else value


TELLING: tuple[Callable[[Any], bool], ...] = (
    lambda value: isinstance(value, float) and math.isnan(value),
    lambda value: value is None,
    lambda value: isinstance(value, int | float) and value == 0,
)
"""Whether a value is nan, None, or 0."""


def _pool(form: Form, written: Sequence[Any], named: Sequence[Any]) -> list[Any]:
    """Edge values of a type, and what lies around the constants of the function."""
    if form.kind == "list":
        found = _lists(_pool(_item(form), written, named))
    else:
        found = list(EDGES[form.kind])
        for constant in written:
            found += _around(form.kind, constant)
        for constant in named:  # of which there may be many
            found += itertools.islice(_around(form.kind, constant), NEAREST)
        found = list({repr(one): one for one in found}.values())
    return [None, *found] if form.optional else found


def _lists(some: list[Any]) -> list[Any]:
    """Lists of edge values: none, one of each, and several, in one order and in the other."""
    found: list[Any] = [[], *([one] for one in some)]
    for place in range(0, len(some), 2):
        few = some[place : place + 1 + place % 5]
        found += [few, few[::-1], [*few, some[0], *few]]
    return [*found, some, some[::-1]]


def _around(kind: str, constant: Any) -> Iterator[Any]:
    number = isinstance(constant, int | float) and not isinstance(constant, bool)
    if kind == "int" and number and math.isfinite(constant) and abs(constant) < 2**62:
        yield from (int(constant), int(constant) + 1, int(constant) - 1, -int(constant))
    if kind == "float" and number and abs(constant) < 1e300:
        value = float(constant)
        yield from (
            value,
            math.nextafter(value, math.inf),
            math.nextafter(value, -math.inf),
            value + 0.25,
            -value,
        )
    if kind == "str" and isinstance(constant, str) and len(constant) < 100:
        yield from (
            constant,
            constant.upper(),
            constant.title(),
            f" {constant} ",
            f"x{constant}1",
            f"1{constant}2.5",
        )


def _random(form: Form, chance: random.Random) -> Any:
    """A random value of a type."""
    kind = form.kind
    if form.optional and chance.random() < 0.2:
        return None
    if kind == "bool":
        return chance.random() < 0.5
    if kind == "int":
        return chance.choice(
            (chance.randrange(-20, 120), chance.randrange(-(10**6), 10**6), chance.getrandbits(63))
        )
    if kind == "float":
        return chance.choice(
            (
                chance.uniform(-5, 5),
                chance.uniform(-1000, 1000),
                chance.gauss(0, 1) * 10 ** chance.randrange(-8, 9),
            )
        )
    if kind == "str":
        return "".join(chance.choice("abcXYZ019 ,.-_@/ß\t😀é") for _ in range(chance.randrange(12)))
    if kind == "date":
        return date(1970, 1, 1) + timedelta(days=chance.randrange(-40_000, 40_000))
    if kind == "datetime":
        return datetime(1970, 1, 1) + timedelta(microseconds=chance.randrange(-(10**15), 4 * 10**15))
    return [_random(_item(form), chance) for _ in range(chance.randrange(7))]


def _item(form: Form) -> Form:
    """What the elements of a list are."""
    return Form(BY_TYPE[form.type.item.kind], form.type.item)
