"""A user's function on whole columns, as an Arrow UDF: the one operation that leaves the JVM."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql.pandas.functions import arrow_udf

from penstock.backends.base import Kernel, Site
from penstock.backends.spark.columns import spelled
from penstock.backends.whole_columns import arrow_type, called


def _batch(site: Site, *args: Column) -> Column:
    from pyspark import cloudpickle

    import penstock

    # Executors need not have Penstock: its part of the function is sent whole.
    cloudpickle.register_pickle_by_value(penstock)  # type: ignore[no-untyped-call]
    function = site.params["function"]
    inner, numpy, name = function.function, function.columns == "numpy", function.name
    wanted = arrow_type(site.type)

    # Spark reads the hints, to know what the function takes.
    def run(*arrays: pa.Array) -> pa.Array:
        return called(inner, numpy, name, wanted, arrays)

    found: Column = arrow_udf(run, spelled(site.type))(*args)  # type: ignore[call-overload]  # hints say the kind
    return found


KERNELS: dict[str, Kernel] = {"batch": _batch}
