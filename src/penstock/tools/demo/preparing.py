"""The demo's first stages, on Spark: tables, the split, a Python function without its boundary, the hand-off."""

from __future__ import annotations

import time
import warnings
from typing import TYPE_CHECKING

import penstock as pk
from penstock.errors import humane_bytes
from penstock.tools.demo import acts, flights
from penstock.tools.demo.run import Run
from penstock.tools.demo.screen import source
from penstock.tools.demo.training import SCORED_AT_ONCE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def started(run: Run) -> None:
    """A Spark session."""
    screen = run.screen
    with screen.stage("Spark starts", "The session that is active, or a local one. Java comes as a package."):
        screen.code(source(acts.started))
        with screen.busy("starting Spark"):
            run.spark = acts.started()
            run.interrupts.take()


def joined(run: Run) -> DataFrame:
    """The tables, and one row for each flight."""
    screen = run.screen
    with screen.stage(
        "Spark joins",
        "Flights get the weather of the hour before, their plane, their destination, and how busy the hour is.",
    ):
        assert run.spark is not None
        tables = flights.tables(run.options.rows)
        screen.code(source(acts.joined, whole=True) + "\n\n" + source(acts.read))
        with screen.busy("joining"):
            frame = acts.read(run.spark, tables)
            rows = run.on_spark(frame.count)
        read, again = tables["flights"].num_rows, flights.repeated(tables["flights"])
        screen.say(f"{rows:,} flights of {len(frame.columns)} columns. {left_out(read, again, rows)}")
        run.facts["flights"] = {"read": read, "repeated": again, "arrived": rows}
    return frame


def left_out(read: int, again: int, arrived: int) -> str:
    """Why there are fewer flights than were read.

    >>> left_out(1000, 0, 970)
    '30 more were cancelled or diverted, and have no arrival; none came twice.'
    >>> left_out(1000, 10, 970)
    '20 more were cancelled or diverted, and have no arrival; 10 rows came again, and count once.'
    """
    twice = f"{again:,} rows came again, and count once" if again else "none came twice"
    return f"{read - again - arrived:,} more were cancelled or diverted, and have no arrival; {twice}."


def divided(run: Run, frame: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Earlier days and later ones."""
    from pyspark.sql import functions as F

    screen, scale = run.screen, run.options.scale
    with screen.stage(
        "A label, and a split by date",
        "Late is more than 15 minutes after the scheduled arrival. The model is judged by days after all it has "
        "seen, and gets nothing that is known only once a flight has left.",
    ):
        screen.code(source(acts.divided))
        train, evaluate = acts.divided(frame)
        if scale > 1:
            assert run.spark is not None
            train = train.crossJoin(run.spark.range(scale).select())
            screen.say(
                f"Each flight to train on is there {scale} times: that shows scale, and teaches nothing new."
            )
        run.facts["split"] = {}
        columns = (F.count("*"), F.min("day"), F.max("day"), F.avg(F.col("late").cast("double")))
        for name, part in (("train", train), ("evaluate", evaluate)):
            rows, first, last, share = run.on_spark(part.agg(*columns).collect)[0]
            screen.say(f"{name}: {rows:,} flights, {first} to {last}, {share:.1%} late")
            run.facts["split"][name] = {
                "rows": rows,
                "first": str(first),
                "last": str(last),
                "late": share,
            }
    return train, evaluate


def lifted(run: Run, frame: DataFrame) -> None:
    """A Python function with its boundary, and without."""
    screen = run.screen
    with screen.stage(
        "A Python function that stays in the JVM",
        "Plain Python, with None and branches. As Spark's udf every row leaves the JVM for it; lifted, none does.",
    ):
        screen.code(source(acts.rough, whole=True) + "\n\n" + source(acts.explained))
        with screen.busy("running it both ways"), warnings.catch_warnings():
            # Spark's udf, on seeing annotations that are not those of a pandas function.
            warnings.filterwarnings("ignore", message="Cannot infer the eval type")
            before, after = run.on_spark(lambda: acts.explained(frame))
        for name, found in (("udf", before), ("pk.udf", after)):
            screen.say(f"{name}: {found.sentence}")
        run.facts["boundaries"] = {"udf": len(before.boundaries), "pk.udf": len(after.boundaries)}


def handed_off(run: Run, train: DataFrame, evaluate: DataFrame) -> tuple[pk.FittedRecipe, pk.Explanation]:
    """The recipe, learned, and both parts as shards, with where the rows that were written crossed to Python."""
    screen = run.screen
    with screen.stage(
        "A recipe, and shards that are tensors already",
        "Features are declared once, learn from the training days alone, and are Spark's own expressions.",
    ):
        screen.code(
            "\n".join(
                (
                    source(acts.recipe, whole=True),
                    "",
                    source(acts.learned),
                    source(acts.written),
                    source(acts.as_written),
                )
            )
        )
        with screen.busy("learning"):
            fitted = run.on_spark(lambda: acts.learned(train))
        began = time.perf_counter()
        run.on_spark(lambda: acts.written(train, evaluate, fitted, run.path, run.options.workers))
        seconds, size = time.perf_counter() - began, 0
        explanation = acts.as_written(train, fitted)
        screen.say(f"as written: {explanation.sentence}")
        run.facts["boundaries"]["written"] = len(explanation.boundaries)
        for name in ("train", "evaluate"):
            ds = pk.open(f"{run.path}/{name}")
            size += ds.bytes
            tensors = ", ".join(str(spec) for spec in ds.tensors.values())
            screen.say(
                f"{name}: {ds.rows:,} rows in {len(ds.shards)} shards, {humane_bytes(ds.bytes)}: {tensors}"
            )
        screen.say(f"rows of the embeddings: {', '.join(map(str, fitted.outputs['ids'].ids))}")
        run.facts["inputs"] = list(fitted.only("x", "ids").inputs)
        run.facts["hand_off"] = {"bytes": size, "seconds": seconds}
        run.facts["feed"] = _fed(run)
    return fitted, explanation


def _fed(run: Run) -> dict[str, float]:
    """What the feed does by itself: an epoch that nobody trains on."""
    loader = pk.open(f"{run.path}/train").numpy(SCORED_AT_ONCE, last="short")
    for _ in loader:
        pass
    return {"bytes": loader.stats.bytes, "seconds": loader.stats.seconds}
