"""`penstock run`: a script prints the same to the letter, its UDFs run natively where they can, the report is true."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from penstock.errors import PenstockError
from penstock.jobs.java import java_home
from penstock.tools.run import run_and_tell, run_script
from penstock.tools.run_ledger import Ledger
from penstock.tools.run_patches import lifting
from penstock.tools.run_report import RunReport, UdfReport
from penstock.tools.run_settled import unsettled

SCRIPT = Path(__file__).with_name("run_udfs.py")
PLACES = Path(__file__).with_name("run_places.py")


@pytest.fixture
def script(tmp_path: Path):
    """Writes a script, and gives its path."""

    def write(text: str, name: str = "job.py") -> Path:
        path = tmp_path / name
        path.write_text(textwrap.dedent(text))
        return path

    return write


def plainly(path: Path, arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [str(path), *arguments])
    runpy.run_path(str(path), run_name="__main__")


def by_variable(report: RunReport, path: Path) -> dict[str, UdfReport]:
    """The UDFs by the name the script gives them: most are lambdas."""
    lines = path.read_text().splitlines()
    found = {}
    for udf in report.udfs:
        line = lines[int(udf.place.rpartition(":")[2]) - 1]
        found[line.partition(" = udf(")[0] if " = udf(" in line else udf.name] = udf
    return found


def reasons(udf: UdfReport) -> str:
    return "; ".join(udf.notes)


@pytest.fixture(scope="module")
def ran(spark, tmp_path_factory) -> tuple[str, str, dict[str, UdfReport]]:
    """What the script prints by itself, what it prints when lifted, and the report."""
    outputs = []
    monkeypatch = pytest.MonkeyPatch()
    for lifted in (False, True):
        path = tmp_path_factory.mktemp("run") / "output"
        with path.open("w") as output, monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", output)
            if lifted:
                report = run_script(SCRIPT, ["a", "b"])
            else:
                plainly(SCRIPT, ["a", "b"], patch)
        outputs.append(path.read_text())
    assert report.exit_code == 0
    return outputs[0], outputs[1], by_variable(report, SCRIPT)


class TestTheSameScript:
    def test_prints_the_same_to_the_letter(self, ran) -> None:
        plain, lifted, _ = ran
        assert "gross DoubleType()" in plain, "the script did not come to its end"
        assert lifted == plain

    @pytest.mark.parametrize(
        "name",
        ["initial", "plus", "same_day", "year", "hour", "truth", "narrow", "widened", "rounded", "positive"],
    )
    def test_lifted(self, ran, name: str) -> None:
        assert (ran[2][name].said, ran[2][name].notes[0][:3]) == ("lifted", "as "), reasons(ran[2][name])

    @pytest.mark.parametrize(
        ("name", "uses", "lifted", "reason"),
        [
            ("gross", 10, 7, "called in SQL, as gross_sql"),
            ("shout", 4, 3, "used where it is not followed"),
            ("half", 2, 1, "returns int where double is declared"),
            ("inverse", 3, 2, "a small table of the driver's own"),
            ("over", 3, 2, "has changed since it was first called"),
        ],
    )
    def test_lifted_in_part(self, ran, name: str, uses: int, lifted: int, reason: str) -> None:
        found = ran[2][name]
        assert (found.said, len(found.outcomes), found.lifted) == ("lifted in part", uses, lifted)
        assert reason in reasons(found)

    @pytest.mark.parametrize(
        ("name", "reason"),
        [
            ("clock", "its argument 'z' is timestamp"),
            ("money", "its argument 'm' is decimal(5,2)"),
            ("letters", "declared to return array<string>"),
            ("joined", "sorted()"),
            ("dice", "nondeterministic"),
            ("same", "computed by rand()"),
            ("as_text", "returns int where string is declared"),
            ("length", "no plain Python function"),
            ("twice_sql", "called in SQL, as twice_sql"),
        ],
    )
    def test_kept(self, ran, name: str, reason: str) -> None:
        assert ran[2][name].said == "kept"
        assert reason in reasons(ran[2][name])

    def test_what_is_not_used_is_told_so(self, ran) -> None:
        assert ran[2]["unused"].said == "not used"

    def test_names_in_sql_are_told(self, ran) -> None:
        assert ran[2]["gross"].registered == ("gross_sql",)
        assert "as when(x.is_null(), lit(None, 'float64')).otherwise(x * 1.19)" in ran[2]["gross"].notes


class TestRows:
    def test_rows_do_not_go_to_python(self, spark, script) -> None:
        path = script(
            """
            import pickle
            from pyspark.sql import SparkSession
            from pyspark.sql.functions import udf
            spark = SparkSession.builder.getOrCreate()

            @udf("double")
            def half(x):
                return x / 2.0 if x is not None else None

            df = spark.range(5).selectExpr("cast(id as double) x").withColumn("y", half("x"))
            plan = df._jdf.queryExecution().toString()
            assert "EvalPython" not in plan, plan
            assert [row.y for row in df.collect()] == [0.0, 0.5, 1.0, 1.5, 2.0]
            """
        )
        report = run_script(path)
        assert (report.exit_code, report.udfs[0].said) == (0, "lifted")

    def test_out_of_reach_stops_and_exact_goes_on(self, spark, script, capfd) -> None:
        path = script(
            """
            from pyspark.sql import SparkSession
            from pyspark.sql.functions import udf
            spark = SparkSession.builder.getOrCreate()

            @udf("bigint")
            def spread(n):
                return n * 1000 % 7

            print(spark.range(2**63 - 2, 2**63 - 1).selectExpr("id + 1 n").select(spread("n")).collect()[0][0])
            """
        )
        assert run_and_tell(path, exact=True) == 0
        seen = capfd.readouterr()
        assert seen.out == f"{(2**63 - 1) * 1000 % 7}\n"
        assert "--exact: only Python can go on where a whole number leaves 64 bits" in seen.err
        assert run_and_tell(path) == 1
        seen = capfd.readouterr()
        assert "stops with OutOfReach where a whole number leaves 64 bits (*)" in seen.err
        assert "With --exact" in seen.err

    def test_what_a_udf_raises_is_caught_as_ever(self, spark, script, capfd, monkeypatch) -> None:
        path = script(
            """
            from pyspark.errors import PythonException, SparkRuntimeException
            from pyspark.sql import SparkSession, functions as F
            from pyspark.sql.functions import udf
            spark = SparkSession.builder.getOrCreate()

            class Odd(ValueError):
                pass

            @udf("double")
            def inverse(n):
                if n == 1:
                    raise Odd(f"odd {n}")
                assert n != 2
                return 1.0 / n

            def take(rows):
                try:
                    return rows.collect()
                except PythonException as error:
                    last = str(error).splitlines()[-1].removeprefix("__main__.")
                    told = error.getMessageParameters()["traceback"].strip().splitlines()[-1]
                    return [last, told.endswith(last), error.getCondition(), error.getSqlState()]
                except SparkRuntimeException as error:
                    return [error.getCondition(), str(error)]

            for n in range(4):
                print(take(spark.range(n, n + 1).select(inverse("id").alias("x"))))
            print(take(spark.range(1).select(F.raise_error(F.lit("KeyError: own")))))
            spark.range(1).select(inverse("id")).toPandas()
            """
        )
        with pytest.raises(Exception, match="ZeroDivisionError"):
            plainly(path, [], monkeypatch)
        plain = capfd.readouterr().out
        assert plain.startswith("['ZeroDivisionError: float division by zero', True, 'PYTHON_EXCEPTION',")
        report = run_script(path)
        seen = capfd.readouterr()
        assert (report.exit_code, report.udfs[0].said) == (1, "lifted")
        assert seen.out == plain
        assert (
            "exceptions.captured.PythonException: An exception was thrown from the Python worker" in seen.err
        )
        assert f"of inverse ({path}:10)" in seen.err

    def test_exact_keeps_what_java_computes_otherwise(self, spark, script, capfd) -> None:
        path = script(
            """
            import math
            from pyspark.sql import SparkSession
            from pyspark.sql.functions import udf
            spark = SparkSession.builder.getOrCreate()

            @udf("double")
            def grown(x):
                return math.exp(x)

            print(spark.range(3).selectExpr("id * 0.1d x").select(grown("x")).count())
            """
        )
        assert run_and_tell(path, exact=True) == 0
        assert "--exact: Java's library computes exp" in capfd.readouterr().err
        assert run_and_tell(path) == 0
        assert "the last digit may differ: exp" in capfd.readouterr().err

    def test_without_ansi_nothing_is_lifted(self, spark, script) -> None:
        path = script(
            """
            from pyspark.sql import SparkSession
            from pyspark.sql.functions import udf
            spark = SparkSession.builder.getOrCreate()
            spark.conf.set("spark.sql.ansi.enabled", "false")
            try:
                half = udf(lambda n: n / 2.0, "double")
                assert spark.range(2).select(half("id")).collect()[1][0] == 0.5
            finally:
                spark.conf.unset("spark.sql.ansi.enabled")
            """
        )
        report = run_script(path)
        assert report.exit_code == 0
        assert "ansi" in reasons(report.udfs[0])


class TestVariables:
    """Workers import modules anew, so what the driver has set in them does not count."""

    def test_a_module_whose_variable_was_changed(self, spark, script) -> None:
        script(
            "RATE = 2.0\nLEAST = 1.0\n\ndef paid(x):\n    return x * RATE\n\ndef least(x):\n    return x + LEAST\n",
            "rates.py",
        )
        path = script(
            """
            import rates
            from pyspark.sql import SparkSession
            from pyspark.sql.functions import udf
            spark = SparkSession.builder.getOrCreate()
            rates.RATE = 3.0
            df = spark.range(2).selectExpr("cast(id as double) x")
            df.select(udf(rates.paid, "double")("x"), udf(rates.least, "double")("x")).schema
            """
        )
        try:
            paid, least = run_script(path).udfs
        finally:
            sys.modules.pop("rates")
        assert "reads the variable RATE" in reasons(paid)
        assert least.said == "lifted"

    @pytest.mark.parametrize(
        ("source", "settled"),
        [
            ("K = 3", True),
            ("K: int = 3", True),
            ("K = {'a': 1}", True),
            ("K = 3\nK = 4", False),
            ("K = len('abc')", False),
            ("K = 3\ndef change():\n    global K\n    K = 4", False),
            ("K = {'a': 1}\ndef change():\n    K['b'] = 1", False),
            ("K = [1]\ndef change():\n    K.append(2)", False),
            ("for i in range(2):\n    K = 3", False),
            ("from math import pi as K", False),
        ],
    )
    def test_what_counts_as_a_constant(self, script, monkeypatch, source: str, settled: bool) -> None:
        script(f"{source}\n\ndef f(x):\n    return K\n", "constants_of_a_test.py")
        monkeypatch.syspath_prepend(str(script("", "other.py").parent))
        try:
            module = __import__("constants_of_a_test")
            assert (unsettled(module.f, lazily=True) is None) is settled
        finally:
            sys.modules.pop("constants_of_a_test", None)


class TestEnds:
    @pytest.mark.parametrize(
        ("text", "code", "said"),
        [
            ("import sys; sys.exit()", 0, ""),
            ("import sys; sys.exit(7)", 7, ""),
            ("import sys; sys.exit('no such table')", 1, "no such table\n"),
            ("raise SystemExit(0)", 0, ""),
        ],
    )
    def test_exit_codes(self, script, capfd, text: str, code: int, said: str) -> None:
        assert run_and_tell(script(text)) == code
        assert capfd.readouterr().err.startswith(said + "penstock run ")

    def test_an_error_is_shown_as_python_shows_it(self, script, capfd) -> None:
        path = script("def f():\n    raise KeyError('x')\nprint('begins')\nf()\n")
        assert run_and_tell(path) == 1
        lifted = capfd.readouterr()
        plain = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=False)
        assert (plain.returncode, plain.stdout) == (1, lifted.out)
        assert lifted.err.startswith(plain.stderr)

    def test_a_script_that_is_no_python(self, script, capfd) -> None:
        assert run_and_tell(script("x = = 1")) == 1
        assert "SyntaxError" in capfd.readouterr().err
        with pytest.raises(PenstockError, match=r"no script at .*missing\.py"):
            run_script("missing.py")

    def test_it_is_main_with_its_arguments_and_folder(self, script, capfd) -> None:
        script("HELLO = 'hello'", "beside_the_script.py")
        path = script(
            """
            import os, sys
            from beside_the_script import HELLO
            import __main__
            assert __name__ == "__main__" and __main__.HELLO == HELLO and __file__ == sys.argv[0]
            assert os.path.samefile(sys.path[0], os.path.dirname(__file__))
            print(HELLO, sys.argv[1:])
            """
        )
        before = sys.modules["__main__"], sys.argv, list(sys.path)
        try:
            assert run_and_tell(path, ["--json", "-x"]) == 0
        finally:
            sys.modules.pop("beside_the_script", None)
        assert capfd.readouterr().out == "hello ['--json', '-x']\n"
        assert (sys.modules["__main__"], sys.argv, sys.path) == before

    def test_its_file_is_absolute_and_its_name_as_given(self, tmp_path: Path, monkeypatch, capfd) -> None:
        (tmp_path / "s.py").write_text("import sys\nprint(__file__, sys.argv[0])\n")
        monkeypatch.chdir(tmp_path)
        assert run_script("s.py").exit_code == 0
        assert capfd.readouterr().out == f"{tmp_path / 's.py'} s.py\n"

    def test_json(self, script, tmp_path: Path, capfd) -> None:
        path = script("from pyspark.sql.functions import udf\nf = udf(lambda x: x)\nraise SystemExit(3)")
        assert run_and_tell(path, json_path=tmp_path / "report.json") == 3
        found = json.loads((tmp_path / "report.json").read_text())
        assert (found["exit_code"], found["udfs"][0]["said"], found["udfs"][0]["uses"]) == (3, "not used", 0)
        assert found["udfs"][0]["place"] == f"{path}:2"


def test_the_patches_are_undone(script) -> None:
    from pyspark.errors.exceptions import captured
    from pyspark.sql import GroupedData, SparkSession, functions
    from pyspark.sql import udf as classic
    from pyspark.sql.classic.column import Column
    from pyspark.sql.classic.dataframe import DataFrame
    from pyspark.sql.classic.window import WindowSpec
    from pyspark.sql.connect.column import Column as ConnectColumn
    from pyspark.sql.connect.dataframe import DataFrame as ConnectFrame

    owners = [
        classic.UserDefinedFunction,
        classic.UDFRegistration,
        Column,
        DataFrame,
        GroupedData,
        SparkSession,
        WindowSpec,
        ConnectColumn,
        ConnectFrame,
        functions,
        captured,
    ]
    before = [dict(vars(owner)) for owner in owners]
    with lifting(Ledger()):
        assert all(dict(vars(owner)) != was for owner, was in zip(owners, before, strict=True))
    assert [dict(vars(owner)) for owner in owners] == before
    run_script(script("1 / 0"))
    assert [dict(vars(owner)) for owner in owners] == before


@pytest.mark.long
@pytest.mark.parametrize("script", [SCRIPT, PLACES], ids=lambda path: path.stem)
def test_over_connect(tmp_path: Path, script: Path) -> None:
    """A server of its own for each of the two, one after the other: they use one port."""
    tell = (
        "import sys; from penstock.tools.run import run_and_tell; "
        "sys.exit(run_and_tell(sys.argv[1], sys.argv[3:], json_path=sys.argv[2]))"
    )
    environment = {
        **os.environ,
        "SPARK_REMOTE": "local[2]",
        "JAVA_HOME": str(java_home()),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
    report = tmp_path / "report.json"
    plain, lifted = (
        subprocess.run(
            [sys.executable, *command],
            env=environment,
            capture_output=True,
            text=True,
            timeout=140,
            check=False,
        )
        for command in ([str(script), "stop"], ["-c", tell, str(script), str(report), "stop"])
    )
    assert plain.returncode == lifted.returncode == 0, plain.stderr[-2000:] + lifted.stderr[-2000:]
    assert lifted.stdout == plain.stdout
    found = {udf["name"]: udf for udf in json.loads(report.read_text())["udfs"] if udf["name"] != "<lambda>"}
    if script == PLACES:
        assert {name: udf["lifted"] for name, udf in found.items()} == {
            "safe": 14,
            "key_sql": 2,
            "key": 14,
            "big": 4,
            "inverse": 5,
            "kept": 0,
        }
        return
    assert [found[name]["said"] for name in ("initial", "plus")] == ["lifted", "lifted"]
    assert found["gross"]["lifted"] == 7
    assert "variable limit" in report.read_text(), "over Connect a function is pickled when its query runs"
