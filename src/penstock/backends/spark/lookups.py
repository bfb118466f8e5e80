"""Keys looked up in vocabularies, never in Python: by CASE, by a table that is read once, or by a broadcast join.

A handful of keys is a CASE. Up to some hundred thousand are a table of one row, a scalar subquery: lists of keys with
equal hashes and lists of their results, so that a lookup is a hash and a look into one short list. They are no
constants of the plan, which Spark would compare and print whenever it thinks about it. More keys are joined. In lists,
where Spark allows no subquery, the same lists are constants, up to a limit.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame

from penstock.backends.base import Kernel, Site, Step
from penstock.backends.spark.columns import long, spelled
from penstock.backends.spark.functions import F
from penstock.backends.spark.handing import Handed, is_classic
from penstock.dtypes import Array
from penstock.errors import ExpressionError
from penstock.expr.nodes import Call
from penstock.expr.types import STRING, Type
from penstock.expr.vocabulary import Vocabulary

BY_CASE = 12
BY_TABLE = 500_000
"""A table goes to every task; from here on Spark's own broadcast is better."""
MOST_IN_LISTS = 50_000
LOOKUPS = ("index_in", "look_up")


def by_table(step: Step) -> bool:
    """Whether a step is a lookup in a table of one row."""
    return BY_CASE < _size(step) <= BY_TABLE


def by_join(step: Step) -> bool:
    """Whether a step is a lookup that needs a join."""
    return _size(step) > BY_TABLE


def _size(step: Step) -> int:
    """How many keys a step looks a single value up in; 0 where it is no such step."""
    if not isinstance(step.node, Call) or step.node.op not in LOOKUPS or step.site is None:
        return 0
    return 0 if step.site.types[0].kind == "list" else len(step.site.params["keys"])


def key(x: Column, of: Type) -> Column:
    """A value as keys are held."""
    return x if of.kind == "string" else x.cast("bigint")


@contextmanager
def tables(df: DataFrame, sites: Mapping[str, Site]) -> Iterator[dict[str, Column]]:
    """For each lookup a column that holds its table: `keys` and `results`, by the keys' hash.

    The columns are for DataFrames that are made while the block runs.
    """
    if not sites:
        yield {}
        return
    columns = {}
    for name, site in sites.items():
        keys, results = _by_hash(site)
        columns[f"{name}_keys"] = _one_row(keys)
        columns[f"{name}_results"] = _one_row(results)
    spark = df.sparkSession
    row = spark.createDataFrame(pa.table(columns))
    parts = {name: f"struct(`{name}_keys` AS keys, `{name}_results` AS results)" for name in sites}
    if not is_classic(df):
        yield {name: row.select(F.expr(part)).scalar() for name, part in parts.items()}
        return
    # A subquery in SQL reads what has a name. Classic Spark looks it up at once, so that it is needed no longer after.
    view = f"penstock_{uuid.uuid4().hex}"
    row.createTempView(view)
    try:
        yield {name: F.expr(f"(SELECT {part} FROM {view})") for name, part in parts.items()}
    finally:
        spark.catalog.dropTempView(view)


def _one_row(array: Any) -> Any:
    return pa.LargeListArray.from_arrays(pa.array([0, len(array)], pa.int64()), array)


def in_table(site: Site, x: Column, table: Column) -> Column:
    """What is found for a value in its table."""
    return finished(
        site, x, _look(table["keys"], table["results"], key(x, site.types[0]), len(site.params["keys"]))
    )


def _look(keys: Column, results: Column, value: Column, lists: int) -> Column:
    place = F.pmod(F.xxhash64(value), long(lists)).cast("int")
    at = F.array_position(F.get(keys, place), value).cast("int")
    return F.get(F.get(results, place), at - F.lit(1))


def _by_hash(site: Site) -> tuple[Any, Any]:
    """As many lists as there are keys: those whose hash leads there; and their results."""
    keys: Vocabulary = site.params["keys"]
    lists = _buckets(keys)
    order = np.argsort(lists, kind="stable")
    offsets = pa.array(np.searchsorted(lists[order], np.arange(len(keys) + 1)).astype(np.int32))
    taken = pa.array(order)
    results = pa.array(_results(site)).take(taken)
    return pa.ListArray.from_arrays(offsets, keys.array.take(taken)), pa.ListArray.from_arrays(
        offsets, results
    )


def join(df: DataFrame, step: Step, x: Column, name: str, handed: Handed) -> DataFrame:
    """The DataFrame with a column for what was found: the key's place or number, null where it is not there."""
    assert step.site is not None
    keys: Vocabulary = step.site.params["keys"]
    table = df.sparkSession.createDataFrame(
        pa.table({f"{name}_key": keys.array, name: pa.array(_results(step.site))})
    )
    same = key(x, step.site.types[0]) == F.col(f"{name}_key")
    return df.join(table.hint("broadcast"), handed(same), "left")


def _results(site: Site) -> Any:
    """What is found for each key."""
    keys: Vocabulary = site.params["keys"]
    if site.op == "look_up":
        assert keys.numbers is not None
        return keys.numbers.to_numpy()
    return np.arange(len(keys), dtype=np.int64) + (1 + site.params["oov"])


def finished(site: Site, x: Column, found: Column) -> Column:
    """What was found, or what else holds for values that are not there, and for null."""
    if site.op == "look_up":
        unseen, null = F.lit(float(site.params["unseen"])), F.lit(float(site.params["null"]))
    else:
        oov, null = site.params["oov"], long(0)
        unseen = F.lit(None).cast("bigint") if not oov else long(1)
        if oov > 1:
            unseen = long(1) + F.pmod(F.xxhash64(key(x, _leaf(site))), long(oov))
    return F.when(x.isNull(), null).otherwise(F.coalesce(found, unseen))


def _leaf(site: Site) -> Type:
    return site.types[0].item if site.types[0].kind == "list" else site.types[0]


def _look_up(site: Site, x: Column) -> Column:
    keys: Vocabulary = site.params["keys"]
    if site.types[0].kind != "list":
        return finished(site, x, _found(site, x))
    if len(keys) > MOST_IN_LISTS:
        raise ExpressionError(
            f"{site.op}(): {len(keys)} keys are too many to look the elements of lists up in Spark; {MOST_IN_LISTS} "
            "is the most. Learn fewer (max_size, min_count), or use .hash(buckets)."
        )
    return F.transform(x, lambda item: finished(site, item, _found(site, item)))


def _found(site: Site, x: Column) -> Column:
    """What is found for a value whose keys stand in the plan."""
    keys: Vocabulary = site.params["keys"]
    kind = "bigint" if site.op == "index_in" else "double"
    if not len(keys):
        return F.lit(None).cast(kind)
    value = key(x, _leaf(site))
    if len(keys) > BY_CASE:
        of_keys, of_results = _by_hash(site)
        held = "string" if keys.type == STRING else "bigint"
        return _look(_constant(of_keys, held), _constant(of_results, kind), value, len(keys))
    cases: Any = F
    for each, result in zip(keys.array.to_pylist(), _results(site).tolist(), strict=True):
        cases = cases.when(value == F.lit(each), F.lit(result).cast(kind))
    found: Column = cases
    return found


def _constant(rows: Any, kind: str) -> Column:
    """Lists of lists as one JSON text, which Spark reads once."""
    return F.from_json(F.lit(json.dumps(rows.to_pylist())), f"array<array<{kind}>>")


def _buckets(keys: Vocabulary) -> Array:
    """Of each key Spark's hash, which is signed, brought to a number of a list by pmod, which is not."""
    import xxhash

    if keys.type == STRING:
        hashed = iter(keys.array.cast(pa.binary()).to_pylist())
    else:
        hashed = (each.to_bytes(8, "little", signed=True) for each in keys.array.to_pylist())
    hashes = np.fromiter((xxhash.xxh64_intdigest(each, 42) for each in hashed), np.uint64, len(keys))
    return hashes.view(np.int64) % len(keys)


def _demand(site: Site, x: Column) -> Column:
    failed = F.raise_error(F.lit(f"penstock.errors.NullReached: {site.params['message']}")).cast(
        spelled(site.type)
    )
    if site.type.kind == "list":
        x = F.when(~F.exists(x, lambda item: item.isNull()), x)
    # The value stands in it once: Spark would compute it again for each time.
    return F.coalesce(x, failed)


KERNELS: dict[str, Kernel] = {"index_in": _look_up, "look_up": _look_up, "demand": _demand}
