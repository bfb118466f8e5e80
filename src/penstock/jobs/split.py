"""`split` (exposed as `penstock.split`): one DataFrame into training and validation parts, by a hash of its rows.

A row's part depends on its values, the seed and the fractions, and on nothing else: not on the order of rows, the
partitioning, the cluster or the run. The parts are native Spark filters; nothing is computed here and no row crosses to
Python. Each part is a DataFrame like any other: `penstock.jobs.tensors` takes it on.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from penstock.errors import SelectionError, listed

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

BITS = 53
"""Of the 64 bits of the hash: as many as a fraction, a float64, can tell apart."""

SUM_TOLERANCE = 1e-9

UNHASHABLE = {"MapType", "VariantType", "GeometryType", "GeographyType"}
"""Types that Spark's hash refuses, because equal values may be stored in different ways."""


def split(
    df: DataFrame, parts: Mapping[str, float], by: str | Sequence[str] | None = None, seed: int = 0
) -> dict[str, DataFrame]:
    """Split a DataFrame's rows into named parts; every row is in exactly one of them.

    Args:
        df: it must give the same rows each time it is computed, as each part computes it anew.
        parts: the fraction of each part. They add up to 1.
        by: a column, or several, whose values decide: rows with equal values stay together, so that a user is
            either in training or in validation. Without it the whole row decides, and equal rows stay together.
        seed: another seed gives another split.

    The fractions are those of the hash, so a part's size varies around them as if each row (or each group of `by`) had
    been drawn. Columns that Spark cannot hash (maps, variants) do not take part in the decision unless `by` names
    them, which is an error. A null counts as a value, 0.0 and -0.0 are equal, and so are NaNs.

    >>> from penstock.jobs.session import session
    >>> flights = session(cores=2).range(1000).selectExpr("id", "id % 50 AS user")
    >>> parts = split(flights, {"train": 0.8, "valid": 0.2}, by="user")
    >>> parts["train"].count() + parts["valid"].count()
    1000
    >>> parts["train"].select("user").intersect(parts["valid"].select("user")).count()
    0
    """
    ends = _ends(parts)
    if not isinstance(seed, int) or isinstance(seed, bool):
        raise SelectionError(f"seed={seed!r} is not understood: pass a whole number.")
    place = _place(_deciding(df, by), seed)
    frames, below = {}, 0
    for name, end in ends.items():
        # The first part has no lower end and the last no upper one, so rounding can leave no row out.
        conditions = [place >= below] if below else []
        conditions += [place < end] if end < 1 << BITS else []
        frames[name] = df.where(_all(conditions)) if conditions else df
        below = end
    return frames


def _ends(parts: Mapping[str, float]) -> dict[str, int]:
    """The upper end of each part, in units of the hash's last bit."""
    if not isinstance(parts, Mapping) or not parts:
        raise SelectionError(
            f"parts={parts!r} names no parts. Pass their fractions: {{'train': 0.9, 'valid': 0.1}}."
        )
    for name, fraction in parts.items():
        if not isinstance(name, str) or not name:
            raise SelectionError(f"a part's name is a string and not empty; {name!r} is not.")
        number = isinstance(fraction, int | float) and not isinstance(fraction, bool)
        if not number or not math.isfinite(fraction) or fraction <= 0:
            raise SelectionError(
                f"the fraction of part {name!r} is {fraction!r}; it must be a number above 0 and at most 1."
            )
    total = math.fsum(parts.values())
    if abs(total - 1) > SUM_TOLERANCE:
        raise SelectionError(
            f"the fractions of parts {listed(list(parts))} add up to {total:.12g}, not to 1. Add a part for the "
            "rest, or divide each by the sum."
        )
    fractions = list(parts.values())
    ends = [round(math.fsum(fractions[: place + 1]) * (1 << BITS)) for place in range(len(fractions))]
    ends[-1] = 1 << BITS
    empty = [name for name, low, high in zip(parts, [0, *ends], ends, strict=False) if low >= high]
    if empty:
        raise SelectionError(
            f"the fractions of parts {listed(empty)} are too small: no row can fall in them."
        )
    return dict(zip(parts, ends, strict=True))


def _deciding(df: DataFrame, by: str | Sequence[str] | None) -> list[str]:
    """The columns whose values decide, checked."""
    columns = df.columns
    wanted = columns if by is None else [by] if isinstance(by, str) else list(by)
    if not wanted or not all(isinstance(name, str) for name in wanted):
        raise SelectionError(f"by={by!r} names no columns of the DataFrame; it has {listed(columns)}.")
    missing = [name for name in wanted if name not in columns]
    if missing:
        raise SelectionError(f"no column {listed(missing)} in the DataFrame; it has {listed(columns)}.")
    twice = [name for name in dict.fromkeys(wanted) if columns.count(name) > 1]
    if twice:
        raise SelectionError(
            f"the DataFrame has more than one column named {listed(twice)}; rename them first."
        )
    types = {field.name: field.dataType for field in df.schema.fields}
    hashable = [name for name in dict.fromkeys(wanted) if _hashable(types[name])]
    refused = [name for name in wanted if name not in hashable]
    if refused and (by is not None or not hashable):
        raise SelectionError(
            f"columns {listed(refused)} are of types that Spark cannot hash ({types[refused[0]].simpleString()}). "
            "Split by other columns, or by one computed from them: df.withColumn('key', F.to_json('column'))."
        )
    return hashable


def _hashable(kind: Any) -> bool:
    name = type(kind).__name__
    if name in UNHASHABLE:
        return False
    if name == "ArrayType":
        return _hashable(kind.elementType)
    if name == "StructType":
        return all(_hashable(field.dataType) for field in kind.fields)
    if hasattr(kind, "sqlType"):
        return _hashable(kind.sqlType())
    return True


def _place(columns: list[str], seed: int) -> Column:
    """A row's place among 2**53 equally likely ones."""
    from pyspark.sql import functions as F

    # The tag makes this hash independent of every other that uses the same seed. The cast fixes its type, on which the
    # hash depends, and shows it in the plan (`penstock.jobs.identity` asks for that).
    tag = hashlib.blake2b(f"penstock.split {seed}".encode(), digest_size=7).digest()
    salt = F.lit(int.from_bytes(tag, "little")).cast("long")
    quoted = [F.col(f"`{name.replace('`', '``')}`") for name in columns]
    return F.shiftrightunsigned(F.xxhash64(salt, *quoted), 64 - BITS)


def _all(conditions: list[Column]) -> Column:
    whole = conditions[0]
    for condition in conditions[1:]:
        whole = whole & condition
    return whole
