"""Casts and hashes as Spark expressions: what does not fit becomes null, and nothing raises."""

from __future__ import annotations

from pyspark.sql import Column

from penstock.backends.base import Site
from penstock.backends.spark.columns import INF, constant, double, long, spelled
from penstock.backends.spark.functions import F
from penstock.expr.plain_numbers import NUMBER, WHOLE, WORDS
from penstock.expr.types import FLOAT16, FLOAT64, Type, int_range


def cast(site: Site, x: Column) -> Column:
    """As the site's type; of a list, each element."""
    source, target = site.types[0], site.type
    if source.kind == "list":
        return F.transform(x, lambda item: converted(item, source.item, target.item))
    return converted(x, source, target)


def converted(x: Column, source: Type, target: Type) -> Column:
    """A single value as another type."""
    if source == target:
        return x
    if source.kind == "string":
        return _from_text(x, target)
    if target.kind == "string":
        return x.cast("string")
    if target.kind == "bool":
        return x.cast("boolean") if source.kind != "float" else F.when(~F.isnan(x), x != 0.0)
    if target.kind == "int":
        if source.kind != "float":
            return x.try_cast(spelled(target))
        _low, high = int_range(target)
        # try_cast alone lets 2**63 pass as 2**63 - 1; and NaN is above every number for Spark.
        return F.when(double(x, source) < float(high + 1), x.try_cast(spelled(target)))
    if target == FLOAT16:
        return _halves(double(x, source))
    return x.cast(spelled(target))


HALF_OVERFLOW = 65_520.0
"""From here on float16 rounds to infinity."""


def _halves(x: Column) -> Column:
    """Rounded to float16, in units of its smallest number, 2**-24; the length in bits says how many have to go."""
    units = x * float(1 << 24)
    bits = F.length(F.bin(F.abs(units).try_cast("bigint")))
    step = F.pow(F.lit(2.0), F.greatest(bits - 11, F.lit(0)).cast("double"))
    rounded = F.rint(units * F.pow(step, F.lit(-1.0))) * step * (1.0 / (1 << 24))
    return F.when(F.abs(x) < HALF_OVERFLOW, rounded).otherwise(x * INF).cast("float")


def _from_text(x: Column, target: Type) -> Column:
    if target.kind == "bool":
        return F.when(F.lower(x) == "true", F.lit(True)).when(F.lower(x) == "false", F.lit(False))
    if target.kind == "int":
        return F.when(x.rlike(WHOLE), x.try_cast(spelled(target)))
    found = F.when(x.rlike(NUMBER), x.try_cast("double"))
    for word, number in WORDS.items():
        found = found.when(F.lower(x) == word, constant(number, FLOAT64))
    return converted(found, FLOAT64, target)


def hash_kernel(site: Site, *args: Column) -> Column:
    """A bucket of the values together, or of each element of a list."""
    buckets = long(site.params["buckets"])
    if site.types[0].kind == "list":
        return F.transform(args[0], lambda item: F.pmod(F.xxhash64(item), buckets))
    return F.pmod(F.xxhash64(*args), buckets)
