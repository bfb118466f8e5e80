"""The hand-off: a DataFrame becomes a dataset that training machines read without Spark.

Rows are split by a hash, so that a user is either in training or in validation, today and tomorrow. `pk.write`
makes even, shuffled, checksummed shards, and commits them as one version or not at all. The files are ordinary
Arrow files: any Arrow reader reads them. Writing again makes a new version and leaves the old one to those who
still read it.

Expect two versions, a verified dataset, and the same rows read by pyarrow.

    python examples/05_the_hand_off.py --rows 1000000
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import pyarrow as pa

import penstock as pk


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=500_000)
    given = parser.parse_args()

    spark = pk.session()
    df = spark.range(given.rows).selectExpr(
        "id % 5000 as user",
        "array_repeat(cast(id as float), 16) as embedding",
        "slice(array(1, 2, 3, 4, 5), 1, cast(id % 5 as int)) as clicks",  # lists of unequal lengths
        "cast(id % 2 as float) as label",
    )
    parts = pk.split(df, {"train": 0.9, "valid": 0.1}, by="user")
    tensors = {"x": "embedding", "clicks": pk.ragged("clicks"), "y": "label"}

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "train")
        began = time.perf_counter()
        ds = pk.write(parts["train"], path, tensors, workers=4)
        print(f"{ds}\nwritten in {time.perf_counter() - began:.1f} s")

        # Elsewhere, where there is no Spark and no Java:
        ds = pk.open(path)
        ds.verify()
        print("every byte is as written;", [shard.rows for shard in ds.shards], "rows in the shards")

        # The second version has more rows. Who reads the first goes on reading it.
        pk.write(parts["valid"], path, tensors, mode="append")
        new = pk.open(path)
        print(f"version {ds.version} has {ds.rows:,} rows, version {new.version} has {new.rows:,}")

        rows = sum(pa.ipc.open_file(path / shard.file).read_all().num_rows for shard in new.shards)
        print(f"pyarrow reads {rows:,} rows in the same files")

        batch = next(iter(new.torch(batch_size=4, pad=5)))
        print({name: tuple(tensor.shape) for name, tensor in batch.items()})


if __name__ == "__main__":
    main()
