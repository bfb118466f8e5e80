"""`pk.explain` and `penstock explain`: every kind of boundary found in real queries, measured, and shown."""

from __future__ import annotations

import importlib.util
import io
import json
import os
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from pyspark.sql import functions as F
from pyspark.sql.functions import udf
from rich.console import Console

from penstock import cli
from penstock.errors import JobError, PenstockError
from penstock.jobs.boundaries_around import Finding
from penstock.jobs.boundaries_costs import costs
from penstock.jobs.boundaries_kinds import kind_of
from penstock.jobs.plan import Node
from penstock.jobs.plan_classic import Measured
from penstock.jobs.plan_reading import Run
from penstock.tools.explain import Explanation, explain

HERE = Path(__file__).parent


def _cases():
    spec = importlib.util.spec_from_file_location("explained_queries", HERE / "explained_queries.py")
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    # Spark's pickler sends functions of modules that workers cannot import by value; this one is not on their path.
    sys.modules["explained_queries"] = module
    spec.loader.exec_module(module)
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(module)
    return module


cases = _cases()
NAMES = [
    "native", "pickled", "arrowed", "nested", "pandas", "iterator", "arrow", "aggregate", "arrow aggregate", "window",
    "mapInPandas", "mapInArrow", "applyInPandas", "applyInArrow", "cogroup", "udtf", "filter on a result",
    "filter on a computed argument", "filter above chance", "different kinds", "native between", "two maps", "sorted",
    "join condition", "join key", "subquery",
]  # fmt: skip


@pytest.fixture(scope="module")
def table(spark, tmp_path_factory):
    return cases.table(spark, str(tmp_path_factory.mktemp("explain") / "t"))


@pytest.fixture(scope="module")
def queries(table):
    found = cases.queries(table)
    assert list(found) == NAMES, "each query is tested"
    return found


@pytest.mark.parametrize("name", NAMES)
def test_every_boundary_is_found(queries, name: str) -> None:
    query, expected = queries[name]
    found = cases.check(query(), expected, analyze=False)
    assert (found.seconds, found.rows) == (None, None)
    assert all(boundary.traffic is None for boundary in found.boundaries)
    for finding in found.findings:
        assert finding.says.endswith(".")
        assert finding.advice or finding.kind == "collect"
    if not found.boundaries:
        assert found.sentence == "No row crosses between the JVM and Python in this plan."


@pytest.mark.parametrize("name", cases.MEASURED)
def test_what_crosses_is_measured(queries, name: str) -> None:
    query, expected = queries[name]
    found = cases.check(query(), expected, analyze=True)
    if name == "native":
        assert "The query gave 996 rows in" in found.sentence
        return
    traffic = found.boundaries[0].traffic
    assert traffic is not None
    assert (traffic.rows_sent, traffic.rows_received) == cases.MEASURED[name]
    assert traffic.bytes_sent > 8 * (traffic.rows_sent if name != "aggregate" else cases.ROWS)
    if name == "arrow":
        assert traffic.bytes_sent > 16 * cases.ROWS, "no column is left out"
        assert traffic.bytes_received > 16 * cases.ROWS
    assert traffic.bytes_received > 0
    assert traffic.seconds >= 0
    assert traffic.processing is not None
    assert f"{traffic.rows_sent:,} rows there" in " ".join(str(found).split())
    assert "Python ran for" in found.sentence or traffic.seconds == 0


def test_a_python_source(spark) -> None:
    df, expected = cases.source(spark)
    found = cases.check(df, expected, analyze=True)
    assert found.boundaries[0].traffic.rows_received == 10


def said(found: Explanation, kind: str) -> Finding:
    return next(finding for finding in found.findings if finding.kind == kind)


def test_why_passes_are_apart(queries) -> None:
    different = said(explain(queries["different kinds"][0]()), "unfused")
    assert "pickled takes another pass through Python after arrowed" in different.says
    assert "arrowed (udf) and pickled (udf(useArrow=False)) are of different kinds" in different.says
    assert different.advice == "Write both as udf."
    between = said(explain(queries["native between"][0]()), "unfused")
    assert "between them Spark computes (arrowed(x) + 1.0)" in between.says
    maps = said(explain(queries["two maps"][0]()), "unfused")
    assert "Spark never runs two calls of mapInArrow in one pass" in maps.says


def test_what_is_held_back_is_named(queries) -> None:
    found = explain(queries["filter on a result"][0](), analyze=True)
    held = said(found, "filter")
    assert "the filter (arrowed(x) > 3.0) needs the result of arrowed" in held.says
    assert "It drops 11 of the 500 rows that came back." in held.says
    again = said(found, "twice")
    assert "once for a filter on its result and once for the column (nodes 4 and 7)" in again.says
    assert "arrowed.asNondeterministic()" in again.advice
    chance = said(explain(queries["filter above chance"][0]()), "filter")
    assert "does not need fickle" in chance.says
    assert chance.advice == "Filter before calling fickle."
    mapped = explain(queries["mapInPandas"][0]())
    assert "cannot reach the source through it" in said(mapped, "filter").says
    assert "2 of the 4 columns that come back are not used (k, odd, name)" in said(mapped, "columns").says


def test_the_advice_works(spark, table, queries) -> None:
    """What `explain` tells people to do makes the finding go away."""
    arrowed = cases.functions().arrowed
    once = table.where("id < 500").withColumn("y", arrowed.asNondeterministic()("x")).where("y > 3")
    found = explain(once)
    assert [finding.kind for finding in found.findings] == ["boundary", "filter"]
    fused = table.select(arrowed("x"), arrowed("id"))
    assert [finding.kind for finding in explain(fused).findings] == ["boundary"]
    cached = table.select("id", arrowed("x").alias("y")).cache()
    found = explain(cached.orderBy("y"))
    assert [finding.kind for finding in found.findings] == ["boundary"]
    assert found.boundaries[0].cached
    assert "when the cache is filled" in str(found)
    cached.unpersist()


def test_rdd_round_trips(spark, table) -> None:
    trip = explain(table.rdd.map(lambda row: (row.id, row.x)).toDF(["id", "x"]).where("id > 5"), analyze=True)
    assert [(b.operator, b.crossing, b.received) for b in trip.boundaries] == [
        ("Scan ExistingRDD", "pickled rows", ("id", "x"))
    ]
    assert trip.boundaries[0].traffic.rows_received == 1000
    assert "mapInArrow" in trip.findings[0].advice
    assert explain(table.where("id > 3").localCheckpoint()).boundaries == ()


def test_rows_in_the_plan(spark) -> None:
    found = explain(spark.sql("values (1), (2)"), analyze=True)
    assert [finding.kind for finding in found.findings] == ["memory"]
    assert found.rows == 2


def test_a_stream_is_explained_and_not_run(spark) -> None:
    arrowed = cases.functions().arrowed
    stream = spark.readStream.format("rate").load().select(arrowed("value").alias("y"))
    found = explain(stream)
    assert [(b.operator, b.sent, b.received) for b in found.boundaries] == [
        ("ArrowEvalPython", ("value",), ("y",))
    ]
    with pytest.raises(PenstockError, match="this one is a stream, which never ends"):
        explain(stream, analyze=True)


def test_operators_that_need_a_stream_or_another_spark() -> None:
    assert kind_of("FlatMapGroupsInPandasWithState", None).asked_by == "applyInPandasWithState"
    assert kind_of("TransformWithStateInPySpark", None).asked_by == "transformWithState"
    assert kind_of("PythonMapInArrow", None).asked_by == "mapInArrow"
    assert kind_of("AggregateInPandas", None).crossing == "pandas batches"
    assert kind_of("WarpInPandas", None).asked_by.startswith(
        "an operator that this version of Penstock does not know"
    )
    assert kind_of("AttachDistributedSequence", None) is None


def test_small_batches_are_noticed(spark, queries) -> None:
    key = "spark.sql.execution.arrow.maxRecordsPerBatch"
    before = spark.conf.get(key)
    spark.conf.set(key, "50")
    try:
        found = explain(queries["arrow"][0]())
    finally:
        spark.conf.set(key, before)
    assert "batches hold 50 rows at most" in said(found, "batches").says
    assert [finding.kind for finding in explain(queries["arrow"][0]()).findings] == ["boundary"]


def test_columns_that_have_no_hash_or_one_name(spark) -> None:
    df = spark.range(9).select(F.create_map(F.lit("a"), "id").alias("m"), F.col("id"), F.col("id"))
    assert explain(df, analyze=True).rows == 9
    assert explain(spark.range(9).select(F.col("id"), F.col("id")), analyze=True).rows == 9
    assert explain(spark.range(9).select(), analyze=True).rows == 9
    assert explain(spark.range(9).where("id < 0"), analyze=True).rows == 0


def test_mistakes(spark) -> None:
    with pytest.raises(PenstockError, match="explain takes a Spark DataFrame, and got a list"):
        explain([1, 2])  # type: ignore[arg-type]
    broken = udf(lambda n: n.nothing, "double")
    with pytest.raises(
        JobError, match="the Spark job that runs the DataFrame failed: AttributeError"
    ) as told:
        explain(spark.range(3).select(broken("id")), analyze=True)
    assert "at org.apache" not in str(told.value)


# --- what else costs time ---------------------------------------------------------------------------------


def test_costs() -> None:
    nodes = (
        Measured("Exchange", {"shuffleBytesWritten": 6e7}),
        Measured("ShuffleQueryStage", {}, (90_000_000, 1_000_000, 2_000_000)),
        Measured("Exchange", {"shuffleBytesWritten": 4e7}),
        Measured("Sort", {"spillSize": 3e9}),
        Measured("AQEShuffleRead", {"numSkewedPartitions": 2.0}),
    )
    found = list(costs(Run(nodes, (900_000, 10, 20), 1.0), cores=8))
    assert [finding.kind for finding in found] == ["shuffle", "spill", "skew", "skew", "skew", "partitions"]
    assert found[0].says == "100.0 MB were moved between tasks, in 2 shuffles."
    assert "3.0 GB did not fit in memory" in found[1].says
    assert "one of 3 partitions of a shuffle has 90.0 MB, the median 2.0 MB" in found[2].says
    assert "900,000 of 900,030 rows" in found[4].says
    assert "900,030 rows came out of 3 partitions, and 8 cores could have worked." in found[5].says
    assert (
        list(costs(Run((Measured("Exchange", {"shuffleBytesWritten": 500.0}),), (5, 5), 1.0), cores=2)) == []
    )


def test_costs_of_a_real_run(spark) -> None:
    skewed = spark.range(0, 400_000, 1, 2).select(
        F.when(F.col("id") % 50 == 0, F.col("id")).otherwise(0).alias("k"),
        F.sha2(F.col("id").cast("string"), 256),
    )
    spark.conf.set("spark.sql.adaptive.coalescePartitions.enabled", "false")
    try:
        found = explain(skewed.repartition(8, "k"), analyze=True)
    finally:
        spark.conf.unset("spark.sql.adaptive.coalescePartitions.enabled")
    assert found.boundaries == ()
    assert found.rows == 400_000
    assert {finding.kind for finding in found.findings} == {"shuffle", "skew"}
    assert "of 8 partitions of a shuffle has" in said(found, "skew").says


# --- how it looks -----------------------------------------------------------------------------------------


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.opened: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.opened.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_three_pages_show_the_same(queries) -> None:
    found = explain(queries["filter on a result"][0]())
    printed = str(found)
    assert repr(found) == printed
    assert printed.startswith(
        "Rows cross between the JVM and Python 2 times (arrowed), with one call of Python"
    )
    assert max(map(len, printed.splitlines())) <= 120
    assert "    ArrowEvalPython (7)  <- Python: rows over Arrow" in printed
    assert "   -> As for 1." in printed, "the same advice is given once"
    console = Console(file=io.StringIO(), width=200, color_system=None)
    console.print(found)
    page = Tags()
    page.feed(found._repr_html_())
    for shown in (console.file.getvalue(), page.text):
        squeezed = " ".join(shown.split())
        assert found.sentence in squeezed
        for finding in found.findings:
            assert finding.says in squeezed
    assert set(page.opened) == {"div", "p", "ol", "li", "span", "details", "summary", "pre"}


def test_names_are_never_markup() -> None:
    odd = Finding(
        "boundary", 3, "ArrowEvalPython", "<script>alert(1)</script> [red]x[/red] & 'y'.", "<b>do</b>."
    )
    found = Explanation("<i>[bold]", (odd,), Node(3, "<img> [red]"))
    assert "<script>" not in found._repr_html_()
    assert "&lt;script&gt;" in found._repr_html_()
    console = Console(file=io.StringIO(), width=200, color_system=None)
    console.print(found)
    assert "<script>alert(1)</script> [red]x[/red] & 'y'." in console.file.getvalue()


def test_json(queries) -> None:
    found = explain(queries["pickled"][0](), analyze=True)
    back = json.loads(json.dumps(found.to_dict()))
    assert back["sentence"] == found.sentence
    assert back["findings"][0]["boundary"]["functions"] == ["pickled"]
    assert back["findings"][0]["boundary"]["traffic"]["rows_sent"] == 1000
    assert back["plan"]["name"] == "Project"
    assert back["plan"]["children"][0]["metrics"]["pythonNumRowsReceived"] == 1000


# --- the command ------------------------------------------------------------------------------------------

SCRIPT = """
import sys
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

spark = SparkSession.builder.getOrCreate()
print("arguments", sys.argv[1:], __name__)

@udf("double", useArrow=False)
def speed(km, minutes):
    return km / minutes * 60.0

trips = spark.range(100).selectExpr("id + 1.0D as km", "id + 2.0D as minutes")
fast = trips.select(speed("km", "minutes").alias("speed"))
count = 3
spark.stop()
sys.exit(0)
"""


@pytest.fixture
def run(spark, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Run `penstock explain` in this process, which has a session; exit code, standard output, standard error."""

    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["penstock", "explain", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            cli.main()
        out, err = capsys.readouterr()
        return ended.value.code or 0, out, err

    return call


def test_a_script_is_explained(run, spark, tmp_path: Path) -> None:
    script = tmp_path / "trips.py"
    script.write_text(SCRIPT)
    code, out, err = run(script, "--name", "fast", "--", "a", "--b")
    assert code == 0
    assert out.startswith("Rows cross between the JVM and Python once (speed)")
    assert "arguments ['a', '--b'] __main__" in err
    assert spark.range(2).count() == 2, "the session was not stopped"
    code, out, _ = run(script)
    assert code == 0
    assert (
        out.index("== trips ==")
        < out.index("No row crosses")
        < out.index("== fast ==")
        < out.index("(speed)")
    )
    code, out, _ = run(script, "--json", "--analyze", "--name", "fast")
    assert code == 0
    found = json.loads(out)
    assert found["fast"]["rows"] == 100
    assert found["fast"]["findings"][0]["boundary"]["functions"] == ["speed"]


def test_a_script_named_relatively_has_an_absolute_file(run, tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "s.py").write_text(
        "import sys\nfrom pathlib import Path\n"
        "code = sys._getframe().f_code.co_filename\n"
        "print(Path(__file__).parents[1], code, sys.argv[0])\n1 / 0\n"
    )
    monkeypatch.chdir(tmp_path)
    code, _, err = run("s.py")
    assert code == 1
    assert f"{tmp_path.parent} {tmp_path / 's.py'} s.py\n" in err
    assert "s.py failed in line 5: ZeroDivisionError" in err


def test_a_table_and_files_are_explained(run, spark, tmp_path: Path) -> None:
    spark.range(7).write.parquet(str(tmp_path / "rows"))
    code, out, _ = run(tmp_path / "rows", "--analyze")
    assert code == 0
    assert out.startswith("No row crosses between the JVM and Python in this plan. The query gave 7 rows in")
    spark.range(3).createOrReplaceTempView("three")
    code, out, _ = run("three")
    assert code == 0
    assert "Range (1)" in out


@pytest.mark.parametrize(
    ("text", "arguments", "said"),
    [
        (None, [], "there is no script at"),
        ("x = 1", [], "leaves no DataFrame at its top level"),
        (SCRIPT, ["--name", "slow"], "leaves no DataFrame called 'slow'. It leaves 'trips', 'fast'."),
        (SCRIPT, ["--name", "count"], "is a int, not a Spark DataFrame"),
        ("x = = 1", [], "is not Python that can run"),
        ("\n1 / 0", [], "failed in line 2: ZeroDivisionError: division by zero"),
        ("import sys\nsys.exit(3)", [], "ended itself with exit code 3"),
        (
            "from pyspark.sql import SparkSession\nSparkSession.builder.getOrCreate().sql('select nope')",
            [],
            "failed in line 2: [UNRESOLVED_COLUMN",
        ),
        ("x = 1", ["--remote", "sc://host"], "gets its session itself"),
    ],
)
def test_mistakes_in_scripts_are_one_paragraph(run, tmp_path, text, arguments, said) -> None:
    script = tmp_path / "script.py"
    if text is not None:
        script.write_text(text)
    code, out, err = run(script, *arguments)
    assert (code, out) == (1, "")
    told = err[err.rindex("PenstockError: ") :]
    assert said in told
    assert told.count("\n") == 1
    assert "at org.apache" not in err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["no_such_table"], "no_such_table"),
        (["nowhere/at/all"], "nowhere/at/all"),
        (["t", "--name", "df"], "(no .py)"),
    ],
)
def test_mistakes_about_tables(run, arguments, said) -> None:
    code, out, err = run(*arguments)
    assert (code, out) == (1, "")
    assert said in err
    assert err.count("\n") == 1


# --- elsewhere --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        ("remote", "local[2]"),
        pytest.param(("master", "local-cluster[2,1,1024]"), marks=pytest.mark.long),
    ],
    ids=" ".join,
)
def test_the_same_everywhere(tmp_path, arguments) -> None:
    done = subprocess.run(
        [sys.executable, str(HERE / "explained_queries.py"), *arguments],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]
    assert "all well" in done.stdout
