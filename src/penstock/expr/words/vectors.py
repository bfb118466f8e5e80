"""Methods of lists taken as vectors: with a number for each element, through a matrix, as scores of classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.expr.words.base import Words

if TYPE_CHECKING:
    from penstock.expr.nodes import Expression


class Vectors(Words):
    """What lists of numbers can do as vectors."""

    __slots__ = ()

    def each(self, function: str, by: float | Sequence[float]) -> Expression:
        """A function of each element and a number: one for all, or one for each.

        `add`, `subtract`, `multiply`, `divide`; `minimum` and `maximum`, which keep nan; `gt`, which is 1 where the
        element is greater and else 0; `if_nan`, which puts the number where the element is nan.

        >>> from penstock.expr.build import col
        >>> col("v").each("subtract", [1.5, 2.0]).each("multiply", 0.5)
        col('v').each('subtract', (1.5, 2.0)).each('multiply', 0.5)
        """
        return self._call("each", params={"function": function, "by": by})

    def elements(self, places: Sequence[int]) -> Expression:
        """The elements at these places, counted from 0, in this order; null where the list ends before.

        >>> from penstock.expr.build import col
        >>> col("v").elements([2, 0])
        col('v').elements((2, 0))
        """
        return self._call("elements", params={"places": tuple(places)})

    def list_multiply(self, other: Expression, absorbing: bool = False) -> Expression:
        """Its elements times those of another list of the same length.

        `absorbing`: where its own element is 0 the product is, also of infinity and nan; so sparse vectors multiply.

        >>> from penstock.expr.build import col
        >>> col("v").list_multiply(col("w"))
        col('v').list_multiply(col('w'))
        """
        return self._call("list_multiply", other, params={"absorbing": True} if absorbing else {})

    def linear(self, weights: Sequence[Sequence[float]], bias: Sequence[float]) -> Expression:
        """A matrix times the list: for each row of weights the weighted sum, and its bias.

        >>> from penstock.expr.build import col
        >>> col("v").linear([[0.5, 2.0]], [1.0]).element(0)
        col('v').linear(((0.5, 2.0),), (1.0,)).element(0)
        """
        return self._call("linear", params={"weights": weights, "bias": bias})

    def softmax(self) -> Expression:
        """Scores as probabilities: exp of each, divided by their sum. All nan with a nan among them."""
        return self._call("softmax")

    def list_argmax(self) -> Expression:
        """The place of the first that is greatest; a nan is passed over. Null of an empty list."""
        return self._call("list_argmax")
