"""Lists as Spark expressions: lambdas that Catalyst runs, never Python."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column

from penstock.backends.base import Kernel, Site
from penstock.backends.spark.casts import converted
from penstock.backends.spark.columns import INF, NAN, as_type, bind, constant, double, long, spelled
from penstock.backends.spark.functions import F
from penstock.expr.types import Type


def _total(x: Column, of_item: Callable[[Column], Column]) -> Column:
    """A sum over a list in double; null with a null in it."""
    return F.aggregate(x, F.lit(0.0), lambda total, item: total + of_item(item))


def _sum(site: Site, x: Column) -> Column:
    return _total(x, lambda item: double(item, site.types[0].item))


def _mean(site: Site, x: Column) -> Column:
    count = F.size(x)
    return F.when(count > 0, F.try_divide(_sum(site, x), count.cast("double")))


def _extreme(function: Callable[[Column], Column], least: bool) -> Kernel:
    def kernel(site: Site, x: Column) -> Column:
        item = site.type
        found = function(x)
        if item.kind == "float":
            found = (double(found, item) + 0.0).cast(spelled(item))  # no negative zero
        whole = ~F.exists(x, lambda one: one.isNull())
        if least and item.kind == "float":
            nan = F.exists(x, lambda one: F.isnan(one))
            return F.when(whole & nan, constant(NAN, item)).when(whole, found)
        return F.when(whole, found)

    return kernel


def _pad(site: Site, x: Column) -> Column:
    length, value = site.params["length"], constant(site.params["value"], site.type.item)
    typed = as_type(x, site.types[0], site.type)
    missing = F.greatest(F.lit(length) - F.size(typed), F.lit(0))
    return F.slice(F.concat(typed, F.array_repeat(value, missing)), 1, length)


def _norm(numbers: Column, p: float) -> Column:
    if p == 2:
        return F.sqrt(_total(numbers, lambda item: item * item))
    if p == INF:
        sizes = F.transform(numbers, lambda item: F.when(F.isnan(item), F.lit(0.0)).otherwise(F.abs(item)))
        return F.aggregate(
            sizes, F.lit(0.0), lambda most, size: F.when(size <= most, most).when(size > most, size)
        )
    if p == 1:
        return _total(numbers, F.abs)
    return F.pow(_total(numbers, lambda item: F.pow(F.abs(item), F.lit(float(p)))), F.lit(1.0 / p))


def _normalize(site: Site, x: Column) -> Column:
    numbers = as_type(x, site.types[0], site.type)
    return bind(
        _norm(numbers, site.params.get("p", 2)),
        lambda n: F.when(
            n.isNotNull(), F.transform(numbers, lambda item: item / F.when(n == 0.0, 1.0).otherwise(n))
        ),
    )


def _one_hot(site: Site, x: Column) -> Column:
    size = site.params["size"]
    one, zero = F.lit(1.0), F.lit(0.0)
    if site.types[0].kind == "list":
        numbers = x.cast("array<bigint>")
        places = F.sequence(long(0), long(size - 1))
        inside = F.forall(numbers, lambda item: (item >= long(0)) & (item < long(size)))
        hot = F.transform(places, lambda at: F.when(F.array_contains(numbers, at), one).otherwise(zero))
    else:
        number = x.cast("bigint")
        inside = (number >= long(0)) & (number < long(size))
        before = number.try_cast("int")
        behind = F.try_subtract(F.lit(size - 1), before)
        hot = F.concat(F.array_repeat(zero, before), F.array(one), F.array_repeat(zero, behind))
    return F.when(inside, hot)


def _stack(site: Site, *args: Column) -> Column:
    target, parts, run = site.type.item, list[Column](), list[Column]()
    for arg, of in zip(args, site.types, strict=True):
        if of.kind != "list":
            run.append(converted(arg, of, target))
            continue
        parts += [F.array(*run)] if run else []
        run = []
        nulls = F.array_repeat(F.lit(None).cast(spelled(target)), of.length or 0)
        parts.append(F.coalesce(_converted_list(arg, of.item, target), nulls))
    parts += [F.array(*run)] if run else []
    return parts[0] if len(parts) == 1 else F.concat(*parts)


def _converted_list(x: Column, source: Type, target: Type) -> Column:
    if source == target:
        return x  # a lambda that changes nothing is run for every element all the same
    return F.transform(x, lambda item: converted(item, source, target))


KERNELS: dict[str, Kernel] = {
    "element": lambda site, x: F.get(x, F.lit(site.params["index"])),
    "list_length": lambda site, x: F.when(x.isNotNull(), F.size(x).cast("bigint")),
    "list_sum": _sum,
    "list_mean": _mean,
    "list_max": _extreme(F.array_max, least=False),
    "list_min": _extreme(F.array_min, least=True),
    "pad": _pad,
    "normalize": _normalize,
    "one_hot": _one_hot,
    "stack": _stack,
}
