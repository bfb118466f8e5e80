"""A function's whole program: the text that numba compiles, which needs nothing of Penstock where it runs.

The text holds the helpers, the functions, and a loop over rows. A row that raises is marked, and the loop goes on.
"""

from __future__ import annotations

import hashlib
import types
from collections.abc import Mapping
from dataclasses import dataclass

from penstock.compiled.functions import MAIN, main_function, new_unit
from penstock.compiled.helpers import needed
from penstock.errors import NotLifted
from penstock.expr.lift.forms import Form

KINDS = ("bool", "int", "float")
GROWING = ("pow_ii", "shl_ii", "factorial_i", "comb_ii", "perm_ii")
"""Helpers of operations with which Python fills the memory, if it is given large numbers."""
LOOP = """def rows(count, skip, {columns}, found, empty, faulty):
    for i in range(count):
        if skip[i]:
            continue
        try:
            value, none = {main}({elements})
            found[i] = value
            empty[i] = none
        except Exception:
            faulty[i] = True
"""


@dataclass(frozen=True, slots=True)
class Program:
    """What is compiled: text, and the kinds of columns it takes and fills."""

    name: str
    text: str
    arguments: tuple[str, ...]
    returns: str

    @property
    def digest(self) -> str:
        """What the program is known by in a process that has compiled it already."""
        whole = repr((self.text, self.arguments, self.returns))
        return hashlib.sha256(whole.encode()).hexdigest()

    @property
    def grows(self) -> bool:
        """Whether Python would fill the memory with large arguments."""
        return any(f"{helper}(" in self.text for helper in GROWING)


def program_of(function: types.FunctionType, arguments: Mapping[str, Form], returns: Form) -> Program:
    """Translate a function, or raise `NotLifted`."""

    def refuse(reason: str, advice: str) -> NotLifted:
        return NotLifted(function.__name__, function.__code__.co_firstlineno, 0, reason, advice)

    for name, form in arguments.items():
        if form.kind not in KINDS:
            raise refuse(f"its argument {name!r} is {form}", "Compiled functions take bool, int and float.")
    if returns.kind not in KINDS:
        raise refuse(f"it returns {returns}", "Compiled functions return bool, int or float.")
    if not arguments:
        raise refuse("it takes no column", "Give it one.")
    unit = new_unit()
    try:
        main_function(unit, function, arguments, returns)
    except RecursionError:
        raise refuse("its statements lie too deep in each other", "Make the function smaller.") from None
    columns = [f"a{place}" for place in range(len(arguments))]
    loop = LOOP.format(
        columns=", ".join(columns), main=MAIN, elements=", ".join(f"{column}[i]" for column in columns)
    )
    arrays = [f"{name} = {text}" for text, name in unit.sequences.items()]
    functions = [*needed("\n".join(unit.functions)), *unit.functions]
    text = "\n\n".join([*arrays, *(f"@jit\n{one.rstrip()}" for one in functions), loop])
    return Program(function.__name__, text, tuple(form.kind for form in arguments.values()), returns.kind)
