"""Random Python functions out of the grammar that is lifted, as source text; for the fuzzer."""

from __future__ import annotations

import math
from datetime import datetime
from typing import Any

import hypothesis.strategies as st
import numpy as np
from hypothesis.strategies import DrawFn

FLOATS = ("0.0", "1.0", "-1.0", "0.5", "2.5", "-3.25", "100.0", "1e10", "0.1", "math.inf")
INTS = ("0", "1", "-1", "2", "3", "7", "-10", "64", "1000", "2**31")
TEXTS = ("''", "'a'", "'ab'", "' '", "'1'", "','", "'\\U0001f600'", "'ß'")
RATES: dict[Any, Any] = {
    **{f"a{number}": number / 3 for number in range(20)},
    "a": 1,
    "": 2.5,
    1: 7,
    None: -1.0,
}
SCOPE: dict[str, Any] = {
    "math": math,
    "np": np,
    "datetime": datetime,
    "RATES": RATES,
    "LIMIT": 2.5,
    "WORDS": frozenset({"a", "ab", "1", "", *(f"w{number}" for number in range(20))}),
    "PAIRS": {(1, "a"), (0, ""), (2, "ab")},
}
"""What programs find outside."""
HELPER = """def helper(v, k=2, *, low=LIMIT):
    if v is None:
        return low
    return v * k if v > low else v - k

"""
"""A function that programs call."""
ARGUMENTS = (
    ("x", "float"),
    ("y", "float | None"),
    ("n", "int"),
    ("m", "int | None"),
    ("s", "str"),
    ("t", "str | None"),
    ("b", "bool"),
    ("fs", "list[float]"),
    ("ns", "list[int] | None"),
    ("ws", "list[str]"),
    ("at", "datetime"),
)
REALS = ("fs", "fs", "fs[1:]", "fs[:n]", "fs[::-1]", "fs[-3:-1]")
WHOLES = ("ns", "ns", "ns[1:]", "(ns or [])[:0]", "ns[n:m]", "ns[::-1]")
WORDS = ("ws", "ws", "ws[1:]", "s.split(',')", "s.split()", "ws[-2:]")


@st.composite
def number(draw: DrawFn, depth: int, names: tuple[str, ...]) -> str:
    """An expression that is mostly a number."""
    if depth == 0 or draw(st.integers(0, 5)) == 0:
        return draw(st.sampled_from((*(FLOATS), *INTS, *(names * 3), "x", "n", "y", "m", "b")))

    def inner() -> str:
        return draw(number(depth - 1, names))

    kind = draw(st.integers(0, 36))
    if kind == 30:
        return (
            f"sum({draw(st.sampled_from((*REALS, *WHOLES)))}{draw(st.sampled_from(('', '', ', n', ', m')))})"
        )
    if kind == 31:
        default = draw(st.sampled_from(("", "", f", default={inner()}")))
        return f"{draw(st.sampled_from(('max', 'min')))}({draw(st.sampled_from((*REALS, *WHOLES)))}{default})"
    if kind == 32:
        return f"len({draw(st.sampled_from((*REALS, *WHOLES, *WORDS)))})"
    if kind == 33:
        return f"{draw(st.sampled_from((*REALS, *WHOLES)))}[{inner()}]"
    if kind == 34:
        method = draw(st.sampled_from(("count", "index")))
        return f"{draw(st.sampled_from((*REALS, *WHOLES)))}.{method}({inner()})"
    if kind == 35:
        whole = draw(st.sampled_from((f"isqrt({inner()})", f"remainder({inner()}, x)")))
        return f"math.{draw(st.sampled_from((whole, 'modf(x)[0]')))}"
    if kind == 36:
        return draw(st.sampled_from(("at.microsecond", "at.toordinal()", "at.date().weekday()", "at.hour")))
    if kind == 22:
        return f"helper({inner()}{draw(st.sampled_from(('', ', 3', ', k=n', ', low=x')))})"
    if kind == 23:
        return f"RATES.get({draw(st.one_of(number(depth - 1, names), text(depth - 1, names)))}, LIMIT)"
    if kind == 24:
        function = draw(st.sampled_from(("sqrt", "log1p", "floor", "abs", "round", "rint", "log2")))
        return f"float(np.{function}(float({inner()})))"
    if kind == 25:
        return f"float(np.clip(float({inner()}), {draw(st.sampled_from(('0', '-1.5', 'None')))}, LIMIT))"
    if kind == 26:
        method = draw(
            st.sampled_from(("count('a')", "rfind('a')", "find('a', 1)", "index(',')", "count('ab')"))
        )
        return f"{draw(text(depth - 1, names))}.{method}"
    if kind == 27:
        return f"sum(v for v in (x, y, m, {inner()}) if v is not None)"
    if kind == 28:
        return f"len([v for v in (x, y, m, {inner()}) if v])"
    if kind == 29:
        return f"round({draw(st.sampled_from(('n', 'm or 0', 'len(s)')))}, {draw(st.integers(-3, -1))})"
    if kind <= 4:
        sign = draw(st.sampled_from(("+", "-", "*", "/", "//", "%")))
        return f"({inner()} {sign} {inner()})"
    if kind == 5:
        return f"({inner()} if {draw(condition(depth - 1, names))} else {inner()})"
    if kind == 6:
        return f"{draw(st.sampled_from(('max', 'min')))}({inner()}, {inner()})"
    if kind == 7:
        return f"abs({inner()})"
    if kind == 8:
        return f"-{inner()}"
    if kind == 9:
        return f"int({inner()})"
    if kind == 10:
        return f"float({draw(st.one_of(number(depth - 1, names), text(depth - 1, names)))})"
    if kind == 11:
        return draw(st.sampled_from((f"round({inner()})", f"round({inner()}, 2)")))
    if kind == 12:
        return f"len({draw(text(depth - 1, names))})"
    if kind == 13:
        return f"({inner()} {draw(st.sampled_from(('and', 'or')))} {inner()})"
    if kind == 14:
        return f"math.{draw(st.sampled_from(('floor', 'sqrt', 'log', 'exp', 'fabs', 'ceil', 'isnan')))}({inner()})"
    if kind == 15:
        return f"{draw(text(depth - 1, names))}.find({draw(text(depth - 1, names))})"
    if kind == 17:
        return f"({inner()} ** {draw(st.sampled_from(('2', '3', '0.5', '-1', '(n % 4)')))})"
    if kind == 18:
        sign, other = (
            draw(st.sampled_from(("&", "|", "^", "<<", ">>"))),
            draw(st.sampled_from(("1", "7", "n", "3"))),
        )
        return f"({inner()} {sign} {other})"
    if kind == 19:
        return f"round({inner()}, {draw(st.integers(0, 6))})"
    if kind == 20:
        return f"{{0: 1.5, 1: 2, 'a': 3, 2.5: None}}[{inner()}]"
    if kind == 21:
        return f"(1, 2.5, x)[{inner()}]"
    return f"{{0: 1.5, 1: 2, 'a': 3}}.get({draw(st.one_of(number(depth - 1, names), text(depth - 1, names)))}, -1)"


@st.composite
def text(draw: DrawFn, depth: int, names: tuple[str, ...]) -> str:
    """An expression that is mostly a text."""
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        return draw(st.sampled_from((*TEXTS, "s", "s", "t")))

    def inner() -> str:
        return draw(text(depth - 1, names))

    kind = draw(st.integers(0, 22))
    if kind == 20:
        return f"{draw(text(0, names))}.join({draw(st.sampled_from(WORDS))})"
    if kind == 21:
        one = draw(st.sampled_from(WORDS))
        return draw(
            st.sampled_from((f"{one}[{draw(number(depth - 1, names))}]", f"max({one})", f"min({one})"))
        )
    if kind == 22:
        return draw(st.sampled_from(("str(at)", "f'{at.date()}'", "at.isoformat()")))
    if kind == 14:
        spec = draw(st.sampled_from((">6", "<8", "*>4", "6d", "05d", "<3")))
        return f"f'{{n:{spec}}}|{{s:{spec.rstrip('d').lstrip('0')}}}'"
    if kind == 15:
        return f"{inner()}.replace('a', 'bb', 1)"
    if kind == 16:
        cut = draw(
            st.sampled_from(("split(',', 1)[0]", "split('a', 1)[-1]", "rsplit('a', 1)[1]", "split(',')[-1]"))
        )
        return f"{inner()}.{cut}"
    if kind == 17:
        return f"('%s|%03d|%-4s' % ({inner()}, n, s))"
    if kind == 18:
        return f"{inner()}.rpartition('a')[{draw(st.integers(0, 2))}]"
    if kind == 19:
        return f"{{'a': {inner()}, 'ab': s}}.get({inner()}, '?')"
    if kind == 0:
        return f"({inner()} + {inner()})"
    if kind == 10:
        return f"{inner()}[{draw(number(depth - 1, names))}]"
    if kind == 11:
        return f"{inner()}[{draw(number(depth - 1, names))} :{draw(st.sampled_from(('', 'n', '-1', '3')))}]"
    if kind == 12:
        return f"f'{{{draw(st.sampled_from(('x', 'n')))}:.{draw(st.integers(0, 4))}f}}'"
    if kind == 13:
        return f"{inner()}.partition(',')[{draw(st.integers(0, 2))}]"
    if kind == 1:
        return f"{inner()}.{draw(st.sampled_from(('strip', 'upper', 'lower', 'lstrip', 'rstrip')))}()"
    if kind == 2:
        return f"{inner()}[{draw(st.sampled_from(('0', '-1', '1:', ':-1', '-3:2', '::-1', '1:3')))}]"
    if kind == 3:
        return f"{inner()}.replace('a', {draw(st.sampled_from(TEXTS))})"
    if kind == 4:
        return f"({inner()} if {draw(condition(depth - 1, names))} else {inner()})"
    if kind == 5:
        return f"str({draw(st.sampled_from(('n', 'b', 'm', 's')))})"
    if kind == 6:
        return f"f'{{{draw(st.sampled_from(('n', 's', 't', 'b')))}}}-'"
    if kind == 7:
        return f"({inner()} or {inner()})"
    if kind == 8:
        return f"{inner()}.zfill(4)"
    return f"'-'.join({inner()}.split({draw(st.sampled_from(('', repr(','), repr('a'))))}))"


@st.composite
def condition(draw: DrawFn, depth: int, names: tuple[str, ...]) -> str:
    """An expression that is asked whether it is true."""
    if depth <= 0:
        return draw(
            st.sampled_from(("b", "x > 0", "y is None", "n", "s", "t is not None", "n % 2 == 0", "m"))
        )

    def inner() -> str:
        return draw(condition(depth - 1, names))

    kind = draw(st.integers(0, 19))
    if kind == 17:
        found = draw(st.sampled_from(("in", "not in")))
        return f"({draw(number(depth - 1, names))} {found} {draw(st.sampled_from((*REALS, *WHOLES)))})"
    if kind == 18:
        return f"({draw(text(depth - 1, names))} in {draw(st.sampled_from(WORDS))})"
    if kind == 19:
        which = draw(st.sampled_from(("any", "all", "bool")))
        return f"{which}({draw(st.sampled_from((*REALS, *WHOLES, *WORDS)))})"
    if kind == 11:
        edge = draw(st.sampled_from(("startswith", "endswith")))
        return f"{draw(text(depth - 1, names))}.{edge}({draw(st.sampled_from((*TEXTS, '(chr(97), chr(49))', 's')))})"
    if kind == 12:
        return f"({draw(text(depth - 1, names))} in WORDS)"
    if kind == 13:
        return f"(({draw(number(depth - 1, names))}, {draw(text(depth - 1, names))}) in PAIRS)"
    if kind == 14:
        which, value = draw(st.sampled_from(("any", "all"))), draw(number(depth - 1, names))
        return f"{which}(1 / ({value} - t) > 0.5 for t in (0, 1, 2.5))"
    if kind == 15:
        return (
            f"math.isclose({draw(number(depth - 1, names))}, {draw(number(depth - 1, names))}, abs_tol=0.25)"
        )
    if kind == 16:
        return f"({draw(number(depth - 1, names))} in {{0, 1, 2.5, LIMIT}})"
    if kind == 0:
        return f"({inner()} {draw(st.sampled_from(('and', 'or')))} {inner()})"
    if kind == 9:
        values = [draw(number(depth - 1, names)) for _ in range(3)]
        return f"(({values[0]}, s) {draw(st.sampled_from(('<', '==', '>=')))} ({values[1]}, 'a'))"
    if kind == 10:
        return f"any(v is None or v > {draw(number(0, names))} for v in (x, y, {draw(number(depth - 1, names))}))"
    if kind == 1:
        return f"not {inner()}"
    if kind == 2:
        signs = ("<", "<=", ">", ">=", "==", "!=")
        one, other = draw(st.sampled_from(signs)), draw(st.sampled_from(signs))
        values = [draw(number(depth - 1, names)) for _ in range(3)]
        return f"({values[0]} {one} {values[1]} {other} {values[2]})"
    if kind == 3:
        return f"({draw(text(depth - 1, names))} in {draw(text(depth - 1, names))})"
    if kind == 4:
        return f"({draw(number(depth - 1, names))} in (0, 1.5, None, 7))"
    if kind == 5:
        return f"({draw(text(depth - 1, names))} == {draw(text(depth - 1, names))})"
    if kind == 6:
        return f"{draw(text(depth - 1, names))}.{draw(st.sampled_from(('isdigit', 'isalpha')))}()"
    if kind == 7:
        return (
            f"isinstance({draw(number(depth - 1, names))}, {draw(st.sampled_from(('int', 'float', 'bool')))})"
        )
    sign = draw(st.sampled_from(("<", ">=", "==")))
    return f"({draw(number(depth - 1, names))} {sign} {draw(number(depth - 1, names))})"


@st.composite
def block(draw: DrawFn, depth: int, names: tuple[str, ...], indent: str, loop: bool) -> list[str]:
    """Some statements."""
    lines: list[str] = []
    for _ in range(draw(st.integers(1, 3))):
        kind = draw(st.integers(0, 12))
        name = draw(st.sampled_from(("p", "q", "r")))
        if kind <= 2:
            lines.append(f"{indent}{name} = {draw(number(2, names))}")
            names = (*names, name)
        elif kind == 3 and names:
            sign = draw(st.sampled_from(("+", "-", "*")))
            lines.append(f"{indent}{draw(st.sampled_from(names))} {sign}= {draw(number(1, names))}")
        elif kind == 4 and depth:
            lines.append(f"{indent}if {draw(condition(2, names))}:")
            lines += draw(block(depth - 1, names, indent + "    ", loop))
            if draw(st.booleans()):
                lines.append(f"{indent}else:")
                lines += draw(block(depth - 1, names, indent + "    ", loop))
        elif kind == 5 and depth:
            lines.append(f"{indent}for i in {draw(st.sampled_from(('range(3)', '(1, 2.5)', '(x, n)')))}:")
            lines += draw(block(depth - 1, (*names, "i"), indent + "    ", True))
            if draw(st.booleans()):
                lines += [f"{indent}else:", f"{indent}    {name} = {draw(number(1, names))}"]
        elif kind == 6 and depth:
            lines.append(f"{indent}try:")
            lines.append(f"{indent}    {name} = {draw(number(2, names))}")
            errors = draw(
                st.sampled_from(("ValueError", "ZeroDivisionError", "(TypeError, ValueError)", "Exception"))
            )
            lines += [f"{indent}except {errors}:", f"{indent}    {name} = {draw(number(1, names))}"]
            names = (*names, name)
        elif kind == 10:
            lines.append(f"{indent}{name} = (lambda v, k=LIMIT: v * k if v else k)({draw(number(1, names))})")
            names = (*names, name)
        elif kind == 11:
            lines += [
                f"{indent}kept = [{draw(number(1, names))}]",
                f"{indent}kept.append({draw(number(1, names))})",
            ]
            lines.append(f"{indent}{name} = kept[-1]")
            names = (*names, name)
        elif kind == 12:
            lines.append(f"{indent}if ({name} := {draw(number(1, names))}) == {draw(number(0, names))}:")
            lines.append(f"{indent}    {name} = {draw(number(0, names))}")
            names = (*names, name)
        elif kind == 7:
            lines.append(f"{indent}if {draw(condition(1, names))}:")
            what = "raise ValueError('no')" if draw(st.booleans()) else f"return {draw(number(1, names))}"
            lines.append(f"{indent}    {draw(st.sampled_from(('break', 'continue'))) if loop else what}")
        else:
            lines.append(f"{indent}{name} = {draw(condition(2, names))}")
            names = (*names, name)
    return lines


@st.composite
def programs(draw: DrawFn) -> str:
    """A function of the grammar, as text."""
    lines = draw(block(2, (), "    ", False))
    result, declared = draw(
        st.sampled_from(
            ((number, "float | None"), (condition, "bool"), (text, "str | None"), (number, "int | None"))
        )
    )
    value = draw(result(2, ()))
    wrapped = f"bool({value})" if declared == "bool" else value
    given = ", ".join(f"{name}: {of}" for name, of in ARGUMENTS)
    return HELPER + "\n".join([f"def program({given}) -> {declared}:", *lines, f"    return {wrapped}", ""])
