"""Stages of single values: StringIndexer, OneHotEncoder, Imputer, Bucketizer, Binarizer.

MLlib raises an error for some values and hands null on; the trees keep these apart with a demand on what is not null.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from typing import Any

from penstock.expr.build import lit, when
from penstock.expr.nodes import Expression, Literal, literal
from penstock.expr.types import FLOAT32, FLOAT64, STRING, Type
from penstock.expr.vocabulary import Vocabulary
from penstock.recipe.mllib.columns import Columns, Made, Refused, columns_in_and_out

NULL = literal(None, FLOAT64)


def _string_indexer(stage: Any, columns: Columns) -> None:
    keep = stage.getHandleInvalid() == "keep"
    for (source, target), labels in zip(columns_in_and_out(stage), stage.labelsArray, strict=True):
        extra = literal(float(len(labels))) if keep else NULL
        found = _place(columns.read(source, STRING), source, list(labels), extra)
        if not keep:
            found = found.demand(
                f"column {source!r} holds a null, or a label that the StringIndexer of {target!r} did not see when it "
                f'was fitted, and its handleInvalid is "error". Fit it with handleInvalid="keep": such rows then have '
                f"the index {len(labels)}."
            )
        columns.put(target, found, values=len(labels) + keep, most=len(labels) + keep, demanded=True)


def _place(column: Made, name: str, labels: list[str], unseen: Literal) -> Expression:
    """The place of each value among the labels, which are texts whatever the column was."""
    kind = column.type.kind
    if kind == "float":
        return _place_of_float(column.tree, column.type, labels, unseen)
    if kind not in ("string", "int"):
        raise Refused(f"column {name!r} is {column.type}, and must be a text or a number")
    x, keys = column.tree, Vocabulary(labels)
    if kind == "int" and all(_is_whole(label) for label in labels):
        keys = Vocabulary([int(label) for label in labels])
    elif kind == "int":
        x = x.cast("string")
    if unseen.value is None:
        return when(x.is_null(), NULL).otherwise(x.index_in(keys, 0) - 1.0)
    extra = float(len(labels))
    return x.look_up(Vocabulary(keys.array, list(map(float, range(len(labels))))), extra, extra)


def _is_whole(label: str) -> bool:
    try:
        return str(int(label)) == label
    except ValueError:
        return False


def _place_of_float(x: Expression, of: Type, labels: list[str], unseen: Literal) -> Expression:
    """Numbers have no texts here, so labels become numbers: found among sorted edges, if equal to the one below."""
    at: dict[str, Expression] = {label: lit(float(place)) for place, label in enumerate(labels)}
    found = when(x.is_null(), unseen).when(x.is_nan(), at.get("NaN", unseen))
    for label in ("Infinity", "-Infinity"):
        found = found.when(x == float(label), at.get(label, unseen))
    # Java writes both zeros, so they are two labels.
    found = found.when(x == 0.0, when(1.0 / x > 0.0, at.get("0.0", unseen)).otherwise(at.get("-0.0", unseen)))
    numbers = {_number(label, of): place for place, label in enumerate(labels) if "." in label}
    edges = sorted(number for number in numbers if number and math.isfinite(number))
    if not edges:
        return found.otherwise(unseen)
    below, keys = x.bucketize(edges), list(range(1, len(edges) + 1))
    edge = below.look_up(Vocabulary(keys, edges), 0.0, 0.0)
    place = below.look_up(Vocabulary(keys, [numbers[each] for each in edges]), 0.0, 0.0)
    return found.when(x == edge, place).otherwise(unseen)


def _number(label: str, of: Type) -> float:
    try:
        number = float(label)
        return struct.unpack("f", struct.pack("f", number))[0] if of == FLOAT32 else number
    except (ValueError, OverflowError):
        return math.nan


def _one_hot_encoder(stage: Any, columns: Columns) -> None:
    keep, drop = stage.getHandleInvalid() == "keep", stage.getDropLast()
    for (source, target), size in zip(columns_in_and_out(stage), stage.categorySizes, strict=True):
        column, length = columns.read(source, FLOAT64), size + keep - drop
        if length < 1:
            raise Refused(
                f"column {target!r} would hold vectors without elements: {source!r} has one category, and dropLast "
                "leaves it out"
            )
        place = columns.number(source)
        # Of what a StringIndexer or a Bucketizer gives, it is known that nothing is out of range.
        if column.most is None or column.most > size:
            place = _category(place, size, keep, source, target)
        hot = place.cast("int64").one_hot(size + keep)
        columns.put(target, hot.pad(length, 0.0) if drop else hot, sparse=True, demanded=column.demanded)


def _category(x: Expression, size: int, keep: bool, source: str, target: str) -> Expression:
    inside = when((x >= 0.0) & (x < float(size)), x)
    if keep:
        return when(x.is_null(), NULL).otherwise(inside.otherwise(float(size)))
    return _demanded(
        x,
        inside.otherwise(NULL),
        f"column {source!r} holds a value that is none of the {size} categories of the OneHotEncoder of {target!r}, "
        'and its handleInvalid is "error". Set it to "keep" for a category of their own.',
    )


def _demanded(x: Expression, found: Expression, message: str) -> Expression:
    """What was found, null where x is, and an error where there is nothing for an x that is not null."""
    there = when(x.is_null(), 0.0).otherwise(found).demand(message)
    return when(x.is_null(), NULL).otherwise(there)


def _imputer(stage: Any, columns: Columns) -> None:
    missing, surrogates = stage.getMissingValue(), stage.surrogateDF.first()
    for source, target in columns_in_and_out(stage):
        column, value = columns.read(source, FLOAT64), float(surrogates[source])
        if not column.type.is_number:
            raise Refused(f"column {source!r} is {column.type}, and must be a number")
        x = column.tree
        absent = x.is_nan() if math.isnan(missing) else x == missing
        if column.type.kind == "int" and math.isnan(missing):
            found = when(x.is_null(), value).otherwise(x)
        else:
            found = when(x.is_null() | absent, value).otherwise(x)
        # It gives the type it reads: the mean of whole numbers is cut to one.
        found = found if column.type == FLOAT64 else found.cast(str(column.type))
        no_nan = math.isnan(missing) and math.isfinite(value)
        columns.put(target, found, demanded=no_nan or column.type.kind == "int")


def _bucketizer(stage: Any, columns: Columns) -> None:
    pairs, keep = columns_in_and_out(stage), stage.getHandleInvalid() == "keep"
    several = stage.isSet("inputCols")
    for (source, target), splits in zip(
        pairs, stage.getSplitsArray() if several else [stage.getSplits()], strict=True
    ):
        x, buckets = columns.number(source), len(splits) - 1
        rules = _rules(x, [float(split) for split in splits])
        if keep:
            rules = [(x.is_nan(), lit(float(buckets))), *rules]
        place = x.bucketize([float(split) for split in splits[1:-1]]).cast("float64")
        found = _choose(rules, place)
        if not keep or math.isfinite(splits[0]) or math.isfinite(splits[-1]):
            nan = "" if keep else "nan, or "
            found = _demanded(
                x,
                found,
                f"column {source!r} holds {nan}a value outside of {splits[0]} to {splits[-1]}, and the Bucketizer of "
                f'{target!r} has no bucket for it (handleInvalid is "{stage.getHandleInvalid()}"). Begin and end the '
                'splits with infinities; with handleInvalid="keep" nan has a bucket of its own.',
            )
        columns.put(target, found, values=buckets, most=buckets + keep)


def _rules(x: Expression, splits: Sequence[float]) -> list[tuple[Expression, Expression]]:
    """What to ask before the bucket: whether x lies outside, and whether it is the zero that Java puts below 0."""
    rules: list[tuple[Expression, Expression]] = []
    zero = next(
        (place for place, split in enumerate(splits) if split == 0 and math.copysign(1, split) > 0), None
    )
    if zero is not None and zero < len(splits) - 1:
        below = lit(float(zero - 1)) if zero else NULL
        rules.append(((x == 0.0) & (1.0 / x < 0.0), below))
    if math.isfinite(splits[0]):
        rules.append((x < splits[0], NULL))
    if math.isfinite(splits[-1]):
        rules.append((x > splits[-1], NULL))
    return rules


def _choose(rules: list[tuple[Expression, Expression]], otherwise: Expression) -> Expression:
    if not rules:
        return otherwise
    chosen = when(*rules[0])
    for condition, value in rules[1:]:
        chosen = chosen.when(condition, value)
    return chosen.otherwise(otherwise)


def _binarizer(stage: Any, columns: Columns) -> None:
    pairs = columns_in_and_out(stage)
    several = stage.isSet("inputCols") and stage.isSet("thresholds")
    thresholds = stage.getThresholds() if several else [stage.getThreshold()] * len(pairs)
    for (source, target), threshold in zip(pairs, thresholds, strict=True):
        if columns.read(source, FLOAT64).type.kind != "list":
            # A null is not above the threshold either; MLlib says 0 as well.
            columns.put(target, when(columns.number(source) > threshold, 1.0).otherwise(0.0), demanded=True)
            continue
        x, _ = columns.vector(source)
        # Below a threshold under zero MLlib looks for what is not above it, and nan is not found.
        known = x.each("if_nan", math.inf) if threshold < 0 else x
        columns.put(target, known.each("gt", threshold))


STAGES: dict[str, Callable[[Any, Columns], None]] = {
    "StringIndexerModel": _string_indexer,
    "OneHotEncoderModel": _one_hot_encoder,
    "ImputerModel": _imputer,
    "Bucketizer": _bucketizer,
    "Binarizer": _binarizer,
}
