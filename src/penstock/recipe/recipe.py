"""`Recipe`: tensors as expressions over columns, not yet fitted.

    recipe = pk.Recipe(x=pk.stack(pk.col("a").fill("median").standardize(), pk.col("b").log1p()), y=pk.col("label"))
    fitted = recipe.fit(df)

Nothing is computed before `fit`, which returns a `penstock.recipe.fitted.FittedRecipe`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.errors import ExpressionError
from penstock.expr.check import columns_of
from penstock.expr.nodes import Call, Expression
from penstock.recipe.fitted import FittedRecipe, fitted_from
from penstock.recipe.fitting import Source, settle
from penstock.recipe.sources import ArrowSource, SparkSource, is_spark


class Recipe:
    """Named tensors, each an expression over columns; `fit` learns what they need from data.

    >>> from penstock.expr.build import col
    >>> import pyarrow as pa
    >>> recipe = Recipe(x=col("price").fill("mean").standardize(), city=col("city").index())
    >>> fitted = recipe.fit(pa.table({"price": [1.0, None, 3.0], "city": ["Rome", "Oslo", "Rome"]}))
    >>> fitted.arrow({"price": [2.0, 3.0], "city": ["Rome", "Lima"]}).to_pydict()["city"]
    [2, 1]
    """

    def __init__(self, tensors: Mapping[str, Expression] | None = None, /, **named: Expression) -> None:
        """`tensors` for names that are no Python words; `named` for the others."""
        both = set(tensors or {}) & set(named)
        if both:
            raise ExpressionError(f"the tensor {sorted(both)[0]!r} is given twice.")
        self.tensors: dict[str, Expression] = {**(tensors or {}), **named}
        if not self.tensors:
            raise ExpressionError('a recipe makes at least one tensor: Recipe(x=col("a")).')
        for name, tree in self.tensors.items():
            if not isinstance(name, str) or not name:
                raise ExpressionError(f"a tensor is named by a text, and this is {name!r}.")
            if not isinstance(tree, Expression):
                raise ExpressionError(
                    f'tensor {name!r} is {tree!r}, which is no expression. Write col("...").'
                )

    @property
    def columns(self) -> list[str]:
        """The columns it reads.

        >>> from penstock.expr.build import col
        >>> Recipe(x=col("a") + col("b"), y=col("a")).columns
        ['a', 'b']
        """
        return list(dict.fromkeys(name for tree in self.tensors.values() for name in columns_of(tree)))

    def fit(self, data: Any) -> FittedRecipe:
        """Learn from a Spark DataFrame, or from Arrow data: a table, a pyarrow dataset, record batches, or what
        has `__arrow_c_stream__` (polars, duckdb, pandas).

        In Spark this is one aggregate for all numbers of one depth (a column that is filled before it is standardized
        is of depth two) and one job for all vocabularies, however many columns there are; each passes over the
        DataFrame, so cache one that is dear to compute. The values of quantiles are off by at most one rank in ten
        thousand, and whole numbers beyond 2**53 are rounded for them as for moments.

        A column of MLlib vectors that is a tensor by itself passes through as it is; where an operation takes it, it is
        a list of float64.
        """
        if is_spark(data):
            trees = [tree for tree in self.tensors.values() if isinstance(tree, Call)]
            computed = [name for tree in trees for name in columns_of(tree)]
            return self._fitted(SparkSource(data, self.columns, computed))
        source = ArrowSource(data, self.columns)
        try:
            return self._fitted(source)
        finally:
            source.close()

    def _fitted(self, source: Source) -> FittedRecipe:
        plain, lessons = settle(self.tensors, source)
        return fitted_from(plain, source.schema, self.tensors, lessons)

    def __repr__(self) -> str:
        inside = ",\n".join(f"    {name}={tree!r}" for name, tree in self.tensors.items())
        return f"Recipe(\n{inside},\n)"
