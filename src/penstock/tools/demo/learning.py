"""The demo's stages that learn: the number to beat, a training that is killed and goes on, and which is better."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import penstock as pk
from penstock.errors import LaunchError
from penstock.tools.demo import acts, keras_model
from penstock.tools.demo.ranking import auc
from penstock.tools.demo.run import TORCH, Run
from penstock.tools.demo.screen import source
from penstock.tools.demo.training import Task, Trained, Watch, epochs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

KILLED = 137
"""The exit code of a rank that was killed, as a shell counts."""


def baseline(run: Run, train: DataFrame, evaluate: DataFrame, fitted: pk.FittedRecipe) -> None:
    """MLlib's logistic regression."""
    screen = run.screen
    with screen.stage("The number to beat", "MLlib's logistic regression, on the same tensors."):
        screen.code(source(acts.number_to_beat))
        with screen.busy("fitting on Spark"):
            found = run.on_spark(lambda: acts.number_to_beat(train, evaluate, fitted))
        assert found.serving is not None
        later = run.on_spark(evaluate.toArrow)
        exact = auc(later["late"].to_numpy(), found.serving.arrow(later)["score"].to_numpy())
        screen.say(f"AUC {exact:.4f} on {found.rows['test']:,} flights of the later days.")
        run.facts["auc"] = {"baseline": exact, "baseline_by_mllib": found.metrics["auc"]}


def trained(run: Run) -> Trained:
    """The model, with a rank killed part of the way."""
    screen, options, ranks = run.screen, run.options, run.options.ranks
    rows = run.facts["split"]["train"]["rows"]
    task = Task(run.path, epochs(rows, options.scale), options.device, dies=True)
    told = (
        "Each rank reads its share of the shards. One of them is killed on purpose; launched again, the training "
        if ranks > 1
        else "One process reads the shards. It is killed on purpose; launched again, the training "
    )
    with screen.stage(
        f"{options.trainer} trains, dies, and goes on", f"{told}goes on where its last checkpoint was."
    ):
        train: Callable[[Task], Any] = keras_model.train
        if options.framework == TORCH:
            from penstock.tools.demo import torch_model

            train = torch_model.train
        screen.code(source(train, whole=True) + f"\n\ntrained = pk.launch(train, task, workers={ranks})")
        _killed(run, train, task)
        with screen.ranks("starting again"):
            trained: Trained = pk.launch(train, replace(task, dies=False), workers=ranks)
        screen.say(
            f"Launched again, it went on at step {trained.resumed_at}, and ended at step {trained.steps}."
        )
        run.facts["training"] = {
            "ranks": ranks,
            "epochs": task.epochs,
            "steps": trained.steps,
            "killed_at": Watch(trained.steps, 0, ranks, dies=True).end,
            "resumed_at": trained.resumed_at,
        }
    return trained


def _killed(run: Run, train: Callable[[Task], Any], task: Task) -> None:
    """Train until a rank is killed, as it was told to be."""
    try:
        with run.screen.ranks("starting the ranks"):
            pk.launch(train, task, workers=run.options.ranks)
    except LaunchError as error:
        if error.exit_code != KILLED or error.rank != run.options.ranks - 1:
            raise
        run.screen.say(f"As planned, {str(error).partition(',')[0]}.")
    else:
        raise AssertionError("a rank was to kill itself, and did not")


def evaluated(run: Run, trained: Trained) -> None:
    """Both AUCs, and which is higher."""
    screen = run.screen
    with screen.stage(
        "Judged by the later days",
        "AUC: how often a late flight scores higher than one that was not late.",
    ):
        model, base = auc(trained.labels, trained.scores), run.facts["auc"]["baseline"]
        screen.say(f"{run.options.trainer:24}AUC {model:.4f}", style="bold")
        screen.say(f"{'logistic regression':24}AUC {base:.4f}", style="bold")
        if model > base:
            screen.say(f"The network is better by {model - base:.4f}.")
        else:
            screen.say(f"The network is not better: it lacks {base - model:.4f}.")
        run.facts["auc"]["model"] = model
