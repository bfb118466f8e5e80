"""Run by test_launch_spark.py in a process of its own: ranks on the executors of the Spark named on the command line.

    launch_everywhere.py master|remote WHERE DATASET FOLDER [briefly] [distributor] [unreachable]

The executors' PYTHONPATH holds a `penstock` that cannot be imported: the ranks' own must have come with the job.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil

import penstock as pk
from penstock.errors import LaunchError
from penstock.jobs import launch_spark
from penstock.jobs.launch import launch
from penstock.wire.send import Door

ROWS = 500


def fail_and_count(folder: str) -> None:
    """Rank 1 raises, and nothing but the launcher tells rank 0; a line for every time that it was started."""
    if os.environ["RANK"] == "1":
        with open(os.path.join(folder, "started"), "a") as log:
            log.write("x\n")
        raise ValueError("bad weights")
    time.sleep(100)


def killed() -> None:
    import signal

    if os.environ["RANK"] == "0":
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(100)


def under_torch_distributor(path: list[str], dataset: str, folder: str) -> object:
    """The same function; PySpark's launcher sends neither Penstock nor the module along."""
    sys.path[:0] = path
    import launch_trains

    return launch_trains.train_ddp(dataset, folder)


def rows_seen(folder: Path) -> list[int]:
    steps = [(folder / f"rank-{rank}.txt").read_text().splitlines() for rank in range(2)]
    assert len(steps[0]) == len(steps[1])
    return sorted(int(each) for rank in steps for line in rank for each in line.split())


def refused(call: Callable[[], object]) -> LaunchError:
    try:
        call()
    except LaunchError as error:
        return error
    raise AssertionError("no LaunchError")


def wait_for_the_end_of_ranks(folder: Path) -> None:
    pids = [int(pid) for file in folder.glob("pids-?") for pid in file.read_text().split()]
    assert len(pids) == 4
    deadline = time.monotonic() + 10
    while any(psutil.pid_exists(pid) for pid in pids):
        assert time.monotonic() < deadline, "ranks were left"
        time.sleep(0.1)


def kill_an_executor(folder: Path) -> None:
    """Wait until both ranks run, and kill the JVM that rank 1 belongs to."""
    while len(list(folder.glob("pids-?"))) < 2:
        time.sleep(0.1)
    rank = psutil.Process(int((folder / "pids-1").read_text().split()[0]))
    next(each for each in rank.parents() if "java" in each.name()).kill()


def main(kind: str, where: str, dataset: str, folder: Path, more: list[str]) -> None:
    settings = {"spark.scheduler.barrier.maxConcurrentTasksCheck.interval": "1s"}
    spark = (
        pk.session(remote=where, config=settings)
        if kind == "remote"
        else pk.session(memory="1g", config={"spark.master": where, **settings})
    )
    if "unreachable" in more:
        launch_spark.Listener.__enter__ = lambda self: Door(b"", path="/no/such/socket")
    here = Path(__file__).parent
    spark.addArtifacts(str(here / "launch_trains.py"), pyfile=True)
    import launch_trains

    (folder / "first").mkdir()
    answer = launch(launch_trains.train_ddp, dataset, str(folder / "first"), spark=spark)
    assert answer == {"world": 2, "equal": True}, answer
    assert rows_seen(folder / "first") == list(range(ROWS))

    if "briefly" in more:
        spark.stop()
        print("all well")
        return

    error = refused(lambda: launch(fail_and_count, str(folder), spark=spark))
    assert str(error).startswith("rank 1 failed: ValueError: bad weights"), error
    assert "fail_and_count" in error.trace
    assert isinstance(error.__cause__, ValueError)
    assert (folder / "started").read_text() == "x\n", "a failed training was run again"

    if kind == "remote":
        error = refused(lambda: launch(print, bytes(130 << 20), spark=spark))
        assert "a message of Spark Connect holds" in str(error), error

    error = refused(lambda: launch(killed, spark=spark))
    assert (error.rank, error.exit_code) == (0, 137), error

    error = refused(lambda: launch(launch_trains.sleep_with_a_child, str(folder), spark=spark, timeout=6))
    assert error.exit_code == 124, error
    wait_for_the_end_of_ranks(folder)

    if kind == "master":
        for file in folder.glob("pids-?"):
            file.unlink()
        killer = threading.Thread(target=kill_an_executor, args=(folder,))
        killer.start()
        error = refused(lambda: launch(launch_trains.sleep_with_a_child, str(folder), spark=spark))
        killer.join()
        assert "the Spark job that runs 2 ranks at once failed" in str(error), error
        wait_for_the_end_of_ranks(folder)

    if "distributor" in more:
        from pyspark.ml.torch.distributor import TorchDistributor

        (folder / "second").mkdir()
        path = [str(here), str(Path(pk.__file__).parents[1])]
        answer = TorchDistributor(num_processes=2, local_mode=False, use_gpu=False).run(
            under_torch_distributor, path, dataset, str(folder / "second")
        )
        assert answer == {"world": 2, "equal": True}, answer
        assert rows_seen(folder / "second") == list(range(ROWS))
    spark.stop()
    print("all well")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], Path(sys.argv[4]), sys.argv[5:])
