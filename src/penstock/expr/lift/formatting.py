"""f-strings and str.format: values as texts, in the formats that every engine can write."""

from __future__ import annotations

import string

from penstock.expr.lift.builtin import is_plain, native
from penstock.expr.lift.conversion import fixed_text, to_text
from penstock.expr.lift.machine import Machine
from penstock.expr.lift.values import Known, Typed, Value

MOST_DIGITS = 15


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
    if not spec or (spec == "s" and x.kind == "str") or (spec == "d" and x.kind == "int"):
        return to_text(machine, x)
    if x.kind == "int" and spec[0] == "0" and spec.rstrip("d").isdigit():
        params = {"width": int(spec.rstrip("d"))}
        return machine.over(
            [to_text(machine, x)],
            lambda text: machine.one("str", machine.trees.make("text_zfill", text.held, params=params)),
        )
    digits = spec[1:-1] if spec[0] == "." and spec[-1] == "f" else ""
    if x.kind in ("int", "float") and digits.isdigit() and int(digits) <= MOST_DIGITS:
        return fixed_text(machine, x, int(digits))
    machine.refuse(
        f"the format {spec!r} of a {x.python}",
        "Formats are those of str, and 02d, .2f and their like for numbers.",
    )


def filled(machine: Machine, template: str, args: list[Value], words: dict[str, Value]) -> Value:
    """template.format(...)."""
    parts: list[Value] = []
    count = 0
    for before, name, spec, conversion in string.Formatter().parse(template):
        parts += [Known(before)] if before else []
        if name is None:
            continue
        if name == "" or name.isdigit():
            number = int(name) if name else count
            value = args[number] if number < len(args) else None
            count += 1
        else:
            value = words.get(name)
        if value is None or conversion:
            machine.refuse(f"the template {template!r}", "Use an f-string.")
        parts.append(shown(machine, value, spec or ""))
    return concatenated(machine, parts)
