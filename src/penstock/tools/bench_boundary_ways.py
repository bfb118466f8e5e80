"""The ways that `penstock bench boundary` compares on Spark: one computation, written as people write it.

Standardise, then clip, over doubles that depend on the row's number alone. They are plain numbers on purpose: Spark's
`least` takes NaN for the largest number, and a pandas_udf takes a null for NaN, so on those the usual spellings compute
different things. `penstock.tools.bench_boundary_check` holds the ways against each other. Annotations are not delayed
in this file: Spark reads those of the functions inside functions, whose libraries are imported there.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.errors import PenstockError
from penstock.jobs.crossing import ship_by_value
from penstock.jobs.udf import Udf, udf
from penstock.jobs.udf_plan import NATIVE

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

MEAN, DEVIATION, LOW, HIGH = 50.0, 28.9, -1.5, 1.5
STEP, TURN, WIDTH = 2_654_435_761, 1 << 32, 100.0
"""The values walk around a circle in steps of the golden ratio: spread evenly, cheap, and alike in Spark and NumPy."""
MOST_ROWS = 1 << 31
"""Beyond it the row's number times the step would leave int64."""


def standardise_then_clip(value: float) -> float:
    """What all ways compute.

    >>> standardise_then_clip(50.0), standardise_then_clip(99.0)
    (0.0, 1.5)
    """
    score = (value - MEAN) / DEVIATION
    return max(LOW, min(HIGH, score))


def on_arrays(values: Any) -> Any:
    """The same for a NumPy array.

    >>> import numpy as np
    >>> on_arrays(np.array([50.0, 99.0])).tolist()
    [0.0, 1.5]
    """
    import numpy as np

    return np.clip((values - MEAN) / DEVIATION, LOW, HIGH)


def numbers(spark: "SparkSession", rows: int, seed: int) -> "DataFrame":
    """A DataFrame of `id` and `x`. Its rows come from spark.range, so that the setting of Arrow's batch size rules.

    x may be null for all Spark knows, as a column of a table may.

    >>> from penstock.jobs.session import session
    >>> numbers(session(cores=2), 3, seed=0).collect()[1]
    Row(id=1, x=61.803398677147925)
    """
    from pyspark.sql import functions as F

    place = (F.col("id") * STEP + seed) % TURN
    return spark.range(rows).select("id", (place.cast("double") * (WIDTH / TURN)).alias("x"))


@dataclass(frozen=True)
class Way:
    """A way to compute it: a function from a column to a column."""

    name: str
    crosses: str
    """How rows get to Python and back."""
    column: "Callable[[Column], Column]"


def spark_ways() -> tuple[Way, ...]:
    """All of them; the last is what the others are compared with.

    >>> [way.name for way in spark_ways()]
    ['native', 'lifted', 'arrow_udf', 'pandas_udf', 'udf (Arrow)', 'udf (pickled)']
    """
    from pyspark.sql import functions as F

    ship_by_value()  # executors need not have Penstock
    plain = standardise_then_clip
    return (
        Way("native", "stays in the JVM", native),
        Way("lifted", "stays in the JVM", lifted_way()),
        Way("arrow_udf", "Arrow batches", arrow_way()),
        Way("pandas_udf", "Arrow batches", pandas_way()),
        Way("udf (Arrow)", "Arrow batches, a call per row", F.udf(plain, "double", useArrow=True)),
        Way("udf (pickled)", "pickled rows, a call per row", F.udf(plain, "double", useArrow=False)),
    )


def native(value: "Column") -> "Column":
    """The expression as written by hand."""
    from pyspark.sql import functions as F

    score = (value - MEAN) / DEVIATION
    return F.greatest(F.lit(LOW), F.least(F.lit(HIGH), score))


def lifted_way() -> Udf:
    """The expression that Penstock makes of the plain function."""
    made = udf(standardise_then_clip)
    if made.plan.tier != NATIVE:
        raise PenstockError(
            f"the benchmark's own function was not lifted, so it cannot be measured. {made.plan}"
        )
    return made


def arrow_way() -> Any:
    """The arrow_udf."""
    import pyarrow as pa
    from pyspark.sql.pandas.functions import arrow_udf

    def run(values: pa.Array) -> pa.Array:
        return pa.array(on_arrays(values.to_numpy()))

    return arrow_udf(run, "double")  # type: ignore[call-overload]  # the hints say the kind


def pandas_way() -> Any:
    """The pandas_udf."""
    import pandas as pd
    from pyspark.sql.pandas.functions import pandas_udf

    def run(values: pd.Series) -> pd.Series:
        return ((values - MEAN) / DEVIATION).clip(LOW, HIGH)

    return pandas_udf(run, "double")  # type: ignore[call-overload]


def arrow_sizes() -> Any:
    """An arrow_udf that tells of every row the size of the batch it came in."""
    import numpy as np
    import pyarrow as pa
    from pyspark.sql.pandas.functions import arrow_udf

    def run(values: pa.Array) -> pa.Array:
        return pa.array(np.full(len(values), len(values), np.int64))

    return arrow_udf(run, "bigint")  # type: ignore[call-overload]


def pandas_sizes() -> Any:
    """The same as a pandas_udf."""
    import numpy as np
    import pandas as pd
    from pyspark.sql.pandas.functions import pandas_udf

    def run(values: pd.Series) -> pd.Series:
        return pd.Series(np.full(len(values), len(values), np.int64))

    return pandas_udf(run, "bigint")  # type: ignore[call-overload]
