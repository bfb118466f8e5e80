"""f-strings, str.format and the operator %: values as texts, in the formats that every engine can write."""

from __future__ import annotations

import re
import string
from collections.abc import Iterator

from penstock.expr.lift.conversion import fixed_text, to_text
from penstock.expr.lift.known import is_plain, native
from penstock.expr.lift.machine import Machine
from penstock.expr.lift.values import Known, Seq, Typed, Value

MOST_DIGITS = 15
MANUAL = "manual field specification to automatic field numbering"
AUTOMATIC = "automatic field numbering to manual field specification"
WIDEST = 1000
SPEC = re.compile(
    r"(?:(?P<fill>[^{}])?(?P<align>[<>]))?(?P<zero>0)?(?P<width>\d+)?(?:\.(?P<digits>\d+))?(?P<type>[sdf])?"
)
PERCENT = re.compile(r"%(?:%|(?P<left>-)?(?P<zero>0)?(?P<width>\d+)?(?:\.(?P<digits>\d+))?(?P<type>[sdf]))")


def concatenated(machine: Machine, parts: list[Value]) -> Value:
    """Texts, one after the other."""
    if all(isinstance(part, Known) for part in parts):
        return Known("".join(part.value for part in parts if isinstance(part, Known)))
    return machine.over(
        parts,
        lambda *texts: machine.one("str", machine.trees.make("text_concat", *(text.held for text in texts))),
    )


def shown(machine: Machine, value: Value, spec: str) -> Value:
    """format(value, spec)."""
    if is_plain(value):
        return native(machine, format, [value, Known(spec)], {})
    return machine.over([value], lambda x: _of_case(machine, x, spec))


def _of_case(machine: Machine, x: Typed, spec: str) -> Value:
    if not spec:
        return to_text(machine, x)
    found = SPEC.fullmatch(spec)
    if found is None or not _fits(x, found):
        machine.refuse(
            f"the format {spec!r} of a {x.python}",
            "Formats are those of str, and 02d, .2f, >8 and their like for numbers.",
        )
    width = int(found["width"] or 0)
    if found["digits"] is not None and x.kind != "str":
        text = fixed_text(machine, x, int(found["digits"]))
    elif found["digits"] is not None:
        cut = (x.held, machine.whole(0), machine.whole(int(found["digits"])))
        text = machine.one("str", machine.trees.make("text_slice", *cut))
    else:
        text = to_text(machine, x)
    if not width:
        return text
    if found["zero"]:
        op, params = "text_zfill", dict[str, object](width=width)
    else:
        left = (found["align"] or ("<" if x.kind == "str" else ">")) == "<"
        op = "text_pad"
        params = {"width": width, "character": found["fill"] or " ", "side": "right" if left else "left"}
    return machine.over(
        [text], lambda shown: machine.one("str", machine.trees.make(op, shown.held, params=params))
    )


def _fits(x: Typed, spec: re.Match[str]) -> bool:
    """Whether a format is one that is written here the same."""
    kind, digits = spec["type"], spec["digits"]
    if int(spec["width"] or 0) > WIDEST or (spec["zero"] and spec["align"]):
        return False
    if x.kind == "str":
        return kind in (None, "s") and not spec["zero"]
    if x.kind == "int":
        return (kind in (None, "d") and digits is None) or (kind == "f" and _some(digits))
    return x.kind == "float" and kind == "f" and _some(digits)


def _some(digits: str | None) -> bool:
    return digits is not None and int(digits) <= MOST_DIGITS


def filled(machine: Machine, template: str, args: list[Value], words: dict[str, Value]) -> Value:
    """template.format(...)."""
    parts: list[Value] = []
    count, numbered = 0, False
    for before, name, spec, conversion in _fields(machine, template):
        parts += [Known(before)] if before else []
        if name is None:
            continue
        if name == "" or name.isdecimal():
            if numbered if name == "" else count:
                machine.fail("ValueError", f"cannot switch from {MANUAL if numbered else AUTOMATIC}")
            numbered = name != ""
            number = int(name) if name else count
            value = args[number] if number < len(args) else None
            count += not numbered
        else:
            value = words.get(name)
        if value is None or conversion or "{" in (spec or ""):
            machine.refuse(f"the template {template!r}", "Use an f-string.")
        parts.append(shown(machine, value, spec or ""))
    return concatenated(machine, parts)


def _fields(machine: Machine, template: str) -> Iterator[tuple[str, str | None, str | None, str | None]]:
    """The pieces of a template; it may be wrong behind some that are right, and then raises after these."""
    pieces = iter(string.Formatter().parse(template))
    while True:
        try:
            piece = next(pieces, None)
        except ValueError as error:
            machine.fail("ValueError", str(error))
        if piece is None:
            return
        yield piece


def percent(machine: Machine, template: str, value: Value) -> Value:
    """template % value."""
    given = value.items if isinstance(value, Seq) and value.kind is tuple else (value,)
    found = list(PERCENT.finditer(template))
    wanted = [one for one in found if one["type"]]
    if PERCENT.sub("", template).count("%"):
        machine.refuse(f"the template {template!r}", "Use an f-string.")
    if len(wanted) != len(given):
        few = len(given) < len(wanted)
        machine.fail(
            "TypeError",
            "not enough arguments for format string"
            if few
            else "not all arguments converted during string formatting",
        )
    parts: list[Value] = []
    place, values = 0, iter(given)
    for one in found:
        parts += [Known(template[place : one.start()])]
        place = one.end()
        parts.append(_in_percent(machine, template, one, next(values)) if one["type"] else Known("%"))
    return concatenated(machine, [*parts, Known(template[place:])])


def _in_percent(machine: Machine, template: str, one: re.Match[str], value: Value) -> Value:
    """One %...: the same as a format, but that %s takes anything, and looks to the right."""
    if is_plain(value):
        return native(machine, lambda text, given: text % (given,), [Known(one[0]), value], {})

    def of_case(x: Typed) -> Value:
        if one["type"] == "d" and x.kind == "int" and one["digits"] is None:
            return _of_case(machine, x, _spec(one, "d"))
        if one["type"] == "f" and x.kind in ("int", "float"):
            return _of_case(machine, x, _spec(one, f".{one['digits'] or 6}f"))
        if one["type"] == "s" and not one["zero"]:
            text = to_text(machine, x)
            return machine.over([text], lambda held: _of_case(machine, held, _spec(one, "s")))
        if one["type"] in ("d", "f") and x.kind in ("str", "none"):
            wanted = "a real number is required" if one["type"] == "d" else "must be real number"
            machine.fail("TypeError", f"{wanted}, not {x.python}")
        machine.refuse(f"the template {template!r} of a {x.python}", "Use an f-string.")

    return machine.over([value], of_case)


def _spec(one: re.Match[str], rest: str) -> str:
    zero = "0" if one["zero"] and not one["left"] else ""
    align = ("<" if one["left"] else ">") if one["width"] and not zero else ""
    digits = f".{one['digits']}" if rest == "s" and one["digits"] is not None else ""
    return f"{align}{zero}{one['width'] or ''}{digits}{rest}"
