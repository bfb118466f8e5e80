"""How well rows are mixed, beside a perfect shuffle and other ways of shuffling, on data sorted by label.

    python benchmarks/shuffle_quality.py [--rows 200000] [--batch 250] [--block-bytes 4096] [--seeds 5]

The rows are numbered; the first half has label 0, the second label 1. A way gives the numbers in the order in which
an epoch hands them out, for a seed and an epoch. Measures in "sigmas" are divided by what chance alone gives a
perfect shuffle; the others are ratios to what is expected of one, and correlations. `LIMITS` holds where a perfect
shuffle practically never gets; `tests/feed/test_shuffle_quality.py` asserts them.
"""

from __future__ import annotations

import argparse
import platform
import shutil
import statistics
import tempfile
from collections.abc import Callable
from datetime import date

import numpy as np
import pyarrow as pa

import penstock as pk

Order = Callable[[int, int], np.ndarray]
"""Seed, epoch -> the rows' numbers in the order they are handed out."""

ROW_BYTES = 12
"""A number and a label."""
LAGS = 128
"""Twice the lanes: rows of one lane follow each other at a distance of 64."""

LIMITS = {
    "label variance": (1.0, 0.35),
    "chi-square": (1.0, 0.12),
    "label drift, sigmas": (0.0, 3.5),
    "next row, sigmas": (0.0, 6.0),
    "worst lag, sigmas": (0.0, 6.5),
    "next batch, sigmas": (0.0, 6.0),
    "next epoch, correlation": (0.0, 0.15),
    "next seed, correlation": (0.0, 0.15),
}
"""Measure -> what a perfect shuffle gives, and how far from it one comes with a chance of less than 1e-7, for 200,000
rows in batches of 250. A drift's distribution is Kolmogorov's; the others are close to normal. Correlations of a
row's places in two orders have a wider limit: rows move block by block, and chance is that of some 600 blocks."""

TOGETHER = "together again"
"""How often rows that shared a batch share one in the next epoch, to a perfect shuffle. Without a limit: what is read
by blocks stays together in blocks, the more so the fewer lanes there are for them."""


def label_variance(ids: np.ndarray, batch: int) -> float:
    """Of the batches' label means, to a hypergeometric distribution's."""
    labels = (ids >= len(ids) // 2).astype(np.float64)
    share, rows = labels.mean(), len(ids)
    expected = share * (1 - share) / batch * (rows - batch) / (rows - 1)
    return float(((_batches(labels, batch).mean(1) - share) ** 2).mean() / expected)


def chi_square(ids: np.ndarray, batch: int, parts: int = 10) -> float:
    """Over batches and tenths of the sorted column, per degree of freedom."""
    tenth = _batches(ids * parts // len(ids), batch)
    seen = np.stack([(tenth == part).sum(1) for part in range(parts)])
    expected = batch / parts
    return float(((seen - expected) ** 2 / expected).sum() / ((len(tenth) - 1) * (parts - 1)))


def label_drift(ids: np.ndarray) -> float:
    """Kolmogorov-Smirnov between the places of the two labels in the epoch, scaled to Kolmogorov's distribution."""
    labels = ids >= len(ids) // 2
    ones, zeros = labels.cumsum() / labels.sum(), (~labels).cumsum() / (~labels).sum()
    size = labels.sum() * (~labels).sum() / len(ids)
    return float(np.abs(ones - zeros).max() * np.sqrt(size))


def correlation(first: np.ndarray, second: np.ndarray) -> float:
    return float(abs(np.corrcoef(first, second)[0, 1]))


def sigmas(first: np.ndarray, second: np.ndarray) -> float:
    """Their correlation, over what chance gives."""
    return correlation(first, second) * np.sqrt(len(first))


def lags(ids: np.ndarray) -> list[float]:
    """Correlation of rows with those 1, 2, ... places later, in sigmas."""
    return [sigmas(ids[:-lag], ids[lag:]) for lag in range(1, LAGS + 1)]


def together_again(first: np.ndarray, second: np.ndarray, batch: int) -> float:
    """Pairs that share a batch in both epochs, to a perfect shuffle's number of them."""
    rows = len(first)
    ours, theirs = (np.argsort(ids) // batch for ids in (first, second))
    _, counts = np.unique(ours * rows + theirs, return_counts=True)
    expected = rows * (batch - 1) / 2 * (batch - 1) / (rows - 1)
    return float((counts * (counts - 1) / 2).sum() / expected)


def _batches(values: np.ndarray, batch: int) -> np.ndarray:
    whole = len(values) // batch * batch
    return values[:whole].reshape(-1, batch)


def measure(order: Order, seed: int, batch: int) -> dict[str, float]:
    """All measures of a way, for a seed's first epoch beside its second and beside the next seed's first."""
    ids, later, other = order(seed, 0), order(seed, 1), order(seed + 1, 0)
    means = _batches(ids, batch).mean(1)
    each = lags(ids)
    place, place_later, place_other = (np.argsort(numbers) for numbers in (ids, later, other))
    return {
        "label variance": label_variance(ids, batch),
        "chi-square": chi_square(ids, batch),
        "label drift, sigmas": label_drift(ids),
        "next row, sigmas": each[0],
        "worst lag, sigmas": max(each),
        "next batch, sigmas": sigmas(means[:-1], means[1:]),
        "next epoch, correlation": correlation(place, place_later),
        "next seed, correlation": correlation(place, place_other),
        TOGETHER: together_again(ids, later, batch),
    }


def beyond(found: dict[str, float]) -> list[str]:
    """The measures that a perfect shuffle would not have."""
    return [name for name, (ideal, far) in LIMITS.items() if abs(found[name] - ideal) > far]


def sorted_rows(rows: int) -> pa.Table:
    """Numbers in order, and labels: the first half 0, the second 1."""
    return pa.table({"number": np.arange(rows), "label": (np.arange(rows) >= rows // 2).astype(np.float32)})


def penstock(ds: pk.Dataset, batch: int, **settings: object) -> Order:
    """The order of `ds.numpy`; labels must belong to their rows."""

    def order(seed: int, epoch: int) -> np.ndarray:
        loader = ds.numpy(batch, seed=seed, last="short", **settings)
        loader.set_epoch(epoch)
        found = list(loader)
        numbers = np.concatenate([each["number"] for each in found])
        labels = np.concatenate([each["label"] for each in found])
        assert np.array_equal(labels, numbers >= len(ds) // 2)
        return numbers

    return order


def perfect(rows: int) -> Order:
    return lambda seed, epoch: np.random.default_rng((seed, epoch)).permutation(rows)


def block_order_only(rows: int, block: int) -> Order:
    """Blocks in random order, their rows as they lie."""

    def order(seed: int, epoch: int) -> np.ndarray:
        blocks = np.array_split(np.arange(rows), range(block, rows, block))
        chosen = np.random.default_rng((seed, epoch)).permutation(len(blocks))
        return np.concatenate([blocks[each] for each in chosen])

    return order


def shuffle_buffer(before: Order, size: int = 10_000) -> Order:
    """A buffer that gives a random one of its rows and takes the next instead, as tf.data and WebDataset have it."""

    def order(seed: int, epoch: int) -> np.ndarray:
        source = before(seed, epoch)
        generator = np.random.default_rng((seed, epoch, 1))
        places = generator.integers(0, size, len(source)).tolist()
        buffer, given = source[:size].tolist(), []
        for number, place in zip(source[size:].tolist(), places, strict=False):
            given.append(buffer[place])
            buffer[place] = number
        return np.array(given + generator.permutation(buffer).tolist())

    return order


def ways(rows: int, batch: int, block_bytes: int, folder: str) -> dict[str, Order]:
    table = sorted_rows(rows)
    mixed = pk.write(table, f"{folder}/mixed", block_bytes=block_bytes)
    kept = pk.write(table, f"{folder}/kept", shuffle=False, block_bytes=block_bytes)
    blocks = block_order_only(rows, block_bytes // ROW_BYTES)
    return {
        "a perfect shuffle (NumPy)": perfect(rows),
        "Penstock": penstock(mixed, batch),
        "its files in their order (shuffle=False)": penstock(mixed, batch, shuffle=False),
        "Penstock, written with shuffle=False": penstock(kept, batch),
        "the same, lanes=1": penstock(kept, batch, lanes=1),
        "blocks in random order, rows as they lie": blocks,
        "the same and a buffer of 10,000 rows": shuffle_buffer(blocks),
        "a buffer of 10,000 rows alone": shuffle_buffer(lambda seed, epoch: np.arange(rows)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--batch", type=int, default=250)
    parser.add_argument("--block-bytes", type=int, default=4096)
    parser.add_argument("--seeds", type=int, default=5)
    given = parser.parse_args()
    folder = tempfile.mkdtemp()
    try:
        chosen = ways(given.rows, given.batch, given.block_bytes, folder)
        print(
            f"{date.today()}, {platform.machine()}, Python {platform.python_version()}, NumPy {np.__version__}"
        )
        print(
            f"`python benchmarks/shuffle_quality.py --rows {given.rows} --batch {given.batch} "
            f"--block-bytes {given.block_bytes} --seeds {given.seeds}`"
        )
        print(
            f"{given.rows:,} rows sorted by label, batches of {given.batch}, blocks of {given.block_bytes:,} bytes; "
            f"medians of {given.seeds} seeds\n"
        )
        names = [*LIMITS, TOGETHER]
        print(f"| way | {' | '.join(names)} |")
        print(f"|{' --- |' * (len(names) + 1)}")
        for way, order in chosen.items():
            found = [measure(order, seed, given.batch) for seed in range(given.seeds)]
            medians = [statistics.median(each[name] for each in found) for name in names]
            print(f"| {way} | {' | '.join(f'{value:.3g}' for value in medians)} |", flush=True)
        within = "; ".join(f"{name} {ideal:g} ± {far:g}" for name, (ideal, far) in LIMITS.items())
        print(f"\nWithin chance of a perfect shuffle: {within}.")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
