"""The operators of Spark's at which rows go to Python or come from it, how they cross there, and what to do about it.

Two tables: by an operator's name, and by the number of a function's kind (Spark's "eval type"), where a plan prints
one. Spark 3.5 to 4.3 are covered, with the names that changed in between. `penstock.jobs.boundaries` reads them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

PICKLED_ROWS = "pickled rows"
ARROW_ROWS = "rows over Arrow"
ARROW_BATCHES = "Arrow batches"
PANDAS = "pandas batches"

EVERY_ROW = "once for every row"
NATIVE = "write it with pyspark.sql.functions, and no row crosses"
CROSSINGS = (PICKLED_ROWS, ARROW_ROWS, PANDAS, ARROW_BATCHES)
"""From the dearest to the cheapest."""


@dataclass(frozen=True)
class Kind:
    """What an operator does with Python: how users ask for it, how rows cross, how its calls run, and the cure.

    `family` tells operators apart that Spark treats alike: "scalar" ones add columns to their input and run in one
    pass with others of their kind; "map", "grouped" and "table" ones replace rows; "source" ones make them.
    """

    asked_by: str
    crossing: str
    family: str
    calls: str
    cure: str

    @property
    def opaque(self) -> bool:
        """Whether Spark cannot tell which columns of the output are those of the input."""
        return self.family in ("map", "grouped")


_TABLE = "put what it yields into an array column and F.explode it, and no row crosses"
_BATCHES = "give it whole columns: @arrow_udf, or @pandas_udf, takes Arrow batches in place of single rows"
_GROUPS = (
    "all rows of a group must be moved to one worker and fit in its memory. What Spark's own aggregates and window "
    "functions can say needs no Python and is combined before rows are moved"
)
_AGGREGATE = (
    "all rows of a group are moved before it sees them. Spark's own aggregates (F.avg, F.percentile_approx, "
    "F.max_by, ...) are combined before rows are moved"
)
_MAP = "filter, and select only the columns it needs, before it; and what Spark can compute, leave to Spark"
_TO_ARROW = "make it an @arrow_udf, which gets the same batches and makes no pandas of them; or "

_PICKLED = Kind("udf(useArrow=False)", PICKLED_ROWS, "scalar", EVERY_ROW, f"{NATIVE}; else {_BATCHES}")
_ARROW_ROW = Kind("udf", ARROW_ROWS, "scalar", EVERY_ROW, f"{NATIVE}; else {_BATCHES}")
_SCALAR_PANDAS = Kind("pandas_udf", PANDAS, "scalar", "once for every batch", _TO_ARROW + NATIVE)
_SCALAR_ARROW = Kind("arrow_udf", ARROW_BATCHES, "scalar", "once for every batch", NATIVE)
_STATE = "Spark's own window and aggregate functions over the stream keep their state in the JVM"

BY_EVAL_TYPE: dict[int, Kind] = {
    100: _PICKLED,
    101: _ARROW_ROW,
    200: _SCALAR_PANDAS,
    204: Kind("pandas_udf (iterator)", PANDAS, "scalar", "once for every task", _SCALAR_PANDAS.cure),
    250: _SCALAR_ARROW,
    251: Kind("arrow_udf (iterator)", ARROW_BATCHES, "scalar", "once for every task", NATIVE),
    202: Kind("pandas_udf (aggregate)", PANDAS, "grouped", "once for every group", _AGGREGATE),
    217: Kind("pandas_udf (aggregate, iterator)", PANDAS, "grouped", "once for every group", _AGGREGATE),
    252: Kind("arrow_udf (aggregate)", ARROW_BATCHES, "grouped", "once for every group", _AGGREGATE),
    254: Kind(
        "arrow_udf (aggregate, iterator)", ARROW_BATCHES, "grouped", "once for every group", _AGGREGATE
    ),
    203: Kind("pandas_udf over a window", PANDAS, "window", "once for every window", _GROUPS),
    253: Kind("arrow_udf over a window", ARROW_BATCHES, "window", "once for every window", _GROUPS),
    300: Kind(
        "udtf(useArrow=False)",
        PICKLED_ROWS,
        "table",
        EVERY_ROW,
        _TABLE,
    ),
    301: Kind("udtf", ARROW_ROWS, "table", EVERY_ROW, _TABLE),
    302: Kind("arrow_udtf", ARROW_BATCHES, "table", "once for every batch", _TABLE),
}

BY_NAME: dict[str, Kind] = {
    "BatchEvalPython": _PICKLED,
    "ArrowEvalPython": _SCALAR_ARROW,
    "BatchEvalPythonUDTF": BY_EVAL_TYPE[300],
    "ArrowEvalPythonUDTF": BY_EVAL_TYPE[301],
    "MapInPandas": Kind(
        "mapInPandas",
        PANDAS,
        "map",
        "once for every task",
        f"use mapInArrow, which makes no pandas of the batches; {_MAP}",
    ),
    "MapInArrow": Kind("mapInArrow", ARROW_BATCHES, "map", "once for every task", _MAP),
    "FlatMapGroupsInPandas": Kind("applyInPandas", PANDAS, "grouped", "once for every group", _GROUPS),
    "FlatMapGroupsInArrow": Kind("applyInArrow", ARROW_BATCHES, "grouped", "once for every group", _GROUPS),
    "FlatMapCoGroupsInPandas": Kind(
        "cogroup.applyInPandas", PANDAS, "grouped", "once for every pair of groups", _GROUPS
    ),
    "FlatMapCoGroupsInArrow": Kind(
        "cogroup.applyInArrow", ARROW_BATCHES, "grouped", "once for every pair of groups", _GROUPS
    ),
    "ArrowAggregatePython": BY_EVAL_TYPE[202],
    "ArrowWindowPython": BY_EVAL_TYPE[203],
    "FlatMapGroupsInPandasWithState": Kind(
        "applyInPandasWithState", PANDAS, "grouped", "once for every group and trigger", _STATE
    ),
    "TransformWithStateInPySpark": Kind(
        "transformWithState", ARROW_BATCHES, "grouped", "once for every group and trigger", _STATE
    ),
}
BY_NAME |= {
    "PythonMapInArrow": BY_NAME["MapInArrow"],
    "AggregateInPandas": BY_NAME["ArrowAggregatePython"],
    "WindowInPandas": BY_NAME["ArrowWindowPython"],
    "TransformWithStateInPandas": Kind(
        "transformWithStateInPandas", PANDAS, "grouped", "once for every group and trigger", _STATE
    ),
}

ROWS_OF_AN_RDD = Kind(
    "an RDD of Python rows",
    PICKLED_ROWS,
    "source",
    EVERY_ROW,
    "after df.rdd, the optimizer sees nothing of what came before, and every row is pickled: stay with DataFrames "
    "(mapInArrow where Python is needed); and hand createDataFrame a pyarrow Table or pandas in place of a list",
)
PYTHON_SOURCE = Kind(
    "a data source written in Python",
    ARROW_BATCHES,
    "source",
    "once for every partition",
    "let its reader yield pyarrow RecordBatches instead of rows, and give it partitions enough for all cores; or "
    "write the rows to Parquet once, if they are read again",
)
UNKNOWN = Kind(
    "an operator that this version of Penstock does not know", "rows", "map", "in a way not known", NATIVE
)
"""For names that a later Spark may bring: a boundary is reported even so."""
MEMORY_SOURCE = "LocalTableScan"


def kind_of(name: str, eval_type: int | None) -> Kind | None:
    """How rows cross at an operator; None where none do.

    >>> (
    ...     kind_of("ArrowEvalPython", 101).crossing,
    ...     kind_of("ArrowEvalPython", 200).crossing,
    ...     kind_of("Filter", None),
    ... )
    ('rows over Arrow', 'pandas batches', None)
    """
    word = name.partition(" ")[0]
    if word in BY_NAME:
        return BY_EVAL_TYPE.get(eval_type or 0, BY_NAME[word])
    return UNKNOWN if re.search(r"Python|Pandas|InArrow|PySpark", word) else None
