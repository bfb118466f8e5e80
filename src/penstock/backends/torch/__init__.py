"""Expressions on tensors, on the CPU and on GPUs: the same values as `penstock.backends.arrow`, by its own kernels.

A column is a tensor, or a pair of a tensor and a bool tensor of what is valid; a column of lists is a matrix. Texts
have no tensor form. The kernels lie by family: `numbers`, `hashing`, `lists` (and times), `vectors`, on the tensors of
`values`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from penstock.backends.base import Kernel, Program, Unsupported, compile, unsupported
from penstock.backends.torch import lists, lookups, numbers, python_lists, python_numbers, vectors
from penstock.backends.torch.hashing import hash_kernel
from penstock.backends.torch.values import check_fits, constant, read, write
from penstock.errors import ExpressionError, UnsupportedOperation, listed
from penstock.expr.check import Schema
from penstock.expr.nodes import Call, Column, Expression, Literal
from penstock.expr.ops import python_texts, texts
from penstock.expr.types import Type

NAME = "torch"
NO_TEXTS = "tensors hold no texts. Turn them into numbers before: in Spark, or with the arrow engine."
TABLE: Mapping[str, Kernel | Unsupported] = {
    **{op.name: unsupported(NO_TEXTS) for op in (*texts.OPS, *python_texts.OPS)},
    **numbers.KERNELS,
    **lists.KERNELS,
    **vectors.KERNELS,
    **lookups.KERNELS,
    **python_numbers.KERNELS,
    **python_lists.KERNELS,
    "batch": unsupported(
        "a function of Arrow columns has no tensor form. Run it before: in Spark, or by arrow()."
    ),
    "hash": hash_kernel,
}

Given = Any
"""A tensor, or a pair of a tensor and a bool tensor of what is valid: a row each, or of lists an element each; or
of lists three: the values, which rows are valid, and which elements."""


class TorchProgram:
    """Expressions compiled for tensors. Made by `prepare`."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self.types = program.types
        self.columns = program.columns

    def check(self, columns: Mapping[str, Given]) -> None:
        """Refuse values that the columns' types do not hold; to find them may wait for the device."""
        for step in self._program.steps:
            if isinstance(step.node, Column) and step.node.name in columns:
                check_fits(step.node.name, columns[step.node.name], step.type)

    def __call__(self, columns: Mapping[str, Given]) -> dict[str, tuple[torch.Tensor, torch.Tensor | None]]:
        """The expressions' values, each with which rows (of lists: which elements) are valid; None for all."""
        missing = [name for name in self.columns if name not in columns]
        if missing:
            raise ExpressionError(
                f"there is no tensor for column {missing[0]!r}; there are {listed(list(columns))}."
            )
        held = {
            step.node.name: read(step.node.name, columns[step.node.name], step.type)
            for step in self._program.steps
            if isinstance(step.node, Column)
        }
        if not columns:
            raise ExpressionError("no columns were given, so the number of rows is not known.")
        some = next(iter(held.values())).values if held else next(iter(columns.values()))
        first = some[0] if isinstance(some, tuple | list) else some
        rows, device = first.shape[0], first.device
        for name, value in held.items():
            if value.values.shape[0] != rows or value.values.device != device:
                raise ExpressionError(
                    f"column {name!r} has another number of rows, or lies on another device, than "
                    f"{self.columns[0]!r}."
                )

        def leaf(node: Column | Literal, of: Type) -> Any:
            return constant(node, rows, device) if isinstance(node, Literal) else held[node.name]

        found = self._program.run(leaf)
        return {name: write(found[name], of) for name, of in self.types.items()}


def prepare(expressions: Mapping[str, Expression], schema: Schema) -> TorchProgram:
    """Compile expressions for tensors whose columns have these types.

    >>> from penstock.expr.build import col
    >>> from penstock.expr.types import INT64
    >>> program = prepare({"x": col("a") / 0}, {"a": INT64})
    >>> program({"a": torch.tensor([1, 0])})["x"][0]
    tensor([inf, nan], dtype=torch.float64)
    """
    program = compile(NAME, TABLE, expressions, schema)
    for step in program.steps:
        leaf = step.type.element or step.type
        if leaf.kind in ("string", "vector"):
            what = step.node.op if isinstance(step.node, Call) else repr(step.node)
            raise UnsupportedOperation(
                NAME, what, NO_TEXTS if leaf.kind == "string" else "it is a vector of MLlib."
            )
    return TorchProgram(program)
