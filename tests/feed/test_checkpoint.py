"""Checkpoints: what goes in comes out, together or not at all, whenever the writer is killed."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter, OrderedDict, defaultdict, namedtuple
from enum import IntEnum
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch

import penstock as pk
from penstock.errors import CheckpointError, StorageError
from penstock.feed.checkpoint.checkpoint import checkpoint, restore
from penstock.feed.checkpoint.folder import checkpoints

HERE = Path(__file__).parent


def names(path: Path) -> list[str]:
    return sorted(each.name for each in path.iterdir())


@pytest.fixture
def dataset(tmp_path: Path) -> pk.Dataset:
    return pk.write(pa.table({"id": np.arange(64)}), tmp_path / "ds", block_bytes=1024)


def trained(seed: int, steps: int) -> tuple[torch.nn.Module, torch.optim.Optimizer, object]:
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=np.float64(0.01))
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.randn(8, 3)).sum().backward()
        optimizer.step()
        schedule.step()
    return model, optimizer, schedule


def test_everything_comes_back_together(tmp_path: Path, dataset: pk.Dataset) -> None:
    path = tmp_path / "run"
    model, optimizer, schedule = trained(0, 5)
    loader = dataset.numpy(batch_size=8, seed=3)
    batches = iter(loader)
    first = [next(batches)["id"] for _ in range(3)]
    written = checkpoint(
        path, model=model, optimizer=[optimizer, schedule], loader=loader, extra={"best": 0.25}, step=5
    )
    other, other_optimizer, other_schedule = trained(1, 1)
    other_loader = dataset.numpy(batch_size=8, seed=3)
    found = restore(path, model=other, optimizer=[other_optimizer, other_schedule], loader=other_loader)
    assert found
    assert (found.step, found.extra, found.epoch, found.path) == (5, {"best": 0.25}, 0, written)
    assert found.model is other
    assert found.loader is other_loader
    for name, value in model.state_dict().items():
        assert torch.equal(other.state_dict()[name], value), name
    assert other_schedule.state_dict() == schedule.state_dict()
    # The next step is bit for bit the same: the optimizer's moments are there.
    data = torch.randn(8, 3)
    for each, opt in ((model, optimizer), (other, other_optimizer)):
        opt.zero_grad()
        each(data).sum().backward()
        opt.step()
    for name, value in model.state_dict().items():
        assert torch.equal(other.state_dict()[name], value), name
    rest = [batch["id"] for batch in other_loader]
    assert sorted(np.concatenate([*first, *rest]).tolist()) == list(range(64))


def test_the_first_start_needs_no_special_case(tmp_path: Path, dataset: pk.Dataset) -> None:
    loader = dataset.numpy(batch_size=8)
    model = torch.nn.Linear(1, 1)
    before = model.weight.clone()
    found = restore(tmp_path / "not" / "there", model=model, loader=loader)
    assert not found
    assert (found.step, found.epoch, found.extra) == (0, 0, None)
    assert found.model is model
    assert torch.equal(model.weight, before)
    assert not (tmp_path / "not").exists(), "looking makes no folder"


def test_the_newest_is_the_one_written_last_and_old_ones_go(tmp_path: Path) -> None:
    for step in (10, 20, 30, 40):
        checkpoint(tmp_path, extra=step, step=step)
    assert names(tmp_path) == ["00000002-step-20", "00000003-step-30", "00000004-step-40"]
    # Somebody begins again in the same folder: the old training's higher steps do not win.
    checkpoint(tmp_path, extra="again", step=10)
    assert restore(tmp_path).extra == "again"
    assert restore(tmp_path, step=30).extra == 30
    assert checkpoint(tmp_path, extra="no step", keep=1).name == "00000006-step-11"
    assert names(tmp_path) == ["00000006-step-11"]
    checkpoint(tmp_path, extra=1, keep=None)
    assert len(names(tmp_path)) == 2
    with pytest.raises(CheckpointError, match=r"no checkpoint of step 30. Its steps are: 11, 12"):
        restore(tmp_path, step=30)


class Colour(IntEnum):
    RED = 1


Point = namedtuple("Point", ["x", "count"])


def test_trees_of_arrays_come_back_in_their_structure(tmp_path: Path) -> None:
    jnp = pytest.importorskip("jax.numpy")
    tree = {
        "layers": [
            {"w": np.arange(6.0).reshape(2, 3), "b": jnp.ones(3, "bfloat16")},
            {"w": np.zeros((0, 2)), "on": True},
        ],
        "state": Point(jnp.arange(3), 7),
        "rng": torch.get_rng_state(),
        "pair": (np.float32(2.5), None, "text"),
    }
    checkpoint(tmp_path, model=tree)
    empty = {
        "layers": [
            {"w": np.zeros((2, 3)), "b": jnp.zeros(3, "bfloat16")},
            {"w": np.ones((0, 2)), "on": False},
        ],
        "state": Point(jnp.zeros(3, int), 0),
        "rng": torch.zeros(5056, dtype=torch.uint8),
        "pair": (np.float32(0), 1, ""),
    }
    got = restore(tmp_path, model=empty).model
    assert np.array_equal(got["layers"][0]["w"], tree["layers"][0]["w"])
    assert got["layers"][0]["w"].flags.writeable
    assert got["layers"][0]["b"].dtype == jnp.bfloat16
    assert got["layers"][0]["b"].tolist() == [1, 1, 1]
    assert got["layers"][1]["w"].shape == (0, 2)
    assert got["layers"][1]["on"] is True
    assert isinstance(got["state"], Point)
    assert got["state"].x.tolist() == [0, 1, 2]
    assert got["state"].count == 7
    assert torch.equal(got["rng"], tree["rng"])
    assert got["pair"] == (2.5, None, "text")
    assert empty["pair"][2] == "", "what was given is left as it was"
    empty["layers"][0]["w"] = np.zeros((3, 2))
    with pytest.raises(
        CheckpointError, match=r"model\['layers'\]\[0\]\['w'\] cannot be restored.*float64\[2, 3\] there"
    ):
        restore(tmp_path, model=empty)


@pytest.mark.parametrize(
    "array",
    [
        np.array([1.5, -2.0], ">f4"),
        np.array(["ab", "c"]),
        np.array([b"ab", b"c"]),
        np.array(["2026-01-02", "NaT"], "M8[s]"),
        np.array([1 + 2j], np.complex64),
        np.zeros((0, 3)),
        np.array(7, np.int16),
        np.arange(6).reshape(2, 3).T,
        np.complex64(1j),
        np.datetime64("2026-01-02"),
        np.float32(0.1),
        np.True_,
    ],
    ids=lambda array: f"{array.dtype}{list(array.shape)}",
)
def test_arrays_and_numbers_of_every_dtype_come_back_exactly(tmp_path: Path, array: np.ndarray) -> None:
    checkpoint(tmp_path, model={"a": array})
    got = restore(tmp_path, model={"a": array}).model["a"]
    assert type(got) is type(array)
    assert (got.dtype, got.shape) == (array.dtype, array.shape)
    assert got.tobytes() == array.tobytes()


def test_another_order_of_bytes_gives_the_same_numbers(tmp_path: Path) -> None:
    checkpoint(tmp_path, model=np.array([1.5, -2.0], ">f4"))
    assert restore(tmp_path, model=np.zeros(2, "f4")).model.tolist() == [1.5, -2.0]
    with pytest.raises(CheckpointError, match=r"float32\[2\] there and float64\[2\] here"):
        restore(tmp_path, model=np.zeros(2))


def test_keras_models_and_optimizers(tmp_path: Path) -> None:
    keras = pytest.importorskip("keras")

    def built() -> object:
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4), keras.layers.Dense(1)])
        model.compile(optimizer=keras.optimizers.Adam(0.01), loss="mse")
        return model

    first, second = built(), built()
    x, y = np.ones((16, 3), "float32"), np.ones((16, 1), "float32")
    first.fit(x, y, epochs=2, verbose=0)
    checkpoint(tmp_path, model=first, optimizer=first.optimizer, step=2)
    assert restore(tmp_path, model=second, optimizer=second.optimizer).step == 2
    for mine, theirs in zip(first.get_weights(), second.get_weights(), strict=True):
        assert np.array_equal(mine, theirs)
    first.fit(x, y, epochs=1, verbose=0, shuffle=False)
    second.fit(x, y, epochs=1, verbose=0, shuffle=False)
    for mine, theirs in zip(first.get_weights(), second.get_weights(), strict=True):
        assert np.array_equal(mine, theirs), "the optimizer went on where it stood"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"model": print}, r"model cannot be kept.*builtin_function_or_method.*state_dict\(\)"),
        ({"model": {"a": [object()]}}, r"model\['a'\]\[0\] cannot be kept.*builtins.object"),
        ({"model": np.array([print])}, "an array of dtype object"),
        ({"model": {"a": np.zeros(2, [("x", "f4")])}}, r"model\['a'\].*each as an array of its own"),
        ({"model": np.ma.array([1, 2], mask=[True, False])}, "MaskedArray.*numpy.asarray"),
        ({"model": Colour.RED}, "Colour.*plain numbers and texts"),
        ({"model": {"a": defaultdict(int)}}, r"model\['a'\] cannot be kept.*collections.defaultdict"),
        ({"extra": Colour.RED}, "JSON"),
        ({"extra": {1: 2}}, "JSON"),
        ({"extra": np.float32(1)}, "JSON"),
        ({}, "nothing was given"),
        ({"extra": 1, "keep": 0}, "keep=0"),
        ({"extra": 1, "step": -1}, "step=-1"),
    ],
)
def test_what_cannot_be_kept_is_refused_and_leaves_nothing(tmp_path: Path, given: dict, said: str) -> None:
    with pytest.raises(CheckpointError, match=said):
        checkpoint(tmp_path / "run", **given)
    assert not (tmp_path / "run").exists() or names(tmp_path / "run") == []


def test_a_state_that_needs_code_to_be_read_is_refused(tmp_path: Path) -> None:
    class Odd(torch.nn.Linear):
        def get_extra_state(self) -> object:
            return Path("x")

        def set_extra_state(self, state: object) -> None:
            raise AssertionError("never")

    with pytest.raises(CheckpointError, match=r"model\['_extra_state'\].*PosixPath.*running code"):
        checkpoint(tmp_path, model=Odd(1, 1))
    assert names(tmp_path) == []


class Stated:
    """An object with a state that it takes back."""

    def __init__(self, state: object) -> None:
        self.state = state

    def state_dict(self) -> object:
        return self.state

    def load_state_dict(self, state: object) -> None:
        self.state = state


class Word(str):
    pass


class Settings(dict):
    pass


class Marked(torch.Tensor):
    pass


@pytest.mark.parametrize(
    "value",
    [
        Colour.RED,
        Word("x"),
        defaultdict(int, a=1),
        Settings(a=1),
        [Colour.RED],
        {Colour.RED: 1},
        torch.zeros(1).as_subclass(Marked),
        np.datetime64("2026-01-02"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_torch_would_not_read_back_is_refused_when_it_is_saved(tmp_path: Path, value: object) -> None:
    with pytest.raises(CheckpointError, match=r"only by running code.*Keep tensors"):
        checkpoint(tmp_path, model=Stated({"weight": torch.zeros(1), "more": value}))
    assert names(tmp_path) == []


def test_states_come_back_with_their_types(tmp_path: Path) -> None:
    ordered = OrderedDict(rate=np.float64(0.5), t=torch.ones(1))
    ordered._metadata = {"version": 2}
    state = {
        "ordered": ordered,
        "counted": Counter("aab"),
        "odd": [1j, b"ab", {1, 2}, (torch.float32, torch.Size([2]))],
        np.int64(3): np.float32(0.5),
    }
    checkpoint(tmp_path, model=Stated(state))
    again = Stated(None)
    restore(tmp_path, model=again)
    assert again.state == state
    assert [type(each) for each in again.state.values()] == [OrderedDict, Counter, list, float]
    assert [type(key) for key in again.state] == [str, str, str, int]
    assert again.state["ordered"]._metadata == {"version": 2}
    assert type(ordered["rate"]) is np.float64, "what was given is left as it was"


def test_a_scheduler_with_milestones_goes_on(tmp_path: Path) -> None:
    def made() -> tuple[torch.optim.Optimizer, torch.optim.lr_scheduler.MultiStepLR]:
        optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], np.float64(0.1))
        return optimizer, torch.optim.lr_scheduler.MultiStepLR(optimizer, [2, 4])

    optimizer, scheduler = made()
    for _ in range(3):
        optimizer.step()
        scheduler.step()
    checkpoint(tmp_path, optimizer=[optimizer, scheduler])
    other, resumed = made()
    restore(tmp_path, optimizer=[other, resumed])
    assert resumed.state_dict() == scheduler.state_dict()
    assert other.param_groups[0]["lr"] == optimizer.param_groups[0]["lr"] == pytest.approx(0.01)


@pytest.mark.parametrize("path", ["s3://bucket/run", "gs://b/x", "hdfs://h/x"])
def test_object_stores_are_refused_with_what_to_do(path: str) -> None:
    for call in (lambda: checkpoint(path, extra=1), lambda: restore(path)):
        with pytest.raises(CheckpointError, match=r"cannot hold checkpoints.*copy finished folders"):
            call()


def test_another_model_is_refused(tmp_path: Path) -> None:
    checkpoint(tmp_path, model=torch.nn.Linear(2, 1))
    with pytest.raises(
        CheckpointError, match=r"(?s)model cannot be restored from the checkpoint.*size mismatch"
    ):
        restore(tmp_path, model=torch.nn.Linear(3, 1))
    with pytest.raises(CheckpointError, match=r"optimizer cannot be restored.*holds model"):
        restore(tmp_path, optimizer=torch.optim.SGD([torch.zeros(1)], 0.1))
    with pytest.raises(
        CheckpointError, match=r"only the checkpoint has model; only what was given has model\['a'\]"
    ):
        restore(tmp_path, model={"a": torch.nn.Linear(2, 1)})


@pytest.mark.parametrize("damage", ["cut", "flip", "missing", "toc", "empty"])
def test_a_damaged_checkpoint_is_passed_over_and_named(tmp_path: Path, damage: str) -> None:
    model = torch.nn.Linear(4, 4)
    good = {name: value.clone() for name, value in model.state_dict().items()}
    checkpoint(tmp_path, model=model, step=1)
    torch.nn.init.zeros_(model.weight)
    newest = checkpoint(tmp_path, model=model, step=2)
    file = newest / ("checkpoint.json" if damage == "toc" else "model.pt")
    data = bytearray(file.read_bytes())
    if damage in ("cut", "toc"):
        file.write_bytes(data[: len(data) // 2])
    elif damage == "flip":
        data[len(data) // 2] ^= 1
        file.write_bytes(data)
    elif damage == "missing":
        file.unlink()
    else:
        shutil.rmtree(newest)
        newest.mkdir()
    with pytest.warns(UserWarning, match=r"passed over: .*00000002-step-2: "):
        found = restore(tmp_path, model=model)
    assert found.step == 1
    assert all(torch.equal(model.state_dict()[name], value) for name, value in good.items())
    shutil.rmtree(tmp_path / "00000001-step-1")
    with pytest.raises(CheckpointError, match="none of its checkpoints is whole"):
        restore(tmp_path, model=model)


def test_a_full_disk_leaves_the_last_one_and_no_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint(tmp_path, extra="kept", step=1)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match=r"No space left on device. Those written before are whole"):
        checkpoint(tmp_path, model=torch.nn.Linear(2, 2), step=2)
    monkeypatch.undo()
    assert names(tmp_path) == ["00000001-step-1"]
    assert restore(tmp_path).extra == "kept"


def test_other_ranks_write_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert checkpoint(tmp_path / "run", extra=1) is None
    assert not (tmp_path / "run").exists()


def test_a_writer_killed_at_any_moment_leaves_whole_checkpoints(tmp_path: Path) -> None:
    """Whatever has its name is whole and consistent, and the newest never goes back."""
    path = tmp_path / "run"
    chance, newest, rounds, seen_torn = random.Random(5), 0, 0, 0
    # Four at least, and as many as it takes to meet one midway.
    while rounds < 4 or (not seen_torn and rounds < 40):
        rounds += 1
        writer = subprocess.Popen(
            [sys.executable, str(HERE / "checkpoint_writer.py"), str(path)], stdout=subprocess.PIPE, text=True
        )
        try:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "writing\n"
            for _ in range(5):
                time.sleep(chance.uniform(0.02, 0.15))
                writer.send_signal(signal.SIGSTOP)  # as good as killed, for whoever looks now
                os.waitpid(writer.pid, os.WUNTRACED)  # in the middle of a call it stops when that is over
                newest = check_whole(path, newest)
                writer.send_signal(signal.SIGCONT)
            until = time.monotonic() + 60
            while len(checkpoints(path)) < 2 or checkpoints(path)[-1].step < newest + 2:
                assert time.monotonic() < until, "the writer writes nothing"
                time.sleep(0.01)
            time.sleep(chance.uniform(0, 0.1))
        finally:
            writer.kill()
            writer.wait()
        seen_torn += any(name.startswith(".") for name in names(path))
        newest = check_whole(path, newest)
    assert newest > 4, "nothing was written: the test would prove nothing"
    assert seen_torn, "no writer was killed midway: the test would prove nothing"
    checkpoint(path, extra=0, step=newest + 1)
    assert not [name for name in names(path) if name.startswith(".")], (
        "what killed writers left is cleared up"
    )


def check_whole(path: Path, before: int) -> int:
    for found in checkpoints(path):
        toc = json.loads((found.folder / "checkpoint.json").read_text())
        assert sorted(toc["files"]) == ["model.bin", "optimizer.bin"], "a named folder is whole"
    tree = restore(
        path, model={"w": np.zeros(1 << 18)}, optimizer={"m": [np.zeros(1 << 16)]}
    )  # checksums included
    if not tree:
        assert before == 0
        return 0
    values = {*np.unique(tree.model["w"]), *np.unique(tree.optimizer["m"][0]), tree.extra}
    assert values == {tree.step}, "model, optimizer and extra are of one step"
    assert tree.step >= before
    return tree.step
