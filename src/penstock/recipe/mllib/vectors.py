"""Stages of vectors: the assembler, scalers, projections and products.

MLlib's vectors may be sparse, and then have neither a sign of zero nor products of zero; here they are dense, and zeros
may differ from its own by their sign.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from penstock.expr.build import stack, when
from penstock.expr.nodes import Expression
from penstock.expr.types import FLOAT64
from penstock.recipe.mllib.columns import Columns, Made, Refused, as_number
from penstock.recipe.mllib.fields import NULL

MOST_TERMS = 1 << 16
"""Of a polynomial or an interaction: beyond, dense vectors are no way to serve."""


def _assembler(stage: Any, columns: Columns) -> None:
    keep, target = stage.getHandleInvalid() == "keep", stage.getOutputCol()
    parts = []
    for source in stage.getInputCols():
        column = columns.read(source, FLOAT64)
        if column.type.kind == "list":
            columns.vector(source)  # its length has to be known
        else:
            columns.number(source)
        parts.append(_kept(column) if keep else _sound(column, source, target))
    columns.put(target, stack(*parts))


def _kept(column: Made) -> Expression:
    """nan instead of null; of what was demanded before no null is left that may become one."""
    if column.demanded:
        return column.tree
    return (stack(column.tree) if column.type.kind == "list" else as_number(column)).fill(math.nan)


def _sound(column: Made, source: str, target: str) -> Expression:
    if column.demanded:
        return column.tree
    message = (
        f"column {source!r} holds a null{'' if column.type.kind == 'list' else ' or nan'}, and the VectorAssembler of "
        f'{target!r} has handleInvalid="error". Fill it before, or set handleInvalid="keep", which gives nan.'
    )
    if column.type.kind == "list":
        return column.tree.demand(message)
    x = as_number(column)
    return (when(x.is_nan(), NULL).otherwise(x) if column.type.kind == "float" else x).demand(message)


def _reciprocals(spread: Sequence[float], of_zero: float) -> list[float]:
    return [1.0 / each if each != 0 else of_zero for each in spread]


def _scaled(stage: Any, columns: Columns, shift: Any, scale: list[float] | None) -> None:
    length = len(shift if shift is not None else scale)  # type: ignore[arg-type]  # one of them is there
    x, _ = columns.vector(stage.getInputCol(), length)
    if shift is not None:
        x = x.each("subtract", shift)
    columns.put(stage.getOutputCol(), x if scale is None else x.each("multiply", scale))


def _standard_scaler(stage: Any, columns: Columns) -> None:
    mean, deviation = stage.mean.toArray().tolist(), stage.std.toArray().tolist()
    shift = mean if stage.getWithMean() else None
    scale = _reciprocals(deviation, 0.0) if stage.getWithStd() else None
    if shift is None and scale is None:
        scale = [1.0] * len(mean)
    _scaled(stage, columns, shift, scale)


def _robust_scaler(stage: Any, columns: Columns) -> None:
    median, spread = stage.median.toArray().tolist(), stage.range.toArray().tolist()
    shift = median if stage.getWithCentering() else None
    scale = _reciprocals(spread, 0.0) if stage.getWithScaling() else None
    if shift is None and scale is None:
        scale = [1.0] * len(median)
    _scaled(stage, columns, shift, scale)


def _max_abs_scaler(stage: Any, columns: Columns) -> None:
    _scaled(stage, columns, None, _reciprocals(stage.maxAbs.toArray().tolist(), 1.0))


def _min_max_scaler(stage: Any, columns: Columns) -> None:
    low, high = stage.originalMin.toArray().tolist(), stage.originalMax.toArray().tolist()
    least, most = stage.getMin(), stage.getMax()
    x, _ = columns.vector(stage.getInputCol(), len(low))
    ranges = [top - bottom for bottom, top in zip(low, high, strict=True)]
    constant = [spread == 0 for spread in ranges]
    if any(constant):
        # What never changed becomes the middle of the range, also of infinities; nan stays.
        x = x.each("maximum", [b if same else -math.inf for b, same in zip(low, constant, strict=True)])
        x = x.each("minimum", [b if same else math.inf for b, same in zip(low, constant, strict=True)])
    x = x.each("subtract", low).each("multiply", [(most - least) / each if each else 0.0 for each in ranges])
    middle = (least + most) / 2.0
    columns.put(stage.getOutputCol(), x.each("add", [middle if same else least for same in constant]))


def _normalizer(stage: Any, columns: Columns) -> None:
    x, _ = columns.vector(stage.getInputCol())
    columns.put(stage.getOutputCol(), x.normalize(stage.getP()))


def _pca(stage: Any, columns: Columns) -> None:
    weights = stage.pc.toArray().T.tolist()
    x, _ = columns.vector(stage.getInputCol(), len(weights[0]))
    columns.put(stage.getOutputCol(), x.linear(weights, [0.0] * len(weights)))


def _elementwise_product(stage: Any, columns: Columns) -> None:
    scales = stage.getScalingVec().toArray().tolist()
    x, _ = columns.vector(stage.getInputCol(), len(scales))
    columns.put(stage.getOutputCol(), x.each("multiply", scales))


def _vector_slicer(stage: Any, columns: Columns) -> None:
    if stage.getNames():
        raise Refused(
            f"it takes elements by name ({', '.join(stage.getNames())}), and names stand in the data's metadata, not "
            "in the model. Set its indices"
        )
    x, length = columns.vector(stage.getInputCol())
    places = stage.getIndices()
    if places and max(places) >= length:
        raise Refused(
            f"it takes element {max(places)}, and column {stage.getInputCol()!r} has {length}, counted from 0"
        )
    columns.put(stage.getOutputCol(), x.elements(places))


def _polynomial_expansion(stage: Any, columns: Columns) -> None:
    degree = stage.getDegree()
    x, length = columns.vector(stage.getInputCol())
    count = math.comb(length + degree, degree) - 1
    if count > MOST_TERMS:
        raise Refused(f"it makes {count} terms of {length} elements; {MOST_TERMS} are the most")
    terms = [term for term in _terms(length - 1, degree, ()) if term]
    with_one = stack(x, 1.0)
    factors = [
        with_one.elements([term[place] if place < len(term) else length for term in terms])
        for place in range(degree)
    ]
    product = factors[0]
    for factor in factors[1:]:
        product = product.list_multiply(factor, absorbing=True)
    columns.put(stage.getOutputCol(), product)


def _terms(last: int, degree: int, factors: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """The factors of each term, in MLlib's order of terms; it multiplies the last element first."""
    if degree == 0 or last < 0:
        yield factors
        return
    for power in range(degree + 1):
        yield from _terms(last - 1, degree - power, factors + (last,) * power)


def _interaction(stage: Any, columns: Columns) -> None:
    found, size, zeros = None, 1, False
    for source in reversed(stage.getInputCols()):
        part, length, sparse = _interacting(source, stage.getOutputCol(), columns)
        size *= length
        if size > MOST_TERMS:
            raise Refused(f"it makes more than {MOST_TERMS} products")
        if found is None:
            found, zeros = part, sparse
            continue
        others = size // length
        mine = part.elements([place for place in range(length) for _ in range(others)])
        before = found.elements([place for _ in range(length) for place in range(others)])
        # Sparse vectors leave their zeros out, so that these swallow infinities: the sparse side stands on the left.
        left, right = (mine, before) if sparse or not zeros else (before, mine)
        found, zeros = left.list_multiply(right, absorbing=sparse or zeros), sparse or zeros
    assert found is not None
    columns.put(stage.getOutputCol(), found)


def _interacting(source: str, target: str, columns: Columns) -> tuple[Expression, int, bool]:
    """A column as a vector, its length, and whether MLlib holds it sparse."""
    column = columns.read(source, FLOAT64)
    message = f"column {source!r} holds a null, and the Interaction of {target!r} takes none. Fill it before."
    if column.type.kind == "list":
        x, length = columns.vector(source)
        return x.demand(message), length, column.sparse
    number = columns.number(source)
    if column.values is None or column.values < 2:
        return stack(number.demand(message)), 1, False
    return number.cast("int64").one_hot(column.values).demand(message), column.values, True


STAGES: dict[str, Callable[[Any, Columns], None]] = {
    "VectorAssembler": _assembler,
    "StandardScalerModel": _standard_scaler,
    "RobustScalerModel": _robust_scaler,
    "MaxAbsScalerModel": _max_abs_scaler,
    "MinMaxScalerModel": _min_max_scaler,
    "Normalizer": _normalizer,
    "PCAModel": _pca,
    "ElementwiseProduct": _elementwise_product,
    "VectorSlicer": _vector_slicer,
    "PolynomialExpansion": _polynomial_expansion,
    "Interaction": _interaction,
}
