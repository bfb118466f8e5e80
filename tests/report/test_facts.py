"""The facts of a report: what is in tensors, shards, recipes and logs, and what is said where something is missing."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from training_run import BATCH, EPOCHS, ROWS, Trained

import penstock as pk
from penstock.errors import (
    CorruptError,
    DatasetError,
    FollowError,
    MissingDependency,
    ReportError,
    StorageError,
)
from penstock.feed.follow.following import Following
from penstock.tools.report import sampling


def tensor(found: pk.Report, name: str) -> dict:
    return next(each for each in found.facts["tensors"] if each["name"] == name)


def test_what_it_is(trained: Trained) -> None:
    found = pk.report(trained.path)
    ds, about = pk.open(trained.path), found.facts["dataset"]
    assert (about["path"], about["version"], about["versions"]) == (str(trained.path), 1, [1])
    assert (about["rows"], about["bytes"], about["fingerprint"]) == (ROWS, ds.bytes, ds.fingerprint)
    assert (about["format"], about["compression"], about["plain"]) == ("arrow", None, False)
    assert about["writer"]["penstock"] == pk.__version__
    assert about["options"]["workers"] == 3
    assert about["written"].startswith("20")
    assert found.facts["title"] == "flights"
    assert pk.report(ds, title="Another").facts["title"] == "Another"
    assert "6,000 rows" in found.facts["headline"]
    assert "3 even shards" in found.facts["headline"]
    assert repr(found) == f"Report({found.facts['headline']!r})"


def test_facts_are_plain_json(trained: Trained) -> None:
    found = pk.report(trained.path, log=trained.log)
    assert json.loads(found.to_json()) == found.facts


def test_tensors_are_told_column_by_column(trained: Trained) -> None:
    found = pk.report(trained.path)
    assert found.facts["sample"] == {
        "rows": ROWS,
        "of_rows": ROWS,
        "blocks": found.facts["dataset"]["blocks"],
        "of_blocks": found.facts["dataset"]["blocks"],
        "checked_blocks": found.facts["dataset"]["blocks"],
        "whole": True,
    }
    x = tensor(found, "x")
    assert (x["is"], x["row_bytes"], x["shape"]) == ("float32[4]", 16, [4])
    assert [each["name"] for each in x["each"]] == ["distance", "delay", "hour [0]", "hour [1]"]
    values = pk.open(trained.path).read(tensors="x")["x"].astype(np.float64)
    for place, each in enumerate(x["each"]):
        column = values[:, place]
        assert each["mean"] == pytest.approx(column.mean(), abs=1e-6)
        assert each["deviation"] == pytest.approx(column.std(), rel=1e-6)
        assert (each["low"], each["high"]) == (column.min(), column.max())
        assert each["zeros"] == (column == 0).mean()
    histogram = x["each"][0]["histogram"]
    counts, _ = np.histogram(values[:, 0], histogram["edges"])
    assert histogram["counts"] == counts.tolist()
    assert sum(histogram["counts"]) + histogram["below"] + histogram["above"] == ROWS


def test_columns_that_are_used_again_can_be_told_apart(tmp_path: Path) -> None:
    table = pa.table({"seats": [1.0, None, 3.0], "day": [1, 2, 3], "at [x]": [1.0, 2.0, 3.0]})
    seats, day, at = pk.col("seats"), pk.col("day"), pk.col("at [x]")
    x = pk.stack(
        *(
            seats.fill("median").standardize(),
            seats.is_null().cast("float32"),
            day,
            day.cyclic(7),
            day.cyclic(31),
        ),
        *(at.log1p(), at.sqrt(), at + 1, at + 2),
        dtype="float32",
    )
    ds = pk.write(table, tmp_path / "ds", recipe=pk.Recipe(x=x).fit(table))
    names = [each["name"] for each in tensor(pk.report(ds), "x")["each"]]
    assert names == [
        *("seats", "seats: is_null", "day", "day: sin [3]", "day: cos [4]", "day: sin [5]", "day: cos [6]"),
        *("at [x]: log1p", "at [x]: sqrt", "at [x] [9]", "at [x] [10]"),
    ]


def test_ids_and_labels_are_told_value_by_value(trained: Trained) -> None:
    found = pk.report(trained.path)
    carrier, late = tensor(found, "carrier"), tensor(found, "late")
    assert carrier["ids"] == [6], "nulls, unknown ones, and four"
    values = pk.open(trained.path).read(tensors=["carrier", "late"])
    numbers, counts = np.unique(values["carrier"], return_counts=True)
    assert carrier["spread"]["counted"] == [[int(n), int(c)] for n, c in zip(numbers, counts, strict=True)]
    assert [value for value, _ in late["spread"]["counted"]] == [0.0, 1.0]


def test_what_the_recipe_learned(trained: Trained) -> None:
    found = pk.report(trained.path).facts["recipe"]
    learned = {each["columns"][0]: each for each in found["learned"]}
    assert learned["delay"]["nulls"] > 0
    assert learned["delay"]["quantiles"][0][0] == 0.5
    assert learned["distance"]["deviation"] > 0
    assert learned["carrier"]["distinct"] == learned["carrier"]["kept"] == 4
    assert learned["carrier"]["most_frequent"][0][0] == "UA"
    assert {each["name"]: each["ids"] for each in found["outputs"]} == {"x": [], "carrier": [6], "late": []}
    assert found["inputs"]["hour"] == "int64"


def test_a_recipe_that_somebody_edited_tells_what_is_left(trained: Trained, tmp_path: Path) -> None:
    table = pa.table({"a": [1.0, 2.0, None]})
    ds = pk.write(table, tmp_path / "ds", recipe=pk.Recipe(a=pk.col("a").fill("mean")).fit(table))
    (file,) = (tmp_path / "ds" / "_penstock").glob("*recipe.json")
    written = json.loads(file.read_text())
    strange = {"mean": "high", "quantiles": [[1], 2, "x"], "most_frequent": 7, "columns": 5, "rows": "many"}
    written["learned"] = [strange, {}]
    file.write_text(json.dumps(written))
    found = pk.report(ds.path)
    assert found.facts["recipe"]["learned"] == [{"operation": "", "columns": []}] * 2
    assert "<html" in found.html()


def test_every_kind_of_tensor(tmp_path: Path) -> None:
    rows = 300
    rng = np.random.default_rng(0)
    lengths = rng.integers(0, 9, rows)
    table = pa.table(
        {
            "tokens": [rng.integers(0, 1000, length).tolist() for length in lengths],
            "text": (["yes", "no", "no"] * rows)[:rows],
            "blob": [bytes([row % 5, 0, 255]) for row in range(rows)],
            "flag": np.arange(rows) % 4 == 0,
            "gaps": np.where(np.arange(rows) % 3 == 0, np.nan, np.where(np.arange(rows) == 4, np.inf, 1.5)),
            "image": pa.FixedSizeListArray.from_arrays(rng.integers(0, 256, rows * 48).astype(np.uint8), 48),
            "half": pa.array(np.linspace(0, 1, rows).astype(np.float16)),
            "key": np.arange(rows) + (1 << 60),
        }
    )
    wanted = {name: pk.ragged(name) if name == "tokens" else name for name in table.column_names}
    pk.write(table, tmp_path / "ds", wanted, shards=2, block_bytes=2000)
    found = pk.report(tmp_path / "ds")
    tokens = tensor(found, "tokens")
    assert tokens["lengths"]["mean"] == pytest.approx(lengths.mean())
    assert tokens["lengths"]["counted"] == [[n, int((lengths == n).sum())] for n in range(9)]
    assert tokens["row_bytes"] == pytest.approx(lengths.mean() * 8)
    assert tokens["spread"]["count"] == lengths.sum()
    assert len(tokens["spread"]["most_frequent"]) == 10
    text = tensor(found, "text")["texts"]
    assert (text["different"], text["most_frequent"]) == (2, [["no", 200], ["yes", 100]])
    assert tensor(found, "blob")["texts"]["most_frequent"][0][0].endswith(" 00 ff")
    assert tensor(found, "flag")["spread"]["counted"] == [[False, 225], [True, 75]]
    gaps = tensor(found, "gaps")["spread"]
    assert (gaps["nan"], gaps["infinite"], gaps["mean"]) == (100 / rows, 1 / rows, 1.5)
    assert "each" not in tensor(found, "image"), "numbers without names are told together"
    assert tensor(found, "image")["spread"]["histogram"]["edges"][-1] == 256
    assert tensor(found, "half")["spread"]["high"] == 1.0
    assert tensor(found, "key")["spread"]["low"] == 1 << 60
    assert "<html" in found.html()


def test_bfloat16_is_read_as_the_numbers_it_means(tmp_path: Path) -> None:
    pk.write(pa.table({"a": [1.0, -2.5, 0.0, 3.0]}), tmp_path, {"a": "a"}, dtype="bfloat16")
    found = tensor(pk.report(tmp_path), "a")["spread"]
    assert [value for value, _ in found["counted"]] == [-2.5, 0.0, 1.0, 3.0]


def test_a_large_dataset_is_sampled_all_over(tmp_path: Path, monkeypatch) -> None:
    rows = 50_000
    pk.write(pa.table({"a": np.arange(rows)}), tmp_path, shuffle=False, shards=4, block_bytes=8000)
    monkeypatch.setattr(sampling, "MOST_ROWS", 1000)
    monkeypatch.setattr(sampling, "MOST_BLOCKS", 10)
    found = pk.report(tmp_path)
    sample, spread = found.facts["sample"], tensor(found, "a")["spread"]
    assert (sample["rows"], sample["blocks"], sample["whole"]) == (1000, 10, False)
    assert spread["different"] == 1000
    assert spread["low"] < 0.1 * rows
    assert spread["high"] > 0.9 * rows
    assert "Of a sample: 1,000 of 50,000 rows" in found.html()


def damage(ds: pk.Dataset, number: int) -> str:
    """Change a bit in the middle of a block; its shard."""
    index = ds.snapshot.index
    file = ds.shards[int(index.shard[number])].file
    path = Path(ds.path, file)
    data = bytearray(path.read_bytes())
    data[int(index.offset[number]) + int(index.length[number]) // 2] ^= 1
    path.write_bytes(data)
    return file


@pytest.mark.parametrize("options", [{}, {"compression": "zstd"}, {"format": "parquet"}], ids=str)
def test_damage_is_an_error_and_not_ready_to_train_on(tmp_path: Path, options: dict) -> None:
    values = np.random.default_rng(0).random(3000)
    ds = pk.write(pa.table({"a": values}), tmp_path, shuffle=False, block_bytes=8000, **options)
    assert "ready to train on" in pk.report(tmp_path).facts["headline"]
    file = damage(ds, 1)
    with pytest.raises(CorruptError, match=file):
        pk.report(tmp_path, tmp_path / "report.html")
    assert not (tmp_path / "report.html").exists()


def test_blocks_that_were_not_checked_are_told(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(sampling, "MOST_ROWS", 1000)
    ds = pk.write(pa.table({"a": np.arange(50_000)}), tmp_path, shuffle=False, shards=4, block_bytes=8000)
    damage(ds, 1)
    found = pk.report(tmp_path).facts
    assert found["headline"].endswith(" lie in 4 even shards, whose checksums were not all checked.")
    (said,) = [text for text in found["left_out"] if "checksums" in text]
    assert said.startswith(f"Of {len(ds.snapshot.index)} blocks 0 were read whole and held against")
    assert "`penstock verify` checks every byte" in said


@pytest.mark.parametrize(
    ("blocks", "most_rows", "most_blocks"),
    [([10], 100, 5), ([1] * 1000, 7, 500), ([1000] * 3, 10, 2), ([5, 5000, 1], 64, 8), ([3] * 40, 1, 1)],
)
def test_a_plan_stays_within_its_bounds(blocks: list[int], most_rows: int, most_blocks: int) -> None:
    pieces = sampling.plan(blocks, most_rows, most_blocks)
    assert 1 <= len(pieces) <= most_blocks
    assert len({piece.block for piece in pieces}) == len(pieces)
    assert all(0 <= piece.start < piece.stop <= blocks[piece.block] for piece in pieces)
    assert sum(piece.stop - piece.start for piece in pieces) <= most_rows + len(pieces)


def test_shards_and_blocks(trained: Trained) -> None:
    found, ds = pk.report(trained.path).facts["shards"], pk.open(trained.path)
    assert found["count"] == 3
    assert found["rows"] == [2000, 2000]
    assert [group["rows"] for group in found["groups"]] == [shard.rows for shard in ds.shards]
    blocks = [block for group in found["groups"] for block in group["blocks"]]
    assert [block["rows"] for block in blocks] == ds.snapshot.index.rows.tolist()
    assert [block["bytes"] for block in blocks] == ds.snapshot.index.length.tolist()


def test_many_shards_are_put_together(tmp_path: Path) -> None:
    pk.write(pa.table({"a": np.arange(1000)}), tmp_path, shards=100)
    found = pk.report(tmp_path).facts["shards"]
    assert found["count"] == 100
    assert len(found["groups"]) <= 40
    assert sum(group["rows"] for group in found["groups"]) == 1000
    assert (found["groups"][0]["first"], found["groups"][-1]["last"]) == (0, 99)


def test_an_empty_dataset(tmp_path: Path) -> None:
    pk.write(pa.table({"a": pa.array([], pa.int64())}), tmp_path)
    found = pk.report(tmp_path)
    assert found.facts["headline"] == "There is a dataset here, and no row in it."
    assert (found.facts["sizing"], found.facts["shards"]["groups"]) == (None, [])
    assert any("no rows" in text for text in found.facts["left_out"])
    assert "<html" in found.html()


def test_plain_files_and_their_nulls(tmp_path: Path) -> None:
    for part in range(2):
        table = pa.table({"x": np.arange(100.0), "y": pa.array(range(100), mask=np.arange(100) == 7)})
        pq.write_table(table, tmp_path / f"part-{part}.parquet", row_group_size=40)
    found = pk.report(tmp_path)
    about = found.facts["dataset"]
    assert (about["plain"], about["version"], about["versions"], about["format"]) == (
        True,
        None,
        [],
        "parquet",
    )
    assert tensor(found, "x")["spread"]["mean"] == 49.5
    assert "nulls in columns" in tensor(found, "y")["unread"]
    assert "'y' cannot be read as it is" in found.facts["headline"]
    assert any("not written by Penstock" in text for text in found.facts["left_out"])
    assert "Its values cannot be told" in found.html()
    ready = pk.report(pk.open(tmp_path, nulls=0))
    assert tensor(ready, "y")["spread"]["count"] == 200
    assert ready.facts["headline"].endswith("in 2 files of parquet, ready to train on as they are.")


def test_what_is_missing_is_told_in_a_line(tmp_path: Path) -> None:
    pk.write(pa.table({"a": [1, 2]}), tmp_path)
    found = pk.report(tmp_path)
    assert (found.facts["feed"], found.facts["recipe"], found.facts["boundaries"]) == (None, None, None)
    assert len(found.facts["left_out"]) == 3
    page = found.html()
    for title in ("The feed", "The recipe", "Boundaries"):
        assert f"<h2>{title}</h2>" not in page


def test_the_feed_of_two_ranks(trained: Trained) -> None:
    found = pk.report(trained.path, log=trained.log).facts
    feed = found["feed"]
    assert [Path(file).name for file in feed["files"]] == ["log-rank0.jsonl", "log-rank1.jsonl"]
    assert (feed["world"], feed["skipped_lines"], feed["other_dataset"]) == (2, 0, False)
    assert (feed["about"]["batch_size"], feed["about"]["seed"], feed["about"]["device"]) == (BATCH, 7, "cpu")
    assert [rank["rank"] for rank in feed["ranks"]] == [0, 1]
    assert [rank["rows"] for rank in feed["ranks"]] == [EPOCHS * ROWS / 2] * 2
    assert feed["together"]["rows"] == EPOCHS * ROWS
    assert feed["together"]["steps"] == EPOCHS * ROWS / BATCH / 2
    assert [(epoch["epoch"], epoch["rows"], epoch["ended"]) for epoch in feed["epochs"]] == [
        (0, ROWS, "whole"),
        (1, ROWS, "whole"),
    ]
    slow = feed["epochs"][1]
    assert slow["waited_share"] > 0.05
    assert "reading bounds" in slow["verdict"]
    line = feed["timeline"]
    covered = np.diff(line["edges"])
    sent = sum(rate * width for rate, width in zip(line["rows_per_second"], covered, strict=True) if rate)
    assert sent == pytest.approx(EPOCHS * ROWS, rel=0.15), "what was fed lies under the line"
    assert [group["ranks"] for group in line["waiting"]] == [[0, 0], [1, 1]]
    assert max(part or 0 for part in line["waiting"][0]["waited"]) > 0.5
    assert "reading bounds" in found["headline"]


def test_what_was_noted(trained: Trained) -> None:
    notes = {each["name"]: each for each in pk.report(trained.path, log=trained.log).facts["feed"]["notes"]}
    steps = ROWS // BATCH // 2
    loss = notes["loss"]
    assert (loss["count"], loss["not_finite"]) == (2 * EPOCHS * steps, 2 * EPOCHS)
    assert (loss["first"], loss["high"]) == (0.7, 0.7)
    assert loss["low"] == pytest.approx(0.7 * 0.9 ** (steps - 1))
    assert [line["rank"] for line in loss["lines"]] == [0, 1]
    points = loss["lines"][0]["points"]
    assert [point[1] is None for point in points].count(True) == EPOCHS
    assert [point[5] for point in points] == [step + 1 for _ in range(EPOCHS) for step in range(steps)]
    assert (notes["valid"]["ranks"], notes["valid"]["last"]) == ([0], 0.6)
    assert [point[4] for point in notes["valid"]["lines"][0]["points"]] == [0, 1]


def test_the_sizing_takes_what_the_log_shows(trained: Trained) -> None:
    found = pk.report(trained.path, log=trained.log).facts["sizing"]
    assert found["workers"] == 2
    assert found["batch_size"] == BATCH
    assert found["seen"]["achieved"], "the last epoch waited for its reading"
    assert found["bandwidth"] == found["seen"]["bandwidth"]
    assert found["bound"] == "storage"
    assert found["verdict"].startswith("Storage bounds the epoch")
    assert pk.report(trained.path).facts["sizing"]["verdict"].startswith("A worker reads")


def test_a_log_of_another_dataset_is_said_to_be_one(trained: Trained, tmp_path: Path) -> None:
    pk.write(pa.table({"a": [1, 2]}), tmp_path)
    found = pk.report(tmp_path, log=trained.log).facts
    assert found["feed"]["other_dataset"]
    assert found["sizing"]["seen"] is None
    assert "2 rows" in found["headline"]
    assert any("another dataset" in text for text in found["left_out"])


def test_a_followed_write_is_the_same_dataset(tmp_path: Path) -> None:
    ds = pk.write(pa.table({"a": range(100)}), tmp_path / "ds", follow=True)
    list(pk.open(ds.path, follow=True).numpy(batch_size=10, log=tmp_path / "log.jsonl"))
    found = pk.report(ds.path, log=tmp_path / "log.jsonl").facts["feed"]
    assert not found["other_dataset"]


def test_files_are_written_whole(trained: Trained, tmp_path: Path, monkeypatch) -> None:
    out = tmp_path / "new" / "report.html"
    found = pk.report(trained.path, out)
    assert out.read_text("utf-8").startswith("<!doctype html>")
    assert json.loads(Path(found.save(tmp_path / "facts.json")).read_text()) == found.facts
    monkeypatch.chdir(tmp_path)
    assert found.save("beside.html") == "beside.html"
    assert (tmp_path / "beside.html").exists()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["beside.html", "facts.json", "new"]
    assert 'srcdoc="' in found._repr_html_()
    found.save("memory://reports/report.html")
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot write"):
        found.save(tmp_path / "file" / "report.html")


@pytest.mark.parametrize(
    ("given", "error", "told"),
    [
        ({"dataset": 3}, ReportError, "dataset is a int"),
        ({"title": 3}, ReportError, "a text is wanted"),
        ({"out": "."}, ReportError, "is a folder"),
        ({"out": "new/"}, ReportError, "is a folder"),
        ({"out": "report.pdf"}, ReportError, "Choose a name that ends in .html"),
        ({"out": "report"}, ReportError, "Choose a name that ends in .html"),
        ({"log": "nowhere.jsonl"}, ReportError, "nowhere.jsonl is not there"),
        ({"log": "."}, ReportError, "holds no training log"),
        ({"log": []}, ReportError, "pass the path of a log"),
        ({"log": 7}, ReportError, "pass the path of a log"),
        ({"log": "empty.jsonl"}, ReportError, "holds no epoch of a training log"),
        ({"log": "newer.jsonl"}, ReportError, "is of version 9"),
        ({"explanation": 3}, ReportError, "explanation is a int"),
        ({"explanation": "nowhere.json"}, ReportError, "No such file"),
        (
            {"explanation": "."},
            ReportError,
            "Is a directory. Name a file that `penstock explain ... --json` printed.",
        ),
        ({"explanation": "empty.jsonl"}, ReportError, "is not JSON"),
        ({"explanation": "other.json"}, ReportError, "no explanation"),
        ({"dataset": "nowhere"}, DatasetError, "neither a Penstock dataset"),
    ],
)
def test_bad_inputs_are_told_clearly(
    trained: Trained, tmp_path: Path, monkeypatch, given: dict, error: type, told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty.jsonl").write_text("")
    newer = {
        "line": "run",
        "format": "penstock-log",
        "version": 9,
        "time": 1,
        "run": "a",
        "rank": 0,
        "world": 1,
    }
    Path("newer.jsonl").write_text(json.dumps(newer))
    Path("other.json").write_text('{"df": {"sentence": 3, "findings": [1]}}')
    if given.get("log") == ".":
        Path("newer.jsonl").unlink()
    with pytest.raises(error) as refused:
        pk.report(**{"dataset": trained.path, **given})
    assert told in str(refused.value)
    assert not list(tmp_path.glob("report*")), "nothing is left under that name"


def test_a_dataset_that_is_still_written_is_not_reported(tmp_path: Path) -> None:
    ds = pk.write(pa.table({"a": [1]}), tmp_path / "ds")
    with pytest.raises(FollowError, match="still being written"):
        pk.report(pk.Dataset(Following(ds.snapshot.store, "nobody", 1.0)))


def test_without_jinja2_facts_are_there_and_the_page_says_what_to_install(
    trained: Trained, monkeypatch
) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    found = pk.report(trained.path)
    assert math.isclose(found.facts["dataset"]["rows"], ROWS)
    with pytest.raises(MissingDependency, match=r"penstock\[report\]"):
        found.html()
    assert found._repr_html_() is None
