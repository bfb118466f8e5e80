"""A script that takes rows out of Spark in every way, for test_explain_sinks.py and explained_queries.py (Connect)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from penstock.tools.explain import Explanation
from penstock.tools.explain_target import explained, frames

SCRIPT = """\
from pyspark.sql import SparkSession
from helping import listed
spark = SparkSession.active()
connect = type(spark).__module__.startswith("pyspark.sql.connect")
df = spark.range(4).selectExpr("id", "id * 0.5D as x")
small = df.where("id > 1")
rows = df.collect()
for _ in range(3):
    small.toPandas()
table = small.toArrow()
for number in range(2):
    df.where(f"id > {number}").toLocalIterator()
df.select("x").foreach(print)
listed(df.select("id"))
print(df.count(), df.take(2), df.first())
if not connect:
    spark.conf.set("spark.sql.execution.arrow.pyspark.enabled", "false")
    try:
        small.toPandas()
    finally:
        spark.conf.set("spark.sql.execution.arrow.pyspark.enabled", "true")
    df.select("id").rdd.map(lambda row: row.id).sum()
"""
HELPING = "def listed(df):\n    return df.collect()\n"


def write_script(folder: Path) -> Path:
    """The script, and a module beside it."""
    (folder / "helping.py").write_text(HELPING)
    path = folder / "job.py"
    path.write_text(SCRIPT)
    return path


def sinks(found: Mapping[str, Explanation]) -> dict[str, list[tuple[object, ...]]]:
    """What was found, as `to_dict` has it."""
    return {
        name: [
            (sink["call"], sink["line"], sink["crossing"], sink["times"], sink["columns"])
            for finding in each.to_dict()["findings"]
            if (sink := finding["sink"]) is not None
        ]
        for name, each in found.items()
    }


def check_over_connect(folder: Path) -> None:
    """The session is one of Spark Connect."""
    rows, arrow, both = "rows over Arrow", "Arrow batches", ("id", "x")
    assert sinks(explained(frames(str(write_script(folder))), analyze=False)) == {
        "df": [("collect", 7, rows, 1, both)],
        "small": [("toPandas", 9, arrow, 3, both), ("toArrow", 10, arrow, 1, both)],
        "line 12": [("toLocalIterator", 12, rows, 2, both)],
        "line 13": [("foreach", 13, rows, 1, ("x",))],
        "helping.py line 2": [("collect", 2, rows, 1, ("id",))],
    }
