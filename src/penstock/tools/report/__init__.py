"""`pk.report`: what is known about a dataset and a training on it, as facts and as one HTML page.

Facts first: `storage` (what it is), `sampling` and `tensors` (what is in it), `learned` (the recipe), `log_lines` and
`feed` (the training log), `crossings` (an explanation) and `sizing` give plain values, and `headline` the sentences.
`page` draws them with `charts`. Nothing in the page is loaded from elsewhere.
"""

from __future__ import annotations

import html
import json
import os
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from penstock import __version__
from penstock.dataset.store import open_store
from penstock.errors import MissingDependency, ReportError
from penstock.feed.dataset import Dataset
from penstock.feed.opening import open as open_dataset
from penstock.tools.report.crossings import explanation_facts
from penstock.tools.report.feed import feed_facts
from penstock.tools.report.headline import headline, left_out
from penstock.tools.report.learned import recipe_facts
from penstock.tools.report.log_lines import Logs, read_logs
from penstock.tools.report.plain_values import plain
from penstock.tools.report.sampling import read as read_sample
from penstock.tools.report.sizing import sizing_facts
from penstock.tools.report.storage import dataset_facts, shard_facts
from penstock.tools.report.tensors import tensor_facts

if TYPE_CHECKING:
    from penstock.tools.explain import Explanation

FORMAT_VERSION = 1
PAGES, FACTS = (".html", ".htm"), ".json"
"""How names end of files that a report is written to."""


@dataclass(frozen=True, repr=False)
class Report:
    """What `pk.report` found: `facts`, plain values; `html()`, a page that needs nothing beside it; `save(path)`.

    >>> import tempfile
    >>> import pyarrow as pa
    >>> import penstock as pk
    >>> found = pk.report(pk.write(pa.table({"a": [1, 2, 3]}), tempfile.mkdtemp()))
    >>> found.facts["tensors"][0]["spread"]["mean"], found
    (2.0, Report('3 rows of ... lie ready to train on, in one shard.'))
    """

    facts: dict[str, Any]

    def to_json(self) -> str:
        """The facts as text."""
        return json.dumps(self.facts, indent=1, allow_nan=False)

    def html(self) -> str:
        """The page. Needs the extra "report"."""
        from penstock.tools.report.page import page

        return page(self.facts)

    def save(self, path: str | os.PathLike[str]) -> str:
        """Write the page, or the facts where the name ends in .json, whole or not at all; the path."""
        text = _file(path)
        folder, _, name = text.rpartition("/")
        content = self.to_json() if name.lower().endswith(FACTS) else self.html()
        root = folder or ("/" if text.startswith("/") else ".")
        open_store(root).put(name, content.encode("utf-8"))
        return text

    def __repr__(self) -> str:
        return f"Report({self.facts['headline']!r})"

    def _repr_html_(self) -> str | None:
        try:
            page = html.escape(self.html(), quote=True)
        except MissingDependency:
            return None  # a notebook then shows the headline
        return f'<iframe srcdoc="{page}" title="Report" style="width:100%;height:48em;border:0"></iframe>'


def report(
    dataset: str | os.PathLike[str] | Dataset,
    out: str | os.PathLike[str] | None = None,
    *,
    log: Logs | None = None,
    explanation: Explanation | str | os.PathLike[str] | None = None,
    title: str | None = None,
) -> Report:
    """What a dataset is and holds, what its recipe learned, how a training was fed, and whether storage keeps up.

    `dataset`: a path, or what `pk.open` gives. Values are told from a bounded sample of blocks spread over it; those of
    them that are read whole are checked against their checksums (`CorruptError`), and it is told if others are not.

    `out`: a file that gets the page, one HTML file with everything in it (.html, .htm); or the facts, if its name
    ends in .json.

    `log`: what a loader made with `log=` wrote: the path it was given (with several ranks the files beside it, too), a
    folder, or several. `explanation`: what `pk.explain` returned, or a file that `penstock explain --json` printed.

    What was not given, or is not there, is told in a line.

    >>> import tempfile
    >>> import numpy as np, pyarrow as pa
    >>> import penstock as pk
    >>> folder = tempfile.mkdtemp()
    >>> ds = pk.write(
    ...     pa.table({"x": np.arange(1000) / 7, "y": np.arange(1000) % 2}), folder + "/ds", shards=2
    ... )
    >>> loader = ds.numpy(batch_size=100, log=folder + "/log.jsonl")
    >>> for batch in loader:
    ...     loader.note({"mean": batch["x"].mean()})
    >>> found = report(ds, folder + "/report.html", log=folder + "/log.jsonl")
    >>> found.facts["feed"]["ranks"][0]["rows"], found.facts["feed"]["notes"][0]["count"]
    (1000, 10)
    """
    if title is not None and not isinstance(title, str):
        raise ReportError(f"title={title!r:.100}: a text is wanted.")
    if not isinstance(dataset, (str, os.PathLike, Dataset)):
        raise ReportError(
            f"dataset is a {type(dataset).__name__}. Pass a path, or what pk.open or pk.write returned."
        )
    ds = dataset if isinstance(dataset, Dataset) else open_dataset(dataset)
    if out is not None:
        _file(out)
    # Small files first: a mistake in them is told before anything large is read.
    logged = None if log is None else read_logs(log)
    boundaries = None if explanation is None else explanation_facts(explanation)
    snapshot, recipe = ds.snapshot, ds.recipe
    sample = read_sample(snapshot)
    feed = None if logged is None else feed_facts(logged, _fingerprints(ds))
    facts: dict[str, Any] = {
        "format": FORMAT_VERSION,
        "penstock": __version__,
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "title": title if title is not None else _name(ds.path),
        "dataset": dataset_facts(ds),
        "sample": sample.to_dict(),
        "tensors": tensor_facts(snapshot, sample, recipe),
        "recipe": None if recipe is None else recipe_facts(recipe),
        "shards": shard_facts(ds),
        "feed": feed,
        "boundaries": boundaries,
        "sizing": sizing_facts(ds, feed),
    }
    facts["headline"], facts["left_out"] = headline(facts), left_out(facts)
    found = Report(plain(facts))
    if out is not None:
        found.save(out)
    return found


def _file(out: str | os.PathLike[str]) -> str:
    """The path of a file to write, by whose ending is told what it gets."""
    text = os.fspath(out)
    name = text.rpartition("/")[2]
    if not name or (os.path.isdir(text) and "://" not in text):
        raise ReportError(f"out={text!r} (--out) is a folder: name a file in it, such as 'report.html'.")
    if not name.lower().endswith((*PAGES, FACTS)):
        raise ReportError(
            f"out={text!r} (--out): a report is HTML, or facts as JSON. Choose a name that ends in .html, "
            ".htm or .json."
        )
    return text


def _name(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2] or path


def _fingerprints(ds: Dataset) -> list[str]:
    """What logs may call the dataset: by its content, or by the write that was followed."""
    index = ds.snapshot.manifest.index.file
    written = index.rpartition("-")[2].removesuffix(".arrow")
    return [ds.fingerprint, f"follow-{written}"]
