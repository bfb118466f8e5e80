"""A script that uses UDFs wherever a Column may stand; it knows nothing of Penstock. Run by test_run_places.py.

Prints every result with its type: the same text is wanted from `python` and from `penstock run`.
"""

import contextlib
import io
import sys

from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.functions import coalesce, col, udf, when

spark = SparkSession.builder.config("spark.ui.enabled", "false").getOrCreate()
spark.conf.set("spark.sql.shuffle.partitions", "1")
adaptive = spark.conf.get("spark.sql.adaptive.enabled")
spark.conf.set("spark.sql.adaptive.enabled", "false")  # a job for each query, and not one for each exchange

rows = [
    (1, 2.5, "ann"),
    (2, -0.0, "bob"),
    (3, float("nan"), ""),
    (4, 0.0, None),
    (5, None, "eve"),
    (6, 7.0, "ann"),
]
df = spark.createDataFrame(rows, "id bigint, x double, s string").coalesce(1)
others = spark.createDataFrame([("ANN", 1.0), ("EVE", 2.0), ("?", 3.0)], "key string, w double").coalesce(1)


def show(title, frame):
    print(title, frame.schema.json())
    for row in frame.collect():
        print("  ", [(type(value).__name__, value) for value in row])
    if len(sys.argv) > 1 and "stop" not in sys.argv:  # where in the plan rows go to Python, for the test
        with open(sys.argv[1], "a") as plans, contextlib.redirect_stdout(io.StringIO()) as plan:
            frame.explain()
            plans.write(f"{title}: {plan.getvalue().count('EvalPython')}\n")


def fails(title, frame):
    try:
        frame.collect()
        print(title, "passed")
    except Exception as error:
        print(title, "ZeroDivisionError" in str(error), "TypeError" in str(error))


@udf("double")
def safe(x):
    return -1.0 if x is None else x * 2.0


@udf("string")
def key(s):
    return "?" if not s else s.upper()


@udf("boolean")
def big(x):
    return x is not None and x > 1.0


@udf("double")
def inverse(x):
    return 1.0 / x


@udf("string")
def kept(s):
    return "-".join(sorted(s or ""))


show("nested", df.select("*", safe("x") + 1, (safe("x") * 2).alias("two"), F.struct(safe(df.x), "id")))
show(
    "when", df.select(when(big("x"), key("s")).when(col("id") > 4, "late").otherwise(coalesce("s", key("s"))))
)
show("made of", df.withColumns({"b": F.length(key("s")) + 1}).select("b", F.explode(F.split(key("s"), "N"))))

show("filter", df.where((col("id") > 1) & ~big("x") & (safe("x") < 5)).filter(key("s") != "?"))
show("kept filter", df.filter(big("x") & (kept("s") == "a-n-n")))
# The function raises for rows that another condition drops, wherever that one stands.
show("raising", df.filter((inverse("x") > 0) & (col("x") != 0) & col("x").isNotNull()).select("id", df.x))
show("star", df.where("x != 0").filter((inverse("x") > 0) & (F.xxhash64("*") % 2 == 0)))
fails("not every row", df.filter(big("x") & (inverse("x") > 0)))
fails("skipped", df.select(when(col("x") != 0, inverse("x")), col("x") + inverse("x")))
show("first in it", df.filter("x != 0").select(inverse("x") + 1, F.round(inverse("x"), 3)))

show("sort", df.where("x != 0").sort(-inverse("x"), key("s"), safe("x"), ascending=[False, True, True]))
ranges = df.repartition(3, key("s")).select("id", "x", F.spark_partition_id().alias("hash"))
show("repartition", ranges.repartitionByRange(2, safe("x"), "id").select("*", F.spark_partition_id()))

show("group", df.groupBy(key("s")).count().orderBy("count", "key(s)"))
totals = F.sum(safe("x")), F.max(key("s")).alias("m"), F.concat(key("s"), F.lit("!"))
show("groups", df.groupBy(key("s"), big("x").alias("b")).agg(*totals).orderBy("m", "b"))
show("all", df.agg(F.avg(safe("x")), F.count_if(big("x")), F.collect_list(kept("s"))))
show("sums", df.where("x != 0").groupBy("id").agg(F.sum(inverse("x"))).orderBy("id"))
show("pivot", df.groupBy(key("s")).pivot("id", [1, 2]).count().orderBy("key(s)"))
grouped = df.where("x is not null").groupBy("x", inverse("x").alias("i")).count()
show("having", grouped.where((col("i") > 0) & (col("x") != 0)).orderBy("x"))

show("join", df.join(others, [key("s") == col("key"), safe("w") > 2], "left").orderBy("id"))
show("both", df.join(others, key(F.concat("s", "key")) == "ANNANN").orderBy("id"))
window = Window.partitionBy(key("s")).orderBy(safe("x").desc(), "id")
show("window", df.select("id", F.row_number().over(window), F.sum(safe("x")).over(window.rowsBetween(-1, 0))))

spark.udf.register("safe_sql", safe)
spark.udf.register("key_sql", lambda s: "?" if not s else s.upper(), "string")
named = df.selectExpr("id", "safe_sql(x)", "Key_SQL(s) AS k").withColumn("c", F.call_udf("safe_sql", "id"))
show("text", named.filter(F.expr("key_sql(k)") != "?"))
show("sql", spark.sql("select safe_sql(x) from {rows}", rows=df.where("safe_sql(x) > 0")))
spark.sql("drop temporary function safe_sql")
spark.sql("create temporary function safe_sql(x double) returns double return x + 1")
show("another function", df.selectExpr("safe_sql(x)", "upper(s)"))
spark.sql("drop temporary function safe_sql")

try:
    df.filter(safe("missing") > 1).collect()
except Exception as error:
    print(type(error).__name__, error.getCondition())
spark.conf.unset("spark.sql.shuffle.partitions")
spark.conf.set("spark.sql.adaptive.enabled", adaptive)
if "stop" in sys.argv:  # a Connect server of its own would outlive it
    spark.stop()
