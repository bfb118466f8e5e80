"""What Python does with lists, as Spark expressions. None of them can raise; lambdas are Catalyst's, never Python's.

Sums go through a list from the left by a lambda. The others need none, because SQL functions take none in what they
are called with (`penstock.backends.spark.sql_pieces`).
"""

from __future__ import annotations

from pyspark.sql import Column

from penstock.backends.base import Kernel, Site
from penstock.backends.spark.columns import INF, NAN, as_type, constant, long
from penstock.backends.spark.functions import F
from penstock.expr.types import FLOAT64, INT64, Type, list_of


def _wide(x: Column, of: Type) -> Column:
    """A list, or a value, of numbers as 64 bits hold them; of others as it is."""
    leaf = of.item if of.kind == "list" else of
    if leaf.kind not in ("int", "float"):
        return x
    target = INT64 if leaf.kind == "int" else FLOAT64
    return as_type(x, of, list_of(target) if of.kind == "list" else target)


def _slice(site: Site, x: Column, start: Column, stop: Column) -> Column:
    length = F.size(x).cast("bigint")

    def clamped(bound: Column) -> Column:
        place = F.when(bound < 0, bound + length).otherwise(bound)
        return F.greatest(F.least(place, length), long(0))

    begin = clamped(as_type(start, site.types[1], INT64))
    count = F.greatest(clamped(as_type(stop, site.types[2], INT64)) - begin, long(0))
    known = x.isNotNull() & start.isNotNull() & stop.isNotNull()  # greatest and least pass over nulls
    return F.when(known, F.slice(x, (begin + 1).cast("int"), count.cast("int")))


def _total(site: Site, x: Column, start: Column) -> Column:
    item = site.types[0].item
    if item.kind != "float":
        numbers = as_type(x, site.types[0], list_of(INT64))
        first = as_type(start, site.types[1], INT64)
        return F.aggregate(numbers, first, lambda total, one: F.try_add(total, one))
    numbers, first = _wide(x, site.types[0]), as_type(start, site.types[1], FLOAT64)
    if not site.params["compensated"]:
        return F.aggregate(numbers, first, lambda total, one: total + one)
    return F.aggregate(numbers, F.array(first, F.lit(0.0)), _carried, _with_rest)


def _carried(held: Column, one: Column) -> Column:
    """The total and what rounding lost of it, with another number (Neumaier's sum)."""
    before, lost = F.get(held, F.lit(0)), F.get(held, F.lit(1))
    total = before + one
    # A nan counts as large to Spark and as nothing to Python, and makes the loss a nan either way.
    rest = F.when(F.abs(before) >= F.abs(one), (before - total) + one).otherwise((one - total) + before)
    return F.array(total, lost + rest)


def _with_rest(held: Column) -> Column:
    total, lost = F.get(held, F.lit(0)), F.get(held, F.lit(1))
    return F.when((F.abs(lost) < INF) & (lost != 0.0), total + lost).otherwise(total)


def _best(site: Site, x: Column) -> Column:
    largest = site.params["which"] == "max"
    if site.type.kind != "float":
        return (F.array_max if largest else F.array_min)(x)

    # A nan that comes first stays, as nothing is greater or less; one that comes later is neither. To Spark it is the
    # greatest of all. Of equal zeros both take the first.
    first = F.get(F.array_compact(x), F.lit(0))
    found = F.array_max(F.array_remove(x, constant(NAN, site.type))) if largest else F.array_min(x)
    return F.when(F.isnan(first), first).otherwise(found)


def _find(site: Site, x: Column, value: Column) -> Column:
    items, one = _wide(x, site.types[0]), _wide(value, site.types[1])
    place = F.array_position(items, one).cast("bigint") - long(1)
    if site.types[1].kind != "float":
        return place
    return F.when(x.isNotNull() & F.isnan(one), long(-1)).otherwise(place)  # a nan equals itself to Spark


def _count(site: Site, x: Column, value: Column) -> Column:
    items, one = _wide(x, site.types[0]), _wide(value, site.types[1])
    same = (F.size(items) - F.size(F.array_remove(items, one))).cast("bigint")
    known = x.isNotNull() & value.isNotNull()
    if site.types[1].kind != "float":
        return F.when(known, same)
    return F.when(known & F.isnan(one), long(0)).when(known, same)


KERNELS: dict[str, Kernel] = {
    "list_slice": _slice,
    "list_reverse": lambda site, x: F.reverse(x),
    "list_total": _total,
    "list_best": _best,
    "list_find": _find,
    "list_count": _count,
}
