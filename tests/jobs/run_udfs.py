"""A script as people write them, with UDFs of many kinds; it knows nothing of Penstock. Run by test_run.py.

Prints every result with its type: the same text is wanted from `python` and from `penstock run`.
"""

import math
import sys

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, lit, rand, udf
from pyspark.sql.types import DoubleType, IntegerType

spark = SparkSession.builder.config("spark.ui.enabled", "false").getOrCreate()

RATE = 1.19
limit = 10

rows = [
    (1, 10, 2.5, 0.1, " Ann ", True, "2024-02-29", "2024-02-29 23:59:59.5"),
    (2, -7, math.nan, -0.0, "", False, "1969-12-31", "1969-12-31 00:00:00"),
    (3, 2147483647, math.inf, 1e30, "\u00dfaB\u00e9", True, "2000-01-01", "2000-01-01 12:30:00"),
    (4, 0, -0.0, 3.25, "a,b", None, "1900-03-01", "2038-01-19 03:14:08"),
    (5, None, None, None, None, None, None, None),
]
schema = "id bigint, n int, x double, f float, s string, b boolean, d string, t string"
df = spark.createDataFrame(rows, schema).coalesce(1)  # over Connect the rows would lie in the plan
df = df.select("id", "n", "x", "f", "s", "b", col("d").cast("date"), col("t").cast("timestamp_ntz"))
df = df.withColumn("z", col("t").cast("timestamp")).withColumn("m", col("x").isNotNull().cast("decimal(5,2)"))


def show(title, frame):
    print(title, frame.schema.json())
    for row in frame.collect():
        print("  ", [(type(value).__name__, value) for value in row])


@udf(returnType=DoubleType())
def gross(x):
    return None if x is None else x * RATE


@udf("string")
def initial(s: int) -> float:  # the annotations are wrong, and Spark does not care
    if not s:
        return "?"
    return s.strip()[:1].upper()


@udf
def shout(s):
    return s.upper() + "!" if s is not None else None


@udf("bigint")
def plus(n, m=5):
    if n is None:
        return -1
    return n + m


def half(x):
    return 0 if x is None else x / 2


@udf(IntegerType())
def narrow(n):
    return n % 100 if n is not None else None


@udf("double")
def widened(f):
    return f * 3.0 if f is not None else None


@udf("float")
def rounded(x):
    return x / 3.0 if x is not None else None


half_arrow = udf(half, "double", useArrow=True)
half_pickled = udf(half, "double", useArrow=False)
positive = udf(lambda x: x is not None and x > 0, "boolean")
year = udf(lambda d: d.year if d else None, "int")
same_day = udf(lambda d: d, "date")
hour = udf(lambda t: t.hour if t else None, "int")
clock = udf(lambda z: z.hour if z else None, "int")
money = udf(lambda m: str(m), "string")
letters = udf(lambda s: [c for c in s] if s else None, "array<string>")
joined = udf(lambda s: "-".join(sorted(s)) if s else None, "string")
truth = udf(lambda b: "yes" if b else "no", "string")
dice = udf(lambda n: 4, "bigint").asNondeterministic()
as_text = udf(lambda n: n)
over = udf(lambda n: n is not None and n > limit, "boolean")
length = udf(len, "int")
same = udf(lambda r: r, "double")
inverse = udf(lambda x: 1.0 / x, "double")
unused = udf(lambda x: x)

show("gross", df.select(gross("x"), gross(df.x).alias("with tax"), gross(col("x") * 2), shout(col("s"))))
show("plus", df.withColumns({"a": plus("n"), "b": plus("n", lit(7)), "c": plus(m="id", n="n")}))
numbers = [narrow("n"), widened("f"), rounded("x"), positive("x"), truth("b"), as_text("n"), dice("n")]
show("numbers", df.select([half_arrow("x").alias("arrow"), half_pickled("x").alias("pickled"), *numbers]))
show(
    "others",
    df.select(year("d"), same_day("d"), hour("t"), clock("z"), money("m"), letters("s"), joined("s")),
)
show(
    "nested",
    df.select(shout(initial("s")), initial(shout("s")).name("n"), gross("x") + 1, joined(shout("s"))),
)
show("arguments", df.where("s is not null").select(length("s"), same(rand(7) * 2)))
show("lateral", df.select((col("x") + 1).alias("q"), gross("q").alias("r")))
show("over", df.filter(positive("x")).orderBy(gross("x")).select("id", over("n").alias("over")))
show("twice", df.withColumn("x", gross("x")).withColumn("x", gross("x")).withColumn("initial", initial("s")))

# The function raises for rows that a filter drops, and Spark moves that filter below it.
tested = df.withColumn("y", inverse("x"))
show("inverse", tested.filter((col("y") > 0) & (col("x") != 0) & col("x").isNotNull()))

local = spark.sql("select * from values (0.0D), (2.0D) as t(x)").withColumn("y", inverse("x"))
show("local", local.filter((col("y") > 0) & (col("x") != 0)))

first = df.select(over("n"))
limit = -100
second = df.select(over("n"))
show("late", first)
show("later", second)

spark.udf.register("gross_sql", gross)
spark.udf.register("twice_sql", lambda n: None if n is None else 2 * n, "bigint")
df.createOrReplaceTempView("rows")
show("sql", spark.sql("select gross_sql(x) a, twice_sql(n) b from rows"))

try:
    df.select(gross("missing")).collect()
except Exception as error:
    print(type(error).__name__, error.getCondition())

try:
    df.select(inverse("x")).collect()
except Exception as error:
    print("failed", "ZeroDivisionError" in str(error), __name__, sys.argv[1:])

made = gross
print(made.func.__name__, made.returnType, made.evalType, made.deterministic, made.__doc__, callable(made))
if "stop" in sys.argv:  # a Connect server of its own would outlive it
    spark.stop()
