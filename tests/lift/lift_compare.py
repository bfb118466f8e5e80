"""What the tests of lifting share: lifted functions on Spark, many in one job, and when their results agree."""

from __future__ import annotations

import math
import struct
from typing import Any

import pyarrow as pa

from penstock.backends import engine
from penstock.backends.verify import lifted_outcomes, rows_for, same
from penstock.expr.lift import Body
from penstock.expr.nodes import Expression
from penstock.expr.ops import TABLE
from penstock.lifted import substituted

ULPS = 64
"""Of a whole function: each of its steps may be off by 4."""


def ops_of(*roots: Expression) -> set[str]:
    found, seen, waiting = set(), set(), list(roots)
    while waiting:
        node = waiting.pop()
        if id(node) not in seen:
            seen.add(id(node))
            waiting.extend(node.args)
            found |= {node.op} if hasattr(node, "op") else set()
    return found


def on_spark(spark: Any, bodies: dict[str, Body], count: int) -> dict[str, list[tuple[str, Any]]]:
    """What Spark gives for each function on its own rows: all of them side by side in one table."""
    from penstock.backends.spark.columns import spelled

    arrow = engine("arrow")
    columns, schema, trees = {}, {}, {}
    for name, body in bodies.items():
        rows = rows_for(body, count)
        rows = [rows[place % len(rows)] for place in range(count)]
        renamed = {}
        for place, (argument, form) in enumerate(body.arguments.items()):
            column = f"{name}__{argument}"
            columns[column] = pa.array([row[place] for row in rows], arrow.arrow_type(form.type))
            schema[column] = form.type
            renamed[argument] = arrow_column(column)
        trees[f"{name}__value"] = substituted(body.value, renamed, name)
        trees[f"{name}__fault"] = substituted(body.fault, renamed, name)
    declared = ", ".join(f"`{name}` {spelled(of)}" for name, of in schema.items())
    df = spark.createDataFrame(pa.table(columns), declared).coalesce(1)
    found = engine("spark").prepare(trees, schema)(df).toArrow().to_pydict()
    return {
        name: [
            ("returns", value) if fault is None else ("raises", body.faults[fault].partition(":")[0])
            for value, fault in zip(found[f"{name}__value"], found[f"{name}__fault"], strict=True)
        ]
        for name, body in bodies.items()
    }


def arrow_column(name: str) -> Expression:
    from penstock.expr.build import col

    return col(name)


def spark_differences(spark: Any, bodies: dict[str, Body], count: int) -> list[str]:
    """Rows where Spark and Arrow disagree; floats of functions with ULP operations may be a little off."""
    got = on_spark(spark, bodies, count)
    wrong = []
    for name, body in bodies.items():
        rows = rows_for(body, count)
        expected = lifted_outcomes(body, rows)
        near = any(TABLE[op].tier != "EXACT" for op in ops_of(body.value, body.fault))
        for row, want, have in zip(rows, expected, got[name], strict=False):
            fine = want[0] == have[0] and (same(want[1], have[1]) or (near and close(want[1], have[1])))
            if not fine:
                wrong.append(f"{name}{row}: Arrow {want}, Spark {have}")
    return wrong


def close(one: Any, other: Any) -> bool:
    if not isinstance(one, float) or not isinstance(other, float) or not math.isfinite(one + other):
        return False
    a, b = (struct.unpack("<q", struct.pack("<d", value))[0] for value in (one, other))
    return abs(a - b) <= ULPS or abs(one - other) <= 1e-12
