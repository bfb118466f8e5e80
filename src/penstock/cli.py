"""The command line: parsing and printing. Each command calls one function.

`penstock --help` lists the commands. An error that Penstock raises on purpose is one paragraph on stderr and exit
code 1; `--debug` shows where it arose.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

import penstock
from penstock.errors import PenstockError

app = typer.Typer(
    name="penstock",
    help="Take a Spark DataFrame to a saturated GPU.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
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
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback with errors.")] = False,
) -> None:
    """Take a Spark DataFrame to a saturated GPU."""


@app.command()
def demo(
    rows: Annotated[int, typer.Option(min=1000, help="Rows of the made-up table.")] = 1_000_000,
    device: Annotated[str | None, typer.Option(help="Where the torch tensor goes, such as cuda.")] = None,
) -> None:
    """Take a DataFrame to tensors, timed against the ways people usually do it.

    Example: penstock demo --rows 2000000
    """
    from penstock.tools.demo import run_demo

    run_demo(rows, device)


def main() -> None:
    """Run the command line."""
    try:
        app()
    except PenstockError as error:
        if "--debug" in sys.argv:
            raise
        typer.secho(f"{type(error).__name__}: {error}", fg=typer.colors.RED, err=True)
        sys.exit(1)
