"""The page: facts put into `page.html` by jinja2, with `page.css` and `page.js` in it. One file, and nothing beside it.

Everything that comes from data is escaped; the page's own policy forbids all requests and every script but its own.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from penstock.errors import MissingDependency
from penstock.tools.report import charts, time_charts, wording
from penstock.tools.report.drawing import Drawn

MOST_TENSORS = 48
"""Drawn one by one; of more the facts tell."""
OFTEN = 0.005
"""Of the values; where none comes as often, the most frequent ones are chance."""
MOST_RANKS = 16
"""Told one by one: those that waited most."""


def page(facts: Mapping[str, Any]) -> str:
    """The facts as one HTML file."""
    try:
        from jinja2 import Environment, StrictUndefined
    except ModuleNotFoundError as error:
        raise MissingDependency("jinja2", extra="report") from error
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    for function in (
        *(wording.count, wording.number, wording.share, wording.size, wording.rate, wording.duration),
        *(wording.when, wording.sentence, wording.plural, wording.kept),
    ):
        environment.filters[function.__name__] = function
    for module, names in ((charts, CHARTS), (time_charts, TIME_CHARTS)):
        environment.globals |= {name: getattr(module, name) for name in names}
    ranks = sorted(facts["feed"]["ranks"] if facts["feed"] else [], key=_waited, reverse=True)
    script = _text("page.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    found = environment.from_string(_text("page.html")).render(
        **facts,
        most_tensors=MOST_TENSORS,
        often=OFTEN,
        worst=ranks[0] if ranks else None,
        shown_ranks=sorted(ranks[:MOST_RANKS], key=lambda rank: rank["rank"]),
        css=Drawn(_text("page.css")),
        script=Drawn(script),
        policy=f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'",
    )
    # Names of files and texts of logs may hold halves of characters, which no file can.
    return found.encode("utf-8", "backslashreplace").decode("utf-8")


CHARTS = ("histogram", "spark", "value_bars", "block_map", "meter")
TIME_CHARTS = ("throughput", "waiting", "time_axis", "noted")


def _waited(rank: Mapping[str, Any]) -> float:
    return float(rank["waited_share"] or 0.0)


def _text(name: str) -> str:
    return files(__package__).joinpath(name).read_text("utf-8")
