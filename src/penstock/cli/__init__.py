"""The command line: parsing and printing, in the order in which data goes its way.

Each command calls one function of the library. `functions` has those about Python functions in queries, `data` those
about datasets, `training` those about what trains on them, `options` what several of them take; `told` is how
errors come out.
"""

from __future__ import annotations

from typing import Annotated

import typer

import penstock
from penstock.cli import data, functions, training
from penstock.cli.told import Debugging, told

app = typer.Typer(
    name="penstock",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
SEE, BOUNDARY, HANDOFF, TRAINING = (
    "Before anything is written: see it, and say what it will take",
    "1  The language boundary: what a query loses to Python",
    "2  The hand-off: from Spark to files that are tensors",
    "3  The feed: training on them",
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"penstock {penstock.__version__}")
        raise typer.Exit


@app.callback()
def penstock_command(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    debug: Annotated[
        bool,
        typer.Option(
            "--debug",
            help="Show where an error arose, with a traceback; before the command: penstock --debug write ...",
        ),
    ] = False,
) -> None:
    """Take a Spark DataFrame to a saturated GPU.

    Commands come in the order in which data goes its way. Each has examples: penstock write --help.
    Exit codes: 0 done, 1 an error that is told, 2 a command line that is not understood, 130 interrupted.
    """
    Debugging.wanted = debug


app.command(rich_help_panel=SEE)(told(training.demo))
app.command(rich_help_panel=SEE)(told(training.size))

app.command(rich_help_panel=BOUNDARY)(told(functions.explain))
app.command(rich_help_panel=BOUNDARY, context_settings={"allow_interspersed_args": False})(
    told(functions.run)
)
bench = typer.Typer(no_args_is_help=True, rich_markup_mode="rich")
# Typer leaves the name of a single command out, unless there is something beside it.
bench.callback()(functions.bench)
bench.command()(told(functions.boundary))
app.add_typer(bench, name="bench", rich_help_panel=BOUNDARY)

app.command(rich_help_panel=HANDOFF)(told(data.write))
app.command(rich_help_panel=HANDOFF)(told(data.convert))
app.command(rich_help_panel=HANDOFF)(told(data.inspect))
app.command(rich_help_panel=HANDOFF)(told(data.verify))
app.command(rich_help_panel=HANDOFF)(told(data.vacuum))

app.command(rich_help_panel=TRAINING)(told(training.train))
app.command(rich_help_panel=TRAINING)(told(training.report))


def main() -> None:
    """Run the command line."""
    app(prog_name="penstock")
