"""`penstock explain script.py` tells where a script takes rows out of Spark: the call, its line, how rows cross.

The same over Spark Connect is part of `explained_sinks.py`, which `explained_queries.py` runs there.
"""

from __future__ import annotations

import functools
import importlib.util
import sys
from pathlib import Path

import pytest

from penstock import cli
from penstock.tools.explain_sinks import watching, with_sinks
from penstock.tools.explain_target import explained, frames

_spec = importlib.util.spec_from_file_location(
    "explained_sinks", Path(__file__).with_name("explained_sinks.py")
)
cases = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(cases)


@pytest.fixture
def script(tmp_path: Path):
    yield cases.write_script(tmp_path)
    sys.modules.pop("helping", None)


def test_every_call_is_told(spark, script: Path, monkeypatch, capfd) -> None:
    explanations = explained(frames(str(script)), analyze=False)
    pickled, arrow = "pickled rows", "Arrow batches"
    assert cases.sinks(explanations) == {
        "df": [("collect", 7, pickled, 1, ("id", "x"))],
        "small": [
            ("toPandas", 9, arrow, 3, ("id", "x")),
            ("toArrow", 10, arrow, 1, ("id", "x")),
            ("toPandas", 19, pickled, 1, ("id", "x")),
        ],
        "line 12": [("toLocalIterator", 12, pickled, 2, ("id", "x"))],
        "line 13": [("foreach", 13, pickled, 1, ("x",))],
        "helping.py line 2": [("collect", 2, pickled, 1, ("id",))],
        "line 22": [("rdd", 22, pickled, 1, ("id",))],
    }
    small = explanations["small"]
    assert small.sentence.endswith(
        "The script takes its rows out of Spark: toPandas() in line 9, toArrow() in line 10, toPandas() in line 19."
    )
    says = "line 9 of job.py takes all of its rows to the driver, 3 times, as Arrow batches: id, x."
    off = 'Turn Arrow on: spark.conf.set("spark.sql.execution.arrow.pyspark.enabled", "true")'
    text = " ".join(str(small).split())
    assert f"toPandas(): {says}" in text
    assert off in text
    assert "pk.to_numpy(df, ...)" in text
    html = small._repr_html_()
    assert says in html
    assert off.replace('"', "&quot;") in html
    rdd = explanations["line 22"].findings[-1]
    assert "line 22 of job.py takes all of its rows to Python workers, as pickled rows: id." in str(rdd)
    assert "mapInArrow" in rdd.advice
    # The command prints the same; a name is that DataFrame alone.
    monkeypatch.setattr(sys, "argv", ["penstock", "explain", str(script), "--name", "small"])
    sys.modules.pop("helping")
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert not ended.value.code
    assert capfd.readouterr().out.strip() == str(small).strip()


def test_a_script_without_names_is_explained_by_what_it_takes(spark, tmp_path: Path) -> None:
    path = tmp_path / "main.py"
    path.write_text(
        "from pyspark.sql import SparkSession\n"
        "def main():\n"
        "    one = SparkSession.builder.getOrCreate().range(2)\n"
        "    return one.collect(), one.toArrow()\n"
        "main()\n"
    )
    found = explained(frames(str(path)), analyze=True)
    assert list(found) == ["line 4"]
    assert [each.operator for each in found["line 4"].findings if each.kind == "sink"] == [
        "collect()",
        "toArrow()",
    ]
    assert found["line 4"].rows == 2


def test_what_penstock_takes_is_not_the_scripts(spark) -> None:
    from pyspark.sql.classic.dataframe import DataFrame

    import penstock as pk

    before = dict(vars(DataFrame))
    df = spark.range(3)
    with watching() as taken:
        assert pk.to_numpy(df, ["id"]).shape == (3, 1)
        assert taken == []
        assert [row.id for row in df.rdd.collect()] == [row.id for row in df.toLocalIterator()] == [0, 1, 2]
        assert isinstance(before["rdd"], functools.cached_property)
    assert [each.sink.call for each in taken] == ["rdd", "toLocalIterator"]
    assert dict(vars(DataFrame)) == before
    plain = pk.explain(spark.range(1))
    assert with_sinks(plain, taken, spark.range(1)) is plain
