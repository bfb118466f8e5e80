"""Every operation of features on a GPU, against what Arrow says it means: agreement, not speed.

    python benchmarks/conformance_gpu.py [--device cuda]

Takes the cases of `tests/expr` (edge values of every type) and prints, for each operation that tensors have, how many
cases and values there were, and the largest difference in units of the last place of the double. For sums that cancel
that means nothing: they are held to the sum of absolute values. Needs neither Spark nor pytest.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "expr"))

from expr_cases import CASES
from expr_compare import bits, by_torch, differences

from penstock.expr.ops import TABLE

TENSOR_TABLES = ("numbers", "times", "fixed")


def leaves(rows: list[Any]) -> list[Any]:
    return [leaf for row in rows for leaf in (row if isinstance(row, list) else [row])]


def furthest(expected: list[Any], got: list[Any]) -> int:
    """The largest difference of finite numbers, in units of the last place."""
    pairs = zip(leaves(expected), leaves(got), strict=True)
    finite = [
        (one, other)
        for one, other in pairs
        if isinstance(one, float) and isinstance(other, float) and math.isfinite(one) and math.isfinite(other)
    ]
    return max((abs(bits(one) - bits(other)) for one, other in finite), default=0)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cuda")
    given = parser.parse_args()
    counted: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    wrong: list[str] = []
    for table in TENSOR_TABLES:
        cases = [case for case in CASES if case.table == table]
        for case, (expected, got) in zip(cases, by_torch(cases, table, given.device), strict=True):
            wrong += differences(case, expected, got)
            for op in case.ops:
                counted[op][0] += 1
                counted[op][1] += len(leaves(expected))
                counted[op][2] = max(counted[op][2], furthest(expected, got))
    name = torch.cuda.get_device_name() if given.device == "cuda" else given.device
    print(f"{name}, torch {torch.__version__}\n")
    print("| operation | tier | cases | values | furthest, units in the last place |")
    print("| --- | --- | --- | --- | --- |")
    for op, (cases_of, values, most) in sorted(counted.items()):
        print(f"| {op} | {TABLE[op].tier} | {cases_of} | {values:,} | {most} |")
    print(f"\n{len(wrong)} disagreements")
    for line in wrong:
        print(f"- {line}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
