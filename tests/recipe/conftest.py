"""Data that recipes are fitted on, as Arrow and in Spark; and the way to what the tests share."""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from recipe_data import made


@pytest.fixture(scope="session")
def table() -> pa.Table:
    return made()


@pytest.fixture(scope="session")
def df(spark, table):
    found = spark.createDataFrame(table).repartition(3).cache()
    yield found
    found.unpersist()
