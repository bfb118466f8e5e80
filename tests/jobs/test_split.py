"""Splits: every row on one side, the side a matter of values alone, classic and over Connect."""

from __future__ import annotations

import hashlib
import math
import os
import subprocess
import sys
from collections import Counter

import pytest
import xxhash
from pyspark.ml.linalg import Vectors
from pyspark.sql import functions as F

from penstock.errors import SelectionError
from penstock.jobs.split import split

HALVES = {"a": 0.5, "b": 0.5}


@pytest.fixture(scope="module")
def people(spark):
    """20,000 rows of 2,000 users, with nulls, duplicates and lists among them."""
    return spark.range(20_000).select(
        (F.col("id") % 2000).alias("user"),
        F.when(F.col("id") % 7 != 0, F.col("id") % 10_000).alias("x"),
        (F.col("id") % 10_000 / 3).alias("y.z"),
        F.array(F.col("id") % 10_000, F.lit(None)).alias("list"),
        F.struct((F.col("id") % 10_000).cast("string").alias("s")).alias("struct"),
    )


def rows(df) -> Counter:
    return Counter(map(repr, df.collect()))


def within_chance(seen: int, of: int, fraction: float) -> bool:
    """Five standard deviations: one run in two million fails by chance, and these are not by chance."""
    return abs(seen - of * fraction) < 5 * math.sqrt(of * fraction * (1 - fraction))


@pytest.mark.parametrize("by", [None, "user", ["x", "y.z"], ["list", "struct"]])
def test_every_row_is_in_exactly_one_part(people, by):
    parts = split(people, {"train": 0.7, "valid": 0.2, "test": 0.1}, by=by)
    assert list(parts) == ["train", "valid", "test"]
    together = Counter()
    for part in parts.values():
        assert part.schema == people.schema
        together += rows(part)
    assert together == rows(people)


def test_parts_have_the_fractions_asked_for(spark):
    df = spark.range(100_000)
    for seed in range(3):
        for name, part in split(df, {"a": 0.6, "b": 0.3, "c": 0.1}, seed=seed).items():
            assert within_chance(part.count(), 100_000, {"a": 0.6, "b": 0.3, "c": 0.1}[name]), (seed, name)


def test_many_parts(spark):
    parts = split(spark.range(20_000), {str(number): 1 / 97 for number in range(97)})
    counts = [part.count() for part in parts.values()]
    assert sum(counts) == 20_000
    assert all(within_chance(count, 20_000, 1 / 97) for count in counts)


def test_one_part_is_everything(people):
    assert split(people, {"all": 1})["all"].count() == people.count()


def test_a_group_stays_on_one_side(people):
    parts = split(people, {"train": 0.8, "valid": 0.2}, by="user")
    users = {name: {row.user for row in part.select("user").collect()} for name, part in parts.items()}
    assert not users["train"] & users["valid"]
    assert within_chance(len(users["train"]), 2000, 0.8)


def test_equal_rows_stay_together(spark):
    df = spark.range(3000).select((F.col("id") % 1000).alias("n"))
    counts = Counter(row.n for row in split(df, HALVES)["a"].collect())
    assert set(counts.values()) == {3}


def test_seeds_give_independent_splits(spark):
    df = spark.range(20_000)
    first, second = ({row.id for row in split(df, HALVES, seed=seed)["a"].collect()} for seed in (0, 1))
    assert within_chance(len(first & second), 20_000, 0.25)


def test_the_split_has_nothing_to_do_with_other_hashes_of_the_row(spark):
    """Shards chosen by Spark's plain hash, say: a part must not fall into a few of them."""
    part = split(spark.range(20_000), HALVES, seed=42)["a"]
    total = part.count()
    for plain in (F.xxhash64("id"), F.xxhash64(F.lit(42), "id"), F.hash("id")):
        assert within_chance(part.where(plain >= 0).count(), total, 0.5)


def test_order_and_partitioning_do_not_matter(people):
    whole = rows(split(people, HALVES, seed=3)["a"])
    assert rows(split(people.repartition(7), HALVES, seed=3)["a"]) == whole
    assert rows(split(people.orderBy(F.desc("x")), HALVES, seed=3)["a"]) == whole
    assert rows(split(people.coalesce(1), HALVES, seed=3)["a"]) == whole


KNOWN = [0, 1, 7, 8, 9, 10, 11, 12, 13, 14, 16, 18, 19, 20, 21, 22, 23, 27, 28]


def test_a_split_is_the_same_in_years_to_come(spark):
    """A change of the hash would move rows from validation into training without a word."""
    assert [row.id for row in split(spark.range(30), HALVES)["a"].orderBy("id").collect()] == KNOWN
    salt = hashlib.blake2b(b"penstock.split 0", digest_size=7).digest() + b"\0"
    chain = xxhash.xxh64_intdigest(salt, seed=42)
    hashes = [xxhash.xxh64_intdigest(number.to_bytes(8, "little"), seed=chain) for number in range(30)]
    assert [number for number, value in enumerate(hashes) if value < 1 << 63] == KNOWN


def test_zeros_are_equal_and_nans_are_equal(spark):
    for seed in range(12):
        df = spark.createDataFrame([(0.0,), (-0.0,), (math.nan,), (-math.nan,)], "x double")
        sides = [
            part.selectExpr("isnan(x) AS nan").collect() for part in split(df, HALVES, seed=seed).values()
        ]
        for side in sides:
            assert [row.nan for row in side].count(True) in (0, 2)
            assert [row.nan for row in side].count(False) in (0, 2)


def test_columns_that_cannot_be_hashed_are_left_out(spark):
    df = spark.range(2000).select(
        "id",
        F.create_map(F.lit("k"), F.rand()).alias("map"),
        F.array(F.struct(F.create_map(F.lit("k"), F.rand()).alias("m"))).alias("deep"),
        F.parse_json(F.lit("1")).alias("variant"),
    )
    ids = [row.id for row in split(df, HALVES)["a"].select("id").orderBy("id").collect()]
    assert ids == [row.id for row in split(spark.range(2000), HALVES)["a"].orderBy("id").collect()]
    with pytest.raises(SelectionError, match=r"'map'.*cannot hash.*map<string,double>"):
        split(df, HALVES, by="map")
    with pytest.raises(SelectionError, match="cannot hash"):
        split(df.select("deep", "variant"), HALVES)


def test_vectors_can_decide(spark):
    df = spark.createDataFrame([(Vectors.dense([float(n), 2.0]),) for n in range(100)], ["v"])
    parts = split(df, HALVES)
    assert 0 < parts["a"].count() == 100 - parts["b"].count() < 100


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({}, "names no parts"),
        (None, "names no parts"),
        ({"a": 0.5, "b": 0.4}, "add up to 0.9, not to 1"),
        ({"a": 0.5, "b": 0.5 + 1e-8}, "add up to 1.00000001"),
        ({"a": 1.5, "b": -0.5}, "'b' is -0.5"),
        ({"a": 1.0, "b": 0}, "'b' is 0"),
        ({"a": math.nan}, "'a' is nan"),
        ({"a": math.inf}, "'a' is inf"),
        ({"a": "0.5", "b": 0.5}, "'a' is '0.5'"),
        ({"a": True}, "'a' is True"),
        ({"": 1.0}, "not empty"),
        ({1: 1.0}, "1 is not"),
        ({"a": 1.0, "b": 1e-20}, "too small"),
    ],
)
def test_bad_parts_are_refused(spark, parts, words):
    with pytest.raises(SelectionError, match=words):
        split(spark.range(1), parts)


@pytest.mark.parametrize(
    ("by", "words"),
    [
        ("nobody", "no column 'nobody'.*'id', 'x', 'x'"),
        ([], "names no columns"),
        ([1], "names no columns"),
        (["id", "x"], "more than one column named 'x'"),
        (None, "more than one column named 'x'"),
    ],
)
def test_bad_columns_are_refused(spark, by, words):
    df = spark.range(1).selectExpr("id", "1 AS x", "2 AS x")
    with pytest.raises(SelectionError, match=words):
        split(df, HALVES, by=by)
    assert split(df, {"all": 1.0}, by="id")["all"].count() == 1


@pytest.mark.parametrize("seed", [None, 1.5, "0", True])
def test_bad_seeds_are_refused(spark, seed):
    with pytest.raises(SelectionError, match="seed="):
        split(spark.range(1), HALVES, seed=seed)


CONNECT = """
import penstock as pk
from penstock.errors import SelectionError
from penstock.jobs.split import split
spark = pk.session(remote="local[2]")
parts = split(spark.range(30), {"a": 0.5, "b": 0.5})
print([row.id for row in parts["a"].orderBy("id").collect()])
assert parts["a"].count() + parts["b"].count() == 30
try:
    split(spark.range(1).selectExpr("map(1, id) AS m"), {"a": 1.0})
except SelectionError:
    print("refused")
spark.stop()
"""


def test_connect_gives_the_same_split(tmp_path):
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", CONNECT],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.stdout.splitlines() == [str(KNOWN), "refused"], done.stdout + done.stderr[-4000:]
