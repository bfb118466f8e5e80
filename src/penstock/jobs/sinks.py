"""Where a script takes rows out of Spark: a `Sink` each, and what is to be said of it.

A plan ends before that, so it cannot show it: `penstock.tools.explain_sinks` watches the calls while a script runs.
What crosses inside of a plan stands in `penstock.jobs.boundaries`.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.jobs.boundaries_kinds import ARROW_BATCHES, ARROW_ROWS, PICKLED_ROWS

SHOWN = 8
"""Columns that are named."""
TENSORS = (
    "For tensors pk.to_numpy(df, ...) or pk.to_torch, which fill their memory without an object for every value; for "
    "what does not fit into memory pk.write"
)
DRIVERS = ("collect", "toPandas", "toArrow", "toLocalIterator")
METHODS = (*DRIVERS, "foreach", "foreachPartition")
TO_DRIVER, TO_WORKERS = "the driver", "Python workers"


@dataclass(frozen=True)
class Sink:
    """One call of a script that takes a DataFrame's rows out of Spark.

    `call` is the method, `file` and `line` are where the script calls it, `times` how often it did. `crossing` is how
    the rows get there, `to` where that is. `columns` are those that cross, all of the DataFrame's.

    >>> print(Sink("toPandas", "job.py", 12, "Arrow batches", "the driver", ("id", "x")))
    line 12 of job.py takes all of its rows to the driver, as Arrow batches: id, x
    """

    call: str
    file: str
    line: int
    crossing: str
    to: str
    columns: tuple[str, ...]
    times: int = 1

    @property
    def name(self) -> str:
        """The call as it is written."""
        return f"{self.call}()" if self.call in METHODS else self.call

    def __str__(self) -> str:
        often = f", {self.times:,} times" if self.times > 1 else ""
        more = f" and {len(self.columns) - SHOWN} more" if len(self.columns) > SHOWN else ""
        shown = ", ".join(self.columns[:SHOWN]) or "no columns"
        return (
            f"line {self.line} of {self.file} takes all of its rows to {self.to}{often}, "
            f"as {self.crossing}: {shown}{more}"
        )

    @property
    def advice(self) -> str:
        """What to do instead, if there are many rows."""
        match self.call:
            case "collect":
                return f"Fine for a few rows. {TENSORS}; for a table toArrow()."
            case "toPandas" if self.crossing == PICKLED_ROWS:
                return (
                    'Turn Arrow on: spark.conf.set("spark.sql.execution.arrow.pyspark.enabled", "true"), or call '
                    f"toArrow().to_pandas(). {TENSORS}."
                )
            case "toPandas" | "toArrow":
                return f"Fine for what fits into the driver's memory. {TENSORS}."
            case "toLocalIterator":
                return (
                    "To go over the rows more than once, or in batches, pk.write them once, and use "
                    "pk.open(path).numpy(...)."
                )
            case "foreach" | "foreachPartition":
                return (
                    "To store rows use df.write or pk.write; to send them elsewhere mapInArrow, which gets whole "
                    "batches."
                )
            case _:
                return (
                    "Stay with the DataFrame: native functions, pk.udf for a function of rows, mapInArrow for whole "
                    "batches."
                )


def crossing_of(call: str, connect: bool, arrow: bool) -> tuple[str, str]:
    """How rows cross at a call, and where they go. `arrow`: the session's setting for toPandas.

    >>> crossing_of("toPandas", connect=False, arrow=False), crossing_of("collect", connect=True, arrow=False)
    (('pickled rows', 'the driver'), ('rows over Arrow', 'the driver'))
    """
    to = TO_DRIVER if call in DRIVERS else TO_WORKERS
    if call == "toArrow" or (call == "toPandas" and (connect or arrow)):
        return ARROW_BATCHES, to
    return (ARROW_ROWS if connect else PICKLED_ROWS), to
