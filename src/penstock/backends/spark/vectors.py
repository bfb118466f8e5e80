"""Lists as vectors in Spark: constants stand as one JSON text that is read once, whatever their number.

Lambdas are run by Catalyst element by element. What a lambda uses from outside would be computed for every element,
so it is bound first.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from pyspark.sql import Column

from penstock.backends.base import Kernel, Site
from penstock.backends.spark.columns import INF, as_type, bind, long
from penstock.backends.spark.functions import F
from penstock.expr.types import FLOAT64, Type, list_of


def _constants(numbers: Sequence[float]) -> Column:
    return F.from_json(F.lit(json.dumps([float(number) for number in numbers])), "array<double>")


def _as_doubles(x: Column, of: Type) -> Column:
    return as_type(x, of, list_of(FLOAT64))


def _divide(x: Column, by: Column) -> Column:
    # pow(by, -1) is the infinity with the sign of the zero. It is looked at where the division gives null only.
    return F.coalesce(F.try_divide(x, by), x * F.pow(by, F.lit(-1.0)))


EACH: dict[str, Callable[[Column, Column], Column]] = {
    "add": lambda x, by: x + by,
    "subtract": lambda x, by: x - by,
    "multiply": lambda x, by: x * by,
    "divide": _divide,
    # For Spark NaN is above everything.
    "minimum": lambda x, by: F.when((by < x) & ~F.isnan(x), by).otherwise(x),
    "maximum": lambda x, by: F.when((by > x) & ~F.isnan(by), by).otherwise(x),
    "gt": lambda x, by: (
        F.when(x.isNull(), F.lit(None).cast("double"))
        .when((x > by) & ~F.isnan(x), F.lit(1.0))
        .otherwise(F.lit(0.0))
    ),
    "if_nan": lambda x, by: F.when(F.isnan(x), by).otherwise(x),
}


def _each(site: Site, x: Column) -> Column:
    function, by = EACH[site.params["function"]], site.params["by"]
    numbers = _as_doubles(x, site.types[0])
    if isinstance(by, tuple):
        return F.zip_with(numbers, _constants(by), function)
    return F.transform(numbers, lambda item: function(item, F.lit(float(by))))


def _elements(site: Site, x: Column) -> Column:
    places = F.from_json(F.lit(json.dumps(list(site.params["places"]))), "array<int>")
    return bind(x, lambda held: F.when(held.isNotNull(), F.transform(places, lambda at: F.get(held, at))))


def _list_multiply(site: Site, x: Column, y: Column) -> Column:
    left, right = (_as_doubles(each, of) for each, of in zip((x, y), site.types, strict=True))
    if not site.params.get("absorbing"):
        return F.zip_with(left, right, lambda a, b: a * b)
    return F.zip_with(
        left, right, lambda a, b: F.when((a == 0.0) & b.isNotNull(), F.lit(0.0)).otherwise(a * b)
    )


def _weighted(x: Column, weights: Column) -> Column:
    """A sum of products; null with a null in it, and where the lengths differ."""
    return F.aggregate(F.zip_with(x, weights, lambda a, b: a * b), F.lit(0.0), lambda sum, each: sum + each)


def _linear(site: Site, x: Column) -> Column:
    weights, bias = site.params["weights"], site.params["bias"]
    numbers = _as_doubles(x, site.types[0])
    if len(weights) == 1:
        one = _weighted(numbers, _constants(weights[0])) + F.lit(float(bias[0]))
        return bind(one, lambda found: F.when(found.isNotNull(), F.array(found)))
    rows = [[float(number) for number in row] for row in weights]
    matrix = F.from_json(F.lit(json.dumps(rows)), "array<array<double>>")

    def products(held: Column) -> Column:
        return F.zip_with(matrix, _constants(bias), lambda row, each: _weighted(held, row) + each)

    return F.when(~F.exists(numbers, lambda item: item.isNull()), bind(numbers, products))


def _softmax(site: Site, x: Column) -> Column:
    numbers = _as_doubles(x, site.types[0])

    def shares(greatest: Column) -> Column:
        # Infinity less infinity would be NaN; and NaN equals itself for Spark.
        no_number = F.isnan(greatest)
        return F.transform(
            numbers,
            lambda item: F.exp(
                F.when((item == greatest) & ~no_number, F.lit(0.0)).otherwise(item - greatest)
            ),
        )

    def divided(held: Column) -> Column:
        total = F.aggregate(held, F.lit(0.0), lambda sum, item: sum + item)
        return bind(total, lambda each: F.when(each.isNotNull(), F.transform(held, lambda item: item / each)))

    return bind(bind(F.array_max(numbers), shares), divided)


def _argmax(site: Site, x: Column) -> Column:
    numbers = x
    if site.types[0].item.kind == "float":
        numbers = F.transform(x, lambda item: F.when(F.isnan(item), F.lit(-INF)).otherwise(item))
    place = bind(numbers, lambda held: F.array_position(held, F.array_max(held)) - long(1))
    return F.when(~F.exists(x, lambda item: item.isNull()), place)


KERNELS: dict[str, Kernel] = {
    "each": _each,
    "elements": _elements,
    "list_multiply": _list_multiply,
    "linear": _linear,
    "softmax": _softmax,
    "list_argmax": _argmax,
}
