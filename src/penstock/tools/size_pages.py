"""How a sizing looks: the sentence, the table on a terminal, and the same as plain text.

The picture is drawn by `penstock.tools.size_plot`.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from penstock.tools.size_forms import SOURCE, Form
from penstock.tools.size_plan import STORAGE, WRITING, Course, Epoch
from penstock.tools.size_units import show_bytes, show_count, show_many, show_rate, show_seconds

if TYPE_CHECKING:
    from rich.console import RenderableType

    from penstock.tools.size import Sizing

WIDTH = 110


def verdict(found: Sizing) -> str:
    """Which side bounds an epoch, with the arithmetic."""
    epoch = found.epoch
    shared = f"{show_bytes(epoch.stored)} / {_workers(epoch.workers)}"
    if epoch.bandwidth is None or epoch.read_seconds is None:
        if epoch.flip_bandwidth is None or epoch.compute is None:
            return f"A worker reads {show_bytes(epoch.worker_bytes)} an epoch ({shared})."
        return (
            f"Storage keeps up with {show_seconds(epoch.compute)} of computing from {show_rate(epoch.flip_bandwidth)} "
            f"a worker on, who reads {show_bytes(epoch.worker_bytes)} ({shared})."
        )
    read = (
        f"a worker reads its {show_bytes(epoch.worker_bytes)} ({shared}) in {show_seconds(epoch.read_seconds)} at "
        f"{show_rate(epoch.bandwidth)}"
    )
    if epoch.compute is None or epoch.flip_bandwidth is None:
        return (
            f"{read[0].upper()}{read[1:]}; if an epoch computes longer than that, computing bounds, and if less, it "
            "waits for storage."
        )
    computing = f"computing takes {show_seconds(epoch.compute)}"
    flip = show_rate(epoch.flip_bandwidth)
    name = "storage" if epoch.bound == STORAGE else "computing"
    bounds = f"of storage and computing, {name}" if found.wants_cores else name
    begun = f"{bounds[0].upper()}{bounds[1:]} bounds the epoch: {read}, and {computing}"
    if epoch.bound == STORAGE:
        waits = 1 - epoch.compute / epoch.read_seconds
        return (
            f"{begun}, so that it waits {waits:.0%} of the time; it would keep up from {flip} a worker"
            f"{_more_workers(epoch)}."
        )
    return f"{begun}; storage would bound below {flip} a worker{_fewer_workers(epoch)}."


def about_cores(found: Sizing) -> str | None:
    """That making batches would bound, where a worker has no more cores than were measured."""
    making, epoch = found.making_seconds, found.epoch
    if not found.wants_cores or making is None:
        return None
    return (
        f"But batches have to be made of the bytes, too, which takes 2 cores {show_seconds(making)} as measured "
        f"({show_rate(epoch.worker_bytes / making)}, {SOURCE}): a worker needs more cores than 2, or these bound."
    )


def _more_workers(epoch: Epoch) -> str:
    # Where steps are shared out, it takes so many that each has a part of one batch: no advice.
    if epoch.flip_workers is None or epoch.shared_out:
        return ""
    return f", or from {show_count(epoch.flip_workers)} workers on"


def _fewer_workers(epoch: Epoch) -> str:
    if epoch.flip_workers is None or epoch.flip_workers < 2 or epoch.shared_out:
        return ""
    most = epoch.flip_workers - 1
    return f", or with {_workers(most)}{' or fewer' if most > 1 else ''}"


def _workers(number: int) -> str:
    return show_many(number, "worker")


def about_workers(epoch: Epoch) -> str | None:
    """At which number of workers the answer flips, and what that takes for granted."""
    if epoch.bandwidth is None or epoch.compute is None:
        return None
    if epoch.shared_out:
        shares = "each has its own bandwidth and its share of the steps"
        if epoch.flip_workers is None:
            return f"no number of workers changes the answer: {shares}"
        return (
            f"more workers hardly change the answer: {shares}; from {_workers(epoch.flip_workers)} on each has so few "
            "rows that storage never bounds, since a step that is not full takes as long"
        )
    if epoch.flip_workers is None:
        return "no number of workers is enough: a single row takes longer to read than the epoch to compute"
    least, stays = epoch.flip_workers, f"if computing takes {show_seconds(epoch.compute)} however many read"
    if least == 1:
        return f"a single worker is enough, {stays}"
    return (
        f"{show_count(least)} workers are enough and {show_count(least - 1)} too few, {stays}; if they share it out, "
        "more workers hardly change the answer"
    )


def facts_table(found: Sizing) -> Table:
    """The figures, one in a line."""
    epoch, memory = found.epoch, found.memory
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column()
    lines = [
        ("rows", f"{show_count(epoch.rows)} of {show_bytes(found.row_bytes)}: {'; '.join(found.tensors)}"),
        ("on storage", show_bytes(epoch.stored)),
        ("shards", f"{show_count(found.shards)}, {show_bytes(found.shard_bytes)} the largest"),
        ("each worker reads", f"{show_bytes(epoch.worker_bytes)}, {show_many(epoch.worker_rows, 'row')}"),
    ]
    if epoch.bandwidth is not None and epoch.read_seconds is not None:
        lines += [
            (
                "reading an epoch",
                f"{show_seconds(epoch.read_seconds)} at {show_rate(epoch.bandwidth)} a worker",
            )
        ]
    if epoch.compute is not None:
        how = f" (steps of {show_seconds(found.step)})" if found.step is not None else ""
        lines += [("computing an epoch", f"{show_seconds(epoch.compute)}{how}")]
    if epoch.bound is not None:
        lines += [
            ("bound by", f"{epoch.bound}, if a worker has cores enough" if found.wants_cores else epoch.bound)
        ]
    if epoch.flip_bandwidth is not None:
        lines += [("flips at", f"{show_rate(epoch.flip_bandwidth)} a worker")]
    if said := about_workers(epoch):
        lines += [("", said)]
    lines += [
        (
            "loader's memory",
            f"about {show_bytes(memory.device)} on a GPU and {show_bytes(memory.pinned)} pinned beside it, or "
            f"{show_bytes(memory.host)} in host memory; each rank, batches of {show_count(found.batch_size)}",
        )
    ]
    if found.measured is not None:
        lines += [("measured", str(found.measured))]
    for name, value in lines:
        table.add_row(name, Text(value))
    return table


def forms_table(found: Sizing) -> Table:
    """The ways to store the same rows."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("stored as")
    for title in ("bytes", "storage reads a share in", "2 cores decode", "and a share in", "writing"):
        table.add_column(title, justify="right")
    for each in found.forms:
        table.add_row(*map(Text, _form_cells(each)))
    return table


def _form_cells(form: Form) -> list[str]:
    return [
        form.name,
        show_bytes(form.stored) + (" (own)" if form.own else ""),
        "" if form.read_seconds is None else show_seconds(form.read_seconds),
        "not measured" if form.decoded is None else show_rate(form.decoded),
        "" if form.decode_seconds is None else show_seconds(form.decode_seconds),
        "not measured" if form.write is None else f"{form.write:.2f} x",
    ]


FORMS_NOTE = (
    f"Bytes, decoding and writing by ratios measured once ({SOURCE}): 40 columns of numbers, and loops by hand over "
    "files in memory on 2 cores, of rows of 160 bytes or 1 KB, whichever is nearer. Other data compresses otherwise, "
    "and more cores decode more. Decoding compares the ways to store; Penstock's own loader is another loop."
)


def course_table(course: Course) -> Table:
    """Preparing and training, in the ways they can be arranged."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("prepare and train")
    table.add_column("total", justify="right")
    table.add_column("how")
    epoch = show_seconds(course.epoch)
    rows = [
        (
            "sequential",
            course.sequential,
            f"{show_seconds(course.prep)} + {show_count(course.epochs)} x {epoch}",
        ),
        (
            "overlapped",
            course.overlapped,
            f"the longer of {show_seconds(course.prep)} and {epoch}, + {show_count(course.epochs - 1)} x {epoch}",
        ),
    ]
    if course.fused is not None and course.compute is not None:
        how = (
            f"{show_count(course.epochs)} x the longer of {show_seconds(course.prep)} and "
            f"{show_seconds(course.compute)}"
        )
        rows += [("fused", course.fused, f"{how}; nothing is stored")]
    for name, total, how in rows:
        mark = "  quickest" if name == course.quickest else ""
        table.add_row(name + mark, show_seconds(total), Text(how))
    return table


def course_sentence(course: Course) -> str:
    """When overlapping or fusing pays."""
    times = f"preparation {show_seconds(course.prep)}, training {show_seconds(course.training)}"
    said = (
        f"The {course.longer} is longer ({times}); overlapping the first epoch with the preparation saves "
        f"{show_seconds(course.saved)} of {show_seconds(course.sequential)}, at best"
    )
    if course.fused is None:
        return f"{said}."
    if course.fuse_up_to is None:
        return f"{said}, and fusing beats one after the other for any number of epochs."
    if course.fuse_up_to == 0:
        return f"{said}, and fusing never beats one after the other."
    plural = "s" if course.fuse_up_to > 1 else ""
    return (
        f"{said}, and fusing beats one after the other up to {show_count(course.fuse_up_to)} epoch{plural}."
    )


def on_terminal(found: Sizing) -> RenderableType:
    """All of it, drawn by rich."""
    parts: list[RenderableType] = [
        Text(" ".join(filter(None, (verdict(found), about_cores(found)))), style="bold"),
        Text(),
        facts_table(found),
        forms_table(found),
        Text(FORMS_NOTE, style="dim"),
    ]
    if found.course is not None:
        parts += [Text(), Text(course_sentence(found.course), style="bold"), course_table(found.course)]
        if found.prep_is == WRITING:
            parts.append(Text(f"Preparation: {found.prep_is}.", style="dim"))
    return Group(*parts)


def show(found: Sizing) -> None:
    """Print it: drawn on a terminal, as text of its own width for whatever else reads."""
    console = Console()
    if console.is_terminal:
        console.print(found)
    else:
        console.print(Text(as_text(found)), soft_wrap=True)


def as_text(found: Sizing) -> str:
    """The same without colours."""
    page = io.StringIO()
    Console(file=page, width=WIDTH, color_system=None, highlight=False).print(on_terminal(found))
    return "\n".join(line.rstrip() for line in page.getvalue().splitlines())
