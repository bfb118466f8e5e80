"""What `penstock.write(mode="reuse")` compares: would this DataFrame give the rows it gave at an earlier time?

`identity` answers with two digests, of the plan and of the source files, that are equal in another process and on
another day exactly when the answer is yes; or with `Unprovable` and the reason. In doubt it is `Unprovable`: a needless
write costs minutes, a false "same" costs a model.

Spark tells a plan only as text (EXPLAIN), in which values are not quoted, types of values are left out and the options
of a reader do not show. So the text is never believed alone:
- Only steps, functions and sources known to be reproducible are accepted; all others are refused.
- Sources of text formats (`HASHED`): Spark's semantic hash of the plan, which covers values, types and reader options.
- Parquet and ORC, alone or beside others: their semantic hash is another in each JVM. There each reader is compared
  with a plain one in the session itself (`_read_plainly`), lists are told apart by cutting them at every length
  (`_narrow`), and functions that depend on the type of a written-out value are refused (`_check_typed`).

"The same rows" is said of the rows and not of their order. A sum of floats may differ in its last bits, as it does
between two runs of one plan. A source file changed without a change of its size and time is not noticed.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote

from penstock.errors import listed
from penstock.jobs.plan_settings import WHOLE, one_at_a_time, set_for_a_while

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HASHED = {"csv", "json", "text", "xml", "binaryFile"}
"""Formats whose part in Spark's semantic hash is the same in every JVM."""
PLAIN = {"parquet", "orc"}
"""Formats that describe themselves, so that reading them with no options at all is the usual thing."""

STEPS = re.compile(
    r"Relation|Range|OneRowRelation|Project|Filter|Aggregate|Join|Union|Distinct|Deduplicate|Intersect|Except|Expand"
    r"|Generate|Sort|Repartition|RepartitionByExpression|SubqueryAlias|View"
)
"""Logical operators whose rows depend on their input's rows alone."""

REFUSED_STEPS = {
    r".*(Python|Pandas|Arrow).*|Map.*|FlatMap.*|CoGroup.*": "the plan holds a function of the user's",
    r"LocalRelation|LogicalRDD|LocalTableScan|ExternalRDD": "rows come from memory, not from files",
    r"InMemory.*": "rows come from a cache, which may be older than the files",
    r".*Limit|Tail|Offset": "a limit takes whichever rows come first",
    r"Sample": "a sample depends on how rows are spread over partitions",
    r"Window.*": "a window function depends on the order of rows that tie",
    r"RelationV2|HiveTableRelation|DataSource.*": "a source is not made of files Penstock can compare",
}

CHANGING = re.compile(
    r"rand|randn|random|randstr|uniform|uuid|shuffle|monotonically_increasing_id|spark_partition_id|input_file_\w+"
    r"|current_\w+|now|curdate|localtime\w*|user|session_user|version|reflect|try_reflect|java_method|ai_\w+"
)
"""Functions that give something else another time, or somewhere else."""

ORDERED = re.compile(
    r"first|last|first_value|last_value|any_value|collect_list|collect_set|array_agg|listagg|string_agg|max_by|min_by"
    r"|mode|percentile_approx|approx_percentile|histogram_numeric|count_min_sketch|(hll|kll|theta|tuple|approx_top_k)_?\w*"
)
"""Aggregates whose result depends on the order rows arrive in."""

TYPED = ("hash", "xxhash64", "typeof", "to_json", "to_csv", "to_xml", "format_string", "printf")
"""Functions that give another result for 1 than for '1', where Spark's plans print both as 1."""

PLAN_WORDS = re.compile(
    r"namedlambdavariable|lambdafunction|varchar|outer|getarrayitem|atleastnnonnulls|some|splits=some|list"
)
"""What stands before a parenthesis in a plan besides the names of functions."""

WIDEST = 64  # how far `_narrow` goes: each length costs an EXPLAIN
EFFECTIVE = ("spark.sql.session.timeZone", "spark.sql.ansi.enabled", "spark.sql.caseSensitive")
"""Settings whose defaults come from the machine, so that they count even where nobody set them."""

WITHOUT_EFFECT = re.compile(
    r"spark\.sql\.(artifact\..*|execution\.arrow\..*|ui\..*|warehouse\.dir|debug\..*|max\w+StringLength)"
)
"""Settings that do not change what a plan gives."""

MANY_FILES = 100  # of one folder: from here on the whole folder is listed
FILE_SCAN = re.compile(
    r"FileScan (\w+) .* Location: InMemoryFileIndex\((\d+) paths\)\[(.*)\], PartitionFilters: \["
)


@dataclass(frozen=True)
class Identity:
    """Digests of a DataFrame's plan (with the settings it runs under) and of the files it reads.

    >>> Identity("ab12", "cd34").to_dict()
    {'plan': 'ab12', 'files': 'cd34'}
    """

    plan: str
    files: str

    def to_dict(self) -> dict[str, str]:
        """For a manifest."""
        return asdict(self)


@dataclass(frozen=True)
class Unprovable:
    """Nothing can be said about the rows at another time; `reason` completes "written anew, because ...".

    >>> Unprovable("it is a stream").reason
    'it is a stream'
    """

    reason: str


class _Doubt(Exception):
    """Ends the proof; its text is the reason."""


def identity(df: DataFrame) -> Identity | Unprovable:
    """Digests that are equal at two times only if the DataFrame gives the same rows at both.

    Runs no more than metadata queries: the plan as text, the schema of Parquet sources, sizes and times of files. The
    files are those the DataFrame would read now. A Spark Connect server lists them anew at every query, so take the
    identity again after a write, and keep it only if it is still the same.

    >>> from penstock.jobs.session import session
    >>> spark = session(cores=2)
    >>> identity(spark.range(9)) == identity(spark.range(9)) != identity(spark.range(8))
    True
    >>> identity(spark.range(9).limit(3))
    Unprovable(reason='a limit takes whichever rows come first (CollectLimit...)')
    """
    from pyspark.errors import PySparkException

    spark = df.sparkSession
    try:
        if df.isStreaming:
            raise _Doubt("it is a stream")
        # Cache entries, too, are the session's, and are put back.
        with one_at_a_time, set_for_a_while(spark, WHOLE):
            plan = _plan(spark, df)
        return Identity(plan, _files(spark, df.inputFiles()))
    except _Doubt as doubt:
        return Unprovable(str(doubt))
    except PySparkException as error:
        return Unprovable(f"Spark could not tell its plan or files: {str(error).splitlines()[0]}")


@dataclass(frozen=True)
class Shown:
    """A plan's text: the lines of each tree, without the lines that draw it; and the result's columns."""

    columns: str
    analyzed: tuple[str, ...]
    optimized: tuple[str, ...]
    physical: tuple[str, ...]
    drawn: str
    """The analyzed and the physical tree as drawn, which tells what belongs to what."""


def _explain(spark: SparkSession, df: DataFrame) -> Shown:
    answer = spark.sql("EXPLAIN EXTENDED SELECT * FROM {plan}", plan=df).collect()[0][0]
    if "(redacted)" in answer:
        raise _Doubt("a setting hides parts of the plan (spark.sql.redaction.string.regex)")
    # The view that carries the DataFrame into the statement has a random name.
    text = re.sub(r"_pyspark_(connect_temp_view_)?[0-9a-f]{32}", "view", answer)
    _, *sections = re.split(r"^== .* ==\n", text, flags=re.MULTILINE)
    if len(sections) != 4:
        raise _Doubt(f"Spark cannot plan it, or prints its plan in an unknown form ({text[:80]})")
    columns, _, analyzed = sections[1].partition("\n")
    trees = [section.strip("\n") for section in (analyzed, *sections[2:])]
    nodes = [
        tuple(re.sub(r"^[\s:+-]*(\*\(\d+\) )?", "", line) for line in tree.splitlines()) for tree in trees
    ]
    return Shown(columns, nodes[0], nodes[1], nodes[2], f"{trees[0]}\n\n{trees[2]}")


def _plan(spark: SparkSession, df: DataFrame) -> str:
    shown = _explain(spark, df)
    _check_steps(shown)
    _check_functions(spark, shown)
    sources = [_source(node) for node in _relations(shown.analyzed)]
    _check_numbers(shown)
    evidence: list[str] = [spark.version, shown.columns, *_settings_in_force(spark)]
    evidence += [_table(spark, name) for name, _ in sources if name]
    if all(kind in HASHED for _, kind in sources):
        evidence.append(str(df.semanticHash()))
    else:
        _check_typed(shown)
        _read_plainly(spark, df, shown)
        evidence += _narrow(spark, df, shown)
    evidence.append(_renumbered(shown.drawn))
    return _digest(evidence)


def _digest(parts: Sequence[object]) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _step(node: str) -> str:
    found = re.match(r"\w+", node)
    return found.group() if found else node[:40]


def _check_steps(shown: Shown) -> None:
    for node in (*shown.physical, *shown.optimized, *shown.analyzed):
        for pattern, reason in REFUSED_STEPS.items():
            if re.fullmatch(pattern, _step(node)):
                raise _Doubt(f"{reason} ({node[:80]})")
    for node in (*shown.analyzed, *shown.optimized):
        if not STEPS.fullmatch(_step(node)):
            raise _Doubt(f"the plan holds a step that Penstock cannot judge ({node[:80]})")
    # The files of such a query are not among those the DataFrame names.
    inner = re.search(r"\S*-subquery#\d+|(exists|list)#\d+ \[", "\n".join(shown.optimized))
    if inner:
        raise _Doubt(f"the plan holds a query inside an expression ({inner.group()})")


def _check_functions(spark: SparkSession, shown: Shown) -> None:
    known = {str(row[0]).lower() for row in spark.sql("SHOW SYSTEM FUNCTIONS").collect()}
    for name in re.findall(r"([^\s(),\[\]]+)\(", "\n".join(shown.analyzed)):
        if CHANGING.fullmatch(name.lower()):
            raise _Doubt(f"{name}() gives other values another time")
        if ORDERED.fullmatch(name.lower()):
            raise _Doubt(f"the result of {name}() depends on the order rows come in")
        if name.lower() not in known and not PLAN_WORDS.fullmatch(name.lower()):
            raise _Doubt(f"the plan holds {name}(), which is not one of Spark's functions")
    # dropDuplicates of some columns becomes an aggregate that takes the first of the others; distinct() does not.
    if any(_step(node) == "Deduplicate" for node in shown.analyzed) and "first(" in "\n".join(
        shown.optimized
    ):
        raise _Doubt("dropDuplicates keeps whichever row comes first; distinct() does not")


def _source(node: str) -> tuple[str, str]:
    """A file source's table, or "", and its format."""
    match = re.fullmatch(r"Relation ([^\[\]]*)\[.*\] (\w+)", node)
    if match is None or match.group(2) not in HASHED | PLAIN:
        raise _Doubt(f"a source is not made of files Penstock can compare ({node[-80:]})")
    return match.group(1), match.group(2)


def _check_numbers(shown: Shown) -> None:
    """Each #number is one that Spark gave to a column, and not part of a value or a name.

    Spark counts columns from the start of the session, so the numbers are replaced; a value must not be.
    """
    given: set[str] = set()
    for node in shown.analyzed:
        if _step(node) == "Relation":
            given.update(re.findall(r"#(\d+)", node))
        if _step(node) in ("Generate", "Expand"):
            given.update(re.findall(r"#(\d+)", node.rpartition("[")[2]))
        if _step(node) == "Range":
            given.update(re.findall(r"\bid#(\d+)L", "\n".join(shown.analyzed)))
        given.update(re.findall(r" AS [^#]*#(\d+)", node))
        given.update(re.findall(r"\blambda [^\s#]+#(\d+)", node))
        given.update(re.findall(r"\b(?:exists|list)#(\d+) \[", node))
    for node in shown.analyzed:
        stray = next((seen for seen in re.finditer(r"#(\d*)", node) if seen.group(1) not in given), None)
        if stray:
            around = node[max(0, stray.start() - 30) : stray.end() + 10]
            raise _Doubt(f"a '#' in a value or a name cannot be told from Spark's own numbers ({around})")


def _renumbered(text: str) -> str:
    """Columns and exchanges numbered in the order they appear, instead of since the session's start."""
    places: dict[str, int] = {}
    text = re.sub(r"\blambda \w+#", "lambda #", text)  # Python counts in these names, too
    return re.sub(
        r"(#|plan_id=)\d+", lambda seen: f"{seen[1]}{places.setdefault(seen[0], len(places))}", text
    )


def _settings_in_force(spark: SparkSession) -> list[str]:
    given = {
        key: value
        for key, value in spark.conf.getAll.items()
        if key.startswith(("spark.sql.", "spark.hadoop.")) and not WITHOUT_EFFECT.fullmatch(key)
    }
    given |= {key: str(spark.conf.get(key)) for key in EFFECTIVE}
    return [f"{key}={value}" for key, value in sorted(given.items())]


def _quoted(name: str) -> str:
    return ".".join(f"`{part}`" for part in name.split("."))


def _table(spark: SparkSession, name: str) -> str:
    """A table's definition, which may change under its name."""
    return str(spark.sql(f"SHOW CREATE TABLE {_quoted(name)}").collect()[0][0])


def _check_typed(shown: Shown) -> None:
    text = re.sub(r" AS [^#]*#", " #", "\n".join(shown.analyzed))  # names that Spark makes up look like calls
    for call in re.finditer(rf"\b({'|'.join(TYPED)})\(", text):
        arguments = _arguments(text[call.end() :])
        seeded = call.group(1) in ("hash", "xxhash64")
        for argument in arguments[:-1] if seeded else arguments:
            if not re.fullmatch(r"[^()]+#\d+L?|cast\(.*\)|Some\(.*\)", argument):
                raise _Doubt(
                    f"the plan does not tell the type of the value {argument[:40]!r} in {call.group(1)}(); "
                    "cast it: F.lit(...).cast('string')"
                )


def _arguments(text: str) -> list[str]:
    """The arguments of a call, from the text behind its parenthesis."""
    depth, parts = 0, [""]
    for letter in text:
        if letter == ")" and depth == 0:
            break
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


def _read_plainly(spark: SparkSession, df: DataFrame, shown: Shown) -> None:
    """Make sure that every source is read without options, and in the schema its files have.

    Spark puts a cached DataFrame in place of every part of a plan that is equal to it, reader options and types
    included, and shows that it did. So plain readers of the same paths are marked as cached for the length of an
    EXPLAIN, in which nothing is computed or stored. A query that starts on the same source meanwhile gives the same
    rows; at worst it keeps some of them in memory until it ends.
    """
    sources = _relations(shown.optimized)
    with ExitStack() as marked:
        for readers in _plain_readers(spark, shown):
            for reader in readers:
                if not reader.storageLevel.useMemory:
                    marked.callback(reader.unpersist)
                    reader.cache()
            steps = [_step(node) for node in _explain(spark, df).optimized]
            if "Relation" not in steps and steps.count("InMemoryRelation") == len(sources):
                return
    raise _Doubt(
        "a Parquet or ORC source, or one beside it, is read with options, with a schema other than its files' own, or "
        "by a pattern of paths, and the plan does not tell which"
    )


def _plain_readers(spark: SparkSession, shown: Shown) -> Iterator[list[DataFrame]]:
    """Readers of the tables, then of the paths in one spelling after another: Spark counts that among the options."""
    tables = dict.fromkeys(name for name, _ in map(_source, _relations(shown.analyzed)) if name)
    if tables:
        yield [spark.table(_quoted(name)) for name in tables]
    scans = sorted({match.groups() for node in shown.physical if (match := FILE_SCAN.match(node))})
    first = [spark.read.format(kind).load(_spelled(count, text, "", "")) for kind, count, text in scans]
    yield first
    for start in ("", "file:", "file://"):
        for end in ("", "/"):
            yield [
                spark.read.format(kind).schema(plain.schema).load(_spelled(count, text, start, end))
                for (kind, count, text), plain in zip(scans, first, strict=True)
            ]


def _spelled(count: str, text: str, start: str, end: str) -> list[str]:
    """The paths of a scan, those of local files with another beginning."""
    paths = text.split(", ")
    if len(paths) != int(count):
        raise _Doubt(f"a path holds a comma and a space ({text[:80]})")
    return [_literal(re.sub(r"^file:/+", f"{start}/", path)) + end for path in paths]


def _relations(nodes: Sequence[str]) -> list[str]:
    return [node for node in nodes if _step(node) == "Relation"]


def _narrow(spark: SparkSession, df: DataFrame, shown: Shown) -> list[str]:
    """The plan with its lists cut after 1, 2, 3 ... entries, as far as it takes to know each entry's end.

    Uncut, ["a,b", "c"] and ["a", "b,c"] print the same. A cut list tells how many entries it hides; once the commas
    hidden are no more than stand between so many entries, no entry still hidden has one of its own.
    """
    commas = "\n".join(shown.analyzed).count(",")
    texts = []
    for width in range(1, WIDEST + 1):
        with set_for_a_while(spark, {"spark.sql.debug.maxToStringFields": str(width)}):
            text = "\n".join(_explain(spark, df).analyzed)
        texts.append(_renumbered(text))
        hidden = [int(count) for count in re.findall(r"\.\.\. (\d+) more fields", text)]
        if commas - text.count(",") == sum(count - 1 for count in hidden):
            return texts
    raise _Doubt(f"a list of more than {WIDEST} entries holds commas that Spark's plans do not quote")


def _literal(path: str) -> str:
    """A path for Spark's readers that stands for itself, whatever it holds."""
    return re.sub(r"([\\*?\[\]{}])", r"\\\1", path)


def _one_slash(path: str) -> str:
    return re.sub(r"^file:/+", "file:/", path)


def _files(spark: SparkSession, addresses: Sequence[str]) -> str:
    """A digest of names, sizes and times. The contents are not read: Spark leaves out the column nobody selects."""
    from pyspark.sql import functions as F

    names = {_one_slash(unquote(address)) for address in addresses}
    if not names:
        return _digest([])
    folders = Counter(name.rpartition("/")[0] for name in names)
    # One path after the other takes milliseconds each; a whole folder is listed at once.
    whole = {folder for folder, count in folders.items() if count >= MANY_FILES}
    paths = whole | {name for name in names if name.rpartition("/")[0] not in whole}
    table = spark.read.format("binaryFile").option("recursiveFileLookup", True)
    rows = table.load([_literal(path) for path in sorted(paths)])
    found = {
        (_one_slash(path), length, time)
        for path, length, time in rows.select("path", "length", F.unix_micros("modificationTime")).collect()
    }
    found = {file for file in found if file[0] in names}
    missing = sorted(names - {name for name, _, _ in found})
    if missing or len(found) != len(names):
        raise _Doubt(f"sizes and times of source files could not be had ({listed(missing, 3)})")
    return _digest(sorted(found))
