"""What is known of columns while a pipeline's stages are walked: how each is computed, and of what type it is.

Stages ask for a number, a vector or whatever there is. A column that no stage made is one of the data's: its type is
the schema's, or else what the first stage that reads it expects.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.errors import ExpressionError
from penstock.expr.build import col
from penstock.expr.check import type_of
from penstock.expr.nodes import Expression
from penstock.expr.types import FLOAT64, Type, list_of

OUTPUTS = ("outputCol", "predictionCol", "rawPredictionCol", "probabilityCol")


class Refused(ExpressionError):
    """Why a stage has no expression; `from_mllib` says of which stage."""


class Lost(Exception):
    """A stage reads what a stage made that was refused itself."""


@dataclass(frozen=True)
class Made:
    """A column that a stage made, or one of the data's."""

    tree: Expression
    type: Type
    values: int | None = None
    """How many values it has where these are the numbers of categories, as MLlib's metadata would say."""
    most: int | None = None
    """The same as it is: a bucket for nan does not stand in the metadata."""
    sparse: bool = False
    """Whether MLlib holds it as a sparse vector, whose zeros swallow infinity and nan."""
    demanded: bool = False
    """Whether it can be null or nan only where an error was raised already."""


class Columns:
    """All columns so far."""

    def __init__(self, schema: Mapping[str, Type]) -> None:
        self._schema = schema
        self._lost: set[str] = set()
        self.inputs: dict[str, Type] = {}
        """The data's columns that were asked for."""
        self.made: dict[str, Made] = {}
        """Those that stages made."""

    def put(
        self,
        name: str,
        tree: Expression,
        *,
        values: int | None = None,
        most: int | None = None,
        sparse: bool = False,
        demanded: bool = False,
    ) -> None:
        """Take a column that a stage adds."""
        self.made[name] = Made(tree, type_of(tree, self.inputs), values, most, sparse, demanded)

    def lose(self, names: Iterable[str]) -> None:
        """Take note of columns that are missing because their stage was refused."""
        self._lost.update(names)

    def read(self, name: str, expected: Type | None) -> Made:
        """A column; one of the data's is of the type expected, if the schema does not say another."""
        if name in self._lost:
            raise Lost
        if name in self.made:
            return self.made[name]
        of = self._schema.get(name) or self.inputs.get(name) or expected
        if of is not None and of.kind == "vector":
            of = expected  # it is read as a list, and no schema says how long it is
        if of is None:
            raise Refused(
                f"the length of the vectors in column {name!r} is not known. Say it: "
                f'schema={{{name!r}: "list<float64>[n]"}}'
            )
        if of.kind == "list" and of.length is None and expected is not None and expected.kind == "list":
            of = list_of(of.item, expected.length)
        self.inputs[name] = of
        return Made(col(name), of)

    def number(self, name: str) -> Expression:
        """A column of numbers or truth values, as float64."""
        found = self.read(name, FLOAT64)
        if found.type.kind not in ("bool", "int", "float"):
            raise Refused(f"column {name!r} is {found.type}, and must be a number.{self._assumed(name)}")
        return as_number(found)

    def vector(self, name: str, length: int | None = None) -> tuple[Expression, int]:
        """A column of vectors, and their length; `length` is what the stage was fitted on."""
        found = self.read(name, None if length is None else list_of(FLOAT64, length))
        of = found.type
        if of.kind != "list" or not of.item.is_number:
            raise Refused(f"column {name!r} is {of}, and must be a list of numbers.{self._assumed(name)}")
        if of.length is None:
            raise Refused(
                f'column {name!r} is {of}, and its length must be known: schema={{{name!r}: "{of}[n]"}}'
            )
        if length is not None and of.length != length:
            raise Refused(
                f"it was fitted on vectors of {length} elements, and column {name!r} has {of.length} here. Where a "
                'column that goes into it holds vectors, give its length: schema={"...": "list<float64>[n]"}'
            )
        return found.tree, of.length

    def _assumed(self, name: str) -> str:
        if name in self.made or name in self._schema:
            return ""
        return f" Another stage reads it as that; say what it is: schema={{{name!r}: ...}}"


def as_number(column: Made) -> Expression:
    """A single value as MLlib casts it to double."""
    return column.tree if column.type == FLOAT64 else column.tree.cast("float64")


def columns_in_and_out(stage: Any) -> list[tuple[str, str]]:
    """A stage's input columns, each with its output column; one pair of a stage of one column."""
    if stage.hasParam("inputCols") and stage.isSet("inputCols"):
        return list(zip(stage.getInputCols(), stage.getOutputCols(), strict=True))
    return [(stage.getInputCol(), stage.getOutputCol())]


def outputs_of(stage: Any) -> list[str]:
    """The names of the columns a stage adds, as far as its parameters tell."""
    found = [stage.getOrDefault(name) for name in OUTPUTS if stage.hasParam(name) and stage.isDefined(name)]
    if stage.hasParam("outputCols") and stage.isDefined("outputCols"):
        found += stage.getOrDefault("outputCols")
    return found
