"""The workers' side of `pk.predict` on a GPU: the model's own values, and what overlapping copies is worth.

    python benchmarks/predict_gpu.py [--rows 2000000] [--columns 40] [--batch-size 8192] [--device cuda]

Arrow batches of 10,000 rows, as Spark hands them over, go through the very class that runs in Spark's Python workers;
there is no Spark. Results are held against the model's own on the same batches, bit for bit. Then the same rows are
timed with copies beside computing, and with each batch copied, computed and copied back before the next. Prints
Markdown.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import torch

from penstock.scoring.calls import Runner, TorchRunner
from penstock.scoring.cuda import CudaRunner
from penstock.scoring.device import Task
from penstock.scoring.job import Job, Kept, Result
from penstock.scoring.task import Scoring
from penstock.wire.plan import Piece, Plan, TensorPlan

ARROW_ROWS = 10_000


def model(columns: int, hidden: int, depth: int) -> torch.nn.Module:
    torch.manual_seed(7)
    layers: list[torch.nn.Module] = [torch.nn.Linear(columns, hidden), torch.nn.ReLU()]
    for _ in range(depth):
        layers += [torch.nn.Linear(hidden, hidden), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers, torch.nn.Linear(hidden, 1)).eval()


def job(columns: int, size: int, device: str) -> Job:
    names = tuple(f"c{place}" for place in range(columns))
    plan = Plan((TensorPlan("x", "float32", (Piece(names, (None,) * columns, packed=True),), matrix=True),))
    kept, results = (Kept("id", 1),), (Result("score", "float32"),)
    return Job(
        "gpu",
        lambda: None,
        plan,
        kept,
        (1,),
        results,
        size,
        device,
        "torch",
        errors_as_column=False,
        recipe=False,
    )


def arrow_batches(x: np.ndarray) -> list[pa.RecordBatch]:
    made = []
    for start in range(0, len(x), ARROW_ROWS):
        part = x[start : start + ARROW_ROWS]
        offsets = np.arange(len(part) + 1, dtype=np.int32) * np.int32(x.shape[1])
        lists = pa.ListArray.from_arrays(pa.array(offsets), pa.array(part.reshape(-1)))
        made.append(
            pa.RecordBatch.from_arrays(
                [lists, pa.array(np.arange(start, start + len(part)))], names=["p0", "p1"]
            )
        )
    return made


def scored(what: Job, runner: Runner, batches: Sequence[pa.RecordBatch]) -> np.ndarray:
    scoring = Scoring(what, Task(0), runner)
    found = [out["score"] for batch in batches for out in scoring.take(batch)]
    found += [out["score"] for out in scoring.rest()]
    return np.concatenate([column.to_numpy() for column in found])


def own(layers: torch.nn.Module, x: np.ndarray, size: int, device: str) -> np.ndarray:
    with torch.inference_mode():
        parts = [
            layers(torch.from_numpy(x[at : at + size]).to(device))[:, 0].cpu()
            for at in range(0, len(x), size)
        ]
    return torch.cat(parts).numpy()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=lambda text: int(float(text)), default=2_000_000)
    parser.add_argument("--columns", type=int, default=40)
    parser.add_argument("--batch-size", type=int, default=8192)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--device", default="cuda")
    given = parser.parse_args()

    x = np.random.default_rng(1).normal(size=(given.rows, given.columns)).astype(np.float32)
    batches = arrow_batches(x)
    what = job(given.columns, given.batch_size, given.device)
    gpu = torch.device(given.device).type == "cuda"
    where = torch.cuda.get_device_name() if gpu else "CPU"
    print(
        f"{where}, torch {torch.__version__}; {given.rows:,} rows x {given.columns}, batches of {given.batch_size}\n"
    )
    print("| model | way | million rows a second: median (all) | GB/s of input |")
    print("| --- | --- | --- | --- |")
    for name, hidden, depth in (
        ("small: 64 wide", 64, 1),
        ("middling: 1024 wide", 1024, 2),
        ("large: 4096 wide", 4096, 3),
    ):
        if not gpu and hidden > 64:
            continue
        layers = model(given.columns, hidden, depth).to(given.device)
        exact = own(layers, x, given.batch_size, given.device)
        ways: dict[str, Runner] = (
            {
                "copies beside computing": CudaRunner(layers, ("x",), ("float32",), given.device),
                "one after the other": CudaRunner(layers, ("x",), ("float32",), given.device, overlap=False),
                "plain memory, .to(device)": TorchRunner(layers, ("x",), ("float32",), given.device),
            }
            if gpu
            else {"on the CPU": TorchRunner(layers, ("x",), ("float32",))}
        )
        seconds: dict[str, list[float]] = {way: [] for way in ways}
        for way, runner in ways.items():
            assert np.array_equal(scored(what, runner, batches), exact), f"{way}: not the model's own output"
        for _ in range(given.rounds):
            for way, runner in ways.items():
                began = time.perf_counter()
                scored(what, runner, batches)
                seconds[way].append(time.perf_counter() - began)
        for way, taken in seconds.items():
            rates = sorted(given.rows / each / 1e6 for each in taken)
            shown = ", ".join(f"{rate:.1f}" for rate in rates)
            middle = statistics.median(rates)
            print(f"| {name} | {way} | {middle:.1f} ({shown}) | {middle * given.columns * 4 / 1000:.2f} |")


if __name__ == "__main__":
    main()
