"""One run of the demo: what was asked for, what it prints to, and the facts it has found so far."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import penstock as pk
from penstock.jobs.running import Running
from penstock.tools.demo.flights import ALL_FLIGHTS
from penstock.tools.demo.folder import Folder
from penstock.tools.demo.interrupts import Interrupts
from penstock.tools.demo.screen import Screen

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOTICE_SECONDS = 1.0
Answer = TypeVar("Answer")
TORCH, TENSORFLOW = "torch", "tensorflow"
SPOKEN = {TORCH: "PyTorch", TENSORFLOW: "TensorFlow"}


@dataclass(frozen=True)
class Options:
    """What the command line asks for."""

    rows: int = ALL_FLIGHTS
    workers: int = 2
    device: str = "cpu"
    keep: str | None = None
    scale: int = 1
    framework: str = TORCH

    @property
    def ranks(self) -> int:
        """Processes that train: Keras trains in one here."""
        return self.workers if self.framework == TORCH else 1

    @property
    def trainer(self) -> str:
        """The framework as people call it."""
        return SPOKEN[self.framework]


@dataclass
class Run:
    """Handed from stage to stage."""

    options: Options
    folder: Folder
    screen: Screen = field(default_factory=Screen)
    interrupts: Interrupts = field(default_factory=Interrupts)
    spark: SparkSession | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    began: float = field(default_factory=time.perf_counter)

    def __post_init__(self) -> None:
        self.facts |= {"penstock": pk.__version__, "options": asdict(self.options)}

    @property
    def path(self) -> str:
        """Where the datasets and checkpoints go."""
        return str(self.folder.work)

    def stop_spark(self) -> None:
        """The end of Spark, if it was started; having been interrupted, when its tasks have had time to notice."""
        if self.spark is not None:
            if self.interrupts.seen:
                time.sleep(NOTICE_SECONDS)
            self.spark.stop()
            self.spark = None

    def on_spark(self, job: Callable[[], Answer]) -> Answer:
        """What the job returns; Ctrl-C cancels it first."""
        assert self.spark is not None
        with Running(self.spark, job) as running:
            while running.wait(0.1):
                pass
        return running.answer()
