"""That all ways of `penstock bench boundary` compute the same, to the last bit, before one of them is timed.

One job computes every row by every way and keeps none: it counts the rows that differ and holds on to the first. The
way that others are compared with is the last, the function itself called by Python for every row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.errors import WaysDiffer
from penstock.tools.bench_boundary_ways import Way

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def check_equal(df: DataFrame, ways: Sequence[Way]) -> None:
    """Raise `WaysDiffer`, with the first row and its values, if a way differs from the last one.

    >>> from penstock.jobs.session import session
    >>> from penstock.tools.bench_boundary_ways import native, numbers
    >>> right = Way("right", "", native)
    >>> wrong = Way("wrong", "", lambda x: native(x) + (x > 99).cast("double"))
    >>> check_equal(numbers(session(cores=2), 1000, seed=0), [wrong, right])
    Traceback (most recent call last):
    penstock.errors.WaysDiffer: wrong and right differ in 10 of 1,000 rows. The first is row 55: of 99.186...
    """
    from pyspark.sql import functions as F

    names = [f"way_{place}" for place in range(len(ways))]
    made = [way.column(df["x"]).alias(name) for way, name in zip(ways, names, strict=True)]
    df = df.select("id", "x", *made)
    wanted = F.col(names[-1])
    asked = [F.count("*").alias("rows")]
    for name in names[:-1]:
        differs = ~same_bits(F.col(name), wanted)
        first = F.struct("id", "x", F.col(name).alias("seen"), wanted.alias("wanted"))
        asked += [
            F.count_if(differs).alias(f"{name}_count"),
            F.min(F.when(differs, first)).alias(f"{name}_first"),
        ]
    found = df.agg(*asked).collect()[0]
    for way, name in zip(ways[:-1], names[:-1], strict=True):
        if count := found[f"{name}_count"]:
            row = found[f"{name}_first"]
            raise WaysDiffer(
                way.name, ways[-1].name, row.id, row.x, row.seen, row.wanted, count, found["rows"]
            )


def same_bits(left: Column, right: Column) -> Column:
    """Whether two doubles are the same to the last bit, or both null, or both NaN.

    Spark takes 0.0 and -0.0 for equal, and its hashes do so too; as texts they differ.

    >>> from penstock.jobs.session import session
    >>> from pyspark.sql import functions as F
    >>> pairs = "values (0D, -0D), (double('nan'), double('nan')), (1D, null), (null, null) as t(a, b)"
    >>> df = session(cores=2).sql(f"select double(a) a, double(b) * 1 b from {pairs}")
    >>> [row[0] for row in df.select(same_bits(F.col("a"), F.col("b"))).collect()]
    [False, True, False, True]
    """
    equal = left.eqNullSafe(right)
    # Spark prints as many digits as tell a double from its neighbours, so texts would do for all values; they are slow.
    return equal & (left.isNull() | (left != 0) | left.cast("string").eqNullSafe(right.cast("string")))
