"""Run by test_checkpoint.py: writes checkpoints until it is killed.

    checkpoint_writer.py FOLDER

Every array of a checkpoint holds its step, so that parts of two can be told apart.
"""

from __future__ import annotations

import sys

import numpy as np

from penstock.feed.checkpoint.checkpoint import checkpoint, restore


def main() -> None:
    path = sys.argv[1]
    step = restore(path).step
    print("writing", flush=True)
    while True:
        step += 1
        checkpoint(
            path,
            model={"w": np.full(1 << 18, float(step))},
            optimizer={"m": [np.full(1 << 16, float(step))]},
            extra=step,
            step=step,
        )


if __name__ == "__main__":
    main()
