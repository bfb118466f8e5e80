"""What a request for tensors means, given what each column is: a plan, made from the schema alone.

`read_request` takes the user's words apart, `locate` finds the columns, `make_plan` decides dtypes, pieces and what
stands for nulls. Nothing here knows where the columns lie: `penstock.jobs.selection` looks them up in a DataFrame,
`penstock.wire.arrow_source` in an Arrow schema. `penstock.dtypes` holds the type table, `penstock.wire.plan` the
result's types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.dtypes import DTYPES, FLOAT64_DIGITS, DType, Fate, parse_dtype, promote
from penstock.errors import SelectionError, listed
from penstock.wire.nulls import NullPolicy, Nulls
from penstock.wire.plan import Piece, Plan, TensorPlan

SINGLE = "tensor"
"""The name in messages of a tensor the user did not name."""


@dataclass(frozen=True)
class RaggedColumn:
    """A column whose rows may have unequal lengths; made by `ragged`."""

    name: str


def ragged(column: str) -> RaggedColumn:
    """A column of lists as a tensor whose rows have lengths of their own, for `pk.write`.

    Only the outermost lists may differ in length; lists inside them must all be equally long. A null row, where `nulls`
    gives a value, becomes an empty one, because no length is known; a null element becomes the value. Strings and bytes
    have lengths of their own anyway and need no `ragged`.

    >>> {"tokens": ragged("tokens"), "y": "label"}
    {'tokens': RaggedColumn(name='tokens'), 'y': 'label'}
    """
    if not isinstance(column, str):
        raise SelectionError(f"pk.ragged takes the name of one column, and this is {column!r}.")
    return RaggedColumn(column)


OneTensor = str | RaggedColumn | Sequence[str]
Tensors = OneTensor | Mapping[str, OneTensor] | None
"""What users pass: nothing for every column, a column, a list of columns, or a mapping of names to either."""


@dataclass(frozen=True)
class Wanted:
    """One tensor as the user asked for it."""

    name: str
    columns: tuple[str, ...]
    matrix: bool = False
    ragged: bool = False


@dataclass(frozen=True)
class Request:
    """The user's words, taken apart; `single`: one tensor was asked for, not a dictionary of them."""

    tensors: tuple[Wanted, ...]
    single: bool

    @property
    def columns(self) -> list[str]:
        """Every column that a tensor uses, once."""
        return list(dict.fromkeys(column for tensor in self.tensors for column in tensor.columns))


@dataclass(frozen=True)
class Located:
    """A column, or a struct's field: the way to it, and its type in the words of where it lies."""

    path: tuple[str, ...]
    type: Any


SharedRun = Callable[[Fate, DType], str | None]
"""A word that neighbouring columns of a 2-D tensor have in common when they cross side by side in one list; None for a
column that crosses by itself."""


def read_request(tensors: Tensors, columns: Sequence[str]) -> Request:
    """Take the user's words apart; `columns` are those there are.

    >>> read_request({"x": ["a", "b"]}, []).tensors
    (Wanted(name='x', columns=('a', 'b'), matrix=True, ragged=False),)
    """
    if tensors is None:
        wanted, single = tuple(Wanted(column, (column,)) for column in columns), False
    elif isinstance(tensors, Mapping):
        wanted, single = tuple(_wanted(str(name), given) for name, given in tensors.items()), False
    else:
        wanted, single = (_wanted(SINGLE, tensors),), True
    if not wanted:
        raise SelectionError(
            "no tensors were asked for: the DataFrame, or the mapping given, has no columns."
        )
    return Request(wanted, single)


def _wanted(name: str, given: object) -> Wanted:
    if isinstance(given, str):
        return Wanted(name, (given,))
    if isinstance(given, RaggedColumn):
        return Wanted(name, (given.name,), ragged=True)
    if isinstance(given, Sequence) and given and all(isinstance(column, str) for column in given):
        return Wanted(name, tuple(given), matrix=True)
    if isinstance(given, Sequence) and any(isinstance(column, RaggedColumn) for column in given):
        raise SelectionError(
            f"tensor {name!r} is given as {given!r}, and a ragged column cannot stand beside others. Give each a "
            "tensor of its own: {'name': pk.ragged('column')}."
        )
    raise SelectionError(
        f"tensor {name!r} is given as {given!r}; it takes a column's name or a list of names, and the list must not "
        "be empty. Compute new columns first: df.withColumn('name', expression)."
    )


def locate(
    names: Sequence[str],
    schema: Sequence[tuple[str, Any]],
    fields_of: Callable[[Any], Mapping[str, Any]],
    holder: str,
) -> dict[str, Located]:
    """Look every name up: a column, or a struct's field as 'column.field'."""
    columns = [name for name, _ in schema]
    twice = [name for name in names if columns.count(name) > 1]
    if twice:
        raise SelectionError(
            f"the {holder} has more than one column named {listed(twice)}; rename them first."
        )
    missing = [name for name in names if name not in columns and name.split(".")[0] not in columns]
    if missing:
        raise SelectionError(f"no column {listed(missing)} in the {holder}; it has {listed(columns)}.")
    types, found = dict(schema), {}
    for name in names:
        path = (name,) if name in types else tuple(name.split("."))
        found[name] = Located(path, _type_at(name, types[path[0]], path[1:], fields_of))
    return found


def _type_at(name: str, kind: Any, path: Iterable[str], fields_of: Callable[[Any], Mapping[str, Any]]) -> Any:
    for part in path:
        fields = fields_of(kind)
        if part not in fields:
            raise SelectionError(
                f"no field {part!r} for {name!r}; there is {listed(list(fields)) or 'none'}."
            )
        kind = fields[part]
    return kind


def make_plan(
    request: Request, fates: Mapping[str, Fate], dtype: Any, nulls: Nulls, shared_run: SharedRun
) -> Plan:
    """Decide every tensor's dtype, its pieces, and what stands for its nulls."""
    policy = NullPolicy.of(nulls, list(fates))
    kinds = {wanted.name: _kind(wanted, fates) for wanted in request.tensors}
    dtypes = _dtypes(dtype, kinds, request.single)
    plans = []
    for wanted in request.tensors:
        kind = kinds[wanted.name]
        target = dtypes.get(wanted.name) or _natural(wanted, fates)
        pieces = [
            Piece(
                tuple(run),
                tuple(policy.fill(column, target, kind) for column in run),
                fates[run[0]].depth,
                packed=len(run) > 1,
                lengths=fates[run[0]].lengths if kind == "fixed" else None,
            )
            for run in _runs(wanted, fates, target, shared_run)
        ]
        plans.append(TensorPlan(wanted.name, target.name, tuple(pieces), wanted.matrix, kind))
    return Plan(tuple(plans))


def _kind(wanted: Wanted, fates: Mapping[str, Fate]) -> str:
    first = wanted.columns[0]
    if wanted.matrix:
        texts = [column for column in wanted.columns if fates[column].kind != "fixed"]
        if texts:
            raise SelectionError(
                f"columns {listed(texts)} hold strings or bytes and cannot stand in a 2-D tensor. Give each a tensor "
                f"of its own: {{'name': {texts[0]!r}}}."
            )
    elif wanted.ragged and fates[first].kind == "fixed":
        if fates[first].depth == 0:
            raise SelectionError(
                f"column {first!r} is asked for as pk.ragged({first!r}) and holds no lists, but one value a row. Ask "
                f"for {first!r} itself."
            )
        return "ragged"
    return fates[first].kind


def _dtypes(dtype: Any, kinds: Mapping[str, str], single: bool) -> dict[str, DType]:
    """What the user named, per tensor; one dtype for all means all tensors of numbers."""
    texts = {name: kind for name, kind in kinds.items() if kind in ("string", "binary")}
    if dtype is None:
        return {}
    if not isinstance(dtype, Mapping):
        return dict.fromkeys([name for name in kinds if name not in texts], parse_dtype(dtype))
    unknown = [str(name) for name in dtype if name not in kinds]
    if single or unknown:
        raise SelectionError(
            f"dtype is given for tensors {listed(unknown or list(map(str, dtype)))}, but the tensors are "
            f"{listed(list(kinds))}. Name one dtype for all, or use the tensors' names."
        )
    named = {name: parse_dtype(given) for name, given in dtype.items() if given is not None}
    for name, kind in texts.items():
        if name in named and named[name].name != "uint8":
            raise SelectionError(
                f"tensor {name!r} holds a {kind} per row, as bytes (uint8), and {named[name].name} was asked for. "
                "Leave its dtype out, or turn it into numbers first."
            )
    return named


def _natural(wanted: Wanted, fates: Mapping[str, Fate]) -> DType:
    """The dtype a tensor has when the user named none: nothing may be lost."""
    for column in wanted.columns:
        digits = fates[column].decimal_digits
        if digits > FLOAT64_DIGITS:
            raise SelectionError(
                f"column {column!r} is a decimal of {digits} digits, more than float64 keeps ({FLOAT64_DIGITS}). Name "
                "a dtype to round it (dtype='float64'), or cast it first."
            )
    common = promote(fates[column].dtype for column in wanted.columns)
    if common is None:
        shown = ", ".join(f"{column} {fates[column].dtype}" for column in wanted.columns[:8])
        raise SelectionError(
            f"tensor {wanted.name!r} mixes columns that no one dtype holds without loss ({shown}). Name one: "
            "dtype='float32', say."
        )
    return DTYPES[common]


def _runs(wanted: Wanted, fates: Mapping[str, Fate], target: DType, shared_run: SharedRun) -> list[list[str]]:
    """The tensor's columns cut into runs that cross as one array column each."""
    if not wanted.matrix:
        return [list(wanted.columns)]
    deep = [
        column for column in wanted.columns if fates[column].depth > 1 or len(fates[column].lengths or ()) > 1
    ]
    if deep:
        raise SelectionError(
            f"columns {listed(deep)} hold nested lists and cannot stand beside others in one 2-D tensor. Give each a "
            f"tensor of its own: {{'name': {deep[0]!r}}}."
        )
    runs: list[list[str]] = []
    before = None
    for column in wanted.columns:
        word = None if fates[column].depth else shared_run(fates[column], target)
        if word is not None and word == before:
            runs[-1].append(column)
        else:
            runs.append([column])
        before = word
    return runs
