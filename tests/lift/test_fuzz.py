"""A fuzzer that writes functions from the supported grammar and looks for a row on which the expression differs."""

from __future__ import annotations

import linecache
import types
import warnings
from collections import Counter

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from lift_compare import spark_differences
from program_grammar import SCOPE, programs

from penstock.backends.verify import compared, rows_for
from penstock.errors import NotLifted
from penstock.expr.lift import Body, lift_function

SHORT, LONG, ROWS = 60, 2000, 50
SEEN: Counter[str] = Counter()


def compiled(source: str) -> types.FunctionType:
    """The function a text defines, with a source that can be found again."""
    name = f"<program {hash(source)}>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    scope = dict(SCOPE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python sees at once that some of them cannot work
        exec(compile(source, name, "exec", dont_inherit=True), scope)
    return scope["program"]  # type: ignore[return-value]


def lifted(source: str) -> Body | None:
    """The lifted program; None where it is refused."""
    try:
        return lift_function(compiled(source))
    except NotLifted as refusal:
        SEEN[refusal.reason.partition("(")[0]] += 1
        return None


def check(source: str) -> None:
    body = lifted(source)
    SEEN["programs"] += 1
    if body is None:
        return
    SEEN["lifted"] += 1
    verdict = compared(body, body.function, rows_for(body, ROWS), seconds=20)
    SEEN["rows"] += verdict.rows
    assert verdict.differences == (), f"{source}\n" + "\n".join(map(str, verdict.differences[:3]))


EVERYTHING = [*HealthCheck]
PHASES = (Phase.generate, Phase.shrink)


@settings(
    max_examples=SHORT,
    deadline=None,
    derandomize=True,
    suppress_health_check=EVERYTHING,
    phases=PHASES,
    database=None,
)
@given(programs())
def test_random_programs_agree(source: str) -> None:
    check(source)


def on_spark(spark, count: int) -> list[str]:
    wrong: list[str] = []

    @settings(
        max_examples=count,
        deadline=None,
        derandomize=True,
        suppress_health_check=EVERYTHING,
        phases=(Phase.generate,),
        database=None,
    )
    @given(programs())
    def run(source: str) -> None:
        body = lifted(source)
        if body is not None:
            wrong.extend(f"{source}\n{one}" for one in spark_differences(spark, {"program": body}, ROWS))

    run()
    return wrong


def test_spark_agrees_on_random_programs(spark) -> None:
    assert on_spark(spark, 12) == []


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_spark_agrees_on_many_random_programs(spark) -> None:
    assert on_spark(spark, 300) == []


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_many_random_programs_agree() -> None:
    @settings(max_examples=LONG, suppress_health_check=EVERYTHING, phases=PHASES, database=None)
    @given(programs())
    def run(source: str) -> None:
        check(source)

    SEEN.clear()
    run()
    print(SEEN)
    assert SEEN["lifted"] > SEEN["programs"] / 2, "the fuzzer should not mostly write what is refused"
