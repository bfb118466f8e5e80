"""What the conformance tests share: tables to each engine and back, and when two results agree."""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from expr_cases import SCHEMAS, TABLES, Case

from penstock.backends import engine
from penstock.expr.check import columns_of
from penstock.expr.types import Type

ULPS = 4
SUM_TOLERANCE = 1e-14
MOST_SHOWN = 3


def bits(value: float) -> int:
    number = struct.unpack("<q", struct.pack("<d", value))[0]
    return number if number >= 0 else -(number & 0x7FFFFFFFFFFFFFFF)


def same_leaf(expected: Any, got: Any, tier: str, scale: float) -> bool:
    if expected is None or got is None:
        return expected is got
    if expected and expected == got and type(expected) is type(got):
        return True  # equal numbers have equal bits, unless they are zeros
    if isinstance(expected, float) and isinstance(got, float):
        if math.isnan(expected) or math.isnan(got):
            return math.isnan(expected) and math.isnan(got)
        if tier == "EXACT":
            return struct.pack("<d", expected) == struct.pack("<d", got)
        if math.isinf(expected) or math.isinf(got):
            return expected == got
        if tier == "ULP":
            return abs(bits(expected) - bits(got)) <= ULPS
        return abs(expected - got) <= SUM_TOLERANCE * scale or abs(bits(expected) - bits(got)) <= ULPS
    return type(expected) is type(got) and expected == got


def differences(case: Case, expected: list[Any], got: list[Any]) -> list[str]:
    """Rows where the two disagree, described; the first few."""
    table = TABLES[case.table]
    rows = zip(expected, got, strict=True)
    found = []
    for place, (one, other) in enumerate(rows):
        scale = 1.0
        if case.tier == "SUM":
            scale = sum(
                abs(x) for x in (table["v"][place].as_py() or []) if x is not None and math.isfinite(x)
            )
        if isinstance(one, list) and isinstance(other, list):
            fine = len(one) == len(other) and all(
                same_leaf(x, y, case.tier, max(scale, 1.0)) for x, y in zip(one, other, strict=True)
            )
        else:
            fine = same_leaf(one, other, case.tier, scale)
        if not fine:
            row = {name: table[name][place].as_py() for name in columns_of(case.expression)}
            found.append(f"{case.name}: {row} should give {one!r}, gave {other!r}")
            if len(found) == MOST_SHOWN:
                break
    return found


def numbered(cases: list[Case]) -> dict[str, Any]:
    return {f"c{i}": case.expression for i, case in enumerate(cases)}


def by_arrow(cases: list[Case], table: str) -> pa.Table:
    return engine("arrow").prepare(numbered(cases), SCHEMAS[table])(TABLES[table])


def by_spark(spark: Any, cases: list[Case], table: str) -> dict[str, list[Any]]:
    """In jobs of some sixty expressions: Java compiles one of two hundred much longer than four of fifty."""
    from penstock.backends.spark.columns import spelled  # here, so that a machine without Spark has the rest

    declared = ", ".join(f"{name} {spelled(of)}" for name, of in SCHEMAS[table].items())
    df = spark.createDataFrame(TABLES[table], declared).coalesce(1)
    found: dict[str, list[Any]] = {}
    trees = list(numbered(cases).items())
    for start in range(0, len(trees), 60):
        program = engine("spark").prepare(dict(trees[start : start + 60]), SCHEMAS[table])
        found |= program(df).toArrow().to_pydict()
    return found


def to_tensor(array: pa.ChunkedArray, of: Type) -> tuple[torch.Tensor, ...]:
    """A column as a user would hand it to torch: values with anything where they are null, and the mask."""
    rows = array.to_pylist()
    leaf = of.item if of.kind == "list" else of
    kind = {"bool": np.bool_, "float": np.float64}.get(leaf.kind, np.int64)
    kind = np.dtype(f"{leaf.kind}{leaf.bits}") if leaf.bits else kind
    junk = {"bool": True, "float": math.nan}.get(leaf.kind, 3)
    if leaf.kind in ("date", "timestamp", "timestamp_ntz"):
        rows = array.cast(pa.int32() if leaf.kind == "date" else pa.int64()).to_pylist()
    if of.kind == "list":
        assert of.length is not None
        there = torch.tensor([row is not None for row in rows])
        rows = [[None] * of.length if row is None else row for row in rows]
        values = np.array([[junk if x is None else x for x in row] for row in rows], kind)
        return torch.tensor(values), there, torch.tensor([[x is not None for x in row] for row in rows])
    values = np.array([junk if x is None else x for x in rows], kind)
    return torch.tensor(values), torch.tensor([x is not None for x in rows])


def torch_columns(table: str, device: str = "cpu") -> dict[str, tuple[torch.Tensor, ...]]:
    found = {}
    for name, of in SCHEMAS[table].items():
        if (of.element or of).kind == "string" or (of.kind == "list" and of.length is None):
            continue
        found[name] = tuple(part.to(device) for part in to_tensor(TABLES[table][name], of))
    return found


def from_tensor(values: torch.Tensor, valid: torch.Tensor | None, of: Type) -> list[Any]:
    values = values.cpu()
    rows = values.to(torch.float64).tolist() if values.dtype.is_floating_point else values.tolist()
    if valid is None:
        return rows
    known = valid.cpu().tolist()
    if of.kind == "list" and valid.dim() == 2:
        return [
            [x if ok else None for x, ok in zip(row, oks, strict=True)]
            for row, oks in zip(rows, known, strict=True)
        ]
    return [row if ok else None for row, ok in zip(rows, known, strict=True)]


def by_torch(cases: list[Case], table: str, device: str) -> list[tuple[list[Any], list[Any]]]:
    """Per case what Arrow says and what torch says, as lists that can be compared."""
    expected = by_arrow(cases, table)
    program = engine("torch").prepare(numbered(cases), SCHEMAS[table])
    got = program(torch_columns(table, device))
    found = []
    for i in range(len(cases)):
        of = program.types[f"c{i}"]
        values = from_tensor(*got[f"c{i}"], of)
        wanted = expected[f"c{i}"]
        if of.kind in ("date", "timestamp", "timestamp_ntz"):
            wanted = wanted.cast(pa.int32() if of.kind == "date" else pa.int64())
        listed = wanted.to_pylist()
        if of.kind == "list":  # a tensor tells a null list by its elements
            listed = [
                [None] * (of.length or len(v)) if w is None else w
                for w, v in zip(listed, values, strict=True)
            ]
            values = [[None] * (of.length or 0) if v is None else v for v in values]
        found.append((listed, values))
    return found
