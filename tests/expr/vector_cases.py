"""Cases of lists taken as vectors; `expr_cases` puts them into the one table."""

from __future__ import annotations

import math

from penstock.expr.build import col, stack
from penstock.expr.nodes import Expression
from penstock.expr.ops.vectors import FUNCTIONS

NAN, INF = math.nan, math.inf
SCALES = [0.1, -3.0, 1e300]


def of_lists() -> list[Expression]:
    v, w, h, m = (col(name) for name in "vwhm")
    found: list[Expression] = []
    for one in (v, w, h, m):
        found += [one.each(function, 0.3) for function in FUNCTIONS]
        found += [one.elements([0]), one.elements([1, 0, 0, 5]), one.softmax(), one.list_argmax()]
        found += [one.normalize(p) for p in (1, 3, 1.5, INF)]
        found += [one.pad(2, 1).linear([[2.0, 1.0], [0.5, 3.0], [0, 7]], [0.25, -1.0, 0])]
    three = v.pad(3, 0.7)
    for function in FUNCTIONS:
        found += [three.each(function, SCALES), three.each(function, [INF, -INF, 0.0])]
    found += [three.each("maximum", [NAN, 1.0, NAN]), three.each("minimum", NAN), three.each("gt", -0.0)]
    found += [three.each("divide", -0.0), three.each("add", [-0.0, 5e-324, 1.0])]
    found += [three.linear([[1.5, 2.5, 3.5]], [0.125]), three.linear([[1.5, INF, 3.5]], [0.0]).element(0)]
    found += [three.list_multiply(w.pad(3, -2.0)), three.list_multiply(stack(col("x"), col("i"), col("x")))]
    found += [three.list_multiply(w.pad(3, -2.0), absorbing=True), three.list_multiply(three, absorbing=True)]
    found += [v.pad(2, 0).list_multiply(h.pad(2, 3)), three.each("subtract", SCALES).each("multiply", SCALES)]
    found += [(three.softmax().each("divide", [0.2, 0.5, 0.0])).list_argmax(), v.softmax().list_max()]
    found += [v.list_argmax().one_hot(3), three.elements([2, 2, 1, 0]).each("if_nan", 0).list_sum()]
    return found
