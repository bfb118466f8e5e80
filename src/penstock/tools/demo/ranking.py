"""How well scores put late flights before the others: the area under the ROC curve, exactly.

MLlib's evaluator draws the curve with a thousand points, which is close; here it is counted, by ranks: the share of
all pairs of a late flight and another in which the late one has the higher score, ties as half.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.errors import DataError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def auc(labels: NDArray[Any], scores: NDArray[np.floating[Any]]) -> float:
    """The area under the ROC curve of some rows; labels above 0 are the class that scores should put first.

    >>> import numpy as np
    >>> (
    ...     auc(np.array([0, 1, 0, 1]), np.array([0.1, 0.4, 0.35, 0.8])),
    ...     auc(np.array([0, 1]), np.array([0.5, 0.5])),
    ... )
    (1.0, 0.5)
    """
    import numpy as np

    first = np.asarray(labels) > 0
    ahead, behind = int(first.sum()), int((~first).sum())
    if not ahead or not behind:
        raise DataError(
            f"an AUC needs rows of both classes, and of {len(first):,} rows {ahead:,} are of the first."
        )
    if not np.isfinite(scores).all():
        raise DataError(
            "a score is not a finite number, so the rows have no order. The training has diverged."
        )
    _, place, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = np.cumsum(counts) - (counts - 1) / 2
    return float((ranks[place][first].sum() - ahead * (ahead + 1) / 2) / (ahead * behind))
