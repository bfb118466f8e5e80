"""Random Python functions out of the grammar that is lifted, as source text; for the fuzzer."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis.strategies import DrawFn

FLOATS = ("0.0", "1.0", "-1.0", "0.5", "2.5", "-3.25", "100.0", "1e10", "0.1", "math.inf")
INTS = ("0", "1", "-1", "2", "3", "7", "-10", "64", "1000", "2**31")
TEXTS = ("''", "'a'", "'ab'", "' '", "'1'", "','", "'\\U0001f600'", "'ß'")
ARGUMENTS = (
    ("x", "float"),
    ("y", "float | None"),
    ("n", "int"),
    ("m", "int | None"),
    ("s", "str"),
    ("t", "str | None"),
    ("b", "bool"),
)


@st.composite
def number(draw: DrawFn, depth: int, names: tuple[str, ...]) -> str:
    """An expression that is mostly a number."""
    if depth == 0 or draw(st.integers(0, 5)) == 0:
        return draw(st.sampled_from((*(FLOATS), *INTS, *(names * 3), "x", "n", "y", "m", "b")))

    def inner() -> str:
        return draw(number(depth - 1, names))

    kind = draw(st.integers(0, 21))
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

    kind = draw(st.integers(0, 13))
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

    kind = draw(st.integers(0, 10))
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
        kind = draw(st.integers(0, 9))
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
        elif kind == 6 and depth:
            lines.append(f"{indent}try:")
            lines.append(f"{indent}    {name} = {draw(number(2, names))}")
            errors = draw(
                st.sampled_from(("ValueError", "ZeroDivisionError", "(TypeError, ValueError)", "Exception"))
            )
            lines += [f"{indent}except {errors}:", f"{indent}    {name} = {draw(number(1, names))}"]
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
    return "\n".join([f"def program({given}) -> {declared}:", *lines, f"    return {wrapped}", ""])
