"""What the demo does with Penstock, in the words of somebody who uses it. The bodies of these functions are shown
while they run (`penstock.tools.demo.screen.source`), so what is read on the screen is what ran.

What may be known. The question is asked when the hour begins in which a flight is to leave. Its schedule, route,
carrier and plane are known then (airlines do swap planes at times; the data has the one that flew), and so is how many
flights are to leave in that hour. The weather is that of the hour before, which has been measured by then: the weather
at departure would need a forecast to stand in for it, and gave the same result. When flights really left, landed, and
how long they flew is not read at all.

The season is left out on purpose: the model is judged by months that it has never seen, and what it would learn of
January's or July's place in the year tells nothing about December's. The settings of recipe and models were chosen on
earlier months alone: trained on those before May, July or September, and judged by the two after each.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import penstock as pk

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

QUIET = {"spark.driver.extraJavaOptions": "-Ddev.ludovic.netlib.blas.allowNative=false"}
"""MLlib would look for a BLAS library of the system's, and say on the terminal that there is none."""
TITLE = "Which flights out of New York arrive late?"
WEATHER = ("visib", "wind_speed", "wind_gust", "precip")
"""What `rough` takes."""
FIRST_EVALUATED = "2013-11-01"


def started() -> SparkSession:
    """A Spark session."""
    spark = pk.session(config=QUIET)  # the active one, or a local one; Java comes along
    return spark


def joined(flights: DataFrame, weather: DataFrame, planes: DataFrame, airports: DataFrame) -> DataFrame:
    """One row for each flight that arrived, with what is known about it before it leaves, and whether it was late."""
    from pyspark.sql import functions as F

    known = weather.withColumn("time_hour", F.expr("time_hour + interval 1 hour"))  # measured the hour before
    flights = flights.dropDuplicates(["time_hour", "carrier", "flight"])
    departures = flights.groupBy("origin", "time_hour").agg(F.count("*").alias("departures"))
    return (
        flights.where("arr_delay is not null")  # cancelled and diverted flights have no arrival
        .join(known, ["origin", "time_hour"], "left")
        .join(planes.withColumnRenamed("year", "built"), "tailnum", "left")
        .join(airports.withColumnRenamed("faa", "dest"), "dest", "left")
        .join(departures, ["origin", "time_hour"])
        .withColumn("late", F.col("arr_delay") > 15)
        .withColumn("day", F.make_date("year", "month", "day"))
        .withColumn("scheduled", F.expr("timestampadd(minute, minute, time_hour)"))
        .withColumn("arrives", F.expr("sched_arr_time div 100 * 60 + sched_arr_time % 100"))
        .withColumn("route", F.concat_ws(" ", "carrier", "origin", "dest"))
        .drop("year", "month", "time_hour", "minute", "sched_arr_time", "tailnum", "arr_delay")
        .repartition(8, "day")  # every row in the same place in every run, so that all of it can be repeated
        .sortWithinPartitions("scheduled", "carrier", "flight")
    )


def read(spark: SparkSession, tables: dict[str, pa.Table]) -> DataFrame:
    """The tables as DataFrames, joined."""
    frames = {name: spark.createDataFrame(table) for name, table in tables.items()}
    flights = joined(**frames).cache()
    return flights


def divided(flights: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Earlier days to train on, later ones to be judged by."""
    train = flights.where("day < '2013-11-01'")
    evaluate = flights.where("day >= '2013-11-01'")
    return train, evaluate


def rough(visib: float | None, wind: float | None, gust: float | None, rain: float | None) -> float:
    """How rough the weather is, from 0 to 10."""
    score = 0.0
    if visib is not None and visib < 10.0:
        score += (10.0 - visib) / 2.5
    strongest = gust if gust is not None else wind
    if strongest is not None and strongest > 15.0:
        score += min((strongest - 15.0) / 5.0, 4.0)
    if rain is not None and rain > 0.0:
        score += 2.0 if rain < 0.1 else 3.0
    return min(score, 10.0)


def explained(flights: DataFrame) -> tuple[pk.Explanation, pk.Explanation]:
    """The function as Spark's own udf, and lifted."""
    from pyspark.sql.functions import udf

    plain, lifted = udf(rough, "double"), pk.udf(rough)
    before = pk.explain(flights.select(plain(*WEATHER)), analyze=True, functions={"rough": rough})
    after = pk.explain(flights.select(lifted(*WEATHER)), analyze=True)
    return before, after


def recipe() -> pk.Recipe:
    """The features: numbers, ids of embeddings, and the label."""
    numbers = ["distance", "seats", "built", "lat", "lon", "departures"]
    numbers += ["temp", "dewp", "humid", "wind_speed", "precip", "pressure", "visib"]
    categories = ["carrier", "origin", "dest", "route", "model"]
    at, zone = pk.col("scheduled"), "America/New_York"
    minute = at.hour(zone) * 60 + at.minute(zone)
    wind, angle = pk.col("wind_speed").fill(0.0) / 10, pk.col("wind_dir").fill(0) * (math.pi / 180)
    return pk.Recipe(
        x=pk.stack(
            *(pk.col(name).fill("median").standardize().clip(-4, 4) for name in numbers),
            *(pk.col(name).is_null().cast("float32") for name in ("seats", "temp")),
            *(wind * angle.sin(), wind * angle.cos()),
            pk.lift(rough)(*(pk.col(name) for name in WEATHER)) / 5,
            *(minute / 1440, minute.cyclic(1440), pk.col("arrives").cyclic(1440)),
            at.weekday(zone).cyclic(7),
            dtype="float32",
        ),
        ids=pk.stack(
            *(pk.col(name).index(min_count=20) for name in categories),
            *(at.hour(zone).index(), at.weekday(zone).index()),
            dtype="int32",
        ),
        late=pk.col("late").cast("float32"),
    )


def learned(train: DataFrame) -> pk.FittedRecipe:
    """The recipe with what it learned, from the training rows alone."""
    fitted = recipe().fit(train)
    return fitted


def written(
    train: DataFrame, evaluate: DataFrame, fitted: pk.FittedRecipe, folder: str, workers: int
) -> None:
    """Both parts as datasets."""
    pk.write(train, f"{folder}/train", recipe=fitted, workers=workers)
    pk.write(evaluate, f"{folder}/evaluate", recipe=fitted, workers=workers)


def as_written(train: DataFrame, fitted: pk.FittedRecipe) -> pk.Explanation:
    """Where rows cross to Python on the way to the dataset; the page tells it."""
    explanation = pk.explain(fitted.transform(train))
    return explanation


def number_to_beat(train: DataFrame, evaluate: DataFrame, fitted: pk.FittedRecipe) -> pk.Baseline:
    """MLlib's logistic regression on the same tensors."""
    found = pk.baseline(train, fitted, label="late", test=evaluate)
    return found


def scored(flights: DataFrame, model: Any, fitted: pk.FittedRecipe) -> DataFrame:
    """The flights with the model's score beside them."""
    scores = pk.predict(flights, model, recipe=fitted, tensors=["x", "ids"], returns="score float")
    return scores


def report(folder: str, out: str, explanation: pk.Explanation) -> pk.Report:
    """One HTML file about the data and the training."""
    found = pk.report(f"{folder}/train", out, log=f"{folder}/log.jsonl", explanation=explanation, title=TITLE)
    return found
