"""Commands about Python functions in queries: where they are, what they cost, and what becomes of them."""

from __future__ import annotations

from typing import Annotated

import typer

import penstock
from penstock.cli.options import Json, Remote, SourceFormat


def explain(
    target: Annotated[
        str,
        typer.Argument(help="A Python script (.py), a table's name, or a path of files that Spark reads."),
    ],
    arguments: Annotated[list[str] | None, typer.Argument(help="What the script gets, after --.")] = None,
    name: Annotated[
        str | None, typer.Option(help="The script's DataFrame; without it, all at its top level.")
    ] = None,
    analyze: Annotated[bool, typer.Option("--analyze", help="Run the query and measure it.")] = False,
    source_format: SourceFormat = "parquet",
    remote: Remote = None,
    json: Json = False,
) -> None:
    """Show where a query's rows cross between the JVM and Python, and what to do about it.

    Examples:

    penstock explain features.py --name df --analyze

    penstock explain features.py --json -- --date 2026-01-01 > found.json
    """
    from penstock.tools.explain_target import as_json, explained, frames, show

    found = explained(frames(target, name, arguments or [], source_format, remote), analyze)
    if json:
        typer.echo(as_json(found))
    else:
        show(found)


def run(
    script: Annotated[str, typer.Argument(help="A Python script; what follows it is the script's.")],
    arguments: Annotated[list[str] | None, typer.Argument(help="What the script gets.")] = None,
    exact: Annotated[
        bool,
        typer.Option(
            "--exact",
            help="Keep functions that would stop where only Python holds a value, or whose last digit may differ.",
        ),
    ] = False,
    report: Annotated[
        str | None, typer.Option(help="A file that gets what became of each UDF, as JSON.")
    ] = None,
) -> None:
    """Run a script unchanged, its UDFs as native expressions where that is exact, and tell what became of each.

    Examples:

    penstock run features.py --date 2026-01-01

    penstock run --exact --report lifted.json features.py
    """
    from penstock.tools.run import run_and_tell

    raise typer.Exit(run_and_tell(script, arguments or [], exact=exact, json_path=report))


def bench() -> None:
    """Measure on this machine what choices cost."""


def boundary(
    rows: Annotated[float, typer.Option(min=1, max=1e12, help="Rows to compute, such as 4e6.")] = 4e6,
    rounds: Annotated[int, typer.Option(min=1, help="How often each way is timed.")] = 3,
    seed: Annotated[int, typer.Option(min=0, help="Of the values and the turns.")] = 0,
    remote: Remote = None,
    no_spark: Annotated[bool, typer.Option("--no-spark", help="In one process, without Spark.")] = False,
    plot: Annotated[str | None, typer.Option(help="Draw it into this file, .png or .svg.")] = None,
    json: Json = False,
) -> None:
    """Measure what a Python function costs: native, lifted, over Arrow, row by row; and which batch size to choose.

    Examples:

    penstock bench boundary --rows 4e6 --plot boundary.png

    penstock bench boundary --no-spark --json
    """
    from penstock.tools.bench_boundary import bench_boundary
    from penstock.tools.bench_boundary_pages import as_json, show

    found = bench_boundary(
        int(rows),
        spark=penstock.session(remote=remote) if remote and not no_spark else None,
        with_spark=not no_spark,
        rounds=rounds,
        seed=seed,
        plot=plot,
    )
    if json:
        typer.echo(as_json(found))
    else:
        show(found)
