"""Plans as trees: drawn ones of every shape, and real ones of real queries."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import functions as F
from pyspark.sql.functions import udf

from penstock.errors import PenstockError
from penstock.jobs.plan import Node, columns, items, numbers, parse_plan
from penstock.jobs.plan_calls import as_call, calls, eval_type, lists, parts
from penstock.jobs.plan_classic import Measured, in_plain_units
from penstock.jobs.plan_reading import _printed, _without_counting, aligned, read_plan, whole_plans

# --- drawn by the test ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Shape:
    """A tree to be drawn as Spark draws it."""

    name: str
    value: str
    children: tuple[Shape, ...] = ()


texts = st.text(
    st.characters(blacklist_categories=("Cs", "Cc"), blacklist_characters="\x85\u2028\u2029"), max_size=20
)
names = st.sampled_from(
    ["Project", "Filter", "Scan parquet", "Scan csv a.b.c", "Sort", "BatchScan (odd) name", "ArrowEvalPython"]
)
shapes = st.recursive(
    st.builds(Shape, names, texts),
    lambda inner: st.builds(Shape, names, texts, st.lists(inner, min_size=1, max_size=3).map(tuple)),
    max_leaves=12,
)


def draw(root: Shape) -> tuple[str, dict[int, Shape]]:
    """As `EXPLAIN FORMATTED` prints it: the tree, then a paragraph each."""
    numbered: dict[int, Shape] = {}

    def number(shape: Shape) -> int:
        for child in shape.children:
            places[id(child)] = number(child)
        numbered[len(numbered) + 1] = shape
        return len(numbered)

    def lines(shape: Shape, prefix: str, lead: str) -> list[str]:
        starred = "* " if len(shape.value) % 2 else ""
        found = [f"{prefix}{lead}{starred}{shape.name} ({places[id(shape)]})"]
        below = prefix + {"": "", "+- ": "   ", ":- ": ":  "}[lead]
        for place, child in enumerate(shape.children):
            found += lines(child, below, "+- " if place == len(shape.children) - 1 else ":- ")
        return found

    # Equal subtrees are one object to hypothesis, but every node is a node of its own.
    def copied(shape: Shape) -> Shape:
        return Shape(shape.name, shape.value, tuple(copied(child) for child in shape.children))

    root, places = copied(root), {}
    places[id(root)] = number(root)
    paragraphs = [
        f"({place}) {shape.name}{' [codegen id : 1]' if len(shape.value) % 2 else ''}\nArguments: {shape.value}"
        for place, shape in numbered.items()
    ]
    return "\n".join(
        ["== Physical Plan ==", *lines(root, "", ""), "", "", "\n\n".join(paragraphs), "", ""]
    ), numbered


@given(shapes)
def test_a_drawn_tree_is_read_back(shape: Shape) -> None:
    text, numbered = draw(shape)

    def same(node: Node, shape: Shape) -> None:
        assert numbered[node.number].value == shape.value
        assert (node.name, node.arguments.rstrip()) == (shape.name, shape.value.rstrip())
        assert len(node.children) == len(shape.children)
        for child, drawn in zip(node.children, shape.children, strict=True):
            same(child, drawn)

    plan = parse_plan(text)
    same(plan, shape)
    assert sorted(node.number for node in plan.walk()) == sorted(numbered)


@given(
    st.lists(
        st.tuples(texts.filter(lambda name: not re.search(r"[#()\[\]]| AS ", name)), st.booleans()),
        max_size=6,
    )
)
def test_columns_keep_their_names_whatever_these_hold(wanted: list[tuple[str, bool]]) -> None:
    # A name that begins with spaces cannot be told from the space after a comma.
    wanted = [(name.strip() or "c", long) for name, long in wanted]
    printed = ", ".join(f"{name}#{place}{'L' if long else ''}" for place, (name, long) in enumerate(wanted))
    found = columns(f"[{printed}]")
    assert [(column.name, column.number) for column in found] == [
        (name, p) for p, (name, _) in enumerate(wanted)
    ]


@given(texts)
def test_any_text_is_a_plan_or_an_error(text: str) -> None:
    for tried in (
        text,
        f"== Physical Plan ==\n{text}",
        f"== Physical Plan ==\nScan x (1)\n\n\n(1) Scan x\n{text}",
    ):
        with contextlib.suppress(PenstockError):
            assert parse_plan(tried).name
    parts(text), calls(text), lists(text), items(text), eval_type(text), as_call(text), numbers(text)


def test_what_is_not_a_plan_is_quoted() -> None:
    with pytest.raises(PenstockError, match="It says: Error occurred during query planning: no luck"):
        parse_plan("Error occurred during query planning: \nno luck")
    with pytest.raises(PenstockError, match="It says: nothing"):
        parse_plan("")


ADAPTIVE = """== Physical Plan ==
AdaptiveSparkPlan (9)
+- == Final Plan ==
   ResultQueryStage (5), Statistics(sizeInBytes=16.0 B, rowCount=1)
   +- * HashAggregate (4)
      :- ShuffleQueryStage (3), Statistics(sizeInBytes=16.0 B, rowCount=1)
      :  +- Exchange (2)
      :     +- * Range (1)
      +- ReusedExchange (6)
+- == Initial Plan ==
   HashAggregate (8)
   +- Exchange (7)
      +- Range (1)


(1) Range [codegen id : 1]
Output [1]: [id#0L]
Arguments: two
lines, of (which) one

(2) Exchange
Input [1]: [id#0L]
Arguments: hashpartitioning(id#0L, 4), ENSURE_REQUIREMENTS, [plan_id=16]

(4) HashAggregate [codegen id : 2]
Input [1]: [id#0L]

(9) AdaptiveSparkPlan
Output [1]: [id#0L]
Arguments: isFinalPlan=true

===== Subqueries =====

Subquery:1 Hosting operator id = 4 Hosting Expression = Subquery subquery#1, [id=#3]
Filter (11)
+- LocalTableScan (10)


(10) LocalTableScan
Output: []
Arguments: <empty>

(11) Filter
Input: []
Condition : (a#1 = (12) Filter)

Subquery:2 Hosting operator id = 1 Hosting Expression = Subquery subquery#1, [id=#3]
Filter (11)
+- LocalTableScan (10)


"""


def test_the_final_plan_and_its_subqueries() -> None:
    plan = parse_plan(ADAPTIVE)
    assert [(node.number, node.name) for node in plan.walk()] == [
        (9, "AdaptiveSparkPlan"),
        (5, "ResultQueryStage"),
        (4, "HashAggregate"),
        (3, "ShuffleQueryStage"),
        (2, "Exchange"),
        (1, "Range"),
        (6, "ReusedExchange"),
        (11, "Filter"),
        (10, "LocalTableScan"),
    ]
    by_number = {node.number: node for node in plan.walk()}
    assert [node.number for node in by_number[4].subqueries] == [11]
    assert by_number[1].arguments == "two\nlines, of (which) one"
    assert by_number[11].details["Condition"] == "(a#1 = (12) Filter)"
    assert by_number[10].outputs == ()
    assert [depth for depth, _ in plan.lines()] == [0, 1, 2, 1, 1, 2]
    assert plan.to_dict()["children"][0]["children"][0]["subqueries"][0]["number"] == 11


# --- printed by Spark -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def real(spark):
    """The text of EXPLAIN for queries of many forms."""
    table = spark.range(0, 60, 1, 3).select(
        "id", (F.col("id") % 4).alias("k"), (F.col("id") / 7).alias("x"), F.lit("[a, b#1").alias("odd, (name"),
    )  # fmt: skip
    twice = udf(lambda v: 2.0 * v, "double", useArrow=False)
    cached = table.groupBy("k").agg(F.sum(twice("x")).alias("s")).cache()
    cached.count()
    table.createOrReplaceTempView("explained")
    queries = {
        "narrow": table.where("x > 2").select("id", "odd, (name", twice("x")),
        "join": table.join(table.groupBy("k").agg(F.max("x").alias("m")), "k").orderBy("m"),
        "cached": cached.where("s > 1"),
        "subquery": spark.sql("select *, (select max(x) from explained) as m from explained where x > 1"),
        "union": table.union(table).distinct(),
        "wide": spark.range(5).select(*(F.lit(n).alias(f"c{n}") for n in range(300))),
        "none": spark.range(5).select(),
        "alike": table.select("id", "id", F.col("id").alias("ID")),
        "nested": table.select(F.struct("id", F.struct("x").alias("y")).alias("s"), F.array("k")),
        "comma": spark.range(9)
        .selectExpr("id", "greatest(id, id + 1) as c", "id as `with, comma`")
        .where("c > 3"),
        "lines": table.where(F.col("id").cast("string") != "one\n\n(2) Filter\nInput [9]: [x#3]\n"),
    }
    with whole_plans(spark):
        texts = {name: _printed(df, "formatted") for name, df in queries.items()}
    cached.unpersist()
    return texts


QUERIES = [
    "narrow",
    "join",
    "cached",
    "subquery",
    "union",
    "wide",
    "none",
    "alike",
    "nested",
    "comma",
    "lines",
]


@pytest.mark.parametrize("name", QUERIES)
def test_a_real_plan_is_read_whole(real, name: str) -> None:
    text = real[name]
    nodes = {node.number: node for node in parse_plan(text).walk()}
    drawn = set(map(int, re.findall(r"^[ :+-]*(?:\* )?\w.* \((\d+)\)", text, flags=re.MULTILINE)))
    if name == "cached":  # drawn twice: as planned at first, and as it ran
        assert len(nodes) < len(drawn)
    else:
        assert set(nodes) == drawn
    assert all(node.details for node in nodes.values() if node.name != "Union")
    if name == "lines":
        return  # a value that looks like another paragraph: nothing is lost, but lists are not Spark's
    seen = 0
    for number, paragraph in re.findall(r"^\((\d+)\) .*\n((?:.+\n)+)", text, flags=re.MULTILINE):
        for kind, count, listed in re.findall(
            r"^(Input|Output) \[(\d+)\]: (\[.*\])$", paragraph, flags=re.MULTILINE
        ):
            seen += 1
            assert len(columns(listed)) == int(count), listed
            if int(number) in nodes:
                assert nodes[int(number)].details[kind] == listed
    assert seen or name == "none"


def test_what_the_plans_hold(real) -> None:
    assert [column.name for column in parse_plan(real["comma"]).outputs][-1] == "with, comma"
    assert parse_plan(real["wide"]).outputs[299].name == "c299"
    assert [column.name for column in parse_plan(real["join"]).outputs] == ["k", "id", "x", "odd, (name", "m"]
    tested = next(node for node in parse_plan(real["lines"]).walk() if node.name == "Filter")
    assert [column.name for column in tested.inputs] == ["id"]
    assert "Input [9]: [x#3]" in tested.details["Condition"], "a value with line breaks stays one value"
    inner = [node for node in parse_plan(real["subquery"]).walk() if node.subqueries]
    assert [node.name for node in inner] == ["Project"]
    assert "HashAggregate" in [node.name for node in inner[0].subqueries[0].walk()]


def test_settings_are_put_back(spark) -> None:
    before = spark.conf.getAll
    assert "more fields" not in str(
        read_plan(spark.range(5).select(*(F.lit(n).alias(f"c{n}") for n in range(99))))
    )
    assert spark.conf.getAll == before


def test_a_plan_that_cannot_be_made_is_told_shortly(spark) -> None:
    spark.conf.set("spark.sql.crossJoin.enabled", "false")
    try:
        with pytest.raises(PenstockError, match="cartesian product") as told:
            read_plan(spark.range(3).join(spark.range(4).withColumnRenamed("id", "other")))
    finally:
        spark.conf.unset("spark.sql.crossJoin.enabled")
    assert len(str(told.value).splitlines()) == 1


# --- calls ------------------------------------------------------------------------------------------------


def test_calls_of_every_form() -> None:
    chained = calls(
        "[f(g(x#1, 2, it, em#3)#4, upper(s#5))#6, <lambda>()#7], [pythonUDF0#8, pythonUDF1#9], 101"
    )
    assert [call.name for call in chained] == ["f", "<lambda>"]
    assert chained[0].names == ("g", "f")
    assert chained[0].sent == ("x#1", "2", "it, em#3", "upper(s#5)")
    assert chained[1].sent == ()
    window = (
        "[mean(x#5)#38 windowspecdefinition(k#6L, specifiedwindowframe(a$(), b$())) AS m#40], [k#6L], 203"
    )
    assert [call.name for call in calls(window)] == ["mean"]
    assert (eval_type(window), lists(window)) == (203, ["[k#6L]"])
    grouped = calls("[k#1], apply(a#2, b#3)#4, [c#5, d#6]")
    assert (grouped[0].name, grouped[0].sent) == ("apply", ("a#2", "b#3"))
    assert calls("hashpartitioning(k#1, 200), ENSURE_REQUIREMENTS, [plan_id=7]") == ()
    assert calls("") == ()
    assert eval_type("5") is None, "a limit is not a kind of function"


# --- what ran beside what was planned ---------------------------------------------------------------------


def chain(*names: str) -> Node:
    node: Node | None = None
    for place, name in enumerate(reversed(names)):
        node = Node(len(names) - place, name, children=(node,) if node else ())
    assert node is not None
    return node


def ran(*names: str) -> list[Measured]:
    return [Measured(name, {"numOutputRows": float(place)}) for place, name in enumerate(names)]


def test_alignment() -> None:
    plan = chain("AdaptiveSparkPlan", "Project", "Filter", "ArrowEvalPython", "Scan parquet")
    found = aligned(
        plan, ran("WholeStageCodegen (2)", "Project", "Filter", "ArrowEvalPython", "Scan parquet ")
    )
    assert {number: metrics["numOutputRows"] for number, metrics in found.items()} == {2: 1, 3: 2, 4: 3, 5: 4}
    # Adaptive execution puts other operators between, and takes some away.
    plan = chain("SortMergeJoin", "Sort", "ArrowEvalPython", "Exchange", "ArrowEvalPython", "Range")
    found = aligned(
        plan, ran("BroadcastHashJoin", "ArrowEvalPython", "AQEShuffleRead", "Exchange", "ArrowEvalPython")
    )
    assert {number: metrics["numOutputRows"] for number, metrics in found.items()} == {3: 1, 4: 3, 5: 4}
    # What lies in a cache did not run.
    plan = chain("Filter", "InMemoryTableScan", "InMemoryRelation", "BatchEvalPython")
    assert set(aligned(plan, ran("Filter", "InMemoryTableScan", "BatchEvalPython"))) == {1, 2}
    assert aligned(plan, []) == {}


def test_the_counting_is_taken_off() -> None:
    moved = ran("AdaptiveSparkPlan", "HashAggregate", "AQEShuffleRead", "ShuffleQueryStage", "Exchange",
                "WholeStageCodegen (1)", "HashAggregate", "Project", "Range")  # fmt: skip
    assert [node.name for node in _without_counting(moved)] == ["Project", "Range"]
    at_once = ran("HashAggregate", "HashAggregate", "Exchange", "HashAggregate", "Range")
    assert [node.name for node in _without_counting(at_once)][:2] == ["HashAggregate", "Exchange"]
    assert _without_counting(ran("EmptyRelation")) == ran("EmptyRelation")
    assert _without_counting([]) == []


@pytest.mark.parametrize(
    ("value", "kind", "wanted"),
    [
        (1500, "timing", 1.5),
        (2e9, "nsTiming", 2.0),
        (7, "size", 7.0),
        (-1, "size", 0.0),
        (15, "average", 1.5),
    ],
)
def test_units(value: float, kind: str, wanted: float) -> None:
    assert in_plain_units(value, kind) == pytest.approx(wanted)
