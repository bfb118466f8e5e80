"""Python's arithmetic as Spark expressions: no form here can raise, whatever the row and the session's ANSI mode.

`try_add` and its kin are null where bigint ends, divisors that are zero become null first, and what Python would
raise is null. `python_texts` has the texts and the one operation that raises.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

from pyspark.sql import Column

from penstock.backends.base import Kernel, Site, Unknown
from penstock.backends.spark.columns import INF, as_type, double, long, no_nulls, spelled
from penstock.backends.spark.functions import F
from penstock.expr.ops.python import EXACT_INTS
from penstock.expr.types import INT64, Type, parse_type

TWO_63 = float(1 << 63)
SPLITTER = float((1 << 27) + 1)


def _of_ints(function: Callable[[Column, Column], Column]) -> Kernel:
    return lambda site, left, right: function(
        as_type(left, site.types[0], INT64), as_type(right, site.types[1], INT64)
    )


def _known_divisor(site: Site) -> int | None:
    """A divisor that is a constant without traps."""
    known = site.constants[1]
    return known if known is not Unknown and isinstance(known, int) and known not in (0, -1) else None


def _floordiv(site: Site, left: Column, right: Column) -> Column:
    a, b = as_type(left, site.types[0], INT64), as_type(right, site.types[1], INT64)
    if (known := _known_divisor(site)) is not None:
        return F.call_function("div", a, b) - F.when(_odd_sign(a % b, known), long(1)).otherwise(long(0))
    safe = F.when((b != 0) & (b != -1), b)
    rest = a % safe
    down = (rest != 0) & ((rest < 0) != (b < 0))
    found = F.call_function("div", a, safe) - F.when(down, long(1)).otherwise(long(0))
    return F.when(b == -1, F.try_subtract(long(0), a)).otherwise(found)


def _odd_sign(rest: Column, divisor: int) -> Column:
    return rest < 0 if divisor > 0 else rest > 0


def _modulo(site: Site, left: Column, right: Column) -> Column:
    a, b = as_type(left, site.types[0], INT64), as_type(right, site.types[1], INT64)
    known = _known_divisor(site)
    if known is not None and known > 0:
        return F.pmod(a, b)
    safe = F.when((b != 0) & (b != -1), b) if known is None else b
    rest = a % safe
    turned = F.when((rest != 0) & ((rest < 0) != (b < 0)), rest + b).otherwise(rest)
    return F.when(b == -1, F.when(a.isNotNull(), long(0))).otherwise(turned) if known is None else turned


def _power(site: Site, left: Column, right: Column) -> Column:
    a, b = as_type(left, site.types[0], INT64), as_type(right, site.types[1], INT64)
    known = site.constants[1]
    if known is not Unknown and isinstance(known, int) and 1 <= known <= 4:
        found = a
        for _ in range(known - 1):
            found = F.try_multiply(found, a)
        return found
    base = site.constants[0]
    if base is not Unknown and isinstance(base, int) and abs(base) > 1:
        powers = list(
            itertools.takewhile(lambda power: -(1 << 63) <= power < 1 << 63, (base**n for n in range(64)))
        )
        return F.when(b >= 0, F.get(F.array(*map(long, powers)), F.least(b, long(64)).cast("int")))
    # From 64 on only -1, 0 and 1 have powers in 64 bits, and of those it matters whether the exponent is odd.
    times = F.when(b > 64, long(64) + F.pmod(b, long(2))).otherwise(b)
    product = F.aggregate(F.sequence(long(1), times), long(1), lambda found, _: F.try_multiply(found, a))
    return F.when(a.isNull(), F.lit(None).cast("bigint")).when(b == 0, long(1)).when(b > 0, product)


def _bits(site: Site, left: Column, right: Column) -> Column:
    a, b = as_type(left, site.types[0], INT64), as_type(right, site.types[1], INT64)
    operation = site.params["operation"]
    if operation in ("and", "or", "xor"):
        return {"and": a.bitwiseAND, "or": a.bitwiseOR, "xor": a.bitwiseXOR}[operation](b)
    few = F.greatest(F.least(b, long(63)), long(0)).cast("int")
    if operation == "rshift":
        return F.when(b >= 0, F.call_function("shiftright", a, few))
    moved = F.call_function("shiftleft", a, few)
    back = F.call_function("shiftright", moved, few)
    return F.when((b >= 0) & (b <= 63) & (back == a), moved).when((b > 63) & (a == 0), long(0))


def _int_divide(site: Site, left: Column, right: Column) -> Column:
    a, b = as_type(left, site.types[0], INT64), as_type(right, site.types[1], INT64)
    fine = [_exact(side, known) for side, known in zip((a, b), site.constants, strict=True)]
    return F.when(fine[0] & fine[1], F.try_divide(a.cast("double"), b.cast("double")))


def _exact(x: Column, known: Any) -> Column:
    if known is not Unknown and isinstance(known, int):
        return F.lit(abs(known) <= EXACT_INTS)
    return (x >= long(-EXACT_INTS)) & (x <= long(EXACT_INTS))


def _known(site: Site, place: int) -> float | None:
    """An argument that is a finite constant: much of a form is about those that are not."""
    value = site.constants[place]
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def _float_modulo(site: Site, a: Column, b: Column) -> Column:
    known = _known(site, 1)
    if known is not None and known > 0.0:
        rest = a % b
        return F.when(rest == 0.0, F.lit(0.0)).when(rest < 0.0, rest + b).otherwise(rest)
    safe = F.when(b != 0.0, b)
    rest = a % safe
    return (
        F.when(rest == 0.0, F.signum(b) * 0.0)  # a choice between -0.0 and 0.0 is folded to one of them
        .when((rest < 0.0) != (b < 0.0), rest + b)
        .otherwise(rest)
    )


def _float_floordiv(site: Site, a: Column, b: Column) -> Column:
    """As CPython computes it (float_divmod in floatobject.c)."""
    safe = F.when(b != 0.0, b)
    rest = a % safe
    down = F.when((rest != 0.0) & ((rest < 0.0) != (b < 0.0)), F.lit(1.0)).otherwise(F.lit(0.0))
    quotient = F.try_divide(a - rest, safe) - down
    near = F.rint(quotient)
    floor = F.when(near > quotient, near - 1.0).otherwise(near)
    floor = F.when(quotient - floor > 0.5, floor + 1.0).otherwise(floor)
    return F.when(quotient == 0.0, F.try_divide(a, safe) * 0.0).otherwise(floor)


def _finite(x: Column) -> Column:
    return F.abs(x) < INF


def _negative_zero(x: Column) -> Column:
    return (x == 0.0) & (F.pow(x, F.lit(-1.0)) < 0.0)


def _float_power(site: Site, a: Column, b: Column) -> Column:
    power = F.pow(a, b)
    known = _known(site, 1)
    if known is not None and known > 0.0 and known.is_integer():
        return F.when(~(_finite(a) & (F.abs(power) == INF)), power)
    none = F.lit(None).cast("double")
    return (
        F.when(a.isNull() | b.isNull(), none)
        # Java says NaN where C says 1.
        .when((a == 1.0) | ((a == -1.0) & (F.abs(b) == INF)), F.lit(1.0))
        .when((a == 0.0) & (b < 0.0) & _finite(b), none)
        .when((a < 0.0) & _finite(a) & _finite(b) & (b != F.rint(b)), none)
        .when(_finite(a) & _finite(b) & (F.abs(power) == INF), none)
        .otherwise(power)
    )


def _float_round(site: Site, x: Column) -> Column:
    """x * 10**digits held exactly, as the sum of two doubles (Dekker's product); see the Arrow kernel."""
    scale = float(10 ** site.params["digits"])
    scale_high = scale * SPLITTER - (scale * SPLITTER - scale)
    scale_low = scale - scale_high
    p = x * scale
    high = x * SPLITTER - (x * SPLITTER - x)
    low = x - high
    rest = low * scale_low - (((p - high * scale_high) - low * scale_high) - high * scale_low)
    near = F.rint(p)
    off = p - near
    odd = p % F.lit(2.0) != 0.0
    whole = F.when((F.abs(rest) > 0.5) | ((F.abs(rest) == 0.5) & odd), F.signum(rest)).otherwise(F.lit(0.0))
    step = (
        F.when(off == 0.0, whole)
        .when((off == 0.5) & (rest > 0.0), F.lit(1.0))
        .when((off == -0.5) & (rest < 0.0), F.lit(-1.0))
        .otherwise(F.lit(0.0))
    )
    found = F.abs((near + step) / F.lit(scale))
    negative = (x < 0.0) | _negative_zero(x)
    return F.when(F.abs(p) < float(EXACT_INTS), F.when(negative, -found).otherwise(found)).otherwise(x)


def _log2(x: Column) -> Column:
    """Spark divides two logarithms, and misses every fifth power of two by a digit, which ceil() makes a one of."""
    found = F.log2(x)
    near = F.rint(found)
    return F.when(F.pow(F.lit(2.0), near) == x, near).otherwise(found)


NATIVE: dict[str, tuple[Callable[..., Column], Callable[[Column], Column] | None]] = {
    "acos": (F.acos, lambda x: F.abs(x) <= 1.0),
    "asin": (F.asin, lambda x: F.abs(x) <= 1.0),
    "atan": (F.atan, None),
    "cbrt": (F.cbrt, None),
    "cos": (F.cos, _finite),
    "cosh": (F.cosh, None),
    "exp": (F.exp, None),
    "expm1": (F.expm1, None),
    "log": (F.log, lambda x: x > 0.0),
    "log10": (F.log10, lambda x: x > 0.0),
    "log1p": (F.log1p, lambda x: x > -1.0),
    "log2": (_log2, lambda x: x > 0.0),
    "sin": (F.sin, _finite),
    "sinh": (F.sinh, None),
    "sqrt": (F.sqrt, lambda x: x >= 0.0),
    "tan": (F.tan, _finite),
    "tanh": (F.tanh, None),
}
"""Spark's function, and where Python's has a value; None: wherever the result is finite, or the argument is not."""


def _math(site: Site, *args: Column) -> Column:
    function = site.params["function"]
    if len(args) == 2:
        return _of_two(function, *args)
    native, domain = NATIVE[function]
    (x,) = args
    if domain is None:
        return F.when(~(_finite(x) & (F.abs(native(x)) == INF)), native(x))
    return F.when(domain(x) | F.isnan(x), native(x))


def _of_two(function: str, a: Column, b: Column) -> Column:
    if function == "atan2":
        # Spark takes every -0.0 for 0.0 here.
        upper = F.when((a == 0.0) & _negative_zero(b), F.lit(math.pi)).otherwise(F.atan2(F.abs(a), b))
        return F.when((a < 0.0) | _negative_zero(a), -upper).otherwise(upper)
    if function == "hypot":
        return F.when(
            a.isNotNull() & b.isNotNull() & ~(_finite(a) & _finite(b) & (F.hypot(a, b) == INF)), F.hypot(a, b)
        )
    if function == "copysign":
        negative = (b < 0.0) | _negative_zero(b)
        return F.when(b.isNull(), F.lit(None).cast("double")).when(negative, -F.abs(a)).otherwise(F.abs(a))
    nan = F.when(F.isnan(a) | F.isnan(b), a + b)
    return F.coalesce(nan, F.when(_finite(a) & (b != 0.0), a % F.when(b != 0.0, b)))


def _converted(x: Column, source: Type, target: Type) -> Column:
    if source.kind == target.kind or source.kind == "bool":
        return as_type(x, source, target) if source.kind != "float" else double(x, source)
    if target.kind == "float":
        return x.cast("double")
    return F.when(double(x, source) < TWO_63, x.try_cast("bigint"))


def _keeps(x: Column, source: Type, target: Type) -> Column:
    """Whether nothing is lost; null of null."""
    if (source.kind, target.kind) == ("float", "int"):
        return F.coalesce(_converted(x, source, target).cast("double") == double(x, source), x.isNull())
    if (source.kind, target.kind) == ("int", "float") and source.bits == 64:
        back = F.when(x.cast("double") < TWO_63, x.cast("double").try_cast("bigint"))
        return F.coalesce(back == x, x.isNull())
    return F.lit(True)


def _convert(site: Site, x: Column) -> Column:
    source, target = site.types[0], parse_type(site.params["to"])
    if source.kind != "list":
        plain = (source.kind, target.kind) not in (("float", "int"), ("int", "float"))
        found = _converted(x, source, target)
        return found if plain else F.when(_keeps(x, source, target), found)
    if source.item.kind == target.item.kind:
        return F.when(_fits(site, x), as_type(x, source, target))
    found = F.transform(x, lambda item: _converted(item, source.item, target.item))
    return F.when(_fits(site, x), found.cast(spelled(target)))


def _fits(site: Site, x: Column) -> Column:
    source, target = site.types[0], parse_type(site.params["to"])
    if source.kind != "list":
        return _keeps(x, source, target)
    if source.item.kind == target.item.kind:
        return F.coalesce(no_nulls(x), F.lit(True))
    fine = F.forall(
        x, lambda item: F.when(item.isNull(), F.lit(False)).otherwise(_keeps(item, source.item, target.item))
    )
    return F.coalesce(fine, F.lit(True))


def _days_between(site: Site, left: Column, right: Column) -> Column:
    return F.unix_date(left).cast("bigint") - F.unix_date(right).cast("bigint")


def _doubles(kernel: Callable[..., Column]) -> Kernel:
    return lambda site, *args: kernel(site, *(double(x, of) for x, of in zip(args, site.types, strict=True)))


KERNELS: dict[str, Kernel] = {
    "int_add": _of_ints(F.try_add),
    "int_subtract": _of_ints(F.try_subtract),
    "int_multiply": _of_ints(F.try_multiply),
    "int_floordiv": _floordiv,
    "int_modulo": _modulo,
    "int_power": _power,
    "int_bits": _bits,
    "int_divide": _int_divide,
    "float_floordiv": _doubles(_float_floordiv),
    "float_modulo": _doubles(_float_modulo),
    "float_power": _doubles(_float_power),
    "float_round": _doubles(_float_round),
    "math": _doubles(_math),
    "days_between": _days_between,
    "convert_argument": _convert,
    "argument_fits": _fits,
}
