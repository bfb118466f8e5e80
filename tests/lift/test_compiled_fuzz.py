"""Random functions with loops: their programs agree with Python. Most run the program's text as plain Python, because
compiling takes half a second each; some are compiled, which shows that numba means the same by that text.
"""

from __future__ import annotations

import itertools
import linecache
import math
import random
import types
import warnings
from collections import Counter
from typing import Any

import numpy as np
import pytest

from penstock.backends.edge_values import inputs
from penstock.backends.verify import same
from penstock.compiled.check import declared
from penstock.compiled.child import originals
from penstock.compiled.kernel import C_NAME, DTYPES, run
from penstock.compiled.program import Program, program_of
from penstock.errors import NotLifted
from penstock.expr.lift.forms import Signature, signature_of

NUMBERS = (
    "0",
    "1",
    "-1",
    "2",
    "3",
    "7",
    "-10",
    "1000",
    "2**31",
    "0.0",
    "1.0",
    "-0.0",
    "0.5",
    "2.5",
    "-3.25",
    "1e10",
)
SEEN: Counter[str] = Counter()


class Writer:
    """Writes one random function."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.names = ["x", "n", "b", "y"]
        self.lines: list[str] = []
        self.counters = 0

    def pick(self, *of: Any) -> Any:
        return self.chance.choice(of)

    def number(self, depth: int) -> str:
        if depth == 0 or self.chance.random() < 0.15:
            return self.pick(*NUMBERS, *self.names * 4)
        a, b = self.number(depth - 1), self.number(depth - 1)
        return self.pick(
            *(f"({a} {sign} {b})" for sign in ("+", "-", "*", "/", "//", "%", "+", "-", "*")),
            f"({a} ** {self.pick('2', '3', '0.5', '-1', '(n % 4)')})",
            f"({a} {self.pick('&', '|', '^', '<<', '>>')} {self.pick('1', '3', '(n % 5)')})",
            f"({a} if {self.condition(depth - 1)} else {b})",
            f"({a} {self.pick('and', 'or')} {b})",
            f"{self.pick('min', 'max')}({a}, {b})",
            f"({self.pick('abs', 'int', 'float', 'round', 'bool', '-', '+', '~', 'not ')}({a}))",
            f"round({a}, {self.pick(0, 1, 2, 5)})",
            f"math.{self.pick('floor', 'ceil', 'sqrt', 'log', 'exp', 'fabs', 'trunc')}({a})",
            f"(1, 2, 5, -3)[{a}]",
            f"sum(i * {a} for i in range(n % 4))",
            f"divmod({a}, {b})[{self.pick(0, 1)}]",
        )

    def condition(self, depth: int) -> str:
        a, b = self.number(max(depth, 0)), self.number(max(depth, 0))
        return self.pick(
            f"{a} {self.pick('<', '<=', '>', '>=', '==', '!=')} {b}",
            f"{a} < {b} <= {self.number(0)}",
            f"{a} in (1, 2.0, 7, -0.5)",
            f"not {a}",
            f"{a} > 1 {self.pick('and', 'or')} {b} < 2",
            "y is None",
            f"any({a} < i for i in range(3))",
        )

    def block(self, depth: int, indent: str, loop: bool) -> None:
        for _ in range(self.pick(1, 2, 3)):
            self.statement(depth, indent, loop)

    def statement(self, depth: int, indent: str, loop: bool) -> None:
        kind = self.pick(*range(10)) if depth else self.pick(0, 1, 2)
        inner = f"{indent}    "
        if kind <= 1:
            name = self.pick("u", "v", "w", "n", "x")
            self.lines.append(f"{indent}{name} = {self.number(2)}")
            if name not in self.names:
                self.names.append(name)
        elif kind == 2:
            self.lines.append(
                f"{indent}{self.pick(*self.names)} {self.pick('+', '-', '*', '//', '%')}= {self.number(1)}"
            )
        elif kind in (3, 4):
            self.lines.append(f"{indent}if {self.condition(1)}:")
            self.block(depth - 1, inner, loop)
            if self.pick(True, False):
                self.lines.append(f"{indent}else:")
                self.block(depth - 1, inner, loop)
        elif kind == 5:
            self.lines.append(
                f"{indent}for i in {self.pick('range(3)', 'range(n % 5)', '(1, 2, 4.5)', '(x, n)')}:"
            )
            self.lines.append(f"{inner}u = i")
            self.block(depth - 1, inner, True)
        elif kind == 6:
            self.counters += 1
            counter = f"k{self.counters}"
            self.lines += [f"{indent}{counter} = 0", f"{indent}while {counter} < 4 and {self.condition(1)}:"]
            self.lines.append(f"{inner}{counter} += 1")
            self.block(depth - 1, inner, True)
        elif kind == 7 and loop:
            self.lines += [f"{indent}if {self.condition(0)}:", f"{inner}{self.pick('break', 'continue')}"]
        elif kind == 8:
            self.lines += [
                f"{indent}if {self.condition(0)}:",
                f"{inner}return {self.pick(self.number(1), 'None')}",
            ]
        elif kind == 9:
            self.lines.append(f"{indent}try:")
            self.block(depth - 1, inner, loop)
            self.lines += [f"{indent}except ArithmeticError:", f"{inner}return -1"]
        else:
            self.lines.append(f"{indent}v = w")

    def program(self) -> str:
        declared = self.pick("float", "int", "float", "bool")
        self.lines = [f"def program(x: float, n: int, b: bool, y: float | None) -> {declared} | None:"]
        self.lines += ["    u = v = w = 0", f"    u = {self.number(1)}"]
        self.names += ["u", "v", "w"]
        self.block(3, "    ", False)
        result = self.condition(1) if declared == "bool" else self.number(1)
        return "\n".join([*self.lines, f"    return {result}", ""])


def function_of(source: str) -> types.FunctionType:
    name = f"<program {hash(source)}>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    scope: dict[str, Any] = {"math": math}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(compile(source, name, "exec", dont_inherit=True), scope)
    found = scope["program"]
    assert isinstance(found, types.FunctionType)
    return found


def interpreted(program: Program, rows: list[tuple[Any, ...]]) -> list[tuple[str, Any]]:
    """What the program's text gives as plain Python."""
    names: dict[str, Any] = {"jit": lambda function: function, "math": math, "nan": math.nan, "inf": math.inf}
    names["np"] = types.SimpleNamespace(
        array=lambda values, dtype: values, int64=None, float64=None, bool_=None
    )
    names |= {f"c_{name}": getattr(math, name) for name in C_NAME.findall(program.text)}
    exec(program.text, names)
    count = len(rows)
    found, empty, faulty = [None] * count, [False] * count, [False] * count
    columns = [[row[place] for row in rows] for place in range(len(program.arguments))]
    names["rows"](count, [False] * count, *columns, found, empty, faulty)
    return [
        ("faulty", None) if bad else ("returns", None if none else value)
        for value, none, bad in zip(found, empty, faulty, strict=True)
    ]


def compiled(program: Program, rows: list[tuple[Any, ...]]) -> list[tuple[str, Any]]:
    columns = [
        np.array([row[place] for row in rows], DTYPES[kind]) for place, kind in enumerate(program.arguments)
    ]
    found, empty, faulty = run(program, columns, np.zeros(len(rows), np.bool_))
    return [
        ("faulty", None) if bad else ("returns", None if none else value)
        for value, none, bad in zip(found.tolist(), empty, faulty, strict=True)
    ]


def rows_of(
    function: types.FunctionType, signature: Signature, count: int, modest: bool
) -> list[tuple[Any, ...]]:
    def fits(row: tuple[Any, ...]) -> bool:
        small = all(value is not None and (not math.isfinite(value) or abs(value) <= 300) for value in row)
        return None not in row and (small or not modest)

    generated = itertools.islice(inputs(signature.arguments, function), 100 * count)
    return list(itertools.islice(filter(fits, generated), count))


def differences(source: str, count: int, way: Any) -> list[str]:
    function = function_of(source)
    signature = signature_of(function, None, None)
    assert signature.returns is not None
    SEEN["programs"] += 1
    try:
        program = program_of(function, signature.arguments, signature.returns)
    except NotLifted as refusal:
        SEEN[refusal.reason] += 1
        return []
    SEEN["translated"] += 1
    wrong = []
    rows = rows_of(function, signature, count, "**" in source or "<<" in source)
    done = originals(function, list(signature.arguments), rows)
    finished = [(row, want) for row, want in zip(rows, done, strict=False) if want is not None]
    found = way(program, [row for row, _ in finished])
    for (row, original), have in zip(finished, found, strict=True):
        want = declared(original, signature.returns)
        SEEN["rows"] += 1
        if have[0] == "faulty":
            SEEN["left" if want[0] == "returns" else "raised"] += 1
        elif want[0] != "returns" or not same(want[1], have[1]):
            wrong.append(f"{source}\n{row}: Python {want}, program {have}")
    return wrong


def fuzz(seeds: range, count: int, way: Any) -> list[str]:
    return [one for seed in seeds for one in differences(Writer(seed).program(), count, way)]


def test_the_text_of_random_programs_agrees() -> None:
    SEEN.clear()
    assert fuzz(range(200), 30, interpreted) == []
    assert SEEN["translated"] > 0.4 * SEEN["programs"], "the fuzzer should not mostly write what is refused"
    assert SEEN["rows"] > 1.5 * (SEEN["left"] + SEEN["raised"]), "most rows have to be computed"


def test_some_of_them_compiled_agree() -> None:
    assert fuzz(range(10_000, 10_008), 60, compiled) == []


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_many_random_programs_agree() -> None:
    assert fuzz(range(20_000, 40_000), 50, interpreted) == []
    assert fuzz(range(50_000, 50_400), 200, compiled) == []
