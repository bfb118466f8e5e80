"""The demo's stage that scores: the same rows by Spark and by a process without it, held against each other."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

import penstock as pk
from penstock.jobs.predict import BATCH_SIZE
from penstock.tools.demo import acts
from penstock.tools.demo.ranking import auc
from penstock.tools.demo.run import Run
from penstock.tools.demo.screen import source
from penstock.tools.demo.serving import Served, answered, serve
from penstock.tools.demo.training import Trained

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

SHOWN = 3
"""Flights that are named."""


def scored(run: Run, evaluate: DataFrame, fitted: pk.FittedRecipe, trained: Trained) -> None:
    """The same rows by Spark and by a process without it."""
    from pyspark.sql import functions as F

    screen = run.screen
    with screen.stage(
        "Scored on Spark, and without it",
        "The model goes back to the rows. A request takes another way: the recipe by Arrow, the model, and no JVM.",
    ):
        screen.code(source(acts.scored))
        model = trained.model
        with screen.busy("scoring on Spark"):
            parts = evaluate.withColumn("part", F.spark_partition_id())
            load_model = model if isinstance(model, str) else lambda: model
            rows = run.on_spark(acts.scored(parts, load_model, fitted).toArrow)
        screen.code(source(answered))
        with screen.ranks("scoring without Spark"):
            asked = rows.drop_columns(["score", "part", "late"])
            served: Served = pk.launch(
                serve, run.path, model, asked, batches(rows["part"].to_pylist()), workers=1
            )
        _shown(run, rows)
        _compared(run, rows["late"].to_numpy(), rows["score"].to_numpy(), served)


def _shown(run: Run, rows: pa.Table) -> None:
    """The flights that are most likely late, and whether they were."""
    columns = ["day", "carrier", "flight", "origin", "dest", "score", "late"]
    run.screen.say("Most likely late, and whether they were:")
    for row in rows.select(columns).sort_by([("score", "descending")]).slice(0, SHOWN).to_pylist():
        run.screen.say(
            f"   {row['day']}  {row['carrier']} {row['flight']:<5} {row['origin']} to {row['dest']}  "
            f"{row['score']:.2f}  {'late' if row['late'] else 'not late'}"
        )


def _compared(run: Run, labels: Any, scores: Any, served: Served) -> None:
    import numpy as np

    same, rows = int((scores == served.scores).sum()), len(scores)
    most = float(np.abs(scores - served.scores).max())
    if same == rows:
        told = "all equal to the last bit"
    else:
        told = f"{same:,} equal to the last bit, the others by {most:.1g} at most"
    run.screen.say(f"{rows:,} flights scored by Spark, and once more by a process without it: {told}.")
    run.screen.say(f"A request of one flight took {served.milliseconds:.1f} ms.")
    run.facts["scoring"] = {
        "rows": rows,
        "equal_rows": same,
        "largest_difference": most,
        "auc": auc(labels, scores),
        "spark_in_serving": served.spark,
        "milliseconds": served.milliseconds,
    }


def batches(parts: Sequence[int]) -> list[int]:
    """The rows of each batch of `pk.predict`, from the partitions of all rows: no batch spans two.

    >>> batches([0] * 5000 + [3] * 10)
    [4096, 904, 10]
    """
    found = []
    for _, part in groupby(parts):
        rows = len(list(part))
        found += [min(BATCH_SIZE, rows - start) for start in range(0, rows, BATCH_SIZE)]
    return found
