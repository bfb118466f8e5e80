"""The tensors a user asks for, against a DataFrame's schema: what to select in Spark, and the plan of the crossing.

Everything is decided from the schema alone, before any row moves: which columns leave the JVM, in which type, and what
they become. Casts that only round (to float32 and float64) are native Spark casts; casts that could overflow are left
to the workers, which check every value. `penstock.dtypes` holds the table, `penstock.wire.plan` the result's types.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.dtypes import DTYPES, FLOAT64_DIGITS, NATIVE_ONLY, DType, Fate, fate, parse_dtype, promote
from penstock.errors import SelectionError, listed
from penstock.wire.plan import Fill, Piece, Plan, TensorPlan

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

Tensors = str | Sequence[str] | Mapping[str, str | Sequence[str]] | None
Nulls = str | bool | int | float | Mapping[str, bool | int | float]

SINGLE = "tensor"
"""The name in messages of a tensor the user did not name."""


@dataclass(frozen=True)
class Selection:
    """A checked request: the plan, the Spark expressions that make its pieces, and the result's outer shape."""

    plan: Plan
    columns: tuple[Column, ...]
    single: bool
    """One tensor was asked for, not a dictionary of them."""


@dataclass(frozen=True)
class Source:
    """One column of the DataFrame: how it is named in Spark, and what its type becomes."""

    name: str
    reference: str
    fate: Fate


def select(df: DataFrame, tensors: Tensors, dtype: Any, nulls: Nulls) -> Selection:
    """Check a request against the DataFrame's schema and plan its crossing."""
    wanted, single = _wanted(df, tensors)
    if not wanted:
        raise SelectionError(
            "no tensors were asked for: the DataFrame, or the mapping given, has no columns."
        )
    sources = _sources(df, [column for columns, _ in wanted.values() for column in columns])
    policy = NullPolicy.of(nulls, [source.name for source in sources.values()])
    dtypes = _dtypes(dtype, list(wanted), single)
    plans, expressions = [], []
    for name, (columns, matrix) in wanted.items():
        chosen = [sources[column] for column in columns]
        target = dtypes.get(name) or _natural(name, chosen)
        pieces, crossing = _pieces(chosen, target, matrix, policy)
        plans.append(TensorPlan(name, target.name, tuple(pieces), matrix))
        expressions += crossing
    named = tuple(column.alias(f"p{place}") for place, column in enumerate(expressions))
    return Selection(Plan(tuple(plans)), named, single)


def _wanted(df: DataFrame, tensors: Tensors) -> tuple[dict[str, tuple[list[str], bool]], bool]:
    """Tensor name -> (columns, whether it is a matrix), and whether a single tensor is the answer."""
    if tensors is None:
        return {column: ([column], False) for column in df.columns}, False
    if isinstance(tensors, str):
        return {SINGLE: ([tensors], False)}, True
    if isinstance(tensors, Mapping):
        return {str(name): _columns(name, columns) for name, columns in tensors.items()}, False
    return {SINGLE: _columns(SINGLE, tensors)}, True


def _columns(name: object, columns: object) -> tuple[list[str], bool]:
    if isinstance(columns, str):
        return [columns], False
    if isinstance(columns, Sequence) and columns and all(isinstance(column, str) for column in columns):
        return list(columns), True
    raise SelectionError(
        f"tensor {name!r} is given as {columns!r}; it takes a column's name or a list of names, and the list must not "
        "be empty. Compute new columns first: df.withColumn('name', expression)."
    )


def _sources(df: DataFrame, names: list[str]) -> dict[str, Source]:
    """Look every name up: a column, or a struct's field as 'column.field'."""
    columns = df.columns
    twice = [name for name in dict.fromkeys(names) if columns.count(name) > 1]
    if twice:
        raise SelectionError(
            f"the DataFrame has more than one column named {listed(twice)}; rename them first."
        )
    missing = [name for name in names if name not in columns and name.split(".")[0] not in columns]
    if missing:
        raise SelectionError(f"no column {listed(missing)} in the DataFrame; it has {listed(columns)}.")
    types = {field.name: field.dataType for field in df.schema.fields}
    sources = {}
    for name in dict.fromkeys(names):
        whole = name in columns
        parts = [name] if whole else name.split(".")
        kind = types[name] if whole else _field_type(name, types[parts[0]], parts[1:])
        reference = ".".join(f"`{part.replace('`', '``')}`" for part in parts)
        sources[name] = Source(name, reference, fate(name, kind))
    return sources


def _field_type(name: str, kind: Any, path: list[str]) -> Any:
    for part in path:
        fields = {field.name: field.dataType for field in getattr(kind, "fields", [])}
        if part not in fields:
            raise SelectionError(
                f"no field {part!r} for {name!r}; there is {listed(list(fields)) or 'none'}."
            )
        kind = fields[part]
    return kind


def _dtypes(dtype: Any, names: list[str], single: bool) -> dict[str, DType]:
    if dtype is None:
        return {}
    if not isinstance(dtype, Mapping):
        return dict.fromkeys(names, parse_dtype(dtype))
    unknown = [str(name) for name in dtype if name not in names]
    if single or unknown:
        raise SelectionError(
            f"dtype is given for tensors {listed(unknown or list(map(str, dtype)))}, but the tensors are "
            f"{listed(names)}. Name one dtype for all, or use the tensors' names."
        )
    return {name: parse_dtype(given) for name, given in dtype.items() if given is not None}


def _natural(name: str, sources: list[Source]) -> DType:
    """The dtype a tensor has when the user named none: nothing may be lost."""
    for source in sources:
        if source.fate.decimal_digits > FLOAT64_DIGITS:
            raise SelectionError(
                f"column {source.name!r} is a decimal of {source.fate.decimal_digits} digits, more than float64 keeps "
                f"({FLOAT64_DIGITS}). Name a dtype to round it (dtype='float64'), or cast it in Spark."
            )
    common = promote(source.fate.dtype for source in sources)
    if common is None:
        kinds = ", ".join(f"{source.name} {source.fate.dtype}" for source in sources[:8])
        raise SelectionError(
            f"tensor {name!r} mixes columns that no one dtype holds without loss ({kinds}). Name one: "
            "dtype='float32', say."
        )
    return DTYPES[common]


def _pieces(
    sources: list[Source], target: DType, matrix: bool, policy: NullPolicy
) -> tuple[list[Piece], list[Column]]:
    """The tensor's columns cut into runs that cross as one array column each."""
    if not matrix:
        source = sources[0]
        piece = Piece((source.name,), (policy.fill(source.name, target),), source.fate.depth)
        return [piece], [_crossing(source, target)]
    deep = [source.name for source in sources if source.fate.depth > 1]
    if deep:
        raise SelectionError(
            f"columns {listed(deep)} hold nested lists and cannot stand beside others in one 2-D tensor. Give each a "
            f"tensor of its own: {{'name': {deep[0]!r}}}."
        )
    pieces: list[Piece] = []
    crossing: list[Column] = []
    for run in _runs(sources, target):
        names = tuple(source.name for source in run)
        fills = tuple(policy.fill(name, target) for name in names)
        columns = [_crossing(source, target) for source in run]
        packed = len(run) > 1
        pieces.append(Piece(names, fills, run[0].fate.depth, packed))
        crossing.append(_array(columns) if packed else columns[0])
    return pieces, crossing


def _array(columns: list[Column]) -> Column:
    from pyspark.sql import functions as F

    return F.array(*columns)


def _runs(sources: list[Source], target: DType) -> list[list[Source]]:
    """Neighbouring scalars that cross in one type share a run; everything else stands alone."""
    runs: list[list[Source]] = []
    for source in sources:
        kind = _packable(source, target)
        if runs and kind is not None and kind == _packable(runs[-1][-1], target):
            runs[-1].append(source)
        else:
            runs.append([source])
    return runs


def _packable(source: Source, target: DType) -> str | None:
    if source.fate.depth or source.fate.leaf in NATIVE_ONLY:
        return None
    cast = _native_cast(source.fate, target)
    return cast if cast is not None or source.fate.leaf != "DecimalType" else None


def _native_cast(origin: Fate, target: DType) -> str | None:
    """The Spark type to cast to before crossing; None to cross as it is.

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


def _crossing(source: Source, target: DType) -> Column:
    from pyspark.sql import functions as F

    column = F.col(source.reference)
    cast = _native_cast(source.fate, target)
    if source.fate.vector:
        from pyspark.ml.functions import vector_to_array

        # vector_to_array refuses nulls; a null vector must cross as a null list.
        width = "float32" if target.name == "float32" else "float64"
        return F.when(column.isNotNull(), vector_to_array(column, dtype=width))
    if cast is None or (source.fate.leaf != "DecimalType" and cast == DTYPES[source.fate.dtype].spark):
        return column
    return column.cast("array<" * source.fate.depth + cast + ">" * source.fate.depth)


@dataclass(frozen=True)
class NullPolicy:
    """What stands for a null, per column; nothing means nulls are refused."""

    everywhere: bool | int | float | None
    per_column: Mapping[str, bool | int | float]

    @staticmethod
    def of(nulls: Nulls, columns: Sequence[str]) -> NullPolicy:
        """Check what the user passed as `nulls`."""
        if isinstance(nulls, Mapping):
            unknown = [str(name) for name in nulls if name not in columns]
            if unknown:
                raise SelectionError(f"nulls names columns {listed(unknown)} that no tensor uses.")
            return NullPolicy(None, nulls)
        if nulls == "error":
            return NullPolicy(None, {})
        if nulls == "nan":
            return NullPolicy(math.nan, {})
        if isinstance(nulls, bool | int | float):
            return NullPolicy(nulls, {})
        raise SelectionError(
            f'nulls={nulls!r} is not understood: pass "error", "nan", a number, or a mapping of columns to numbers.'
        )

    def fill(self, column: str, dtype: DType) -> Fill:
        """The value for nulls of this column, checked against the tensor's dtype; None refuses them."""
        value = self.per_column.get(column, self.everywhere)
        if value is None:
            return None
        if not _representable(value, dtype):
            shown = "NaN" if isinstance(value, float) and math.isnan(value) else repr(value)
            raise SelectionError(
                f"nulls of column {column!r} cannot become {shown} in a tensor of {dtype.name}. Choose a value that "
                f"{dtype.name} holds, or another dtype."
            )
        return value


def _representable(value: bool | int | float, dtype: DType) -> bool:
    if dtype.is_float:
        return not isinstance(value, int) or abs(value) <= 1 << dtype.exact_bits
    if isinstance(value, float) and (not math.isfinite(value) or value != int(value)):
        return False
    whole = int(value)
    if dtype.kind == "bool":
        return whole in (0, 1)
    low = -(1 << dtype.exact_bits) if dtype.kind == "int" else 0
    return low <= whole < (1 << dtype.exact_bits)
