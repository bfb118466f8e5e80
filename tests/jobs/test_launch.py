"""Launching ranks on this machine, with real processes: what comes back, what fails, and that nothing is left."""

from __future__ import annotations

import io
import os
import random
import signal
import subprocess
import sys
import threading
import time
import types
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pytest

import penstock as pk
from penstock.errors import FollowError, LaunchError
from penstock.feed.checkpoint.checkpoint import checkpoint, restore
from penstock.jobs.launch import launch
from penstock.jobs.launch_lines import Lines
from penstock.jobs.launch_world import Place, environments
from penstock.tools.train import train_script

HERE = Path(__file__).parent
ROWS = 500


@pytest.fixture(autouse=True)
def trains(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Ranks import launch_trains as we do; and no test leaves a rank behind."""
    monkeypatch.syspath_prepend(str(HERE))
    yield
    left = [each.pid for each in psutil.Process().children(recursive=True) if is_rank(each)]
    assert gone(left)


def is_rank(process: psutil.Process) -> bool:
    try:
        return any("launch_worker" in part for part in process.cmdline())
    except psutil.Error:
        return False


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("launched") / "ds"
    pk.write(pa.table({"id": np.arange(ROWS)}), path, shards=3, block_bytes=1024)
    return str(path)


def gone(pids: list[int], seconds: float = 30) -> bool:
    """Whether all these processes end, in a while."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        alive = [pid for pid in pids if psutil.pid_exists(pid) and not is_zombie(pid)]
        if not alive:
            return True
        time.sleep(0.05)
    return False


def is_zombie(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.Error:
        return True


def pids_in(folder: Path, ranks: int, seconds: float = 100) -> list[int]:
    """The processes that `sleep_with_a_child` noted, once all have."""
    deadline = time.monotonic() + seconds
    while len(files := list(folder.glob("pids-?"))) < ranks:
        assert time.monotonic() < deadline, "the ranks did not start"
        time.sleep(0.05)
    return [int(pid) for file in files for pid in file.read_text().split()]


def test_two_ranks_train_and_see_every_row_once(
    dataset: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    import launch_trains

    assert launch(launch_trains.train_ddp, dataset, str(tmp_path)) == {"world": 2, "equal": True}
    steps = [(tmp_path / f"rank-{rank}.txt").read_text().splitlines() for rank in range(2)]
    assert len(steps[0]) == len(steps[1]) > 1
    assert sorted(int(each) for rank in steps for line in rank for each in line.split()) == list(range(ROWS))
    assert sorted(capfd.readouterr().out.splitlines()) == [
        "[rank 0] rank 0 is done",
        "[rank 1] rank 1 is done",
    ]


@pytest.mark.parametrize("worlds", [(3, 2), pytest.param((2, 1, 4, 3), marks=pytest.mark.long)])
@pytest.mark.timeout(300)
def test_killed_ranks_go_on_from_the_checkpoint_on_another_world(
    dataset: str, tmp_path: Path, worlds: tuple[int, ...]
) -> None:
    """Rows are counted up to the checkpoint that the next run began at: what came after it is done again."""
    import launch_trains

    chance, epochs, began = random.Random(), 2, [0]
    for number, world in enumerate(worlds):
        # Two epochs take 42 steps of 3 ranks. In the first ones there is no checkpoint yet; any rank may die, and
        # while a checkpoint is written too.
        most = 40 // len(worlds)
        die = (chance.randrange(world), chance.randint(1, most), chance.uniform(0, 0.01))
        train = partial(launch_trains.train_killed, dataset, str(tmp_path), str(number), epochs)
        if number == len(worlds) - 1:
            assert launch(train, None, workers=world)["ended"] > began[-1]
        else:
            killed = f"rank {die[0]} failed: it was killed by SIGKILL"
            with pytest.raises(LaunchError, match=killed) as raised:
                launch(train, die, workers=world)
            assert (raised.value.rank, raised.value.exit_code) == (die[0], 137)
        began.append(restore(tmp_path / "run").step)
    seen: dict[int, list[int]] = {epoch: [] for epoch in range(epochs)}
    for number, world in enumerate(worlds):
        for rank in range(world):
            for line in (tmp_path / f"{number}-rank-{rank}.txt").read_text().splitlines():
                step, epoch, *ids = map(int, line.split())
                assert step > began[number], "it went on where the checkpoint stood"
                if step <= began[number + 1]:
                    seen[epoch] += ids
    for epoch, ids in seen.items():
        assert sorted(ids) == list(range(ROWS)), f"epoch {epoch}, with {worlds} workers, from steps {began}"


def test_the_first_error_comes_first_with_its_traceback(capfd: pytest.CaptureFixture[str]) -> None:
    import launch_trains

    with pytest.raises(LaunchError) as raised:
        launch(launch_trains.fail_on, 1, workers=3)
    error = raised.value
    first, *rest = str(error).splitlines()
    assert first == "rank 1 failed: ValueError: bad weights on rank 1"
    assert "launch_trains.py" in error.trace
    assert "launch_worker.py" not in error.trace
    assert "raise ValueError" in "\n".join(rest)
    assert isinstance(error.__cause__, ValueError)
    assert (error.rank, error.exit_code) == (1, 1)
    assert "terminate called" not in capfd.readouterr().err


@pytest.mark.parametrize("signalled", [False, True])
def test_a_rank_that_is_interrupted_and_slow_to_end_has_failed(signalled: bool) -> None:
    """It has said so before the others are stopped, however it ends after that."""

    def train(signalled: bool) -> str:
        import atexit

        if os.environ["RANK"] == "1":
            atexit.register(time.sleep, 60)
            if signalled:
                os.kill(os.getpid(), signal.SIGINT)
            raise KeyboardInterrupt
        time.sleep(60)
        return "done"

    with pytest.raises(LaunchError, match=r"rank 1 failed: it was interrupted") as raised:
        launch(shipped(train), signalled)
    assert (raised.value.rank, raised.value.exit_code) == (1, 130)
    assert "in train" in raised.value.trace
    assert "Then rank 0 was stopped." in str(raised.value)


def test_an_interrupted_script_ends_the_command_so(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import atexit, os, time\n"
        "if os.environ['RANK'] == '1':\n"
        "    atexit.register(time.sleep, 60)\n"
        "    raise KeyboardInterrupt\n"
        "time.sleep(60)\n"
    )
    done = subprocess.run(
        [str(Path(sys.executable).parent / "penstock"), "train", str(script)],
        capture_output=True,
        timeout=120,
    )
    assert done.returncode == 130, done.stderr


def test_a_rank_that_has_returned_and_is_stopped_at_its_end_is_no_failure(tmp_path: Path) -> None:
    def train(returned: str) -> None:
        import atexit

        if os.environ["RANK"] == "1":
            until = time.monotonic() + 100
            while not os.path.exists(returned) and time.monotonic() < until:
                time.sleep(0.02)
            raise ValueError("bad weights")
        atexit.register(lambda: (Path(returned).touch(), time.sleep(100)))

    with pytest.raises(LaunchError, match="rank 1 failed: ValueError") as raised:
        launch(shipped(train), str(tmp_path / "returned"))
    assert (tmp_path / "returned").exists()
    assert "Then rank 0 was stopped." in str(raised.value)


def test_what_left_its_rank_for_a_session_of_its_own_is_let_go() -> None:
    """As launch's documentation says: that is how a process is told to outlive its parent."""

    def train() -> int:
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        return subprocess.Popen(["sleep", "60"], start_new_session=True, **quiet).pid

    pid = launch(shipped(train), workers=1)
    try:
        assert psutil.pid_exists(pid)
        assert not is_zombie(pid)
    finally:
        os.kill(pid, signal.SIGKILL)


def test_errors_of_our_own_are_the_cause_too(tmp_path: Path) -> None:
    def follow(path: str) -> None:
        pk.open(path, follow=True, timeout=0.1)

    with pytest.raises(LaunchError) as raised:
        launch(follow, str(tmp_path / "ds"), workers=1)
    assert isinstance(raised.value.__cause__, FollowError)
    assert "no write has begun there for 0.1 s" in str(raised.value.__cause__)


def test_a_damaged_checkpoint_is_told_on_every_rank(tmp_path: Path) -> None:
    import torch

    newest = checkpoint(tmp_path, model=torch.nn.Linear(1, 1), step=1)
    (newest / "model.pt").unlink()

    def resume(path: str) -> list[str]:
        import torch
        import torch.distributed as dist

        dist.init_process_group("gloo")
        try:
            restore(path, model=torch.nn.Linear(1, 1))
            said = "nothing"
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
        every: list[str] = [""] * dist.get_world_size()
        dist.all_gather_object(every, said)
        dist.destroy_process_group()
        return every

    first, second = launch(resume, str(tmp_path))
    assert first.startswith("CheckpointError: ")
    assert "none of its checkpoints is whole" in first
    assert second == first


def test_a_process_is_left_by_nothing(tmp_path: Path) -> None:
    """A rank that fails, and ranks that are stopped: neither they nor their children stay."""

    def train(folder: str) -> None:
        import launch_trains

        if os.environ["RANK"] == "1":
            for _ in range(2000):
                if Path(folder, "pids-0").exists():
                    break
                time.sleep(0.05)
            raise RuntimeError("enough")
        launch_trains.sleep_with_a_child(folder)

    with pytest.raises(LaunchError, match="enough"):
        launch(shipped(train), str(tmp_path))
    assert gone(pids_in(tmp_path, 1))


def shipped(function: object) -> object:
    """A test's own function by value: ranks cannot import tests."""
    function.__module__ = "__main__"  # type: ignore[attr-defined]
    return function


def test_a_rank_that_will_not_stop_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.jobs.launch_processes.GRACE_SECONDS", 0.5)

    def train(folder: str) -> None:
        import launch_trains

        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        launch_trains.sleep_with_a_child(folder)

    for seconds in PATIENCE:
        with pytest.raises(
            LaunchError, match=rf"after timeout={seconds} seconds rank 0, 1 still ran"
        ) as raised:
            launch(shipped(train), str(tmp_path), timeout=seconds)
        assert raised.value.exit_code == 124
        if len(list(tmp_path.glob("pids-?"))) == 2:
            break
    assert gone(pids_in(tmp_path, 2, 0))


PATIENCE = (3, 15, 60)
"""Seconds in which ranks get going: a few as a rule, and more where the machine is busy."""


def test_time_that_is_up_says_where_ranks_stand(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    def stuck_in_here(begun: str) -> None:
        Path(begun).touch()
        time.sleep(600)

    for seconds in PATIENCE:
        capfd.readouterr()
        with pytest.raises(LaunchError, match=rf"timeout={seconds} seconds rank 0 still ran"):
            launch(shipped(stuck_in_here), str(tmp_path / "begun"), workers=1, timeout=seconds)
        if (tmp_path / "begun").exists():
            break
    assert "in stuck_in_here" in capfd.readouterr().err


LAUNCHER = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where tests run in the background
sys.path.insert(0, {here!r})
import launch_trains
from penstock.jobs.launch import launch
launch(launch_trains.sleep_with_a_child, sys.argv[1], workers=2)
"""


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_the_launchers_death_is_the_ranks_death(tmp_path: Path, end: signal.Signals) -> None:
    launcher = subprocess.Popen(
        [sys.executable, "-c", LAUNCHER.format(here=str(HERE)), str(tmp_path)],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        pids = pids_in(tmp_path, 2)
        launcher.send_signal(end)
        _, errors = launcher.communicate(timeout=100)
        assert gone(pids), "ranks, or processes they started, were left"
        assert launcher.returncode == -end
        assert ("KeyboardInterrupt" in errors) == (end == signal.SIGINT)
        assert "[rank" not in errors, "an interrupted rank has nothing to say"
    finally:
        launcher.kill()
        launcher.wait()


def test_a_script_without_a_guard_and_a_notebooks_names(tmp_path: Path) -> None:
    """The script launches at its top level; ranks must not run it again. Functions and classes live in `__main__`."""
    script = tmp_path / "notebook.py"
    script.write_text(
        "import os, sys\n"
        "from penstock.jobs.launch import launch\n"
        "import neighbour\n"
        "class Answer:\n"
        "    def __init__(self, text): self.text = text\n"
        "scale = 10\n"
        "def helper(rank): return scale * rank + neighbour.OFFSET\n"
        "def train(first, *more):\n"
        "    print('in rank', os.environ['RANK'], *sys.argv[1:], flush=True)\n"
        "    return Answer(f'{first} {sum(more)} {helper(int(os.environ[\"WORLD_SIZE\"]))}')\n"
        "print('once')\n"
        "answer = launch(train, 'a', 1, 2, workers=2)\n"
        "assert type(answer) is Answer\n"
        "print(answer.text)\n"
    )
    (tmp_path / "neighbour.py").write_text("OFFSET = 3\n")
    for how in ([str(script)], ["-c", script.read_text()]):
        done = subprocess.run(
            [sys.executable, *how, "--arg"], cwd=tmp_path, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        first, *ranks, last = done.stdout.splitlines()
        assert (first, last) == ("once", "a 3 23")
        assert sorted(ranks) == ["[rank 0] in rank 0 --arg", "[rank 1] in rank 1 --arg"]


def test_it_works_without_spark_and_java(tmp_path: Path) -> None:
    (tmp_path / "pyspark.py").write_text("raise ImportError('there is no pyspark here')")
    script = (
        "import os, sys\nfrom penstock.jobs.launch import launch\n"
        "def train(): return os.environ['RANK']\n"
        "assert launch(train) == '0'\nassert 'pyspark' not in sys.modules\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "JAVA_HOME": "/nowhere"}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr


def test_a_large_argument_and_answer_and_noisy_ranks(capfd: pytest.CaptureFixture[str]) -> None:
    def train(array: np.ndarray) -> np.ndarray:
        for number in range(2000):
            print(f"line {number} " + "x" * 100, file=sys.stderr if number % 2 else sys.stdout)
        return array * 2

    given = np.arange(3_000_000)
    assert np.array_equal(launch(shipped(train), given), given * 2)
    seen = capfd.readouterr()
    for rank in range(2):
        for stream, odd in ((seen.out, 0), (seen.err, 1)):
            numbers = [
                int(line.split()[3]) for line in stream.splitlines() if line.startswith(f"[rank {rank}]")
            ]
            assert numbers == list(range(odd, 2000, 2))


def test_what_a_rank_leaves_to_its_end_is_done(capfd: pytest.CaptureFixture[str]) -> None:
    def train() -> None:
        import atexit
        from concurrent.futures import ThreadPoolExecutor

        done = threading.Event()
        atexit.register(print, "last")
        threading.Thread(target=lambda: (done.wait(), time.sleep(0.1), print("thread"))).start()
        ThreadPoolExecutor(1).submit(lambda: (time.sleep(0.1), print("pool"), done.set()))

    launch(shipped(train), workers=1)
    assert capfd.readouterr().out == "[rank 0] pool\n[rank 0] thread\n[rank 0] last\n"


def test_what_a_rank_finds() -> None:
    def train() -> dict[str, str]:
        return dict(os.environ)

    found = launch(shipped(train), workers=2)
    assert {
        name: found[name] for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR")
    } == {
        "RANK": "0",
        "WORLD_SIZE": "2",
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
    }
    assert int(found["MASTER_PORT"]) > 0


def test_gpus_are_shared_out_as_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    def train() -> tuple[str | None, str]:
        return os.environ.get("CUDA_VISIBLE_DEVICES"), os.environ["LOCAL_RANK"]

    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5,6,7")
    assert launch(shipped(train)) == ("4,5,6,7", "0")
    assert launch(shipped(train), gpus=2) == ("4,5", "0")
    assert launch(shipped(train), gpus=0) == ("", "0")
    with pytest.raises(LaunchError, match=r"gpus=3 for each of 2 ranks makes 6, and this machine has 4"):
        launch(shipped(train), gpus=3)


def threading_lock() -> object:
    return threading.Lock()


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: launch("script.py"), "takes a function, not str. A script runs with: penstock train"),
        (lambda: launch(print, workers=0), "workers=0"),
        (lambda: launch(print, workers=True), "workers=True"),
        (lambda: launch(print, timeout="5"), "timeout='5': pass seconds"),
        (lambda: launch(print, timeout=0), "timeout=0"),
        (lambda: launch(print, timeout=float("nan")), "timeout=nan"),
        (lambda: launch(print, gpus=True), "gpus=True"),
        (lambda: launch(print, gpus=-1), "gpus=-1: pass how many"),
        (lambda: launch(print, gpus=-1, spark=object()), "gpus=-1: pass how many"),
        (lambda: launch(print, threading.Lock()), r"print cannot be sent .* make them inside of it"),
        (lambda: train_script("/no/such.py"), "no script at /no/such.py"),
        (lambda: launch(shipped(threading_lock), workers=1), "what rank 0 returned cannot be sent back"),
        (
            lambda: launch(shipped(lambda: os._exit(5)), workers=1),
            "rank 0 failed: it ended itself with exit code 5",
        ),
        (
            lambda: launch(shipped(lambda: sys.exit("no data")), workers=1),
            "rank 0 failed: it ended itself: no data",
        ),
    ],
)
def test_mistakes_are_told(call: object, said: str) -> None:
    with pytest.raises(LaunchError, match=said):
        call()  # type: ignore[operator]


def test_a_function_that_ranks_cannot_import_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("only_here")
    exec("def train(): pass", module.__dict__)
    monkeypatch.setitem(sys.modules, "only_here", module)
    with pytest.raises(LaunchError) as raised:
        launch(module.train)
    assert "failed: ModuleNotFoundError: No module named 'only_here'" in str(raised.value)
    assert "define the function in the script itself" in str(raised.value)


def test_scripts_run_as_main_and_their_exit_codes_come_through(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import os, signal, sys, pickle\n"
        "class Thing: size: int\n"
        "assert Thing.__annotations__ == {'size': int}, 'our own __future__ imports are not the script\\'s'\n"
        "if __name__ == '__main__':\n"
        "    assert type(pickle.loads(pickle.dumps(Thing()))) is Thing\n"
        "    print('argv', sys.argv[1:], flush=True)\n"
        "    if os.environ['RANK'] == '1':\n"
        "        if sys.argv[1] == 'kill': os.kill(os.getpid(), signal.SIGSEGV)\n"
        "        sys.exit(int(sys.argv[1]))\n"
    )
    train_script(str(script), ["0", "--flag"])
    assert "[rank 1] argv ['0', '--flag']" in capfd.readouterr().out
    for argument, code in (("3", 3), ("kill", 128 + signal.SIGSEGV)):
        with pytest.raises(LaunchError) as raised:
            train_script(str(script), [argument], workers=3)
        assert (raised.value.rank, raised.value.exit_code) == (1, code)
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__main__.py").write_text("import sys; print('module', __name__, sys.argv[1:])")
    os_path = os.getcwd()
    try:
        os.chdir(tmp_path)
        train_script("package", ["x"], workers=1, module=True)
    finally:
        os.chdir(os_path)
    assert "[rank 0] module __main__ ['x']" in capfd.readouterr().out


def test_no_printed_character_ends_a_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither in the rank, whose locale is C, nor here, where the output is a log in ASCII."""

    def train() -> str:
        print("\u00e9 \u65e5 \udcff")
        return "finished"

    for name, value in (("LC_ALL", "C"), ("PYTHONUTF8", "0"), ("PYTHONCOERCECLOCALE", "0")):
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("PYTHONIOENCODING", raising=False)
    for encoding, said in (
        ("ascii", "\\xe9 \\u65e5 \\udcff"),
        ("iso8859-2", "\u00e9 \\u65e5 \\udcff"),
        ("utf-8", "\u00e9 \u65e5 \\udcff"),
    ):
        log = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
        with monkeypatch.context() as patched:
            patched.setattr(sys, "stdout", log)
            assert launch(shipped(train), workers=1) == "finished"
        log.seek(0)
        assert log.read() == f"[rank 0] {said}\n"


def test_what_ranks_inherit_is_not_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    places = [Place("127.0.0.1", 41)]
    (own,) = environments(places, 40, {}, 4)
    assert own["PYTHONIOENCODING"].startswith("utf-8")
    said = {"PYTHONIOENCODING": "latin-1", "GLOO_SOCKET_IFNAME": "eth1", "OMP_NUM_THREADS": "3"}
    (own,) = environments(places, 40, said, 4)
    assert {name: own[name] for name in said} == said


@pytest.mark.parametrize(("system", "found"), [("linux", "lo"), ("darwin", None)])
def test_loopback_is_named_where_it_is_called_so(
    monkeypatch: pytest.MonkeyPatch, system: str, found: str | None
) -> None:
    monkeypatch.setattr(sys, "platform", system)
    (own,) = environments([Place("127.0.0.1", 41)], 40, {}, 4)
    assert own.get("GLOO_SOCKET_IFNAME") == found


def test_redrawn_lines_are_shown_now_and_then() -> None:
    lines = Lines()
    assert lines.feed(b"10%\r20%\r30%\r") == ["10%"]
    assert lines.feed(b"100%\ndone\n") == ["100%", "done"]
    assert lines.feed(b"y" * 70_000) == ["y" * 70_000]
    assert lines.feed("\u00e4".encode()[:1]) == []
    assert lines.feed("\u00e4".encode()[1:] + b"\n") == ["\u00e4"]


@pytest.mark.long
def test_tensorflow_finds_its_workers() -> None:
    import launch_trains

    assert launch(launch_trains.reduce_tensorflow, workers=2, timeout=200) == [2, 2.0]
