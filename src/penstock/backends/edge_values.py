"""Values that are likely to tell a lifted function from the original: edges of a type, and what lies around constants.

Used by `penstock.backends.verify`. Seeded, so a verdict is the same every time.
"""

from __future__ import annotations

import itertools
import math
import random
import types
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Any

from penstock.expr.lift.forms import Form

ROWS = 240
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
    ],
}


def inputs(arguments: Mapping[str, Form], function: types.FunctionType) -> Iterator[tuple[Any, ...]]:
    """Rows of arguments without end: every edge value of each argument first, then random meetings of them."""
    chance = random.Random(SEED)
    constants = list(_constants(function.__code__))
    pools = [_pool(form, constants) for form in arguments.values()]
    if not pools:
        yield ()
        return
    combinations = math.prod(len(pool) for pool in pools)
    if combinations <= ROWS:
        yield from itertools.product(*pools)
    else:
        shuffled = [chance.sample(pool, len(pool)) for pool in pools]
        for place in range(max(map(len, pools))):
            yield tuple(pool[place % len(pool)] for pool in shuffled)
    while True:
        yield tuple(
            _random(form, chance) if chance.random() < 0.25 else chance.choice(pool)
            for form, pool in zip(arguments.values(), pools, strict=True)
        )


def _constants(code: types.CodeType) -> Iterator[Any]:
    """Constants of a function, of those inside it, and in its tuples."""
    waiting: list[Any] = list(code.co_consts)
    while waiting:
        one = waiting.pop(0)
        if isinstance(one, types.CodeType):
            waiting.extend(one.co_consts)
        elif isinstance(one, tuple | frozenset):
            waiting.extend(sorted(one, key=repr))
        else:
            yield one


def _pool(form: Form, constants: Sequence[Any]) -> list[Any]:
    """Edge values of a type, and what lies around the constants of the function."""
    if form.kind == "list":
        item = Form({"string": "str"}.get(form.type.item.kind, form.type.item.kind), form.type.item)
        some = _pool(item, constants)
        found: list[Any] = [[], some[:1], some[1:4], some[4:6], some[::-1][:5]]
    else:
        found = list(EDGES[form.kind])
        for constant in constants:
            found += list(_around(form.kind, constant))
        found = list({repr(one): one for one in found}.values())
    return [None, *found] if form.optional else found


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
    item = Form({"string": "str"}.get(form.type.item.kind, form.type.item.kind), form.type.item)
    return [_random(item, chance) for _ in range(chance.randrange(4))]
