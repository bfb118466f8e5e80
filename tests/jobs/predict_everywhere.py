"""Run by test_predict_everywhere.py in a process of its own: the same scoring on the master the command line names.

The executors' PYTHONPATH holds a `penstock` that cannot be imported, so that whatever they run must have come with
the job.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
from pyspark.sql import functions as F

import penstock as pk


def network() -> torch.nn.Module:
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))


def workers_cannot_import_penstock(batches):
    import importlib

    import pyarrow as pa

    for _ in batches:
        pass
    try:
        importlib.import_module("penstock.scoring.task")
        yield pa.RecordBatch.from_pydict({"found": [1]})
    except ImportError:
        yield pa.RecordBatch.from_pydict({"found": [0]})


def main(kind: str, where: str) -> None:
    spark = (
        pk.session(remote=where)
        if kind == "remote"
        else pk.session(memory="1g", config={"spark.master": where})
    )
    df = spark.range(0, 2000, 1, 3).selectExpr(
        "id",
        "cast(id % 17 as float) as a",
        "cast(id % 5 as double) as b",
        "if(id = 7, null, id) as c",
        "'t' as text",
    )
    whole = df.where("id != 7")
    columns = ["a", "b", "c"]
    x = pk.to_torch(whole, columns, dtype="float32")
    with torch.inference_mode():
        wanted = network().eval()(x)[:, 0].numpy()

    found = pk.predict(
        whole, network, tensors=columns, dtype="float32", returns="score float", batch_size=300
    )
    assert found.columns == ["id", "a", "b", "c", "text", "score"]
    rows = found.orderBy("id").collect()
    assert np.allclose([row.score for row in rows], wanted, atol=1e-5)
    assert [(row.id, row.a, row.c, row.text) for row in rows[:2]] == [(0, 0.0, 0, "t"), (1, 1.0, 1, "t")]

    errors = pk.predict(
        df, network, tensors=columns, dtype="float32", returns="score float", on_error="column", keep=["id"]
    )
    bad = errors.where(F.col("error").isNotNull()).collect()
    assert [(row.id, row.score, row.error) for row in bad] == [(7, None, "null in column 'c'")]
    with pytest.raises(
        Exception, match=r"RowRefused: row id=7, a=7\.0, b=2\.0 \(number 7 of partition 0\) cannot"
    ):
        pk.predict(df, network, tensors=columns, dtype="float32", returns="score float").collect()

    recipe = pk.Recipe(x=pk.stack(pk.col("a").standardize(), pk.col("b"), dtype="float32")).fit(df)
    scaled = pk.predict(df, lambda: lambda x: x, recipe=recipe, returns="x array<float>", keep=["id"])
    table = df.orderBy("id").toArrow()
    assert [row.x for row in scaled.orderBy("id").collect()] == recipe.arrow(table)["x"].to_pylist()

    path = Path(tempfile.mkdtemp()) / "model.pt2"
    batch = torch.export.Dim("batch", max=1 << 20)
    torch.export.save(torch.export.export(network(), (x[:8],), dynamic_shapes=({0: batch},)), path)
    shipped = pk.predict(whole, path, tensors=columns, dtype="float32", returns="score float", keep=["id"])
    path.unlink()  # it travelled with the job
    assert np.allclose([row.score for row in shipped.orderBy("id").collect()], wanted, atol=1e-5)

    seen = spark.range(0, 4, 1, 4).mapInArrow(workers_cannot_import_penstock, "found long").collect()
    assert [row.found for row in seen] == [0] * 4, "the executors can import penstock, so this shows nothing"
    spark.stop()
    print("all well")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
