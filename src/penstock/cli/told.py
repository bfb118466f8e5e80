"""How errors come out of a command: one paragraph on stderr and an exit code; with `--debug`, the traceback.

An error that Penstock raises on purpose says what to do next. Any other one (of Spark, of a library, a bug) is told by
its first paragraph, and by what shows more of it.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import typer

from penstock.errors import PenstockError

P = ParamSpec("P")
R = TypeVar("R")

INTERRUPTED = 130
"""What a shell calls a program that was ended by Ctrl-C."""


class Debugging:
    """Whether `--debug` was given, of the command line that runs in this process."""

    wanted = False


def told(command: Callable[P, R]) -> Callable[P, R]:
    """The command, with its errors told."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except (typer.Exit, typer.Abort):
            raise
        except KeyboardInterrupt:
            _say("Interrupted.")
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:
            raise  # the shell's business: nobody reads what is printed
        except Exception as error:
            if Debugging.wanted:
                raise
            _say(_paragraph(error))
            raise typer.Exit(getattr(error, "exit_code", 1)) from None

    return run


def _paragraph(error: Exception) -> str:
    name, said = type(error).__name__, str(error)
    if isinstance(error, PenstockError):
        return f"{name}: {said}"
    first = said.strip().split("\n\n")[0].strip().split("\nJVM stacktrace")[0]
    return f"{name}: {first or 'no more is said'}\nThe whole of it: penstock --debug ..."


def _say(text: str) -> None:
    from rich.console import Console
    from rich.text import Text

    # On a terminal in red; elsewhere as it is, and never broken into lines.
    Console(file=sys.stderr, highlight=False).print(Text(text, style="red"), soft_wrap=True)
