"""`FittedRecipe`: tensors as plain expressions, with all that was learned as constants in them.

It computes the same values on Spark (`transform`), without a JVM (`arrow`) and on devices (`torch`, `module`). A null
that reaches a tensor is an error that names the column; `module` alone hands the mask out instead. `storage` keeps it
on disk.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.backends import engine
from penstock.errors import ExpressionError, NullReached, UnsupportedOperation, listed
from penstock.expr.check import Schema, columns_of, type_of
from penstock.expr.nodes import Call, Column, Expression
from penstock.expr.types import Type
from penstock.recipe.columns import arrow_columns, spark_columns
from penstock.recipe.fitting import Lesson
from penstock.recipe.outputs import Output, output
from penstock.recipe.report import Report, explained, fact
from penstock.recipe.storage import files, save

if TYPE_CHECKING:
    import torch
    from pyspark.sql import DataFrame


@dataclass(frozen=True, eq=False)
class FittedRecipe:
    """What `Recipe.fit` and `load_recipe` return.

    >>> from penstock.expr.build import col
    >>> from penstock.expr.types import FLOAT64
    >>> fitted = FittedRecipe({"x": col("a").clip(0, 1)}, {"a": FLOAT64})
    >>> fitted.inputs, fitted.outputs
    ({'a': float64}, {'x': Output(float64)})
    """

    tensors: Mapping[str, Expression]
    """Each tensor's plain expression."""
    inputs: Mapping[str, Type]
    """The columns that are read, with the types they had when it was fitted."""
    declared: Mapping[str, str] | None = None
    """What the tensors were before anything was learned, as code."""
    facts: Sequence[Mapping[str, Any]] = ()
    """What was learned, as plain values; `report` shows it."""

    @cached_property
    def outputs(self) -> dict[str, Output]:
        """The tensors' types, and how many ids their whole numbers can have: the rows of an embedding.

        >>> from penstock.expr.build import col, stack
        >>> from penstock.expr.types import STRING
        >>> ids = stack(col("a").index_in(["x", "y"]), col("b").hash(100), dtype="int32")
        >>> FittedRecipe({"ids": ids}, {"a": STRING, "b": STRING}).outputs["ids"].ids
        (4, 100)
        """
        return {name: output(tree, type_of(tree, self.inputs)) for name, tree in self.tensors.items()}

    @cached_property
    def _demanding(self) -> dict[str, Expression]:
        """The trees with the demand that no null reaches a tensor."""
        return {name: _demanded(name, tree, self.inputs) for name, tree in self.tensors.items()}

    @cached_property
    def _on_arrow(self) -> Any:
        return engine("arrow").prepare(self._demanding, self.inputs)

    @cached_property
    def _on_spark(self) -> Any:
        return engine("spark").prepare(self._demanding, self.inputs)

    @cached_property
    def _on_torch(self) -> Any:
        torch = engine("torch")
        try:
            return torch.prepare(self.tensors, self.inputs)
        except UnsupportedOperation as error:
            reason = error.reason + _others(torch, self.tensors, self.inputs)
            raise UnsupportedOperation(error.engine, error.operation, reason) from None

    def only(self, *tensors: str) -> FittedRecipe:
        """The recipe of these tensors alone, which reads no more columns than they do: in serving there is no label.

        >>> from penstock.expr.build import col
        >>> from penstock.expr.types import BOOL, FLOAT64
        >>> both = FittedRecipe({"x": col("a") * 2, "y": col("sold")}, {"a": FLOAT64, "sold": BOOL})
        >>> both.only("x").arrow({"a": [1.5]}).to_pydict()
        {'x': [3.0]}
        """
        unknown = [name for name in tensors if name not in self.tensors]
        if unknown or not tensors:
            said = (
                f"the recipe has no tensor {listed(unknown)}" if unknown else "only() names tensors to keep"
            )
            raise ExpressionError(f"{said}; there are {listed(list(self.tensors))}.")
        chosen = {name: self.tensors[name] for name in tensors}
        read = dict.fromkeys(name for tree in chosen.values() for name in columns_of(tree))
        return FittedRecipe(
            chosen,
            {name: self.inputs[name] for name in read},
            None if self.declared is None else {name: self.declared[name] for name in tensors},
            tuple(each for each in self.facts if set(each["columns"]) <= set(read)),
        )

    def transform(self, df: DataFrame, *, keep: Sequence[str] = (), vector: bool = False) -> DataFrame:
        """The tensors as columns of a DataFrame, by native Spark expressions; and the columns to keep before them.

        A null that reaches a tensor fails the job that computes it, with an error that names the column; so do a list
        of another length than the column had, and a whole number that float64 does not hold. A column whose type became
        wider is refused at once. With `vector`, tensors that are lists become vectors of MLlib, as its estimators want
        them.
        """
        found = self._on_spark(spark_columns(df, self.inputs, keep, list(self.tensors)), keep=list(keep))
        return _with_vectors(found, self.outputs) if vector else found

    def arrow(self, rows: Any) -> Any:
        """The tensors as columns of a pyarrow Table, without Spark or Java: for serving.

        `rows`: a pyarrow Table or RecordBatch, a mapping of names to lists, a list with a dictionary for each row, or
        anything pyarrow makes a table of. A value that does not fit the type its column had is an error; only a float64
        is rounded, where the column was float32.

        >>> from penstock.expr.build import col
        >>> from penstock.expr.types import FLOAT64
        >>> FittedRecipe({"x": col("a") * 2}, {"a": FLOAT64}).arrow({"a": [1, 2.5]}).to_pydict()
        {'x': [2.0, 5.0]}
        """
        return self._on_arrow(arrow_columns(rows, self.inputs))

    def torch(self, columns: Mapping[str, Any]) -> dict[str, torch.Tensor]:
        """The tensors out of columns that are tensors, on their device.

        A column with nulls is given as a pair: its values, and a bool tensor of which are valid. Texts have no tensor
        form; a recipe that reads some serves by `arrow`. A null that reaches a tensor is an error, as everywhere, and
        so is a value that does not fit the type its column had; to find them waits for the device. `module` does not.
        """
        self._on_torch.check(columns)
        found = {}
        for name, (values, valid) in self._on_torch(columns).items():
            if valid is not None and not bool(valid.all()):
                raise NullReached(_message(name, self.tensors[name]))
            found[name] = values
        return found

    def module(self) -> Any:
        """An `nn.Module`: tensors of columns in, the recipe's tensors and which of their rows are valid out.

        It can be part of a model and exported with it (`torch.export`). It takes the numbers it is given, also where
        the column's type had no room for them: `torch` and `arrow` refuse those.
        """
        from penstock.recipe.module import RecipeModule

        return RecipeModule(self._on_torch)

    def save(self, path: str | Path) -> None:
        """Write it as JSON; vocabularies of more than a thousand keys go into Arrow files beside it.

        `penstock.load_recipe` reads it back. Nothing is pickled.
        """
        save(self, path)

    def files(self) -> dict[str, bytes]:
        """What `save` writes, by name, for stores of your own: the JSON first."""
        return files(self)

    def explain(self) -> str:
        """How each tensor is computed, and what of it leaves the JVM on Spark.

        >>> from penstock.expr.build import col
        >>> from penstock.expr.types import FLOAT64
        >>> print(FittedRecipe({"x": col("a").clip(0, 1)}, {"a": FLOAT64}).explain())
        x: float64
          col('a').clip(0, 1)
        reads a: float64
        on Spark: native expressions, nothing leaves the JVM.
        """
        return explained(self.tensors, self.inputs, self.outputs, self.declared)

    def report(self) -> Report:
        """What was learned from which column: counts, nulls, moments, quantiles, sizes of vocabularies."""
        return Report(tuple(self.facts))

    def __repr__(self) -> str:
        inside = ",\n".join(f"    {name}={tree!r}" for name, tree in self.tensors.items())
        return f"FittedRecipe(\n{inside},\n)"


def fitted_from(
    plain: Mapping[str, Expression],
    schema: Schema,
    declared: Mapping[str, Expression],
    lessons: Sequence[Lesson],
) -> FittedRecipe:
    """A fitted recipe from what fitting found."""
    columns = dict.fromkeys(name for tree in plain.values() for name in columns_of(tree))
    return FittedRecipe(
        dict(plain),
        {name: schema[name] for name in columns},
        {name: repr(tree) for name, tree in declared.items()},
        tuple(fact(lesson) for lesson in lessons),
    )


def _demanded(tensor: str, tree: Expression, schema: Schema) -> Expression:
    """The tree with demands: where it stacks several values, one for each, so that the error can name the column."""
    if not isinstance(tree, Call) or tree.op != "stack":
        return tree.demand(_message(tensor, tree))
    dtype = dict(tree.params)["dtype"]
    parts = [_part(arg, dtype, schema).demand(_message(tensor, arg)) for arg in tree.of]
    return Call("stack", tuple(parts), tree.params)


def _part(arg: Expression, dtype: str, schema: Schema) -> Expression:
    """What is stacked, in the dtype of the whole: a number that does not fit it is null as well."""
    of = type_of(arg, schema)
    leaf = of.item if of.kind == "list" else of
    return arg if str(leaf) == dtype else arg.cast(dtype)


def _message(tensor: str, tree: Expression) -> str:
    columns = columns_of(tree)
    shown = repr(tree) if len(repr(tree)) <= 200 else repr(tree)[:197] + "..."
    source = f"column {columns[0]!r}" if len(columns) == 1 else f"columns {', '.join(map(repr, columns))}"
    remedy = (
        f"col({columns[0]!r}).fill(...)" if columns and isinstance(_innermost(tree), Column) else ".fill(...)"
    )
    return (
        f"a null reached tensor {tensor!r}, from {source}: {shown} has no value in some row, or one that does not fit "
        f"the tensor's dtype. Fill it: {remedy}."
    )


def _others(engine: Any, tensors: Mapping[str, Expression], inputs: Schema) -> str:
    """Which tensors an engine does not compute, and how to have those that it does."""
    fine = []
    for name, tree in tensors.items():
        with suppress(UnsupportedOperation):
            engine.prepare({name: tree}, inputs)
            fine.append(name)
    odd = listed([name for name in tensors if name not in fine])
    if not fine:
        return f" It is needed for {odd}."
    return f" It is needed for {odd}; leave that out: .only({', '.join(map(repr, fine))})."


def _innermost(tree: Expression) -> Expression:
    while tree.args:
        tree = tree.args[0]
    return tree


def _with_vectors(df: DataFrame, outputs: Mapping[str, Output]) -> DataFrame:
    from pyspark.ml.functions import array_to_vector
    from pyspark.sql import functions as F

    lists = [name for name, each in outputs.items() if each.type.kind == "list" and each.type.item.is_number]
    return df.withColumns({name: array_to_vector(F.col(f"`{name}`").cast("array<double>")) for name in lists})
