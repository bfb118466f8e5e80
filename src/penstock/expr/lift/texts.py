"""The methods of str, and its indexing and slicing, on texts that differ from row to row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from penstock.expr.characters import TESTS
from penstock.expr.lift.arithmetic import as_int
from penstock.expr.lift.lists import item_kind, sliced_list
from penstock.expr.lift.machine import Machine
from penstock.expr.lift.splitting import halved, last_place
from penstock.expr.lift.values import GREATEST, LEAST, Known, Seq, Symbol, Typed, Value
from penstock.expr.nodes import Expression
from penstock.expr.types import STRING, list_of

LENGTH = (0, (1 << 31) - 1)
WHITE = "their white space"


def _text(machine: Machine, expr: Expression) -> Symbol:
    return machine.one("str", expr)


def _truth(machine: Machine, expr: Expression) -> Symbol:
    return machine.one("bool", expr)


def _count(machine: Machine, expr: Expression, least: int = 0) -> Symbol:
    return Symbol(((machine.trees.true, Typed("int", expr, least, LENGTH[1])),))


def _constant(machine: Machine, method: str, value: Value, wanted: type) -> Any:
    if not isinstance(value, Known):
        machine.refuse(
            f"str.{method}() with an argument that differs from row to row",
            "Use a constant, or ==, + and slices.",
        )
    if type(value.value) is not wanted:
        machine.refuse(f"str.{method}() with {value.value!r}", f"Give a {wanted.__name__}.")
    return value.value


def _expr(machine: Machine, method: str, value: Value) -> Expression:
    """An argument that has to be a text, constant or not."""
    symbol = machine.symbol(value)
    if len(symbol.cases) != 1 or symbol.cases[0][1].kind != "str":
        machine.refuse(f"str.{method}() with an argument that may be no text", "Make sure that it is a str.")
    return symbol.cases[0][1].held


def _plain(op: str) -> Callable[..., Value]:
    def method(machine: Machine, x: Expression, args: Sequence[Value]) -> Value:
        _takes(machine, op, args, 0, 0)
        return _text(machine, machine.trees.make(op, x))

    return method


def _takes(machine: Machine, method: str, args: Sequence[Value], least: int, most: int) -> None:
    if not least <= len(args) <= most:
        machine.refuse(f"str.{method}() with {len(args)} arguments", f"Give {least} to {most}.")


def _strip(side: str, name: str) -> Callable[..., Value]:
    def method(machine: Machine, x: Expression, args: Sequence[Value]) -> Value:
        _takes(machine, name, args, 0, 1)
        if not args or (isinstance(args[0], Known) and args[0].value is None):
            if side == "both":
                return _text(machine, machine.trees.make("strip", x))
            return _text(machine, machine.trees.make("text_strip", x, params={"side": side}))
        characters = _constant(machine, name, args[0], str)
        return _text(
            machine, machine.trees.make("text_strip", x, params={"side": side, "characters": characters})
        )

    return method


def _edge(name: str) -> Callable[..., Value]:
    """startswith and endswith."""

    def method(machine: Machine, x: Expression, args: Sequence[Value]) -> Value:
        _takes(machine, name, args, 1, 1)
        trees = machine.trees
        if isinstance(args[0], Seq) or (isinstance(args[0], Known) and isinstance(args[0].value, tuple)):
            parts = args[0].items if isinstance(args[0], Seq) else [Known(one) for one in args[0].value]
            found = trees.false
            for one in parts:
                found = trees.either(
                    found, trees.make(name, x, params={"text": _constant(machine, name, one, str)})
                )
            return _truth(machine, found)
        if isinstance(args[0], Known):
            return _truth(
                machine, trees.make(name, x, params={"text": _constant(machine, name, args[0], str)})
            )
        part = _expr(machine, name, args[0])
        length = trees.make("length", part)
        if name == "startswith":
            return _truth(
                machine, trees.make("eq", trees.make("text_slice", x, machine.whole(0), length), part)
            )
        start = trees.make("int_subtract", trees.make("length", x), length)
        fits = trees.make("ge", start, machine.whole(0))
        tail = trees.make("text_slice", x, start, machine.whole(GREATEST))
        return _truth(machine, trees.both(fits, trees.make("eq", tail, part)))

    return method


def _replace(machine: Machine, x: Expression, args: Sequence[Value]) -> Value:
    _takes(machine, "replace", args, 2, 3)
    old, new = (_constant(machine, "replace", arg, str) for arg in args[:2])
    times = _constant(machine, "replace", args[2], int) if len(args) == 3 else -1
    if not old:
        machine.refuse("str.replace('', ...) puts a text between all characters", "Replace something.")
    if times == 0:
        return _text(machine, x)
    if times > 1:
        machine.refuse(f"str.replace() {times} times", "Replace once, or everywhere.")
    if times < 0:
        return _text(machine, machine.trees.make("replace", x, params={"old": old, "new": new}))
    halves = halved(machine, x, old, last=False)
    changed = machine.trees.make("text_concat", halves.before, machine.text(new), halves.behind)
    return _text(machine, machine.trees.choose(halves.there, changed, x))


def _place(machine: Machine, name: str, x: Expression, args: Sequence[Value]) -> Expression:
    """Where a part begins, for find, index and those that look from the right."""
    last = name.startswith("r")
    _takes(machine, name, args, 1, 1 if last else 2)
    part = _expr(machine, name, args[0])
    if last:
        return last_place(machine, x, part)
    if len(args) == 1:
        return machine.trees.make("text_find", x, part)
    start = _constant(machine, name, args[1], int)
    if start < 0 or not _constant(machine, name, args[0], str):
        machine.refuse(f"str.{name}() of nothing, or from a place counted from the end", "Use a slice.")
    trees, begin = machine.trees, machine.whole(start)
    rest = trees.make("text_find", trees.make("text_slice", x, begin, machine.whole(GREATEST)), part)
    missing = trees.make("lt", rest, machine.whole(0))
    return trees.choose(missing, machine.whole(-1), trees.make("int_add", rest, begin))


def _find(name: str) -> Callable[..., Value]:
    def method(machine: Machine, x: Expression, args: Sequence[Value]) -> Value:
        return _count(machine, _place(machine, name, x, args), -1)

    return method


def _index(name: str) -> Callable[..., Value]:
    def method(machine: Machine, x: Expression, args: Sequence[Value]) -> Value:
        place = _place(machine, name, x, args)
        machine.fault(machine.trees.make("lt", place, machine.whole(0)), "ValueError", "substring not found")
        return _count(machine, place)

    return method


def _number(machine: Machine, x: Expression, args: Sequence[Value]) -> Value:
    _takes(machine, "count", args, 1, 1)
    part = _constant(machine, "count", args[0], str)
    if not part:
        machine.refuse("str.count('')", "Use len(s) + 1.")
    return _count(machine, machine.trees.make("text_count", x, params={"part": part}))


def _split(machine: Machine, x: Expression, args: Sequence[Value]) -> Value:
    if len(args) == 2 and isinstance(args[1], Known) and args[1].value == -1:
        args = args[:1]
    if len(args) == 2:
        machine.refuse(
            "str.split() of a number of times is kept as a list",
            "Take what is needed of it at once: s.split(',', 1)[0], or a, b = s.split(',', 1).",
        )
    _takes(machine, "split", args, 0, 1)
    if not args or (isinstance(args[0], Known) and args[0].value is None):
        words = machine.trees.make("text_words", x)
    else:
        separator = _constant(machine, "split", args[0], str)
        if not separator:
            machine.fail("ValueError", "empty separator")
        words = machine.trees.make("split", x, params={"separator": separator})
    return Symbol(((machine.trees.true, Typed("list", words, type=list_of(STRING))),))


def _partition(name: str) -> Callable[..., Value]:
    """partition and rpartition."""

    def method(machine: Machine, x: Expression, args: Sequence[Value]) -> Value:
        _takes(machine, name, args, 1, 1)
        separator = _constant(machine, name, args[0], str)
        if not separator:
            machine.fail("ValueError", "empty separator")
        trees, nothing = machine.trees, machine.text("")
        last = name == "rpartition"
        halves = halved(machine, x, separator, last)
        return Seq(
            (
                _text(machine, trees.choose(halves.there, halves.before, nothing if last else x)),
                _text(machine, trees.choose(halves.there, machine.text(separator), nothing)),
                _text(machine, trees.choose(halves.there, halves.behind, x if last else nothing)),
            )
        )

    return method


def _zfill(machine: Machine, x: Expression, args: Sequence[Value]) -> Value:
    _takes(machine, "zfill", args, 1, 1)
    width = _constant(machine, "zfill", args[0], int)
    return _text(machine, machine.trees.make("text_zfill", x, params={"width": max(width, 0)}))


def _just(side: str, name: str) -> Callable[..., Value]:
    def method(machine: Machine, x: Expression, args: Sequence[Value]) -> Value:
        _takes(machine, name, args, 1, 2)
        width = _constant(machine, name, args[0], int)
        character = _constant(machine, name, args[1], str) if len(args) > 1 else " "
        params = {"width": max(width, 0), "character": character, "side": side}
        return _text(machine, machine.trees.make("text_pad", x, params=params))

    return method


def _remove(name: str) -> Callable[..., Value]:
    """removeprefix and removesuffix."""

    def method(machine: Machine, x: Expression, args: Sequence[Value]) -> Value:
        _takes(machine, name, args, 1, 1)
        part = _constant(machine, name, args[0], str)
        if not part:
            return _text(machine, x)
        trees = machine.trees
        if name == "removeprefix":
            there = trees.make("startswith", x, params={"text": part})
            rest = trees.make("text_slice", x, machine.whole(len(part)), machine.whole(GREATEST))
        else:
            there = trees.make("endswith", x, params={"text": part})
            rest = trees.make("text_slice", x, machine.whole(LEAST), machine.whole(-len(part)))
        return _text(machine, trees.choose(there, rest, x))

    return method


def _is(test: str) -> Callable[..., Value]:
    def method(machine: Machine, x: Expression, args: Sequence[Value]) -> Value:
        _takes(machine, test, args, 0, 0)
        return _truth(machine, machine.trees.make("text_is", x, params={"test": test}))

    return method


def joined(machine: Machine, separator: str, value: Value) -> Value:
    """separator.join(value)."""
    trees = machine.trees
    if isinstance(value, Seq):
        parts: list[Expression] = []
        for item in value.items:
            parts += [machine.text(separator)] if parts and separator else []
            parts.append(_expr(machine, "join", item))
        if not parts:
            return Known("")
        return _text(machine, trees.make("text_concat", *parts))

    def of_case(x: Typed) -> Value:
        if x.kind != "list" or x.type is None or x.type.item != STRING:
            machine.refuse("str.join() of something else than a list of texts", "Give a list of str.")
        return _text(machine, trees.make("text_join", x.held, params={"separator": separator}))

    return machine.over([value], of_case)


METHODS: dict[str, Callable[[Machine, Expression, Sequence[Value]], Value]] = {
    "upper": _plain("upper"),
    "lower": _plain("lower"),
    "strip": _strip("both", "strip"),
    "lstrip": _strip("left", "lstrip"),
    "rstrip": _strip("right", "rstrip"),
    "startswith": _edge("startswith"),
    "endswith": _edge("endswith"),
    "replace": _replace,
    "find": _find("find"),
    "rfind": _find("rfind"),
    "index": _index("index"),
    "rindex": _index("rindex"),
    "count": _number,
    "split": _split,
    "partition": _partition("partition"),
    "rpartition": _partition("rpartition"),
    "zfill": _zfill,
    "ljust": _just("right", "ljust"),
    "rjust": _just("left", "rjust"),
    "removeprefix": _remove("removeprefix"),
    "removesuffix": _remove("removesuffix"),
    **{test: _is(test) for test in TESTS},
}


def element(machine: Machine, x: Typed, index: Typed) -> Value:
    """x[index] of a text or a list."""
    if x.kind not in ("str", "list"):
        machine.fail("TypeError", f"'{x.python}' object is not subscriptable")
    if index.kind not in ("int", "bool"):
        what = (
            "string indices must be integers"
            if x.kind == "str"
            else "list indices must be integers or slices"
        )
        machine.fail("TypeError", f"{what}, not '{index.python}'")
    trees, place = machine.trees, as_int(machine, index)
    if x.kind == "str":
        found = trees.make("text_at", x.held, place.held)
        machine.fault(trees.make("is_null", found), "IndexError", "string index out of range")
        return _text(machine, found)
    found = trees.make("list_at", x.held, place.held)
    machine.fault(trees.make("is_null", found), "IndexError", "list index out of range")
    return machine.one(item_kind(x), found)


def sliced(machine: Machine, x: Typed, start: Typed, stop: Typed, step: object) -> Value:
    """x[start:stop:step] of a text or a list."""
    if x.kind not in ("str", "list"):
        machine.fail("TypeError", f"'{x.python}' object is not subscriptable")
    for bound in (start, stop):
        if bound.kind not in ("int", "bool", "none"):
            machine.fail("TypeError", "slice indices must be integers or None or have an __index__ method")
    if x.kind == "list":
        return sliced_list(machine, x, start, stop, step)
    if step == -1 and start.kind == stop.kind == "none":
        return _text(machine, machine.trees.make("text_reverse", x.held))
    if step not in (None, 1):
        _refuse_slice(
            machine, f"a text is sliced in steps of {step}", "Slice in steps of 1, or reverse by [::-1]."
        )
    begin = machine.whole(0) if start.kind == "none" else as_int(machine, start).held
    end = machine.whole(GREATEST) if stop.kind == "none" else as_int(machine, stop).held
    return _text(machine, machine.trees.make("text_slice", x.held, begin, end))


def _refuse_slice(machine: Machine, reason: str, advice: str) -> NoReturn:
    machine.refuse(reason, advice)


def length(machine: Machine, x: Typed) -> Value:
    """len(x)."""
    if x.kind in ("str", "list"):
        op = "length" if x.kind == "str" else "list_length"
        return _count(machine, machine.trees.make(op, x.held))
    machine.fail("TypeError", f"object of type '{x.python}' has no len()")
