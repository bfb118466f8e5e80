"""A user's function on whole columns, called as it is."""

from __future__ import annotations

from penstock.backends.arrow.values import Value, read, write
from penstock.backends.base import Kernel, Site
from penstock.backends.whole_columns import arrow_type, called
from penstock.errors import ExpressionError


def _batch(site: Site, *args: Value) -> Value:
    function = site.params["function"]
    arrays = tuple(write(arg, of) for arg, of in zip(args, site.types, strict=True))
    try:
        found = called(
            function.function, function.columns == "numpy", function.name, arrow_type(site.type), arrays
        )
    except ValueError as error:
        raise ExpressionError(str(error)) from error
    return read(found, site.type)


KERNELS: dict[str, Kernel] = {"batch": _batch}
