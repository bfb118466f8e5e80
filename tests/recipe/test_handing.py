"""Columns reach classic Spark as SQL: few calls, no view left, and the user's own settings as they were."""

from __future__ import annotations

import importlib

import pyarrow as pa
import pytest
from py4j.protocol import MEMORY_COMMAND_NAME  # lets go of an object, whenever Python's collector does
from pyspark.errors import utils
from pyspark.sql import functions as F

import penstock as pk
from penstock.backends.spark.functions import FLAG, written
from penstock.backends.spark.sql_text import quoted, sql_of

handing = importlib.import_module("penstock.backends.spark.handing")  # a function of that name hides it

KEYS = [f"key {place}" for place in range(40)]
ROWS = pa.table({"key": KEYS, "number": [float(place) for place in range(40)]})


def looked_up() -> pk.FittedRecipe:
    return pk.Recipe(
        ids=pk.stack(pk.col("key").index(), dtype="int64"), x=pk.col("number").standardize()
    ).fit(ROWS)


def test_a_transform_takes_few_calls_of_java(spark, monkeypatch) -> None:
    df, fitted = spark.createDataFrame(ROWS), looked_up()
    gateway = type(spark.sparkContext._gateway._gateway_client)
    sent, send = [], gateway.send_command
    monkeypatch.setattr(gateway, "send_command", lambda *args: (sent.append(args[1]), send(*args))[1])
    found = fitted.transform(df)
    monkeypatch.undo()
    asked = [command for command in sent if not command.startswith(MEMORY_COMMAND_NAME)]
    assert len(asked) < 150  # a Column at a time they were some thousand
    assert found.toArrow().to_pylist() == fitted.arrow(ROWS).to_pylist()


def test_no_view_is_left(spark) -> None:
    before = spark.catalog.listTables()
    found = looked_up().transform(spark.createDataFrame(ROWS))
    assert spark.catalog.listTables() == before
    assert found.count() == found.where("ids[0] > 0").count() == 40  # the table is still found


def test_what_is_nested_deeply_is_not_written_as_sql(spark, monkeypatch) -> None:
    """The parser would take long; the calls give the same values."""
    deep = pk.col("number")
    for _ in range(10):
        deep = (deep - 3).abs()
    fitted = pk.Recipe(x=deep).fit(ROWS)
    written_as = []
    monkeypatch.setattr(handing, "sql_of", lambda column: written_as.append(sql_of(column)) or written_as[-1])
    found = fitted.transform(spark.createDataFrame(ROWS)).toArrow()
    assert max(map(handing.nesting, written_as)) > handing.DEEPEST
    assert found.to_pylist() == fitted.arrow(ROWS).to_pylist()


@pytest.mark.parametrize("patterns", ["false", "true"])
def test_names_that_sql_takes_for_something_else(spark, patterns) -> None:
    """`${...}` is a variable, whatever stands around it; and there is a setting by which a name is a pattern."""
    spark.conf.set("penstock.named", "aXb")
    names = ["${penstock.named}", "a.b", "aXb", "a``b `"]
    rows = pa.table({name: [float(place)] for place, name in enumerate(names)})
    fitted = pk.Recipe(**{f"t{place}": pk.col(name) * 10 for place, name in enumerate(names)}).fit(rows)
    key = "spark.sql.parser.quotedRegexColumnNames"
    df = spark.createDataFrame(rows)
    before = spark.conf.get(key)
    spark.conf.set(key, patterns)
    try:
        for name in names:  # alone, so that no other one keeps it from being written
            place = names.index(name)
            one = fitted.only(f"t{place}").transform(df.select(F.col(quoted(name))), keep=[name])
            assert one.toArrow().to_pylist() == [{name: float(place), f"t{place}": place * 10.0}]
        every = fitted.transform(df, keep=names).toArrow().to_pylist()
    finally:
        spark.conf.set(key, before)
        spark.conf.unset("penstock.named")
    assert every == [
        dict(zip(names, range(4), strict=True)) | {f"t{place}": place * 10.0 for place in range(4)}
    ]


def test_what_pyspark_notes_for_its_errors_is_switched_on_again(monkeypatch) -> None:
    for before in (True, False, None):
        monkeypatch.setattr(utils, FLAG, before)
        with written():
            with written():
                assert utils._enable_debugging_cache is False
            assert utils._enable_debugging_cache is False
        assert utils._enable_debugging_cache is before
