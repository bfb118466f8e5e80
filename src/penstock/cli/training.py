"""Commands about what trains on a dataset: the demo, what it will take, the training itself, and a page about it."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

import penstock
from penstock.cli.options import Json, Version
from penstock.errors import RecipeError, ReportError, SizeError

if TYPE_CHECKING:
    from penstock.recipe.fitted import FittedRecipe


class Device(StrEnum):
    """What `penstock demo --device` takes."""

    CPU = "cpu"
    CUDA = "cuda"


class Framework(StrEnum):
    """What `penstock demo --framework` takes."""

    TORCH = "torch"
    TENSORFLOW = "tensorflow"


def demo(
    rows: Annotated[
        int, typer.Option(min=5000, help="Flights to take, evenly over the year; all of them unless said.")
    ] = 336_776,
    workers: Annotated[
        int,
        typer.Option(
            min=1,
            max=64,
            help="Processes that train together (torch; tensorflow trains in one), and shares of shards.",
        ),
    ] = 2,
    device: Annotated[Device, typer.Option(help="Where the model trains.")] = Device.CPU,
    keep: Annotated[
        str | None,
        typer.Option(
            help="A folder that keeps datasets, checkpoints, report and facts. Without it, report and facts go to "
            "penstock/demo in the user's cache (~/.cache)."
        ),
    ] = None,
    scale: Annotated[int, typer.Option(min=1, help="Take each flight to train on so many times.")] = 1,
    framework: Annotated[Framework, typer.Option(help="What trains.")] = Framework.TORCH,
) -> None:
    """The whole way on real data: Spark prepares flights, two processes learn which are late, Spark scores them.

    Examples:

    penstock demo

    penstock demo --rows 50000 --framework tensorflow --keep flights
    """
    from penstock.tools.demo.run import Options
    from penstock.tools.demo.story import run_demo

    run_demo(Options(rows, workers, device.value, keep, scale, framework.value))


def size(
    rows: Annotated[str | None, typer.Option(help="How many, such as 2e9.")] = None,
    tensor: Annotated[
        list[str] | None,
        typer.Option(
            "--tensor",
            "-t",
            help="One tensor of a row, repeated for more: x:float32:256, image:uint8:3x224x224, y:float32, or "
            "tokens:int32:~128 for lists of 128 on average.",
        ),
    ] = None,
    dataset: Annotated[
        str | None, typer.Option(help="A dataset instead; --rows then asks about so many.")
    ] = None,
    recipe: Annotated[str | None, typer.Option(help="A saved recipe instead.")] = None,
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="How many read, a shard each; else as many as the log has ranks, or 1."),
    ] = None,
    bandwidth: Annotated[
        str | None, typer.Option(help="What storage gives each worker, such as '2 GB/s'.")
    ] = None,
    measure: Annotated[
        str | None,
        typer.Option(
            help="Measure it instead, on this file or in this folder; a folder gets a temporary file of up to 268 MB, "
            "which is removed."
        ),
    ] = None,
    compute: Annotated[
        str | None, typer.Option(help="What an epoch takes to compute, such as '3 min'.")
    ] = None,
    step: Annotated[str | None, typer.Option(help="Or one step of --batch-size rows: '12 ms'.")] = None,
    log: Annotated[
        list[str] | None,
        typer.Option(
            help="Or a training log (log= of a loader), which shows a step's time, its rows, and how many trained."
        ),
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(min=1, help="Rows of a step on each worker; else those of the log, or 8192.")
    ] = None,
    prep: Annotated[
        str | None, typer.Option(help="What preparing all rows once takes, such as '20 min'.")
    ] = None,
    epochs: Annotated[int, typer.Option(min=1, help="How many are trained, beside --prep.")] = 1,
    plot: Annotated[str | None, typer.Option(help="Draw it into this file, .png, .svg or .pdf.")] = None,
    json: Json = False,
) -> None:
    """Say how many bytes there are, whether storage or computing bounds an epoch, and where that flips.

    Examples:

    penstock size --rows 2e9 -t x:float32:256 --bandwidth 2GB/s --compute 3min

    penstock size --dataset train/ --measure train/ --log run/log.jsonl
    """
    from penstock.tools.size import BATCH_SIZE
    from penstock.tools.size_pages import show

    given_step: str | float | None = step
    if log:
        from penstock.tools.report.sizing import logged_step

        if step or compute:
            raise SizeError(
                "a log shows how long a step computes, and that is given too. Pass one of --log, --step and --compute."
            )
        given_step, rows_of_a_step, ranks = logged_step(log)
        if batch_size not in (None, rows_of_a_step):
            raise SizeError(
                f"--batch-size {batch_size}: the log's steps are of {rows_of_a_step:,} rows, and how long others take "
                "it does not tell. Leave --batch-size out, or give the time of such a step (--step '12 ms') and no log."
            )
        batch_size, workers = rows_of_a_step, workers or ranks
    found = penstock.size(
        rows,
        tensors=tensor or None,
        workers=workers or 1,
        bandwidth=bandwidth,
        compute=compute,
        prep=prep,
        dataset=dataset,
        recipe=_saved_recipe(recipe) if recipe else None,
        measure=measure,
        step=given_step,
        batch_size=batch_size or BATCH_SIZE,
        epochs=epochs,
    )
    if plot:
        found.plot(plot)
    if json:
        typer.echo(found.to_json())
    else:
        show(found)


def _saved_recipe(path: str) -> FittedRecipe:
    try:
        return penstock.load_recipe(path)
    except RecipeError as error:
        raise SizeError(
            f"--recipe: {error} Name what fitted.save(path) wrote, or give --tensor x:float32:256."
        ) from error


def train(
    script: Annotated[str, typer.Argument(help="A Python script; with --module, a module's name.")],
    arguments: Annotated[list[str] | None, typer.Argument(help="What the script gets, after --.")] = None,
    workers: Annotated[int, typer.Option(min=1, help="How many ranks, each a process of its own.")] = 2,
    gpus: Annotated[
        int | None, typer.Option(min=0, help="GPUs that each rank has for itself; else all see all of them.")
    ] = None,
    timeout: Annotated[
        float | None, typer.Option(help="Stop ranks that still run after so many seconds.")
    ] = None,
    module: Annotated[bool, typer.Option("--module", "-m", help="Run a module, as python -m would.")] = False,
) -> None:
    """Run a training script as several ranks on this machine, as it would run under torchrun.

    Examples:

    penstock train script.py --workers 4 -- --epochs 3

    penstock train --module mine.training --workers 8 --gpus 1
    """
    from penstock.tools.train import train_script

    train_script(script, arguments or [], workers, gpus, timeout, module)


def report(
    path: Annotated[str, typer.Argument(help="A dataset, or plain Parquet or Arrow files.")],
    out: Annotated[
        str | None, typer.Option(help="The file to write: .html for the page, .json for the facts.")
    ] = None,
    log: Annotated[
        list[str] | None,
        typer.Option(help="A training log (log= of a loader), or a folder of them; repeated for more."),
    ] = None,
    explain: Annotated[
        str | None, typer.Option(help="A file that `penstock explain ... --json` printed.")
    ] = None,
    title: Annotated[str | None, typer.Option(help="Of the page; else the dataset's name.")] = None,
    version: Version = None,
    json: Annotated[bool, typer.Option("--json", help="Print the facts as JSON.")] = False,
) -> None:
    """Draw a page about a dataset and a training on it: tensors, recipe, shards, the feed over time, and the verdict.

    Examples:

    penstock report s3://bucket/train --log run/log.jsonl --out report.html

    penstock report train/ --log run/ --explain boundaries.json --json
    """
    if out is None and not json:
        raise ReportError("nothing would be left of the report. Pass --out report.html, or --json.")
    found = penstock.report(
        penstock.open(path, version=version), out, log=log or None, explanation=explain, title=title
    )
    if json:
        typer.echo(found.to_json())
    else:
        typer.echo(f"{out}: {found.facts['headline']}")
