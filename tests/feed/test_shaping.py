"""Ragged tensors filled up to a length, or nested; columns of plain files as tensors of one's own."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import penstock as pk
from penstock.errors import DatasetError, SelectionError

ROWS = 120


@pytest.fixture(scope="module")
def ds(tmp_path_factory: pytest.TempPathFactory) -> pk.Dataset:
    table = pa.table(
        {
            "id": np.arange(ROWS),
            "tokens": [list(range(1, row % 7 + 1)) for row in range(ROWS)],
            "text": ["x" * (row % 3) for row in range(ROWS)],
        }
    )
    tensors = {"id": "id", "tokens": pk.ragged("tokens"), "text": "text"}
    return pk.write(
        table, tmp_path_factory.mktemp("shaping"), tensors, dtype={"tokens": "int32"}, block_bytes=1024
    )


def expected(row: int, length: int) -> list[int]:
    whole = list(range(1, row % 7 + 1))[:length]
    return whole + [0] * (length - len(whole))


@pytest.mark.parametrize("framework", ["numpy", "torch"])
@pytest.mark.parametrize("length", [1, 4, 9])
@pytest.mark.parametrize("last", ["short", "pad"])
def test_rows_are_filled_up_and_cut_off(ds, framework, length, last) -> None:
    seen = 0
    for batch in getattr(ds, framework)(32, pad=length, lanes=4, rank=0, world=1, last=last):
        ids = np.asarray(batch["id"])
        assert tuple(batch["tokens"].shape) == (len(ids), length)
        valid = np.asarray(batch["valid"]) if last == "pad" else np.ones(len(ids), bool)
        for place in np.flatnonzero(valid).tolist():
            assert batch["tokens"][place].tolist() == expected(int(ids[place]), length)
            assert int(batch["tokens_length"][place]) == min(int(ids[place]) % 7, length)
        assert not np.asarray(batch["tokens"])[~valid].any()
        seen += int(valid.sum())
    assert seen == ROWS


def test_lengths_by_name_leave_the_others_ragged(ds) -> None:
    batch = next(iter(ds.numpy(16, pad={"tokens": 3}, rank=0, world=1)))
    assert batch["tokens"].shape == (16, 3)
    assert len(batch["text"]) == 16
    assert "text_length" not in batch


def test_torch_nests_them_on_request(ds) -> None:
    batch = next(iter(ds.torch(16, nested=True, tensors=["id", "tokens"], rank=0, world=1)))
    assert batch["tokens"].is_nested
    assert batch["tokens"].layout == torch.jagged
    for row, number in zip(batch["tokens"].unbind(), batch["id"].tolist(), strict=True):
        assert row.tolist() == list(range(1, number % 7 + 1))


def test_tensorflow_knows_the_shape(ds) -> None:
    found = ds.tensorflow(16, pad={"tokens": 5}, tensors=["id", "tokens"])
    assert found.element_spec["tokens"].shape.as_list() == [16, 5]
    batch = next(iter(found))
    assert batch["tokens"].numpy()[0].tolist() == expected(int(batch["id"][0]), 5)
    assert int(batch["tokens_length"][0]) == min(int(batch["id"][0]) % 7, 5)


def test_jax_gets_them_too(ds) -> None:
    batch = next(iter(ds.jax(16, pad=5, tensors=["tokens"], rank=0, world=1)))
    assert batch["tokens"].shape == (16, 5)
    assert batch["tokens_length"].dtype == "int32"


@pytest.mark.parametrize(
    ("pad", "words"),
    [
        ({"id": 3}, "ragged are"),
        ({"nope": 3}, "nope"),
        (0, "at least 1"),
        (True, "no length"),
        ("7", "no length"),
    ],
)
def test_lengths_that_make_no_sense_are_refused(ds, pad, words) -> None:
    with pytest.raises(SelectionError, match=words):
        ds.numpy(4, pad=pad)


def test_there_is_nothing_to_pad_without_ragged_tensors(ds) -> None:
    with pytest.raises(SelectionError, match="none of the tensors is ragged"):
        ds.numpy(4, pad=3, tensors=["id"])


def test_columns_of_plain_files_become_tensors_when_they_are_read(tmp_path) -> None:
    table = pa.table({"a": np.arange(20.0), "b": np.arange(20.0) * 2, "y": [None, *range(19)]})
    pq.write_table(table, tmp_path / "part.parquet")
    plain = pk.open(tmp_path, nulls=0)
    batch = next(iter(plain.numpy(5, tensors={"x": ["a", "b"], "label": "y"}, rank=0, world=1)))
    assert batch["x"].shape == (5, 2)
    assert (batch["x"][:, 1] == 2 * batch["x"][:, 0]).all()
    assert set(batch) == {"x", "label"}


def test_a_dataset_of_ours_has_its_tensors_already(ds) -> None:
    with pytest.raises(DatasetError, match="are decided"):
        ds.numpy(5, tensors={"x": ["id"]})
