"""List columns: sum(), min(), max(), any(), all(), `in`, slices and the methods that only look.

What comes from a column are lists of one type without None in them: rows with others raise before
(`convert_argument`). Elements are not gone through one by one here; whole operations do that.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from penstock.expr.lift.arithmetic import as_float, as_int
from penstock.expr.lift.machine import REACH, Machine
from penstock.expr.lift.values import GREATEST, Known, Seq, Symbol, Typed, Value
from penstock.expr.nodes import Call, Expression
from penstock.expr.ops.python import EXACT_INTS
from penstock.expr.types import FLOAT64, Type

KINDS = {
    "bool": "bool",
    "int": "int",
    "float": "float",
    "string": "str",
    "date": "date",
    "timestamp_ntz": "datetime",
}
"""What an element of a list is, by its type."""
COMPENSATED = sys.version_info >= (3, 12)
"""Whether this Python's sum() carries along what rounding loses of floats."""
LONGEST = (1 << 31) - 1


def item_kind(x: Typed) -> str:
    """What the elements of a list are."""
    return KINDS[_item(x).kind]


def _item(x: Typed) -> Type:
    assert x.type is not None
    return x.type.item


def _count(machine: Machine, expr: Expression, least: int = 0) -> Symbol:
    return Symbol(((machine.trees.true, Typed("int", expr, least, LONGEST)),))


def is_empty(machine: Machine, x: Typed) -> Expression:
    """Whether a list has no elements."""
    # As `if xs` asks, so that what is known on a path is known here as well.
    return machine.trees.negated(
        machine.trees.make("gt", machine.trees.make("list_length", x.held), machine.whole(0))
    )


def over_list(machine: Machine, value: Value, name: str, handle: Callable[[Typed], Value]) -> Value:
    """What a builtin makes of a list column; Python's error for what cannot be gone through."""

    def of_case(x: Typed) -> Value:
        if x.kind == "list":
            return handle(x)
        if x.kind == "str":
            machine.refuse(f"{name} goes through the characters of a text", "Use the methods of str.")
        machine.fail("TypeError", f"'{x.python}' object is not iterable")

    return machine.over([value], of_case)


def summed(machine: Machine, value: Value, start: Value) -> Value:
    """sum(xs) and sum(xs, start): start itself for an empty list, so that sum([]) is the int 0."""
    return over_list(machine, value, "sum()", lambda x: _summed(machine, x, start))


def refuse_text(machine: Machine, start: Value) -> None:
    """sum(xs, "") raises, for an empty list as well."""
    if isinstance(start, Seq):
        return
    for guard, typed in machine.symbol(start).cases:
        if typed.kind == "str":
            machine.fault(guard, "TypeError", "sum() can't sum strings [use ''.join(seq) instead]")


def _summed(machine: Machine, x: Typed, start: Value) -> Value:
    refuse_text(machine, start)
    empty = is_empty(machine, x)

    def total(first: Typed) -> Value:
        kind = item_kind(x)
        if first.kind in ("numpy", "numpy_bool"):
            machine.refuse(f"sum() that begins with a {first.python}", "Begin with a float: float(start).")
        if kind not in ("bool", "int", "float") or first.kind not in ("bool", "int", "float"):
            machine.fail("TypeError", f"unsupported operand type(s) for +: '{first.python}' and '{kind}'")
        if kind == "float":
            if COMPENSATED and first.kind == "int" and not first.low == first.high == 0:
                # Its first addition is an int's own; 0 and a float lose nothing.
                machine.refuse(
                    "sum() of floats that begins with a whole number, to which this Python adds the first without "
                    "compensation, and the others with it",
                    "Begin with a float: sum(xs, float(start)).",
                )
            # What begins with a bool is added as if by `+`, from one element to the next.
            compensated = COMPENSATED and first.kind != "bool"
            found = machine.trees.make(
                "list_total", x.held, as_float(machine, first), params={"compensated": compensated}
            )
            return machine.one("float", found)
        if first.kind == "float":
            machine.refuse("sum() of whole numbers that begins with a float", "Write float(sum(xs)) + start.")
        whole = as_int(machine, first).held
        found = machine.trees.make("list_total", x.held, whole, params={"compensated": False})
        machine.fault(machine.trees.make("is_null", found), REACH, "a whole number leaves 64 bits (sum)")
        return machine.one("int", found)

    decided = machine.decide(empty)
    if decided:
        return start
    if decided is False:
        return machine.over([start], total)
    none, some = machine.branches(empty, lambda: start, lambda: machine.over([start], total))
    return machine.merge(empty, none, some)


def best(machine: Machine, value: Value, name: str, default: Value | None = None) -> Value:
    """max(xs) and min(xs), with what they give for an empty list, or an error."""
    return over_list(machine, value, f"{name}()", lambda x: _best(machine, x, name, default))


def _best(machine: Machine, x: Typed, name: str, default: Value | None) -> Value:
    empty = is_empty(machine, x)

    def found() -> Value:
        return machine.one(item_kind(x), machine.trees.make("list_best", x.held, params={"which": name}))

    if default is None:
        machine.fault(empty, "ValueError", f"{name}() arg is an empty sequence")
        return found()
    decided = machine.decide(empty)
    if decided is not None:
        return default if decided else found()
    return machine.merge(empty, default, found())


def any_true(machine: Machine, value: Value) -> Value:
    """any(xs): whether fewer elements are nothing than there are."""

    def of_list(x: Typed) -> Value:
        trees, nothing = machine.trees, _nothing(machine, x)
        if nothing is None:
            return machine.one("bool", trees.negated(is_empty(machine, x)))
        count = trees.make("list_count", x.held, nothing)
        return machine.one("bool", trees.make("lt", count, trees.make("list_length", x.held)))

    return over_list(machine, value, "any()", of_list)


def all_true(machine: Machine, value: Value) -> Value:
    """all(xs): whether no element is nothing."""

    def of_list(x: Typed) -> Value:
        nothing = _nothing(machine, x)
        if nothing is None:
            return Known(True)
        place = machine.trees.make("list_find", x.held, nothing)
        return machine.one("bool", machine.trees.make("lt", place, machine.whole(0)))

    return over_list(machine, value, "all()", of_list)


def _nothing(machine: Machine, x: Typed) -> Expression | None:
    """The element that counts as false; None where every one counts as true, as dates do."""
    nothing = {"bool": False, "int": 0, "float": 0.0, "str": ""}.get(item_kind(x))
    return None if nothing is None else machine.trees.literal(nothing, _item(x))


def in_list(machine: Machine, value: Typed, x: Typed) -> Expression:
    """`value in xs`."""
    return _compared(machine, "list_find", value, x, "`in` looks")[0]


def _compared(machine: Machine, op: str, value: Typed, x: Typed, doing: str) -> tuple[Expression, Expression]:
    """Whether a value is in a list, and the place or the number of times, which counts where it is."""
    trees, kind = machine.trees, item_kind(x)
    numbers = ("bool", "int", "float", "numpy")
    if value.kind == "numpy_bool":  # equal to what a bool is equal to
        value = Typed("bool", value.held)
    if value.kind == "list":
        machine.refuse(f"{doing} for a list in a list", "Use an element of it.")
    if value.kind not in numbers or kind not in numbers:
        if value.kind != kind:  # never equal
            return trees.false, machine.whole(0)
        return _present(machine, op, x.held, value.held, trees.true)
    if value.kind in ("float", "numpy") and kind == "float":
        if _taken_from_a_list(value.held):
            machine.refuse(
                f"{doing} for an element that was taken from a list, where Python finds the same nan again",
                "Compare the numbers themselves, or leave out nan before.",
            )
        return _present(machine, op, x.held, value.held, trees.true)
    if kind == "bool":
        return _of_truths(machine, op, value, x)
    if kind == "int" and value.kind == "numpy":
        machine.refuse(
            f"{doing} for a NumPy number among whole numbers, which it rounds to floats first",
            "Turn it into a float first: float(...).",
        )
    if kind == "int" and value.kind == "float":
        whole = trees.make("cast", value.held, params={"to": "int64"})
        unbroken = trees.make("eq", trees.make("floor", value.held), value.held)
        return _present(machine, op, x.held, whole, unbroken)
    number = as_int(machine, value)
    if kind == "int":
        return _present(machine, op, x.held, number.held, trees.true)
    real = as_float(machine, number)
    if max(-number.low, number.high) <= EXACT_INTS:
        return _present(machine, op, x.held, real, trees.true)
    back = trees.make("cast", real, params={"to": "int64"})
    return _present(machine, op, x.held, real, trees.make("eq", back, number.held))


def _present(
    machine: Machine, op: str, held: Expression, value: Expression, same: Expression
) -> tuple[Expression, Expression]:
    """The answer where the value could be said in the list's type at all; it is null where that overflows."""
    trees = machine.trees
    found = trees.make(op, held, value)
    least = machine.whole(0 if op == "list_find" else 1)
    there = trees.make("ge", found, least)
    if same is not trees.true:
        there = trees.make("coalesce", trees.both(same, there), trees.false)
    return there, found


def _of_truths(machine: Machine, op: str, value: Typed, x: Typed) -> tuple[Expression, Expression]:
    """A number among truth values, which are the numbers 0 and 1."""
    trees = machine.trees
    if value.kind == "bool":
        return _present(machine, op, x.held, value.held, trees.true)
    real = value.kind in ("float", "numpy")
    numbers = (trees.literal(n, FLOAT64) if real else machine.whole(int(n)) for n in (1.0, 0.0))
    one, zero = (trees.make("eq", value.held, number) for number in numbers)
    there, found = _present(machine, op, x.held, trees.choose(one, trees.true, trees.false), trees.true)
    return trees.both(trees.either(one, zero), there), found


def _taken_from_a_list(expr: Expression) -> bool:
    """Whether it may be the very object that a list holds: `in` takes one nan for itself."""
    if not isinstance(expr, Call):
        return False
    if expr.op in ("when", "coalesce"):
        return any(map(_taken_from_a_list, expr.of))
    return expr.op in ("list_at", "list_best")


def list_method(machine: Machine, x: Typed, name: str, args: Sequence[Value]) -> Value | None:
    """xs.count(value) and xs.index(value); None for other methods."""
    if name not in ("count", "index") or len(args) != 1:
        return None

    def of_case(value: Typed) -> Value:
        op = "list_count" if name == "count" else "list_find"
        there, found = _compared(machine, op, value, x, f"list.{name}() looks")
        if name == "index":
            machine.fault(machine.trees.negated(there), "ValueError", "the value is not in the list")
            return _count(machine, found)
        return _count(machine, machine.trees.choose(there, found, machine.whole(0)))

    return machine.over(args, of_case)


def sliced_list(machine: Machine, x: Typed, start: Typed, stop: Typed, step: object) -> Value:
    """xs[start:stop], and xs[::-1]."""
    if step == -1 and start.kind == stop.kind == "none":
        held = machine.trees.make("list_reverse", x.held)
    elif step in (None, 1):
        begin = machine.whole(0) if start.kind == "none" else as_int(machine, start).held
        end = machine.whole(GREATEST) if stop.kind == "none" else as_int(machine, stop).held
        held = machine.trees.make("list_slice", x.held, begin, end)
    else:
        machine.refuse(f"a list is sliced in steps of {step}", "Slice in steps of 1, or reverse by [::-1].")
    return Symbol(((machine.trees.true, Typed("list", held, type=x.type)),))
