"""`penstock run` lifts UDFs wherever a Column may stand, and where the result could be another it says why not."""

from __future__ import annotations

import io
import runpy
import sys
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from penstock.tools.run import run_script
from penstock.tools.run_derived import conjuncts, found_in, rebuilt
from penstock.tools.run_ledger import Ledger
from penstock.tools.run_patches import lifting
from penstock.tools.run_report import UdfReport

SCRIPT = Path(__file__).with_name("run_places.py")


@pytest.fixture(scope="module")
def ran(spark, tmp_path_factory) -> tuple[str, str, dict[str, UdfReport], dict[str, int]]:
    """What the script prints by itself, and lifted; the report; how often rows go to Python in each plan."""
    plans = tmp_path_factory.mktemp("run") / "plans"
    plain, lifted = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch().context() as patch, redirect_stdout(plain):
        patch.setattr(sys, "argv", [str(SCRIPT)])
        runpy.run_path(str(SCRIPT), run_name="__main__")
    with redirect_stdout(lifted):
        report = run_script(SCRIPT, [str(plans)])
    assert report.exit_code == 0
    found = dict(line.rsplit(": ", 1) for line in plans.read_text().splitlines())
    udfs = {udf.name: udf for udf in report.udfs}
    udfs["in SQL"] = udfs.pop("key_sql")
    return plain.getvalue(), lifted.getvalue(), udfs, {name: int(times) for name, times in found.items()}


def test_it_prints_the_same_to_the_letter(ran) -> None:
    plain, lifted, _, _ = ran
    assert "UNRESOLVED_COLUMN" in plain, "the script did not come to its end"
    assert lifted == plain


@pytest.mark.parametrize(
    "place",
    [
        *("nested", "when", "made of", "filter", "raising", "first in it", "sort", "repartition"),
        *("group", "groups", "sums", "join", "window", "text"),
    ],
)
def test_no_row_goes_to_python(ran, place: str) -> None:
    assert ran[3][place] == 0


@pytest.mark.parametrize("place", ["kept filter", "star", "all", "pivot", "having", "both", "sql"])
def test_rows_go_to_python_as_without_it(ran, place: str) -> None:
    assert ran[3][place] > 0


@pytest.mark.parametrize(
    ("name", "uses", "lifted", "reasons"),
    [
        ("safe", 19, 14, ["UNRESOLVED_COLUMN", "called in SQL, as safe_sql", "may mean another function"]),
        ("in SQL", 2, 2, ["in SQL it is key_sql"]),
        ("key", 16, 14, ["rollup, cube or pivot", "with columns of both sides"]),
        ("big", 6, 4, ["another UDF of the same filter stays in Python"]),
        ("inverse", 10, 5, ["need not compute it for every row", "rows that a filter drops", "beside *"]),
        ("kept", 2, 0, ["sorted()"]),
    ],
)
def test_the_report_says_why(ran, name: str, uses: int, lifted: int, reasons: list[str]) -> None:
    found = ran[2][name]
    assert (len(found.outcomes), found.lifted) == (uses, lifted)
    told = "; ".join(found.notes)
    assert [reason for reason in reasons if reason not in told] == []


class TestDerived:
    """Which Columns are remembered, and how they are made anew."""

    def test_what_may_be_skipped_is_not_leading(self, spark) -> None:
        with lifting(Ledger()):
            from pyspark.sql import functions as F

            made = F.udf(lambda x: x, "double")
            one = made("id")

            def leading(column: object) -> list[bool]:
                return [found.leading for found in found_in(column)]

            assert leading(one) == leading(F.round(one + 1, 2)) == leading(1 - one) == [True]
            assert leading(F.when(one > 1, one)) == [True, False]
            assert leading(F.when(value=one, condition=F.col("id") > 1)) == [False]
            assert leading(F.col("id") + one) == leading(F.coalesce("id", one)) == [False]
            assert leading(F.try_divide(one, F.lit(0))) == [False]
            assert leading(F.lit(one)) == [True]
            assert leading(F.col("id") + 1) == []
            assert leading(F.transform(F.array(one), lambda x: x + 1)) == [], "it would run the lambda again"
            assert len(conjuncts((one > 1) & (F.col("id") > 2) & (one < 3))) == 3

    def test_what_holds_no_replaced_column_stays_itself(self, spark) -> None:
        with lifting(Ledger()):
            from pyspark.sql import functions as F

            one, two = (F.udf(lambda x: x, "double")(name) for name in ("id", "x"))
            whole = [one + 1, two + 1, "id"]
            found = rebuilt(whole, {id(two): F.col("y")})
            assert found[0] is whole[0]
            assert str(found[1]) == "Column<'+(y, 1)'>"
            assert found[2] == "id"

    def test_what_was_given_counts_and_not_what_became_of_it(self, spark) -> None:
        with lifting(Ledger()):
            from pyspark.sql import functions as F

            one = F.udf(lambda x: x, "double")("id")
            parts, values = [one, F.lit(2)], [1, 2]
            whole = F.array(parts)
            among = one.isin(values)
            parts.append(F.lit(3))
            values.clear()
            assert str(rebuilt(whole, {id(one): F.col("y")})) == "Column<'array(y, 2)'>"
            assert "1, 2" in str(rebuilt(among, {id(one): F.col("y")}))
