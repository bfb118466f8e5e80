"""Settings under which Spark tells its plans whole, set for a while and put back.

For `penstock.jobs.identity` and `penstock.jobs.plan_reading`, which both read plans. Settings belong to the whole
session, so they take turns (`one_at_a_time`): one that ends must not put back what another still needs.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WHOLE = {
    "spark.sql.debug.maxToStringFields": "2147483647",
    "spark.sql.maxMetadataStringLength": "2147483647",
    "spark.sql.maxPlanStringLength": "2147483632",
}
"""Settings under which EXPLAIN cuts nothing off."""

one_at_a_time = threading.Lock()


@contextmanager
def set_for_a_while(spark: SparkSession, values: Mapping[str, str]) -> Iterator[None]:
    """The session has these settings while the block runs; those that nobody had set are unset again.

    >>> from penstock.jobs.session import session
    >>> spark = session(cores=2)
    >>> with set_for_a_while(spark, {"spark.sql.maxPlanStringLength": "99"}):
    ...     spark.conf.get("spark.sql.maxPlanStringLength")
    '99'
    >>> "spark.sql.maxPlanStringLength" in spark.conf.getAll
    False
    """
    given = spark.conf.getAll
    try:
        for key, value in values.items():
            spark.conf.set(key, value)
        yield
    finally:
        for key in values:
            if key in given:
                spark.conf.set(key, given[key])
            else:
                spark.conf.unset(key)
