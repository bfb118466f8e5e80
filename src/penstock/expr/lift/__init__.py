"""A plain Python function as an expression that means exactly what Python means, or a refusal with line and reason.

`lift_function` reads the function's source (`source`), executes it symbolically, statement by statement
(`statements`, `expressions`, `calls`), on values that differ from row to row (`values`, `machine`), and returns a
`Body`: the expression of its result, and beside it the number of the error each row raises, null for none.
`penstock.lifted` checks it against the original, and is what users call.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.errors import ExpressionError, NotLifted
from penstock.expr.lift.conversion import returned
from penstock.expr.lift.forms import Form, Signature, signature_of
from penstock.expr.lift.known import wrapped
from penstock.expr.lift.machine import Dead, Machine, Place
from penstock.expr.lift.statements import result_of
from penstock.expr.lift.values import Symbol, Typed, Value
from penstock.expr.nodes import Expression, call
from penstock.expr.types import Type

MOST_NODES = 3000
"""Different operations of a lifted function: beyond, Spark plans longer than Python runs."""


@dataclass(frozen=True, slots=True)
class Body:
    """A lifted function: an expression over columns named like its arguments."""

    function: types.FunctionType | types.MethodType
    """The function, or the method of the object."""
    arguments: Mapping[str, Form]
    returns: Form
    value: Expression
    """The result; of no meaning in rows with a fault."""
    fault: Expression
    """The number of the error that a row raises; null for none."""
    faults: tuple[str, ...]
    """The errors by number: a class's name, a colon, and the message, or {0} for the first of the messages."""
    messages: tuple[Expression, ...]
    raised: frozenset[str] = frozenset()
    """The faults that are the user's own errors: their messages have to be Python's, to the letter."""

    @property
    def expression(self) -> Expression:
        """The whole: the result, or the error."""
        if not self.faults:
            return self.value
        return call("raise_faults", self.value, self.fault, *self.messages, params={"faults": self.faults})


def lift_function(
    function: Callable[..., Any],
    given: Mapping[str, Type] | None = None,
    returns: Type | None = None,
) -> Body:
    """Lift a function, by its annotations or by the types that are given; or raise `NotLifted`.

    A method, or an object that can be called, is its function with the object in the place of its first argument.
    """
    bound: dict[str, Any] = {}
    method = function if isinstance(function, types.MethodType) else _call_of(function)
    if method is not None and isinstance(method.__func__, types.FunctionType):
        function = method.__func__
        bound = {next(iter(inspect.signature(function).parameters), ""): method.__self__}
    if not isinstance(function, types.FunctionType):
        raise NotLifted(
            getattr(function, "__name__", type(function).__name__),
            1,
            0,
            f"it is a {type(function).__name__}, and no plain Python function",
            "Give the function itself.",
        )
    if function.__code__.co_flags & (
        inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
    ):
        raise NotLifted(
            function.__name__,
            function.__code__.co_firstlineno,
            0,
            "it is a generator or async",
            "Return a value.",
        )
    signature = signature_of(function, given, returns, bound)
    machine = Machine(Place(function.__name__))
    try:
        return _body(machine, function, signature, bound)
    except RecursionError:
        machine.refuse("its statements lie too deep in each other", "Make the function smaller.")
    except ExpressionError as error:
        if isinstance(error, NotLifted):
            raise
        machine.refuse(str(error).partition(". ")[0], "Make the function smaller.")


def _call_of(function: Any) -> types.MethodType | None:
    """What runs when an object is called, where that is a plain method."""
    if isinstance(function, types.FunctionType | type) or not callable(function):
        return None
    found = getattr(function, "__call__", None)  # noqa: B004  # its method, not whether it has one
    return found if isinstance(found, types.MethodType) else None


def _body(
    machine: Machine, function: types.FunctionType, signature: Signature, bound: Mapping[str, Any]
) -> Body:
    variables = {}
    for name, parameter in inspect.signature(function, follow_wrapped=False).parameters.items():
        if name in signature.arguments:
            variables[name] = _argument(machine, name, signature.arguments[name])
        elif name in bound:
            variables[name] = wrapped(bound[name])
        else:
            variables[name] = wrapped(parameter.default)
    try:
        value: Value | None = result_of(machine, function, variables)
    except Dead:
        value = None
    declared = signature.returns or _inferred(machine, value)
    try:
        result = None if value is None else _converted(machine, value, declared)
    except Dead:
        result = None
    if result is None:
        result = machine.trees.literal(None, declared.type)
    fault = machine.trees.first(machine.pending)
    _check_size(machine, result, fault)
    return Body(
        types.MethodType(function, next(iter(bound.values()))) if bound else function,
        signature.arguments,
        declared,
        result,
        fault,
        tuple(machine.faults),
        tuple(machine.messages),
        frozenset(machine.raised),
    )


def _argument(machine: Machine, name: str, form: Form) -> Value:
    """A parameter as a symbol; faults for rows in which the column does not fit its annotation."""
    trees = machine.trees
    column = trees.column(name)
    params = {"argument": name, "to": str(form.type)}
    null = trees.make("is_null", column)
    value = Typed(form.kind, trees.make("convert_argument", column, params=params), type=form.type)
    if not form.optional:
        machine.fault(null, "TypeError", f"argument '{name}' is None, and is declared {form}")
    if form.kind in (
        "int",
        "float",
        "list",
    ):  # of others a column fits in every row, or is refused by its type
        lost = trees.negated(trees.make("argument_fits", column, params=params))
        machine.fault(lost, "TypeError", f"argument '{name}' does not become {form} without loss")
    if form.optional:
        return Symbol(((null, Typed("none")), (trees.negated(null), value)))
    return Symbol(((trees.true, value),))


def _inferred(machine: Machine, value: Value | None) -> Form:
    """What a function without a declared result returns."""
    from penstock.expr.lift.values import TYPES

    cases = () if value is None else machine.symbol(value).cases
    kinds = {typed.kind for _, typed in cases} - {"none"}
    if kinds == {"list"}:
        found = next(typed.type for _, typed in cases if typed.kind == "list")
        assert found is not None
        return Form("list", found, optional=True)
    kinds = {{"numpy": "float", "numpy_bool": "bool"}.get(kind, kind) for kind in kinds}
    if kinds and kinds <= {"int", "float"}:
        kind = "float" if "float" in kinds else "int"
    elif len(kinds) == 1 and kinds <= set(TYPES):
        kind = kinds.pop()
    else:
        shown = ", ".join(sorted(kinds)) or "nothing but None"
        machine.refuse(f"it returns {shown}, which makes no column", "Annotate what it returns: -> float.")
    return Form(kind, TYPES[kind], optional=True)


def _converted(machine: Machine, value: Value, declared: Form) -> Expression:
    cases = machine.symbol(value).cases
    found: Expression | None = None
    for guard, typed in reversed(cases):
        result = machine.branch(guard, lambda typed=typed: returned(machine, typed, declared))  # type: ignore[misc]
        if result is not None:
            found = result if found is None else machine.trees.choose(guard, result, found)
    if found is None:
        raise Dead
    return found


def _check_size(machine: Machine, *roots: Expression) -> None:
    """Refuse what is too large, each shared piece counted once."""
    seen, waiting = set[int](), [*roots]
    while waiting:
        node = waiting.pop()
        if id(node) not in seen:
            seen.add(id(node))
            waiting += node.args
    if len(seen) > MOST_NODES:
        machine.refuse(
            f"its expression has {len(seen)} operations, and {MOST_NODES} are the most",
            "Make it smaller: fewer rounds of a loop, or fewer choices one after the other.",
        )
