"""`penstock bench boundary`: equal ways, differences found, batch sizes that were in force, and how it all is shown."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from pyspark.sql import functions as F
from rich.console import Console

import penstock as pk
from penstock.errors import MissingDependency, PenstockError, WaysDiffer
from penstock.tools import bench_boundary_alone as alone
from penstock.tools import bench_boundary_ways as spark_side
from penstock.tools.bench_boundary import TRANSPILER, bench_boundary
from penstock.tools.bench_boundary_check import check_equal
from penstock.tools.bench_boundary_curve import SETTING, curves
from penstock.tools.bench_boundary_knee import Curve, Point, Seen, knee, refusals
from penstock.tools.bench_boundary_pages import as_json, show
from penstock.tools.bench_boundary_result import BoundaryBench, WayTiming
from penstock.tools.bench_boundary_timing import Job, Timing, timed
from penstock.tools.bench_boundary_ways import Way, native

ROWS = 20_000
RIGHT = Way("right", "stays in the JVM", native)


@pytest.fixture(scope="module")
def found(spark) -> BoundaryBench:
    before = spark.conf.get(SETTING)
    made = bench_boundary(ROWS, spark=spark, rounds=2, seed=3, sizes=(100, 1000, 100_000))
    assert spark.conf.get(SETTING) == before
    return made


def test_the_ways_and_their_times(found: BoundaryBench) -> None:
    names = ["native", "lifted", "arrow_udf", "pandas_udf", "udf (Arrow)", "udf (pickled)"]
    assert [way.name for way in found.ways] == names
    assert all(len(way.timing.seconds) == 2 for way in found.ways)
    assert found.scan is not None
    told = found.to_dict()
    assert json.loads(json.dumps(told)) == told
    assert (told["rows"], told["rounds"], told["seed"], told["engine"]) == (
        ROWS,
        2,
        3,
        f"Spark {pk.session().version}",
    )
    for way in told["ways"]:
        seconds = way["seconds"]["median"]
        assert way["rows_per_second"] == ROWS / seconds
        assert way["speedup"] == told["ways"][-1]["seconds"]["median"] / seconds
        assert way["seconds_net_of_scan"] == seconds - told["scan_seconds"]["median"]
    assert told["ways"][-1]["speedup"] == 1.0
    assert told["settings"][SETTING] == "10000"


def test_the_curve_of_rows_from_a_range(found: BoundaryBench) -> None:
    for curve in found.curves:
        small, large, largest = curve.points
        assert (small.seen, small.refused, large.seen, large.refused) == (100, "", 1000, "")
        assert (largest.seen, largest.timing) == (ROWS // 2, None)
        assert largest.refused == f"not reached: partitions have {ROWS // 2:,} rows"
    assert [curve.name for curve in found.curves] == ["arrow_udf", "pandas_udf"]
    assert found.recommended in (100, 1000)


def test_how_it_looks(found: BoundaryBench, tmp_path: Path) -> None:
    drawn = Console(file=io.StringIO(), width=200, force_terminal=True)
    drawn.print(found)
    for text in (str(found), drawn.file.getvalue()):
        for way in found.ways:
            assert way.name in text
        assert "not reached" in text
        assert f"{SETTING} = {found.recommended}" in text.replace("\n", " ")
    for name in ("plot.png", "plot.svg"):
        assert found.plot(tmp_path / name) == tmp_path / name
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
    drawing = (tmp_path / "plot.svg").read_text()
    assert drawing.startswith("<?xml")
    assert drawing.count("<svg") == 1
    with pytest.raises(PenstockError, match=r"'.*plot.pdf' ends in neither"):
        found.plot(tmp_path / "plot.pdf")
    assert found.plot(tmp_path / "new" / "plot.png").exists()
    with pytest.raises(PenstockError, match=r"cannot be written to '.*plot.png': .*\(--plot\)"):
        found.plot(tmp_path / "plot.svg" / "plot.png")


def test_a_missing_library_is_named(
    found: BoundaryBench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingDependency, match=r"matplotlib is not installed.*penstock\[report\]"):
        found.plot(tmp_path / "plot.png")


def test_spark_computes_what_the_function_does(spark) -> None:
    """Every way beside plain Python on the driver, bit for bit, and the same values with and without Spark."""
    df = spark_side.numbers(spark, 1000, seed=5)
    ways = spark_side.spark_ways()
    df = df.select("*", *(way.column(df["x"]).alias(f"y{place}") for place, way in enumerate(ways)))
    rows = sorted(df.collect())
    values = alone.numbers(1000, seed=5)
    assert [row.x for row in rows] == values.tolist()
    wanted = [spark_side.standardise_then_clip(value) for value in values.tolist()]
    assert -1.5 in wanted
    assert 1.5 in wanted
    for place, way in enumerate(ways):
        assert [row[f"y{place}"].hex() for row in rows] == [value.hex() for value in wanted], way.name


@pytest.mark.parametrize("bad", [np.nextafter(1.5, 2).item(), None, float("nan"), float("inf")])
def test_a_difference_is_found_and_shown(spark, bad: float | None) -> None:
    df = spark_side.numbers(spark, 1000, seed=0)
    wrong = Way("wrong", "", lambda x: F.when(x > 99.5, F.lit(bad)).otherwise(native(x)))
    values = alone.numbers(1000, 0)
    first = int(np.flatnonzero(values > 99.5)[0])
    with pytest.raises(WaysDiffer) as error:
        check_equal(df, [RIGHT, wrong, Way("last", "", native)])
    count = int((values > 99.5).sum())
    assert str(error.value).startswith(
        f"wrong and last differ in {count} of 1,000 rows. The first is row {first}: "
    )
    assert f"of {float(values[first])!r} last makes 1.5, and wrong {bad!r}. Nothing was timed" in str(
        error.value
    )


def test_the_sign_of_zero_is_a_difference(spark) -> None:
    ways = [Way(name, "", lambda x, zero=zero: F.lit(zero)) for name, zero in (("a", -0.0), ("b", 0.0))]
    with pytest.raises(WaysDiffer, match=r"b makes 0\.0, and a -0\.0"):
        check_equal(spark_side.numbers(spark, 10, 0), ways)
    check_equal(spark_side.numbers(spark, 10, 0), [ways[0], ways[0]])


def test_nothing_is_timed_when_ways_differ(spark) -> None:
    """Also: Spark's own transpiler is off meanwhile, and as it was afterwards."""
    seen = []

    def wrong(x):
        seen.append(spark.conf.get(TRANSPILER))
        return native(x) + 1

    spark.conf.set(TRANSPILER, "true")
    try:
        with pytest.raises(WaysDiffer, match="wrong and right differ in 1,000 of 1,000 rows"):
            bench_boundary(1000, spark=spark, ways=[Way("wrong", "", wrong), RIGHT])
        assert seen == ["false"]
        assert spark.conf.get(TRANSPILER) == "true"
    finally:
        spark.conf.unset(TRANSPILER)


def test_a_setting_that_is_not_in_force_is_refused(spark, tmp_path: Path) -> None:
    """Cached rows and Parquet come in batches of their source, also where a setting happens to equal them."""
    cached = spark_side.numbers(spark, 50_000, seed=77).cache()
    folder = str(tmp_path / "parquet")
    spark_side.numbers(spark, 50_000, seed=78).write.parquet(folder)
    try:
        for df, own in ((cached, 10_000), (spark.read.parquet(folder), 4096)):
            found = curves(lambda _, df=df: df, 50_000, rounds=1, seed=0, sizes=(100, own))
            for curve in found:
                assert [point.seen for point in curve.points] == [own] * 2
                refused = f"not in force: the source gives batches of {own:,}"
                assert [point.refused for point in curve.points] == [refused] * 2
                assert [point.timing for point in curve.points] == [None] * 2
                assert curve.to_dict()["knee"] is None
    finally:
        cached.unpersist()

    shown = BoundaryBench("Spark", 9, 1, 0, _two_ways(), Timing((0.5,)), found, SETTING)
    assert shown.recommended is None
    assert "no batch size could be measured" in shown.to_dict()["sentence"]
    assert f"No value of {SETTING} was in force" in str(shown).replace("\n", " ")
    assert shown.plot(tmp_path / "refused.svg").stat().st_size > 0


def _two_ways() -> tuple[WayTiming, ...]:
    return WayTiming("fast", "", Timing((0.6, 0.5, 0.7))), WayTiming("slow", "", Timing((2.5,)))


def test_net_of_the_scan() -> None:
    fast, slow = _two_ways()
    bench = BoundaryBench("Spark", 100, 3, 0, (fast, slow), Timing((0.5, 0.49, 0.51)), (), None)
    assert bench.rows_per_second(slow) == 40.0
    assert bench.net(fast) == pytest.approx(0.1)
    assert bench.speedup(fast) == pytest.approx(2.5 / 0.6)
    assert bench.net_speedup(fast) == pytest.approx(20.0)
    noisy = BoundaryBench("Spark", 100, 3, 0, (fast, slow), Timing((0.5, 0.3, 0.9)), (), None)
    assert noisy.net_speedup(fast) is None, "the scan's rounds lie further apart than the two"
    assert "too near" in str(noisy)
    once = BoundaryBench("Spark", 100, 1, 0, (fast, slow), Timing((0.5,)), (), None)
    assert once.net_speedup(fast) is None, "one round does not tell how far apart rounds lie"


KNEES = [
    ([{1: 1, 10: 10, 100: 89.9, 1000: 90, 10_000: 100}], 1000),
    ([{1: 1, 10: 100, 100: 50, 1000: 99}], 10),  # what falls again behind it does not matter
    ([{1: 5}], 1),
    ([{10: 95, 100: 100}, {10: 10, 100: 100}], 100),  # near the best on both
    ([{10: 100, 100: 85, 1000: 50}, {10: 50, 100: 85, 1000: 100}], 100),  # none is: the least loss
    ([{10: 100, 100: 99}, {100: 1, 1000: 50}], 100),  # what only one has cannot be chosen
    ([{10: 100}, {}], 10),
    ([{10: 100}, {100: 100}], None),
    ([{}], None),
    ([], None),
]


@pytest.mark.parametrize(("made", "at"), KNEES)
def test_the_knee(made: list[dict[int, float]], at: int | None) -> None:
    assert knee(*made) == at


def test_a_choice_that_is_not_near_the_best_says_so() -> None:
    def curve(name: str, *seconds: float) -> Curve:
        made = zip((10, 100), seconds, strict=True)
        return Curve(name, tuple(Point(size, 100, size, Timing((took,))) for size, took in made))

    ways = _two_ways()
    apart = BoundaryBench(
        "Spark", 9, 1, 0, ways, None, (curve("a", 1.0, 1.25), curve("b", 2.0, 1.0)), SETTING
    )
    assert (apart.recommended, knee(apart.curves[0].rates)) == (100, 10)
    said = "nearest to the best of all kinds, with 80 % of it or more"
    assert apart.to_dict()["recommended_because"] == said
    assert apart.to_dict()["sentence"].endswith(f"; batches of 100 rows are {said}.")
    near = BoundaryBench("Spark", 9, 1, 0, ways, None, (curve("a", 1.0, 1.25), curve("b", 1.0, 1.0)), SETTING)
    assert near.to_dict()["sentence"].endswith(
        "; batches of 10 rows are the smallest within 10 % of the best."
    )


def test_points_that_were_refused_are_not_on_the_curve() -> None:
    points = (
        Point(10, 100, 10, Timing((2.0,))),
        Point(100, 100, 10, None, "not in force"),
        Point(1000, 100, 1000, Timing((1.0,))),
    )
    assert Curve("c", points).rates == {10: 50.0, 1000: 100.0}
    assert [point["rows_per_second"] for point in Curve("c", points).to_dict()["points"]] == [
        50.0,
        None,
        100.0,
    ]


OWN = "not in force: the source gives batches of {:,}".format
SEEN = [
    ({100: [{100: 5}, {100: 5}]}, {100: ""}),
    ({100: [{100: 5, 7: 1}, {100: 4, 99: 1}]}, {100: ""}),
    ({100: [{100: 5, 7: 2}]}, {100: OWN(100)}),  # two that are not full: somebody else cuts as well
    ({100: [{101: 5}]}, {100: OWN(101)}),
    ({100: [{60: 2}]}, {100: OWN(60)}),
    ({100: [{60: 1}, {60: 1}]}, {100: "not reached: partitions have 60 rows"}),
    ({100: [{100: 1}] + [{60: 1}] * 9}, {100: OWN(60)}),  # most rows did not come in batches of that size
    ({100: []}, {100: "not reached: partitions have 0 rows"}),
    ({10: [{10: 9}], 100: [{90: 1}]}, {10: "", 100: "not reached: partitions have 90 rows"}),
    ({10: [{90: 2}], 90: [{90: 2}], 100: [{90: 2}]}, {10: OWN(90), 90: OWN(90), 100: OWN(90)}),
]  # fmt: skip


@pytest.mark.parametrize(("seen", "wanted"), SEEN)
def test_which_points_count(seen: dict[int, list[dict[int, int]]], wanted: dict[int, str]) -> None:
    assert refusals({size: Seen(tuple(partitions)) for size, partitions in seen.items()}) == wanted


def test_every_round_has_a_turn_of_its_own() -> None:
    def turns(seed: int) -> list[str]:
        ran, inside = [], []

        @contextmanager
        def around():
            inside.append(True)
            yield
            inside.pop()

        def job(name: str) -> Job:
            return Job(name, lambda: ran.append(name) if inside else None, around)

        times = timed([job(name) for name in "abcdef"], rounds=9, seed=seed)
        assert {name: len(timing.seconds) for name, timing in times.items()} == dict.fromkeys("abcdef", 9)
        return ["".join(ran[start : start + 6]) for start in range(0, 60, 6)]

    first = turns(1)
    assert all(sorted(turn) == list("abcdef") for turn in first)
    assert len({*first}) > 5
    assert turns(1) == first
    assert turns(2) != first


def test_without_spark() -> None:
    """In a process of its own, which must not even load PySpark."""
    program = (
        "import json, sys\n"
        "from penstock.tools.bench_boundary import bench_boundary\n"
        "found = bench_boundary(5000, with_spark=False, rounds=2)\n"
        "assert 'pyspark' not in sys.modules\n"
        "print(json.dumps(found.to_dict()))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    assert [way["name"] for way in told["ways"]] == [
        "whole column",
        "batches of 10,000",
        "rows",
        "pickled rows",
    ]
    assert told["scan_seconds"] is None
    assert told["setting"] is None
    assert [way["seconds_net_of_scan"] for way in told["ways"]] == [None] * 4
    points = told["curves"][0]["points"]
    assert [point["batch_rows"] for point in points] == [1, 10, 100, 1000, 10_000, 100_000]
    assert [point["batch_rows_seen"] for point in points] == [1, 10, 100, 1000, 5000, 5000]
    assert [point["rows_per_second"] is None for point in points] == [False] * 4 + [True] * 2


def test_a_difference_without_spark_is_found() -> None:
    def wrong(values):
        found = alone.by_row(values)
        found[7] = np.nextafter(found[7], 2)
        return found

    value = float(alone.numbers(100, 0)[7])
    right = spark_side.standardise_then_clip(value)
    with pytest.raises(WaysDiffer) as error:
        alone.bench_alone(100, rounds=1, seed=0, ways={"wrong": wrong, "rows": alone.by_row})
    said = f"wrong and rows differ in 1 of 100 rows. The first is row 7: of {value!r} rows makes {right!r}, and wrong "
    assert str(error.value).startswith(said + repr(float(np.nextafter(right, 2))))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"rows": 0}, r"rows=0\. Pass 1 to 2,147,483,648"),
        ({"rows": 1 << 40}, r"rows=1,099,511,627,776"),
        ({"rounds": 0}, r"rounds=0\. Pass 1 or more"),
        ({"seed": -1}, r"seed=-1"),
        ({"sizes": ()}, r"sizes=\(\)"),
        ({"sizes": (10, 0)}, r"sizes=\(10, 0\)"),
        ({"plot": "plot.pdf"}, "a plot is written as"),
        ({"ways": [RIGHT]}, r"ways \['right'\]\. Pass two or more"),
        ({"ways": [RIGHT, RIGHT]}, r"names of their own"),
    ],
)
def test_bad_arguments(given: dict, said: str) -> None:
    with pytest.raises(PenstockError, match=said):
        bench_boundary(**{"rows": 10, **given}, with_spark=False)


def test_it_is_printed_as_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = bench_boundary(1000, with_spark=False, rounds=1, plot=tmp_path / "plot.png")
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
    assert json.loads(as_json(found)) == found.to_dict()
    show(found)
    assert capsys.readouterr() == (f"{found}\n", "")
