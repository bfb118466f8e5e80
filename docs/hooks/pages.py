"""What mkdocs does to our pages beside Markdown: why a block is not run, and figures that follow the page's colours.

A fence says `python no-run REASON`; readers see the reason above the block (of commands nobody expects that they were
run). Figures are drawn in `currentColor`: as an image they are grey, and inside the page they have the colour of its
text, in light and in dark.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

NOT_RUN = re.compile(r"^( *```)(python|sh) no-run (.+)$", re.MULTILINE)
FIGURE = re.compile(r'<img alt="([^"]*)" src="((?:\.\./)*figures/[\w-]+\.svg)"\s*/?>')


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The reason as the block's title."""

    def titled(found: re.Match[str]) -> str:
        title = (
            f' title="Not run by the tests: {found[3]}"' if found[2] == "python" else ""
        )
        return f"{found[1]}{found[2]}{title}"

    return NOT_RUN.sub(titled, markdown)


def on_page_content(html: str, page: Any, config: Any, **_: Any) -> str:
    """Figures as part of the page."""

    def inlined(found: re.Match[str]) -> str:
        path = Path(config["docs_dir"]) / Path(page.file.src_uri).parent / found[2]
        svg = path.read_text(encoding="utf-8")
        start = svg.index("<svg")
        return f'<span class="figure" role="img" aria-label="{found[1]}">{svg[start:]}</span>'

    return FIGURE.sub(inlined, html)
