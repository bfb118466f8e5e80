"""Penstock itself as one file that Python imports from, for ranks on machines that need not have it installed.

An executor's rank runs the driver's own version, whatever is installed there: states and datasets are then read by
the code that wrote them. cloudpickle goes along, because it unpacks the function. Used by `launch_spark`.
"""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

PACKAGES = ("penstock", "cloudpickle")
KINDS = (".py", ".html", ".css", ".js")
"""Of files: the code, and what a report's page is made of."""


def package() -> bytes:
    """A zip of the sources.

    >>> "penstock/jobs/launch_worker.py" in zipfile.ZipFile(io.BytesIO(package())).namelist()
    True
    """
    import cloudpickle

    import penstock

    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for module in (penstock, cloudpickle):
            folder = Path(str(module.__file__)).parent
            for source in sorted(each for each in folder.rglob("*") if each.suffix in KINDS):
                archive.write(source, str(source.relative_to(folder.parent)))
    return packed.getvalue()
