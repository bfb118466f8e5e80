"""What Spark's own transpiler lowers, ours lowers too; also over Connect, where Spark's does nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from transpiled_shapes import SHAPES, differences


def test_every_shape_is_native_and_exact(spark) -> None:
    assert differences(spark) == []


def test_spark_lowers_these(spark) -> None:
    """Otherwise the comparison would say nothing."""
    from pyspark.sql import functions as F

    switch = "spark.sql.experimental.optimizer.transpilePyUDFs"
    spark.conf.set(switch, "true")
    try:
        lowered = []
        for function, returns, *_ in SHAPES:
            made = F.udf(function, returns, useArrow=False)
            lowered.append(bool(getattr(made, "_unwrapped", made).transpiled))
    finally:
        spark.conf.unset(switch)
    assert sum(lowered) >= len(SHAPES) - 3


@pytest.mark.long
def test_over_connect() -> None:
    script = Path(__file__).with_name("transpiled_shapes.py")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=280)
    assert done.stdout.splitlines()[-1:] == ["compared"], done.stderr[-3000:]
    assert done.stdout.splitlines() == ["compared"]
