"""`batch`: a user's own function of whole columns, as an operation: a tokenizer, a model, a parser.

It is the one operation that leaves the JVM: on Spark its columns cross to Python as Arrow batches and back. In serving
it is called directly. A recipe that has one is saved with the function's import name, never with its code.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from penstock.errors import ExpressionError
from penstock.expr.nodes import Call, Expression, call
from penstock.expr.types import Type, parse_type

KINDS = ("arrow", "numpy")


class BatchFunction:
    """A function of whole columns; called with expressions it gives one. Made by `batch`."""

    def __init__(self, function: Callable[..., Any], returns: str, columns: str) -> None:
        if not callable(function):
            raise ExpressionError(f"batch() takes a function, and this is {function!r}.")
        if columns not in KINDS:
            raise ExpressionError(f"batch(): columns is {columns!r}, and must be one of {', '.join(KINDS)}.")
        self.function, self.columns = function, columns
        self.type: Type = parse_type(returns)
        self.name = (
            f"{getattr(function, '__module__', '?')}:{getattr(function, '__qualname__', repr(function))}"
        )
        self.__doc__ = function.__doc__

    def __call__(self, *columns: object) -> Expression:
        """The function on these columns, as an expression."""
        return call("batch", *columns, params={"function": self})

    def __repr__(self) -> str:
        return self.name.rpartition(":")[2]

    @property
    def saved(self) -> tuple[str, str, str]:
        """What a saved recipe holds of it."""
        return self.name, str(self.type), self.columns

    @property
    def key(self) -> tuple[object, ...]:
        """What tells functions apart in this process: all lambdas of a module have one name, so the function itself."""
        return *self.saved, id(self.function)


def batch(function: Callable[..., Any] | None = None, *, returns: str, columns: str = "arrow") -> Any:
    """Make a function of whole columns usable in expressions.

    It gets a pyarrow Array for each argument (with `columns="numpy"` a NumPy array; nulls are then nan, or None among
    objects) and returns one value for each row: a pyarrow or NumPy array or a list, of the type `returns`. Where each
    row's value depends on that row alone, all engines agree. As a decorator in a module it can be saved with a recipe;
    the machine that loads it needs the same module.

    >>> import pyarrow.compute as pc
    >>> @batch(returns="int64")
    ... def words(texts):
    ...     return pc.list_value_length(pc.utf8_split_whitespace(texts))
    >>> from penstock.expr.build import col
    >>> words(col("title"))
    words(col('title'))
    """
    if function is None:
        return lambda found: BatchFunction(found, returns, columns)
    return BatchFunction(function, returns, columns)


def batch_functions(tree: Expression) -> list[BatchFunction]:
    """The users' functions in a tree, each once.

    >>> from penstock.expr.build import col
    >>> batch_functions(batch(len, returns="int64")(col("a")) + 1)
    [len]
    """
    found: dict[tuple[object, ...], BatchFunction] = {}
    seen: set[int] = set()

    def visit(node: Expression) -> None:
        if id(node) in seen:
            return
        seen.add(id(node))
        for arg in node.args:
            visit(arg)
        if isinstance(node, Call) and node.op == "batch":
            function: BatchFunction = dict(node.params)["function"]
            found[function.key] = function

    visit(tree)
    return list(found.values())


def importable(function: BatchFunction) -> BatchFunction:
    """The function, if another process would find it by its name."""
    try:
        found = by_name(function.name)
    except ExpressionError as error:
        raise ExpressionError(f"{error} A recipe is saved with the name alone.") from None
    if found is not function:
        raise ExpressionError(
            f"{function.name} is not this function. Decorate it with @batch in a module of its own."
        )
    return function


def by_name(name: str) -> BatchFunction:
    """The function of an import name, `module:name`; only what `batch` made is taken."""
    module, _, path = name.partition(":")
    if not module or not path or module == "__main__" or "<" in path:
        raise ExpressionError(
            f"the batch function {name} cannot be imported by its name. Decorate it with @batch in a module."
        )
    try:
        found: Any = importlib.import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise ExpressionError(f"the batch function {name} is gone: {error}. Install its module.") from None
    if not isinstance(found, BatchFunction):
        raise ExpressionError(f"{name} is no batch function; it is {type(found).__name__}.")
    return found
