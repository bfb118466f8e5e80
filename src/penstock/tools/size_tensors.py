"""What a row is made of, as `penstock size` is told it: "x:float32:256", a mapping, a dataset or a fitted recipe.

Where rows have lengths of their own, a mean is given: "tokens:int32:~128", "title:string:~60", "image:binary:~110 kB".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.dtypes import TensorSpec, parse_dtype
from penstock.errors import SelectionError, SizeError
from penstock.tools.size_units import size

if TYPE_CHECKING:
    from penstock.recipe.fitted import FittedRecipe

EXAMPLE = "'x:float32:256', 'image:uint8:3x224x224', 'y:float32', or 'tokens:int32:~128' for lists of 128 on average"
OFFSET_BYTES = 8
"""Beside each row that has a length of its own."""
TEXTS = ("string", "binary")
MOST_AXES = 32

_SHAPE = re.compile(r"[0-9]+(?:x[0-9]+)*")

Tensors = Mapping[str, Any] | Iterable[str | TensorSpec] | str
"""{"x": ("float32", 256), "y": "float32"}, or texts such as "x:float32:256", or TensorSpecs."""


@dataclass(frozen=True)
class SizedTensor:
    """A tensor and what a row of it takes.

    >>> parse_tensor("tokens:int32:~128").row_bytes
    520
    """

    spec: TensorSpec
    mean: float | None = None
    """Elements of a row on average, where rows have lengths of their own."""

    @property
    def row_bytes(self) -> int:
        """Bytes of a row, rounded up."""
        if not self.spec.ragged:
            return self.spec.row_bytes
        assert self.mean is not None
        return -int(-self.mean * self.spec.row_bytes // 1) + OFFSET_BYTES

    def __str__(self) -> str:
        return str(self.spec) + ("" if self.mean is None else f", {self.mean:g} on average")


def parse_tensor(text: str) -> SizedTensor:
    """One tensor from its text.

    >>> print(parse_tensor("x:float32:256"), parse_tensor("image:uint8:3x224x224"), parse_tensor("y:bool"))
    x: float32[256] image: uint8[3, 224, 224] y: bool
    """
    parts = text.split(":")
    if not 2 <= len(parts) <= 3 or not parts[0].strip():
        raise SizeError(f"the tensor {text!r} is not understood. Write {EXAMPLE}.")
    return _tensor(parts[0].strip(), parts[1].strip(), parts[2].strip() if len(parts) == 3 else "", text)


def parse_tensors(given: Tensors) -> tuple[SizedTensor, ...]:
    """All tensors of a row, in any of the forms.

    >>> [str(each) for each in parse_tensors({"x": ("float32", 256), "y": "int64"})]
    ['x: float32[256]', 'y: int64']
    """
    if isinstance(given, str):
        given = [given]
    if isinstance(given, Mapping):
        found = [_from_mapping(name, said) for name, said in given.items()]
    else:
        found = [
            _from_spec(each) if isinstance(each, TensorSpec) else parse_tensor(str(each)) for each in given
        ]
    names = [each.spec.name for each in found]
    if not names:
        raise SizeError(f"no tensor is given. Write {EXAMPLE}.")
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise SizeError(f"the tensor {twice[0]!r} is given twice. Give each one name.")
    return tuple(found)


def recipe_tensors(recipe: FittedRecipe) -> tuple[SizedTensor, ...]:
    """The tensors that a fitted recipe makes, as `pk.write(recipe=...)` stores them.

    >>> from penstock.expr.build import col, stack
    >>> from penstock.expr.types import FLOAT64
    >>> from penstock.recipe.fitted import FittedRecipe
    >>> both = stack(col("a").log1p(), col("b"), dtype="float32")
    >>> [str(each) for each in recipe_tensors(FittedRecipe({"x": both}, {"a": FLOAT64, "b": FLOAT64}))]
    ['x: float32[2]']
    """
    if not hasattr(recipe, "outputs"):
        raise SizeError(
            "this recipe has not learned anything yet, so what its tensors are is not known. Pass "
            "recipe=recipe.fit(df), or tensors= (--tensor)."
        )
    return tuple(_from_type(name, each.type) for name, each in recipe.outputs.items())


def _from_type(name: str, of: Any) -> SizedTensor:
    lengths = {"date": "int32", "timestamp": "int64", "timestamp_ntz": "int64"}
    leaf = of.item if of.kind == "list" else of
    if of.kind in ("string", "vector") or (
        of.kind == "list" and (of.length is None or leaf.kind == "string")
    ):
        raise SizeError(
            f"rows of the recipe's tensor {name!r} ({of}) have lengths of their own, which it does not tell. Pass "
            f"tensors= (--tensor) with a mean, such as '{name}:int32:~128'."
        )
    dtype = lengths.get(leaf.kind, str(leaf))
    return SizedTensor(TensorSpec(name, dtype, (of.length,) if of.kind == "list" else ()))


def _from_spec(spec: TensorSpec) -> SizedTensor:
    if spec.ragged:
        raise SizeError(
            f"rows of {spec} have lengths of their own. Give a mean: '{spec.name}:{spec.dtype}:~128'."
        )
    return SizedTensor(spec)


def _from_mapping(name: str, said: Any) -> SizedTensor:
    if isinstance(said, TensorSpec):
        return _from_spec(said)
    dtype, shape = said if isinstance(said, (tuple, list)) and len(said) == 2 else (said, "")
    if isinstance(shape, (tuple, list)):
        shape = "x".join(map(str, shape))
    return _tensor(str(name), dtype, str(shape), f"{name}: {said!r}")


def _tensor(name: str, dtype: Any, shape: str, text: str) -> SizedTensor:
    kind = dtype if isinstance(dtype, str) and dtype in TEXTS else "ragged"
    try:
        known = "uint8" if kind in TEXTS else parse_dtype(dtype).name
    except SelectionError as error:
        raise SizeError(f"the tensor {text!r}: {error}") from None
    if shape.startswith("~"):
        try:
            mean = float(size(shape[1:]) if kind in TEXTS else shape[1:])
        except (ValueError, SizeError):
            mean = -1.0
        if not 0 <= mean < 1e15:
            such = "~60 or '~110 kB'" if kind in TEXTS else "~128"
            raise SizeError(f"the tensor {text!r}: behind ~ stands a mean length, such as {such}.")
        return SizedTensor(TensorSpec(name, known, (), kind), mean)
    if kind in TEXTS:
        raise SizeError(f"the tensor {text!r}: give the mean length of a row in bytes: '{name}:{kind}:~60'.")
    if shape and not _SHAPE.fullmatch(shape):
        axes_by = " Axes are parted by x, and their lengths have no commas." if "," in shape else ""
        raise SizeError(
            f"the tensor {text!r}: the shape {shape!r} is not understood.{axes_by} Write {EXAMPLE}."
        )
    axes = tuple(int(axis) for axis in shape.split("x")) if shape else ()
    if len(axes) > MOST_AXES:
        raise SizeError(f"the tensor {text!r} has {len(axes)} axes; {MOST_AXES} are the most.")
    return SizedTensor(TensorSpec(name, known, axes))
