"""The workers' side of `pk.predict` without Spark: batches under way, devices, models kept, rows found again."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import PredictError, RowRefused
from penstock.scoring.calls import TorchRunner, mapped
from penstock.scoring.device import Task, place
from penstock.scoring.job import RETURNED, Job, Kept, Result
from penstock.scoring.loading import runner
from penstock.scoring.once import HOME, MOST, once
from penstock.scoring.rows import null_masks
from penstock.scoring.task import Scoring
from penstock.wire.plan import Piece, Plan, TensorPlan

PLAN = Plan((TensorPlan("x", "float32", (Piece(("a", "b"), (None, None), packed=True),), matrix=True),))


def job(load, size: int = 4, errors: bool = False) -> Job:
    kept, results = (Kept("id", 1),), (Result("s", "float32"),)
    return Job("k", load, PLAN, kept, (1,), results, size, "cpu", "torch", errors, recipe=False)


class Late(TorchRunner):
    """Computes only when outputs are asked for, as a GPU may, and reads its inputs then."""

    def __init__(self, function):
        super().__init__(function, ("x",), ("float32",))
        self.most, self._waiting = 0, 0

    def submit(self, arrays):
        self._waiting += 1
        self.most = max(self.most, self._waiting)
        return arrays

    def outputs(self, submitted):
        self._waiting -= 1
        return super().outputs(super().submit(submitted))


def arrow_batches(counts: list[int], bad: frozenset[int] = frozenset()) -> list[pa.RecordBatch]:
    made, first = [], 0
    for count in counts:
        ids = np.arange(first, first + count)
        pairs = [[None if n in bad else float(n), 1.0] for n in ids]
        made.append(
            pa.RecordBatch.from_arrays(
                [pa.array(pairs, pa.list_(pa.float32())), pa.array(ids)], names=["p0", "p1"]
            )
        )
        first += count
    return made


def scored(scoring: Scoring, batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    found = [out for batch in batches for out in scoring.take(batch)]
    return found + list(scoring.rest())


@settings(max_examples=60)
@given(
    counts=st.lists(st.integers(1, 9), max_size=12),
    size=st.integers(1, 20),
    bad=st.frozensets(st.integers(0, 60), max_size=20),
)
def test_rows_stay_beside_their_results_however_batches_are_cut(counts, size, bad):
    model = Late(lambda x: x.sum(1))
    found = scored(Scoring(job(None, size, errors=True), Task(0), model), arrow_batches(counts, bad))
    assert [batch.num_rows for batch in found] == counts, "Arrow batches go back as they came"
    rows = [row for batch in found for row in batch.to_pylist()]
    assert [row[f"{RETURNED}1"] for row in rows] == list(range(sum(counts)))
    for row in rows:
        if row[f"{RETURNED}1"] in bad:
            assert (row["s"], row["error"]) == (None, "null in column 'a'")
        else:
            assert (row["s"], row["error"]) == (row[f"{RETURNED}1"] + 1.0, None)
    assert model.most <= 3


@settings(max_examples=40)
@given(
    counts=st.lists(st.integers(1, 9), max_size=8), size=st.integers(1, 20), odd=st.sets(st.integers(0, 50))
)
def test_rows_the_model_refuses_stand_alone_however_batches_are_cut(counts, size, odd):
    def score(x):
        total = x.sum(1)
        x.zero_()
        if any(int(value) - 1 in odd for value in total):
            raise ValueError("odd")
        return total

    task = Scoring(job(None, size, errors=True), Task(0), TorchRunner(score, ("x",), ("float32",)))
    rows = [row for batch in scored(task, arrow_batches(counts)) for row in batch.to_pylist()]
    wanted = [(None, "ValueError: odd") if n in odd else (n + 1.0, None) for n in range(sum(counts))]
    assert [(row["s"], row["error"]) for row in rows] == wanted


def test_the_refused_row_is_named_among_bad_ones_and_batches_before():
    def score(x):
        if (x[:, 0] == 17).any():
            raise ValueError("seventeen")
        return x[:, 0]

    task = Scoring(job(None, 5), Task(3), TorchRunner(score, ("x",), ("float32",)))
    with pytest.raises(
        RowRefused,
        match=r"row id=17 \(number 17 of partition 3\) .* ValueError: seventeen \(raised in score,",
    ):
        scored(task, arrow_batches([4, 3, 9, 8]))


@pytest.mark.parametrize("size", [3, 5, 24])
def test_a_value_that_does_not_fit_is_its_rows_fault_among_rows_the_model_refuses(size):
    def score(x):
        if (x[:, 0] == 9).any():
            raise ValueError("nine")
        return x[:, 0].long() * 10  # beyond 127 from 13 on

    whole = replace(job(None, size, errors=True), results=(Result("s", "int8"),))
    model = TorchRunner(score, ("x",), ("float32",))
    found = scored(Scoring(whole, Task(0), model), arrow_batches([4, 3, 9, 8], frozenset({2})))
    rows = [row for batch in found for row in batch.to_pylist()]
    for number, row in enumerate(rows):
        bad = number in (2, 9) or number > 12
        assert row["s"] == (None if bad else number * 10)
        assert (row["error"] is None) == (not bad)
    assert (
        rows[13]["error"] == "result 's' is 130, which does not fit tinyint; declare a wider type in returns"
    )
    strict = Scoring(
        replace(whole, errors_as_column=False),
        Task(0),
        TorchRunner(lambda x: x[:, 0].long() * 10, ("x",), ("float32",)),
    )
    with pytest.raises(RowRefused, match=r"row id=13 \(number 13 of partition 0\) .* result 's' is 130"):
        scored(strict, arrow_batches([4, 3, 9, 8]))


class Pair(NamedTuple):
    best: torch.Tensor
    place: torch.Tensor


@pytest.mark.parametrize(
    "outputs",
    [
        torch.topk(torch.tensor([1.0, 3.0], dtype=torch.bfloat16), 1),
        torch.tensor([[1.0, 3.0]], dtype=torch.bfloat16).max(1),
        Pair(torch.tensor([3.0], dtype=torch.bfloat16), torch.tensor([1])),
    ],
    ids=["topk", "max", "named"],
)
def test_tensors_in_named_tuples_are_arrays_too(outputs):
    found = TorchRunner(len, ("x",), ("float32",)).outputs(outputs)
    assert type(found) is tuple
    assert [(type(each), each.tolist()) for each in found] == [(np.ndarray, [3.0]), (np.ndarray, [1])]
    assert mapped(str, [outputs, "text"])[1] == "text"


def test_an_error_after_which_nothing_works_is_not_searched_by_halves():
    calls = []

    class Broken(TorchRunner):
        def fatal(self, error):
            return True

    def score(x):
        calls.append(len(x))
        raise RuntimeError("CUDA error: device-side assert triggered")

    task = Scoring(job(None, 8, errors=True), Task(0), Broken(score, ("x",), ("float32",)))
    with pytest.raises(RuntimeError, match="device-side assert"):
        scored(task, arrow_batches([8]))
    assert calls == [8]


def test_inputs_handed_back_are_not_written_over():
    held = []

    def score(x):
        held.append(x)
        return x[:, 0]

    found = scored(
        Scoring(job(None, 2), Task(0), TorchRunner(score, ("x",), ("float32",))), arrow_batches([3, 5])
    )
    assert [batch["s"].to_pylist() for batch in found] == [[0, 1, 2], [3, 4, 5, 6, 7]]
    assert torch.cat(held)[:, 0].tolist() == list(range(8))


def test_models_are_kept_by_call_and_the_oldest_go():
    sys.modules.pop(HOME, None)
    made = []
    for key in ("a", "b", "a", "c", "a", "d", "a", "b"):
        once(key, lambda key=key: made.append(key))
    assert made == ["a", "b", "c", "d", "b"], "b was used longest ago when d came"
    assert len(sys.modules[HOME].kept) == MOST
    del sys.modules[HOME]


def cuda(count: int, names: tuple[str, ...] = ()):
    def properties(number):
        return SimpleNamespace(uuid=names[number])

    there = SimpleNamespace(
        is_available=lambda: count > 0, device_count=lambda: count, get_device_properties=properties
    )
    return SimpleNamespace(cuda=there)


@pytest.mark.parametrize(
    ("asked", "gpus", "count", "found"),
    [
        ("auto", (), 0, "cpu"),
        ("auto", ("2",), 4, "cuda:2"),
        ("auto", ("GPU-11", "GPU-22"), 2, "cuda:1"),
        ("auto", (), 4, "cuda:3"),
        ("cpu", ("2",), 4, "cpu"),
        ("cuda:1", (), 4, "cuda:1"),
    ],
)
def test_the_device_is_the_tasks_gpu_or_any_or_none(asked, gpus, count, found):
    assert place(cuda(count, ("22", "11", "33", "44")), asked, gpus, worker=7) == found


def test_a_gpu_that_torch_does_not_see_is_an_error():
    with pytest.raises(PredictError, match=r"the GPU 'GPU-77', and none of the 4 .* CUDA_VISIBLE_DEVICES"):
        place(cuda(4, ("22", "11", "33", "44")), "auto", ("GPU-77",))


def test_a_task_uses_its_own_cores():
    before = torch.get_num_threads()
    try:
        runner(job(lambda: lambda x: x), Task(0, cpus=2))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_nulls_are_found_at_every_level():
    nested = pa.array([[[1], [2]], None, [[None], [3]], [None, [4]], []], pa.list_(pa.list_(pa.int64())))
    masks = dict(null_masks(Piece(("n",), (None,), depth=2), nested))
    assert masks["n"].tolist() == [False, True, True, True, False]
    assert list(null_masks(Piece(("n",), (0,), depth=2), nested)) == []
