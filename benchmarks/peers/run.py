"""Peers of Penstock's loaders: how fast each delivers shuffled batches into host memory, from one run.

    python benchmarks/peers/run.py [--gigabytes 0.5] [--rounds 3] [--only NAME ...] [--kinds NAME ...] [--venvs DIR]

Makes an environment for each peer, converts the same random rows to each peer's own format, and measures all of
them, and Penstock and the floor beside them, in a random turn; the page cache is warm, if it holds what all of them
wrote: a kind of rows after the other needs half as much. Prints Markdown for docs/results.md; every figure is in it. A
peer that does not install, import or finish is a row with the reason.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from contextlib import suppress
from datetime import date
from pathlib import Path
from typing import Any

from common import RUN, SHAPES, STRETCHES, write_rows

HERE = Path(__file__).resolve().parent
PEERS = {
    "floor": "Floor: a gather out of memory",
    "penstock_loader": "Penstock",
    "hf_datasets": "Hugging Face datasets",
    "lance_table": "Lance",
    "litdata_streaming": "LitData",
    "mosaic_streaming": "Mosaic Streaming",
    "petastorm_reader": "Petastorm",
    "ray_data": "Ray Data",
}
OURS = ("floor", "penstock_loader")
"""Measured in the environment that runs this."""

Figures = dict[tuple[str, str], dict[str, list[dict[str, Any]]]]
"""What a shuffle and its settings gave, for each kind of rows."""


class Failed(Exception):
    """A peer that takes no part, and why."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gigabytes", type=float, default=0.5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batch", type=int, default=8192)
    parser.add_argument("--only", nargs="+", choices=list(PEERS), default=list(PEERS))
    parser.add_argument("--kinds", nargs="+", choices=list(SHAPES), default=list(SHAPES))
    parser.add_argument("--venvs", type=Path, help="keep the environments here (default: made and removed)")
    parser.add_argument("--folder", help="where to write the rows (default: the system's temporary folder)")
    parser.add_argument("--seconds", type=float, default=12, help="the longest a pass may take")
    parser.add_argument("--limit", type=float, default=900, help="the longest one peer's script may take")
    parser.add_argument("--json", type=Path, help="every measurement, a line each")
    given = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="penstock-peers-", dir=given.folder))
    try:
        print(report(compare(given, root), given))
    finally:
        shutil.rmtree(root, ignore_errors=True)


def compare(given: argparse.Namespace, root: Path) -> dict[str, Figures | Failed]:
    found: dict[str, Figures | Failed] = {}
    pythons: dict[str, Path] = {}
    for kind in given.kinds:
        write_rows(kind, given.gigabytes * 1e9, root / "rows" / kind)
    for name in given.only:
        say(f"{PEERS[name]}: environment and files")
        try:
            pythons[name] = environment(name, given.venvs or root / "venvs")
            for kind in given.kinds:
                script(name, pythons[name], "prepare", kind, root, given)
            found[name] = defaultdict(lambda: defaultdict(list))
        except Failed as error:
            say(f"  {error}")
            found[name] = error
    order = random.Random(7)
    for turn in range(given.rounds):
        for kind in given.kinds:
            for name in order.sample(given.only, len(given.only)):
                if isinstance(found[name], dict):
                    measure(name, found, pythons[name], kind, root, given, turn)
    return found


def measure(
    name: str,
    found: dict[str, Figures | Failed],
    python: Path,
    kind: str,
    root: Path,
    given: argparse.Namespace,
    turn: int,
) -> None:
    say(f"round {turn + 1}, {kind}: {PEERS[name]}")
    try:
        lines = script(name, python, "measure", kind, root, given, turn)
    except Failed as error:
        say(f"  {error}")
        lines = error.args[1] if len(error.args) > 1 else []
        if not any(found[name]):  # type: ignore[arg-type]
            found[name] = error
            return
    for line in lines:
        if given.json:
            with given.json.open("a") as out:
                out.write(json.dumps({"peer": name, "turn": turn} | line) + "\n")
        if "failed" in line:
            say(f"  {line['settings']}: {line['failed']}")
        found[name][line["shuffle"], line["settings"]][kind].append(line)  # type: ignore[index]


def environment(name: str, venvs: Path) -> Path:
    """The interpreter of a peer's environment, made anew when what it asks for has changed."""
    if name in OURS:
        return Path(sys.executable)
    wanted = HERE / "requirements" / f"{name}.txt"
    alone = HERE / "requirements" / f"{name}.no-deps.txt"
    folder, made_from = venvs / name, venvs / name / "made-from.txt"
    text = wanted.read_text() + (alone.read_text() if alone.exists() else "")
    python = folder / "bin" / "python"
    if made_from.exists() and made_from.read_text() == text:
        return python
    shutil.rmtree(folder, ignore_errors=True)
    command([sys.executable, "-m", "venv", str(folder)], 600)
    command([str(python), "-m", "pip", "install", "--quiet", "-r", str(wanted)], 1800)
    if alone.exists():
        command([str(python), "-m", "pip", "install", "--quiet", "--no-deps", "-r", str(alone)], 1800)
    made_from.write_text(text)
    return python


def script(
    name: str, python: Path, step: str, kind: str, root: Path, given: argparse.Namespace, turn: int = 0
) -> list[dict[str, Any]]:
    arguments = {
        "--kind": kind,
        "--source": root / "rows" / kind,
        "--folder": root / name / kind,
        "--batch": given.batch,
        "--seconds": given.seconds,
        "--turn": turn,
    }
    flat = [str(each) for pair in arguments.items() for each in pair]
    return command([str(python), str(HERE / f"{name}.py"), step, *flat], given.limit)


def command(words: list[str], limit: float) -> list[dict[str, Any]]:
    """Runs it and gives its lines of JSON. Whatever it started ends with it."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as error:
        process = subprocess.Popen(words, stdout=out, stderr=error, text=True, start_new_session=True)
        try:
            reason = f"ended with {code}" if (code := process.wait(limit)) else ""
        except subprocess.TimeoutExpired:
            reason = f"was not done after {limit:.0f} s"
        finally:
            end_all(process)
        out.seek(0)
        error.seek(0)
        lines = [json.loads(line) for line in out if line.startswith('{"library"')]
        if reason:
            last = [line.strip() for line in error.read().splitlines() if line.strip()][-1:]
            raise Failed(f"{reason}: {' '.join(last)[:200]}", lines)
        return lines


def end_all(process: subprocess.Popen[str]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def report(found: dict[str, Figures | Failed], given: argparse.Namespace) -> str:
    arguments = f"--gigabytes {given.gigabytes} --rounds {given.rounds} --batch {given.batch}"
    arguments += f" --seconds {given.seconds:g}"
    if len(given.only) < len(PEERS):
        arguments += f" --only {' '.join(given.only)}"
    if len(given.kinds) < len(SHAPES):
        arguments += f" --kinds {' '.join(given.kinds)}"
    title = (
        f"{date.today()}, {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    )
    lines = [title, f"`python benchmarks/peers/run.py {arguments}`", ""]
    lines.append(
        "| peer | version | what its shuffle does | mixed | runs | 160 B rows, GB/s: median (all) | 1 KB rows, GB/s |"
    )
    lines.append("| --- | --- | --- | --- | --- | --- | --- |")
    for name, figures in found.items():
        if isinstance(figures, Failed):
            lines.append(f"| {PEERS[name]} | | takes no part: {figures.args[0]} | | | | |")
        else:
            lines += best_rows(name, figures)
    lines += [
        "",
        "All settings:",
        "",
        "| peer | settings | 160 B rows, GB/s: median (all) | 1 KB rows, GB/s |",
    ]
    lines.append("| --- | --- | --- | --- |")
    for name, figures in found.items():
        if not isinstance(figures, Failed):
            for (_, settings), kinds in figures.items():
                cells = " | ".join(rates(kinds[kind]) for kind in SHAPES)
                lines.append(f"| {PEERS[name]} | {settings} | {cells} |")
    lines.append(
        f"\nMixed: of {STRETCHES} equal stretches of the stored rows, how many one batch holds; runs: from how many "
        f"runs of {RUN:,} stored rows its rows come; 160 B, 1 KB rows."
    )
    return "\n".join(lines)


def best_rows(name: str, figures: Figures) -> list[str]:
    """A line for each shuffle, with the best settings for each kind of rows."""
    lines = []
    for shuffle in dict.fromkeys(shuffle for shuffle, _ in figures):
        cells, mixed, runs, versions = [], [], [], []
        for kind in SHAPES:
            every = [kinds[kind] for (other, _), kinds in figures.items() if other == shuffle]
            best = max(every, key=median)
            cells.append(rates(best))
            mixed.append(mean(best, "mixed"))
            runs.append(mean(best, "runs"))
            versions += [line["library"] for line in best]
        version = versions[0] if versions else ""
        cells = [", ".join(mixed), ", ".join(runs), *cells]
        lines.append(f"| {PEERS[name]} | {version} | {shuffle} | {' | '.join(cells)} |")
    return lines


def mean(lines: list[dict[str, Any]], name: str) -> str:
    return f"{statistics.mean(line.get(name, 0) for line in lines):.0f}" if lines else ""


def measured(lines: list[dict[str, Any]]) -> list[float]:
    return sorted(line["gigabytes_per_second"] for line in lines if "failed" not in line)


def median(lines: list[dict[str, Any]]) -> float:
    return statistics.median(measured(lines) or [0.0])


def rates(lines: list[dict[str, Any]]) -> str:
    figures = measured(lines)
    if not figures:
        return next((line["failed"][:80].replace("|", "/") for line in lines), "none")
    share = min(line["share"] for line in lines if "failed" not in line)
    part = f", over {share:.0%} of the rows" if share < 0.9 else ""
    return f"{short(median(lines))} ({', '.join(map(short, figures))}){part}"


def short(rate: float) -> str:
    return f"{rate:.2f}" if rate >= 0.1 else f"{rate:.2g}"


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
