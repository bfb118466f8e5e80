"""Identities: equal in another process for the same rows, different for any difference, refused in every doubt."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest
from pyspark.sql import Window
from pyspark.sql import functions as F
from pyspark.sql.types import DoubleType, IntegerType, StructType

from penstock.jobs import identity as module
from penstock.jobs.identity import Identity, Unprovable, identity
from penstock.jobs.split import split


@pytest.fixture(scope="module")
def data(spark, tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("sources")
    rows = spark.range(600).selectExpr(
        "id",
        "id % 5 AS k",
        "id / 7 AS x",
        "CAST(id AS STRING) AS s",
        "array(id, 1) AS list",
        "struct(id AS a) AS st",
    )
    rows.write.partitionBy("k").parquet(str(root / "parquet"))
    rows.repartition(2).write.parquet(str(root / "other"))
    rows.write.orc(str(root / "orc"))
    flat = rows.select("id", "k", "x", "s")
    flat.write.option("header", True).csv(str(root / "csv"))
    flat.write.json(str(root / "json"))
    flat.select("s").write.text(str(root / "text"))
    return root


@pytest.fixture
def parquet(spark, data):
    return spark.read.parquet(str(data / "parquet"))


@pytest.fixture
def copy(data, tmp_path) -> Path:
    """A copy of one source, to change."""
    return Path(shutil.copytree(data / "other", tmp_path / "copy"))


def proven(df) -> Identity:
    found = identity(df)
    assert isinstance(found, Identity), found
    return found


def reason(df) -> str:
    found = identity(df)
    assert isinstance(found, Unprovable), "a false proof"
    return found.reason


# --- the same rows, the same identity ---------------------------------------------------------------------

CASES = """
def cases(spark, root):
    from pyspark.sql import functions as F
    from penstock.jobs.split import split
    parquet = spark.read.parquet(root + "/parquet")
    csv = spark.read.schema("id long, k long, x double, s string").csv(root + "/csv", header=True)
    return {
        "parquet": parquet,
        "orc": spark.read.orc(root + "/orc"),
        "csv": csv,
        "json": spark.read.json(root + "/json"),
        "text": spark.read.format("text").load([root + "/text"]),
        "binary": spark.read.format("binaryFile").load(root + "/text").select("length"),
        "range": spark.range(9).withColumn("y", F.col("id") * 2),
        "features": parquet.where(F.col("s").isin("1", "2,3") | (F.col("k") > 2)).select(
            F.log1p("x").alias("log x"),
            F.coalesce("s", F.lit("none, at all")).alias("c"),
            F.when(F.col("k") > 1, 1).otherwise(0).alias("w"),
            F.year(F.to_date("s")).alias("y"),
            F.transform("list", lambda v: v + 1).alias("t"),
            F.explode(F.split("s", ",")).alias("e"),
            F.hash("id", "st").alias("h"),
            F.col("st.a"),
        ),
        "joined": parquet.groupBy("k").agg(F.sum("x").alias("sum"), F.max("s"), F.countDistinct("id"))
        .join(parquet.select("id", "k"), "k")
        .join(spark.read.orc(root + "/orc").select("id", F.col("s").alias("r")), "id", "left"),
        "cleaned": parquet.fillna(0).dropna(subset=["x"]).drop("s").distinct().orderBy("id").repartition(3),
        "united": parquet.select("id").union(spark.range(5).select("id")),
        "split": split(parquet, {"train": 0.9, "valid": 0.1})["train"],
        "split by": split(parquet, {"train": 0.9, "valid": 0.1}, by="id", seed=7)["valid"],
    }
"""

SCRIPT = (
    CASES
    + """
import json, sys
import penstock as pk
from pyspark.sql import functions as F
from penstock.jobs.identity import Identity, identity
kind, root = sys.argv[1:]
spark = pk.session(remote="local[2]") if kind == "connect" else pk.session(cores=2, memory="1g")
spark.range(int(3e3)).selectExpr("id AS a", "id AS b").count()  # columns are numbered from elsewhere
found = {name: identity(df) for name, df in cases(spark, root).items()}
parquet = spark.read.parquet(root + "/parquet")
refused = {
    "options": spark.read.option("mergeSchema", True).parquet(root + "/parquet"),
    "function": parquet.select(F.udf(lambda x: x, "long")("id")),
    "memory": spark.createDataFrame([(1,)], ["a"]),
    "limit": parquet.limit(3),
    "cache": parquet.cache(),
}
reasons = {name: type(identity(df)).__name__ for name, df in refused.items()}
before = spark.conf.getAll.get("spark.sql.debug.maxToStringFields")
spark.stop()
print(json.dumps([{name: one.to_dict() if isinstance(one, Identity) else repr(one) for name, one in found.items()},
    reasons, before]))
"""
)


def elsewhere(kind: str, data: Path, tmp_path: Path) -> list:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, kind, str(data)],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    return json.loads(done.stdout)


def check_refusals(refused: dict, setting: str | None) -> None:
    assert refused == dict.fromkeys(("options", "function", "memory", "limit", "cache"), "Unprovable")
    assert setting is None, "a setting was left behind"


@pytest.mark.long
def test_equal_in_another_process(spark, data, tmp_path):
    scope: dict = {}
    exec(CASES, scope)
    for _ in range(2):  # the second time, everything that is counted has another number
        here = {name: proven(df).to_dict() for name, df in scope["cases"](spark, str(data)).items()}
    found, refused, setting = elsewhere("classic", data, tmp_path)
    assert found == here
    assert len({one["plan"] for one in here.values()}) == len(here)
    check_refusals(refused, setting)


@pytest.mark.long
def test_equal_in_another_process_over_connect(data, tmp_path):
    found, refused, setting = elsewhere("connect", data, tmp_path)
    assert found == elsewhere("connect", data, tmp_path)[0]
    assert [one for one in found.values() if isinstance(one, str)] == [], "some could not be proven"
    assert len({one["plan"] for one in found.values()}) == len(found)
    check_refusals(refused, setting)


def test_asking_leaves_nothing_behind(spark, parquet):
    before = spark.conf.getAll
    assert not set(module.WHOLE) & set(before), "an earlier question left its settings behind"
    proven(parquet.where("id > 3"))
    assert spark.conf.getAll == before
    spark.conf.set("spark.sql.debug.maxToStringFields", 7)
    proven(parquet.where("id > 3"))
    assert spark.conf.get("spark.sql.debug.maxToStringFields") == "7"
    spark.conf.unset("spark.sql.debug.maxToStringFields")
    assert not parquet.storageLevel.useMemory
    assert "InMemoryRelation" not in str(module._explain(spark, parquet))


def test_a_path_may_be_spelled_in_any_way(spark, data):
    path = str(data / "other")
    for spelling in (path, path + "/", "file:" + path, "file://" + path, "file://" + path + "/"):
        proven(spark.read.parquet(spelling))
    proven(spark.read.format("parquet").load(sorted(map(str, (data / "other").glob("*.parquet")))))


def test_tables(spark, data):
    spark.sql(f"CREATE TABLE reuse_p USING parquet LOCATION '{data}/other'")
    spark.sql(f"CREATE TABLE reuse_c (a STRING, b STRING) USING csv LOCATION '{data}/csv'")
    try:
        assert proven(spark.table("reuse_p")) == proven(spark.table("reuse_p"))
        first = proven(spark.table("reuse_c"))
        spark.sql("DROP TABLE reuse_c")
        spark.sql(
            f"CREATE TABLE reuse_c (a STRING, b STRING) USING csv OPTIONS (header 'true') LOCATION '{data}/csv'"
        )
        assert proven(spark.table("reuse_c")).plan != first.plan
    finally:
        spark.sql("DROP TABLE IF EXISTS reuse_p")
        spark.sql("DROP TABLE IF EXISTS reuse_c")


# --- any difference shows ---------------------------------------------------------------------------------

DIFFERENT = {
    "a number": lambda df: [df.where("id > 3"), df.where("id > 4")],
    "a string": lambda df: [df.withColumn("q", F.lit(text)) for text in ("a", "b", "a ", "", " ")],
    "a column": lambda df: [
        df.select("id", "s"),
        df.select("s", "id"),
        df.select("id"),
        df.select(F.col("id").alias("s")),
    ],
    "a type": lambda df: [
        df.select(F.lit(1).cast(kind).alias("q")) for kind in ("int", "long", "string", "double")
    ],
    "a typed value": lambda df: [df.select(F.array(F.lit(value)).alias("q")) for value in (1, "1", 1.0)],
    "one of many values": lambda df: (
        [df.where(F.col("id").isin(*range(40), last)) for last in (100, 101)]
        + [df.where(F.col("s").isin(*map(str, range(300)), last)) for last in ("a", "b")]
    ),
    "commas in values": lambda df: [
        df.where(F.col("s").isin(*values))
        for values in (
            ["a,b", "c"],
            ["a", "b,c"],
            ["a", "b", "c"],
            ["x", "y", "a,b", "c"],
            ["x", "y", "a", "b,c"],
        )
    ],
    "commas in arguments": lambda df: [
        df.select(F.concat_ws("-", *map(F.lit, values)).alias("q"))
        for values in (["a, b", "c"], ["a", "b, c"], ["a", "b", "c"])
    ],
    "null and 'null'": lambda df: [
        df.select(F.coalesce("s", F.lit(value).cast("string")).alias("q")) for value in (None, "null", "x")
    ],
    "the seed of a split": lambda df: [
        split(df, {"a": 0.5, "b": 0.5}, by="id", seed=seed)["a"] for seed in (0, 1)
    ],
    "the part of a split": lambda df: list(split(df, {"a": 0.5, "b": 0.3, "c": 0.2}, by="id").values()),
    "the kind of a join": lambda df: [
        df.join(df.select("k").distinct(), "k", how) for how in ("left", "inner")
    ],
}


@pytest.mark.parametrize("what", DIFFERENT)
@pytest.mark.parametrize("kind", ["parquet", pytest.param("csv", marks=pytest.mark.long)])
def test_a_difference_shows(spark, data, what, kind):
    if kind == "parquet":
        df = spark.read.parquet(str(data / "parquet"))
    else:
        df = spark.read.csv(str(data / "csv"), "id long, k long, x double, s string", header=True)
    plans = [proven(different).plan for different in DIFFERENT[what](df)]
    assert len(set(plans)) == len(plans)


def test_sources_that_change_places(spark, data):
    """The same files and the same text of the logical plan, but the other way round."""
    shutil.copytree(data / "other", data / "second", dirs_exist_ok=True)
    one, two = (spark.read.parquet(str(data / name)).select("id", "x") for name in ("other", "second"))
    there, back = proven(one.join(two, "id", "left")), proven(two.join(one, "id", "left"))
    assert there.files == back.files
    assert there.plan != back.plan
    assert proven(one.union(two)).plan != proven(two.union(one)).plan


@pytest.mark.parametrize(
    "options",
    [{"sep": ";"}, {"nullValue": "3"}, {"mode": "DROPMALFORMED"}, {"dateFormat": "yyyy"}, {"header": False}],
    ids=str,
)
def test_options_of_a_text_reader_show(spark, data, options):
    def read(**given):
        return (
            spark.read.options(**{"header": True, **given})
            .schema("id string, k string")
            .csv(str(data / "csv"))
        )

    assert proven(read()).plan != proven(read(**options)).plan
    assert proven(read(**options)) == proven(read(**options))


def test_a_schema_given_to_a_text_reader_shows(spark, data):
    plans = {
        proven(spark.read.schema(f"id {kind}, k int").json(str(data / "json")).select("k")).plan
        for kind in ("int", "string")
    }
    assert len(plans) == 2


@pytest.mark.parametrize("kind", ["parquet", "orc"])
def test_options_of_a_binary_reader_are_refused(spark, data, kind):
    path = str(data / kind)
    read = spark.read.format(kind)
    assert "read with options" in reason(read.option("mergeSchema", True).load(path))
    assert "read with options" in reason(
        spark.read.option("datetimeRebaseMode", "LEGACY").format(kind).load(path)
    )
    assert "read with options" in reason(spark.read.format(kind).schema("id long").load(path).where("id > 3"))
    plain = spark.read.format(kind).load(path)
    assert "read with options" in reason(
        plain.select("id").union(
            spark.read.format(kind).option("ignoreCorruptFiles", True).load(path).select("id")
        )
    )


@pytest.mark.parametrize(
    ("setting", "values"),
    [
        ("spark.sql.session.timeZone", ["UTC", "Asia/Tokyo"]),
        ("spark.sql.ansi.enabled", ["true", "false"]),
        ("spark.sql.caseSensitive", ["true", "false"]),
        ("spark.sql.parquet.datetimeRebaseModeInRead", ["LEGACY", "CORRECTED"]),
    ],
)
def test_settings_that_change_results_show(spark, parquet, setting, values):
    set_before = setting in spark.conf.getAll
    before = spark.conf.get(setting)
    plans = set()
    try:
        for value in values:
            spark.conf.set(setting, value)
            plans.add(proven(parquet.where("id > 3")).plan)
    finally:
        spark.conf.set(setting, before) if set_before else spark.conf.unset(setting)
    assert len(plans) == 2


# --- in doubt, refused ------------------------------------------------------------------------------------


def same(batches):
    yield from batches


def grouped(frame: pd.DataFrame) -> pd.DataFrame:
    return frame


@F.pandas_udf(DoubleType())
def mean(x: pd.Series) -> float:
    return x.mean()


@F.udtf(returnType=StructType().add("a", IntegerType()))
class Twice:
    def eval(self, a: int):
        yield (a,)
        yield (a,)


REFUSED = {
    "a function of the user's": {
        "udf": lambda df: df.select(F.udf(lambda x: x, "long")("id")),
        "udf named like Spark's": lambda df: df.select(
            F.udf(lambda x: x, "long").asNondeterministic()("id").alias("upper")
        ),
        "mapInArrow": lambda df: df.select("id").mapInArrow(same, "id long"),
        "mapInPandas": lambda df: df.select("id").mapInPandas(same, "id long"),
        "applyInPandas": lambda df: df.select("id").groupBy("id").applyInPandas(grouped, "id long"),
        "pandas aggregate": lambda df: df.groupBy("k").agg(mean("x")),
        "udtf": lambda df: df.sparkSession.range(2).lateralJoin(Twice(F.lit(1))),
    },
    "order rows come in": {
        "first": lambda df: df.groupBy("k").agg(F.first("x")),
        "collect_list": lambda df: df.groupBy("k").agg(F.collect_list("x")),
    },
    "a limit": {
        "limit": lambda df: df.limit(3),
        "sorted limit": lambda df: df.orderBy("k").limit(3),
        "offset": lambda df: df.offset(3),
        "inside": lambda df: df.limit(300).groupBy("k").count(),
    },
    "a sample": {"sample": lambda df: df.sample(0.5, seed=1)},
    "window": {"row_number": lambda df: df.select(F.row_number().over(Window.partitionBy("k").orderBy("x")))},
    "whichever row": {"dropDuplicates": lambda df: df.dropDuplicates(["k"])},
    "from memory": {
        "createDataFrame": lambda df: df.sparkSession.createDataFrame([(1,)], "a int"),
        "joined": lambda df: df.join(df.sparkSession.createDataFrame([(1,)], "k long"), "k"),
        "checkpoint": lambda df: df.localCheckpoint(),
    },
    "query inside": {
        "scalar": lambda df: df.sparkSession.sql(
            "SELECT * FROM {df} WHERE id > (SELECT avg(id) FROM {df})", df=df
        )
    },
    "'#'": {
        "value": lambda df: df.where("s = 'room#12'"),
        "name": lambda df: df.withColumnRenamed("s", "room#12"),
        "mark": lambda df: df.where("s = '#'"),
    },
    "does not tell the type": {
        "hash": lambda df: df.select(F.hash("id", F.lit(1))),
        "to_json": lambda df: df.select(F.to_json(F.struct(F.lit(1)))),
    },
    "cannot judge": {"newline": lambda df: df.where("s = 'a\nb'")},
    "read with options": {
        "glob": lambda df: df.sparkSession.read.parquet(df.inputFiles()[0].rpartition("/k=")[0] + "/k=*"),
        "metadata": lambda df: df.select("id", "_metadata.file_name"),
    },
    "stream": {"stream": lambda df: df.sparkSession.readStream.format("rate").load()},
}


@pytest.mark.parametrize(
    ("words", "make"),
    [
        pytest.param(words, make, id=f"{words}-{name}")
        for words, group in REFUSED.items()
        for name, make in group.items()
    ],
)
def test_what_cannot_be_proven(parquet, words, make):
    assert words in reason(make(parquet))


@pytest.mark.parametrize(
    "call",
    [
        *("rand()", "rand(3)", "randn()", "uuid()", "shuffle(list)", "uniform(1, 5)", "randstr(3)"),
        *("monotonically_increasing_id()", "spark_partition_id()", "input_file_name()"),
        *(
            "current_timestamp()",
            "now()",
            "current_date()",
            "localtimestamp()",
            "unix_timestamp()",
            "current_timezone()",
        ),
        *("current_user()", "user()", "current_database()", "version()", "CASE WHEN rand() > 0.5 THEN 1 END"),
        "java_method('java.lang.Math', 'random')",
    ],
)
def test_values_of_the_moment_or_the_place(parquet, call):
    assert "gives other values" in reason(parquet.selectExpr("id", f"{call} AS q"))


def test_a_cache_is_refused_until_it_is_gone(spark, data, parquet):
    parquet.cache()
    try:
        assert "cache" in reason(parquet.where("id > 3"))
        assert "cache" in reason(spark.read.parquet(str(data / "parquet")))
    finally:
        parquet.unpersist()
    proven(parquet.where("id > 3"))


def test_a_plan_that_spark_cannot_make(parquet):
    assert "cannot plan" in reason(parquet.where("id = 'no number'"))


def test_a_text_source_beside_a_binary_one_is_read_plainly_too(spark, data, parquet):
    def both(**options):
        return parquet.select("s").union(spark.read.csv(str(data / "csv"), **options).select("_c3"))

    proven(both())
    assert "read with options" in reason(both(sep=",", quote="'"))


def test_a_list_too_long_to_tell_apart(parquet):
    assert "more than 64" in reason(parquet.where(F.col("s").isin(*map(str, range(80)), "a,b")))


# --- the files --------------------------------------------------------------------------------------------


def files(spark, path) -> str:
    return proven(spark.read.parquet(str(path))).files


def test_a_changed_file_shows(spark, copy):
    before = files(spark, copy)
    one = next(copy.glob("*.parquet"))
    status = one.stat()
    os.utime(one, (status.st_atime, status.st_mtime + 1))
    touched = files(spark, copy)
    assert touched != before
    os.utime(one, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert files(spark, copy) == before
    shutil.copy(one, copy / "another.parquet")
    more = files(spark, copy)
    assert more not in (before, touched)
    one.unlink()
    assert files(spark, copy) not in (before, touched, more)


def test_files_are_those_the_frame_would_read(spark, copy):
    """A DataFrame of classic Spark keeps the list of files it was made with."""
    df = spark.read.parquet(str(copy))
    rows, before = df.count(), proven(df)
    shutil.copy(next(copy.glob("*.parquet")), copy / "later.parquet")
    assert (df.count(), proven(df)) == (rows, before)
    assert files(spark, copy) != before.files


def test_a_file_that_went_away_is_a_doubt(spark, copy):
    df = spark.read.parquet(str(copy))
    proven(df)
    next(copy.glob("*.parquet")).unlink()
    assert isinstance(identity(df), Unprovable)


NAMES = [
    "a b",
    "a%20b",
    "x[1]",
    "y{1,2}",
    "z*",
    "q?",
    "u+ü",
    "h#1",
    "k=v",
    "back\\slash",
    "co,mma",
    "semi;x",
    "%",
    "_k=1",
]


def test_names_that_need_care(spark, tmp_path):
    for name in NAMES:
        (tmp_path / name).mkdir()
        (tmp_path / name / f"f {name}.json").write_text('{"a": 1}')
    (tmp_path / "a b" / "_hidden.json").write_text("{}")
    df = spark.read.option("recursiveFileLookup", True).schema("a int").json(str(tmp_path))
    assert len(df.inputFiles()) == df.count()
    seen = {proven(df).files}
    for name in NAMES[:-1]:
        time.sleep(0.01)
        (tmp_path / name / f"f {name}.json").write_text('{"a": 1}')
        seen.add(proven(df).files)
    assert len(seen) == len(NAMES)


def test_a_comma_and_a_space_in_a_path(spark, data, tmp_path):
    shutil.copytree(data / "other", tmp_path / "a, b")
    assert "comma" in reason(spark.read.parquet(str(tmp_path / "a, b")))
    shutil.copytree(data / "other", tmp_path / "[a] {b}*")
    proven(spark.read.parquet(str(tmp_path / r"\[a\] \{b\}\*")))


@pytest.mark.long
def test_many_files_of_one_folder(spark, tmp_path):
    for number in range(300):
        (tmp_path / f"{number}.json").write_text(f'{{"a": {number}}}')
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "not read.json").write_text("{}")
    df = spark.read.schema("a int").json([str(path) for path in tmp_path.glob("*.json")])
    few = spark.read.schema("a int").json([str(tmp_path / "7.json"), str(tmp_path / "8.json")])
    before, few_before = proven(df).files, proven(few).files
    (tmp_path / "inner" / "not read.json").write_text("{  }")
    assert (proven(df).files, proven(few).files) == (before, few_before)
    time.sleep(0.01)
    (tmp_path / "7.json").write_text('{"a": 8}')
    assert proven(df).files != before
    assert proven(few).files != few_before


def test_contents_are_not_read(spark, copy):
    """Spark refuses contents longer than this; lengths it tells all the same."""
    spark.conf.set("spark.sql.sources.binaryFile.maxLength", 1)
    try:
        files(spark, copy)
    finally:
        spark.conf.unset("spark.sql.sources.binaryFile.maxLength")
