"""The tensors a user asks for, against a DataFrame's schema: what to select in Spark, and the plan of the crossing.

Everything is decided from the schema alone, before any row moves: which columns leave the JVM, in which type, and what
they become. Casts that only round (to float32 and float64) are native Spark casts; casts that could overflow are left
to the workers, which check every value. What a request means apart from Spark is in `penstock.wire.selection`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.dtypes import DTYPES, NATIVE_ONLY, DType, Fate, fate
from penstock.errors import SelectionError
from penstock.wire.nulls import Nulls as Nulls
from penstock.wire.plan import Piece, Plan
from penstock.wire.selection import Located, Request, locate, make_plan, read_request
from penstock.wire.selection import Tensors as Tensors

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


@dataclass(frozen=True)
class Selection:
    """A checked request: the plan, the Spark expressions that make its pieces, and the result's outer shape."""

    plan: Plan
    columns: tuple[Column, ...]
    single: bool
    """One tensor was asked for, not a dictionary of them."""


def select(df: DataFrame, tensors: Tensors, dtype: Any, nulls: Nulls, *, ragged: bool = False) -> Selection:
    """Check a request against the DataFrame's schema and plan its crossing.

    `ragged`: rows may have lengths of their own, as `penstock.wire.selection.ragged` columns, strings and bytes have.
    """
    request = read_request(tensors, df.columns)
    if not ragged:
        _refuse_ragged(request)
    schema = [(field.name, field.dataType) for field in df.schema.fields]
    found = locate(request.columns, schema, _fields, "DataFrame")
    fates = {name: fate(name, each.type, texts=ragged) for name, each in found.items()}
    plan = make_plan(request, fates, dtype, nulls, _native_cast)
    crossing = [
        _crossing(piece, tensor.type, found, fates) for tensor in plan.tensors for piece in tensor.pieces
    ]
    named = tuple(column.alias(f"p{place}") for place, column in enumerate(crossing))
    return Selection(plan, named, request.single)


def _refuse_ragged(request: Request) -> None:
    for wanted in request.tensors:
        if wanted.ragged:
            column = wanted.columns[0]
            raise SelectionError(
                f"tensor {wanted.name!r} is asked for as pk.ragged({column!r}), and rows of unequal lengths do not fit "
                f"one array. Pad or cut the lists in Spark and ask for {column!r}, or write a dataset, which keeps "
                f'ragged tensors: pk.write(df, "path", tensors={{{wanted.name!r}: pk.ragged({column!r})}}).'
            )


def _fields(spark_type: Any) -> dict[str, Any]:
    return {field.name: field.dataType for field in getattr(spark_type, "fields", [])}


def _native_cast(origin: Fate, target: DType) -> str | None:
    """The Spark type to cast to before crossing; None to cross as it is, and by itself.

    Only casts that cannot fail: to float32 and float64 from any number, and to wider integers. A decimal on its way to
    a half float goes through double, because only the JVM rounds decimals right.
    """
    if origin.leaf in NATIVE_ONLY:
        return None
    if target.name in ("float32", "float64"):
        return target.spark
    if target.is_float:
        return "double" if origin.leaf == "DecimalType" else DTYPES[origin.dtype].spark
    natural = DTYPES[origin.dtype]
    widens = target.kind == "int" and not natural.is_float and natural.exact_bits <= target.exact_bits
    if origin.leaf == "DecimalType":
        return None
    return target.spark if widens else natural.spark


def _crossing(piece: Piece, target: DType, found: Mapping[str, Located], fates: Mapping[str, Fate]) -> Column:
    from pyspark.sql import functions as F

    columns = [_column(found[name].path, fates[name], target) for name in piece.columns]
    return F.array(*columns) if piece.packed else columns[0]


def _column(path: tuple[str, ...], origin: Fate, target: DType) -> Column:
    from pyspark.sql import functions as F

    column = F.col(".".join(f"`{part.replace('`', '``')}`" for part in path))
    if origin.kind != "fixed":
        return column.cast(origin.kind)
    if origin.vector:
        from pyspark.ml.functions import vector_to_array

        # vector_to_array refuses nulls; a null vector must cross as a null list.
        width = "float32" if target.name == "float32" else "float64"
        return F.when(column.isNotNull(), vector_to_array(column, dtype=width))
    cast = _native_cast(origin, target)
    if cast is None or (origin.leaf != "DecimalType" and cast == DTYPES[origin.dtype].spark):
        return column
    return column.cast("array<" * origin.depth + cast + ">" * origin.depth)
