"""Python's arithmetic in NumPy: whole numbers that do not wrap, and null wherever Python would raise.

Mathematical functions are Python's own, number by number: what they give is what a lifted function means, to the
last bit. `python_texts` has the texts, and `python_faults` what raises.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from penstock.backends.arrow.casts import to_whole
from penstock.backends.arrow.values import Flat, Lists, Text, Value, both, is_valid
from penstock.backends.base import Kernel, Site
from penstock.dtypes import Array
from penstock.expr.ops.python import EXACT_INTS
from penstock.expr.types import INT64, Type, parse_type

LEAST, GREATEST = -(1 << 63), (1 << 63) - 1


def _of_ints(function: Callable[[Array, Array], tuple[Array, Array]]) -> Kernel:
    """A kernel whose function gives the numbers, and which of them count."""

    def kernel(site: Site, left: Flat, right: Flat) -> Flat:
        values, fine = function(left.values, right.values)
        return Flat(np.where(fine, values, 0), both(left.valid, right.valid, None if fine.all() else fine))

    return kernel


def _add(a: Array, b: Array) -> tuple[Array, Array]:
    found = a + b
    return found, ((a ^ found) & (b ^ found)) >= 0


def _subtract(a: Array, b: Array) -> tuple[Array, Array]:
    found = a - b
    return found, ((a ^ b) & (a ^ found)) >= 0


def _multiply(a: Array, b: Array) -> tuple[Array, Array]:
    found = a * b
    # A double is off by less than 2**11 at 2**63, so below half of that the product is certain.
    fine = np.abs(a.astype(np.float64) * b.astype(np.float64)) < 2.0**62
    for place in np.flatnonzero(~fine):
        fine[place] = LEAST <= int(a[place]) * int(b[place]) <= GREATEST
    return found, fine


def _floordiv(a: Array, b: Array) -> tuple[Array, Array]:
    fine = (b != 0) & ~((a == LEAST) & (b == -1))
    return np.where(fine, a, 0) // np.where(fine, b, 1), fine


def _modulo(a: Array, b: Array) -> tuple[Array, Array]:
    fine = b != 0
    usual = fine & (b != -1)  # the least number modulo -1 is a trap for processors
    return np.where(usual, a, 0) % np.where(usual, b, 1), fine


def _power(a: Array, b: Array) -> tuple[Array, Array]:
    found, fine = np.zeros(len(a), np.int64), np.zeros(len(a), bool)
    for place, (base, exponent) in enumerate(zip(a.tolist(), b.tolist(), strict=True)):
        if exponent < 0 or (abs(base) > 1 and exponent > 63):
            continue
        power = base**exponent if abs(base) > 1 else base ** (exponent % 2 or 2 if exponent else 0)
        if LEAST <= power <= GREATEST:
            found[place], fine[place] = power, True
    return found, fine


def _bits(site: Site, left: Flat, right: Flat) -> Flat:
    operation = site.params["operation"]
    a, b = left.values, right.values
    valid = both(left.valid, right.valid)
    if operation in ("and", "or", "xor"):
        return Flat(getattr(np, f"bitwise_{operation}")(a, b), valid)
    fine = b >= 0
    if operation == "rshift":
        return Flat(a >> np.clip(b, 0, 63), both(valid, fine))
    few = np.clip(b, 0, 62)
    found = a << few
    fine &= ((found >> few) == a) & ((b <= 62) | (a == 0) | ((a == -1) & (b == 63)))
    return Flat(np.where(b > 62, np.where(a == -1, LEAST, 0), found), both(valid, fine))


def _int_divide(site: Site, left: Flat, right: Flat) -> Flat:
    a, b = left.values, right.values
    fine = (b != 0) & _exact(a) & _exact(b)
    return Flat(a / np.where(fine, b, 1), both(left.valid, right.valid, fine))


def _exact(numbers: Array) -> Array:
    return np.asarray((numbers <= EXACT_INTS) & (numbers >= -EXACT_INTS))


def _float_divmod(a: Array, b: Array) -> tuple[Array, Array]:
    """Both as CPython computes them (float_divmod in floatobject.c)."""
    b = np.where(b == 0, 1.0, b)
    modulo = np.fmod(a, b)
    quotient = (a - modulo) / b
    turned = (modulo != 0) & ((b < 0) != (modulo < 0))
    quotient = np.where(turned, quotient - 1.0, quotient)
    modulo = np.where(modulo == 0, np.copysign(0.0, b), np.where(turned, modulo + b, modulo))
    floor = np.floor(quotient)
    floor = np.where(quotient - floor > 0.5, floor + 1.0, floor)
    return np.where(quotient == 0, np.copysign(0.0, a / b), floor), modulo


def _of_reals(function: Callable[[Array, Array], Array]) -> Kernel:
    def kernel(site: Site, left: Flat, right: Flat) -> Flat:
        a, b = left.values, right.values
        return Flat(function(a, b), both(left.valid, right.valid, b != 0))

    return kernel


def _by_number(function: Callable[..., Any], args: tuple[Flat, ...]) -> Flat:
    """Number by number; null where the function raises or does not give a float."""
    rows = len(args[0])
    found, fine = np.zeros(rows), np.ones(rows, bool)
    for place, numbers in enumerate(zip(*(arg.values.tolist() for arg in args), strict=True)):
        try:
            found[place] = function(*numbers)
        except (ArithmeticError, ValueError, TypeError):  # TypeError: a complex number is no float
            fine[place] = False
    return Flat(found, both(*(arg.valid for arg in args), None if fine.all() else fine))


def _math(site: Site, *args: Flat) -> Flat:
    return _by_number(getattr(math, site.params["function"]), args)


def _float_power(site: Site, left: Flat, right: Flat) -> Flat:
    return _by_number(pow, (left, right))


SPLITTER = float((1 << 27) + 1)


def rounded(x: Array, digits: int) -> Array:
    """round(x, digits). x * 10**digits is held exactly, as the sum of two doubles (Dekker's product)."""
    scale = 10.0**digits
    product = x * scale
    usual = np.abs(product) < 2.0**53
    a = np.where(usual, x, 0.0)
    p = a * scale
    high = a * SPLITTER - (a * SPLITTER - a)
    low = a - high
    scale_high = scale * SPLITTER - (scale * SPLITTER - scale)
    scale_low = scale - scale_high
    rest = low * scale_low - (((p - high * scale_high) - low * scale_high) - high * scale_low)
    near = np.rint(p)
    off = p - near
    # Where p lies on a half, or is whole because doubles end there, the rest decides.
    near = np.where((off == 0.5) & (rest > 0), np.floor(p) + 1.0, near)
    near = np.where((off == -0.5) & (rest < 0), np.ceil(p) - 1.0, near)
    near = np.where(off == 0, _nudged(p, rest), near)
    return np.where(usual, np.copysign(near / scale, x), x)


def _nudged(p: Array, rest: Array) -> Array:
    """The whole number next to p + rest, where p is whole and the rest at most a half; a half goes to the even one."""
    odd = np.fmod(p, 2.0) != 0
    step = np.where((np.abs(rest) > 0.5) | ((np.abs(rest) == 0.5) & odd), np.sign(rest), 0.0)
    return np.asarray(p + step)


def _days_between(site: Site, left: Flat, right: Flat) -> Flat:
    return Flat(left.values - right.values, both(left.valid, right.valid))


def _fitted(x: Flat, source: Type, target: Type) -> tuple[Flat, Array]:
    """A column as an argument, and which rows lose nothing."""
    yes = np.ones(len(x), bool)
    if target.kind == "int" and source.kind != "int":
        found = to_whole(x, source, INT64)
        return found, is_valid(found) & (found.values == x.values) if source.kind == "float" else yes
    if target.kind == "float" and source.kind != "float":
        real = x.values.astype(np.float64)
        back = to_whole(Flat(real), target, INT64)
        return Flat(real, x.valid), is_valid(back) & (back.values == x.values)
    return x, yes


def _converted(site: Site, x: Value) -> tuple[Value, Array]:
    source, target = site.types[0], parse_type(site.params["to"])
    if isinstance(x, Text):
        return x, np.ones(len(x), bool)
    if isinstance(x, Flat):
        found, fine = _fitted(x, source, target)
        return Flat(found.values, x.valid), fine
    if isinstance(x.items, Text):
        items: Flat | Text = x.items
        fits = np.ones(len(items), bool)
    else:
        items, fits = _fitted(x.items, source.item, target.item)
    bad = np.concatenate(
        [[0], np.cumsum(~(fits & is_valid(x.items)))]
    )  # an element that is null has no place in it
    return Lists(x.offsets, items, x.valid), bad[x.offsets[1:]] == bad[x.offsets[:-1]]


def _convert(site: Site, x: Value) -> Value:
    found, fine = _converted(site, x)
    valid = both(found.valid, None if fine.all() else fine)
    if isinstance(found, Text):
        return found
    return Flat(found.values, valid) if isinstance(found, Flat) else Lists(found.offsets, found.items, valid)


def _fits(site: Site, x: Value) -> Flat:
    return Flat(_converted(site, x)[1] | ~is_valid(x))


KERNELS: dict[str, Kernel] = {
    "int_add": _of_ints(_add),
    "int_subtract": _of_ints(_subtract),
    "int_multiply": _of_ints(_multiply),
    "int_floordiv": _of_ints(_floordiv),
    "int_modulo": _of_ints(_modulo),
    "int_power": _of_ints(_power),
    "int_bits": _bits,
    "int_divide": _int_divide,
    "float_floordiv": _of_reals(lambda a, b: _float_divmod(a, b)[0]),
    "float_modulo": _of_reals(lambda a, b: _float_divmod(a, b)[1]),
    "float_power": _float_power,
    "float_round": lambda site, x: Flat(rounded(x.values, site.params["digits"]), x.valid),
    "math": _math,
    "days_between": _days_between,
    "convert_argument": _convert,
    "argument_fits": _fits,
}
