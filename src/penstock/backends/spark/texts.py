"""Texts and times as Spark expressions. Nothing depends on the session's time zone."""

from __future__ import annotations

import functools
import operator

from pyspark.sql import Column

from penstock.backends.base import Kernel, Site
from penstock.backends.spark.columns import long
from penstock.backends.spark.functions import F
from penstock.expr.calendar import DAY, SECOND
from penstock.expr.ops.times import CLOCKED, DATED
from penstock.expr.patterns import WHITE, parse_pattern
from penstock.expr.types import Type


def _split(site: Site, x: Column) -> Column:
    # Spark splits by a pattern, so every character that might mean something is quoted.
    quoted = "".join(
        f"\\{c}" if c.isascii() and not c.isalnum() and c.isprintable() else c
        for c in site.params["separator"]
    )
    return F.split(x, quoted, -1)


def _extract(site: Site, x: Column) -> Column:
    pattern = parse_pattern(site.params["pattern"]).text
    # Alone it gives '' where nothing matches.
    return F.when(x.rlike(pattern), F.regexp_extract(x, pattern, site.params["group"]))


def _quotient(x: Column, by: int) -> Column:
    """Whole division of bigints that rounds down; Spark's own rounds towards zero, and `/` goes through double."""
    return F.call_function("div", x - F.pmod(x, long(by)), long(by))


def _micros(x: Column, of: Type) -> Column:
    """Microseconds since 1970-01-01; of a timestamp without zone as if it were in UTC."""
    if of.kind == "timestamp":
        return F.unix_micros(x)
    clock = (
        F.hour(x).cast("bigint") * long(3600 * SECOND)
        + F.minute(x).cast("bigint") * long(60 * SECOND)
        + (F.extract(F.lit("SECOND"), x) * SECOND).cast("bigint")
    )
    return F.unix_date(x.cast("date")).cast("bigint") * long(DAY) + clock


DATE_FIELDS = {
    "year": F.year,
    "month": F.month,
    "day": F.dayofmonth,
    "weekday": F.weekday,
    "day_of_year": F.dayofyear,
}
CLOCK_FIELDS = {"hour": (F.hour, 3600), "minute": (F.minute, 60), "second": (F.second, 1)}


def _field(site: Site, x: Column) -> Column:
    if site.types[0].kind != "timestamp":
        plain = DATE_FIELDS.get(site.op) or CLOCK_FIELDS[site.op][0]
        return plain(x).cast("bigint")
    # from_utc_timestamp moves the instant by the zone's offset: its microseconds are what clocks there show.
    zone = site.params["zone"]
    micros = F.unix_micros(x if zone == "UTC" else F.from_utc_timestamp(x, zone))
    if site.op in DATE_FIELDS:
        date = F.date_from_unix_date(_quotient(micros, DAY).cast("int"))
        return DATE_FIELDS[site.op](date).cast("bigint")
    units = CLOCK_FIELDS[site.op][1] * SECOND
    return F.pmod(_quotient(F.pmod(micros, long(DAY)), units), long(24 if site.op == "hour" else 60))


def _epoch(site: Site, x: Column) -> Column:
    if site.types[0].kind == "date":
        return F.unix_date(x).cast("double") * 86_400.0
    return _micros(x, site.types[0]).cast("double") / 1e6


def _between(site: Site, left: Column, right: Column) -> Column:
    of = site.types[0]
    if of.kind == "date":
        days = F.unix_date(left).cast("bigint") - F.unix_date(right).cast("bigint")
        return days.cast("double") * 86_400.0
    return F.try_subtract(_micros(left, of), _micros(right, of)).cast("double") / 1e6


def stripped(x: Column, side: str) -> Column:
    """Without white space at its ends.

    With a list Spark looks every character up in it, slowly; without, it looks for spaces alone, and fast. So the list
    is for texts that then still begin or end with something that is no plain letter, digit or sign.
    """
    trim = {"left": F.ltrim, "right": F.rtrim, "both": F.btrim}[side]
    spaces = trim(x)
    # Texts are compared byte by byte, so the whole of it says what its first character does.
    ends = [spaces] if side != "right" else []
    ends += [F.substring(spaces, -1, 1)] if side != "left" else []
    plain = functools.reduce(operator.and_, ((end >= "!") & (end < "\x7f") for end in ends))
    return F.when(plain, spaces).otherwise(trim(x, F.lit(WHITE)))


KERNELS: dict[str, Kernel] = {
    "lower": lambda site, x: F.lower(x),
    "upper": lambda site, x: F.upper(x),
    "strip": lambda site, x: stripped(x, "both"),
    "length": lambda site, x: F.char_length(x).cast("bigint"),
    "contains": lambda site, x: F.contains(x, F.lit(site.params["text"])),
    "startswith": lambda site, x: F.startswith(x, F.lit(site.params["text"])),
    "endswith": lambda site, x: F.endswith(x, F.lit(site.params["text"])),
    "replace": lambda site, x: F.replace(x, F.lit(site.params["old"]), F.lit(site.params["new"])),
    "split": _split,
    "substring": lambda site, x: F.substring(x, site.params["start"] + 1, site.params["length"]),
    "regex_extract": _extract,
    **dict.fromkeys((*DATED, *CLOCKED), _field),
    "epoch_seconds": _epoch,
    "date_of": lambda site, x: x.cast("date"),
    "microsecond": lambda site, x: F.pmod(
        (F.extract(F.lit("SECOND"), x) * SECOND).cast("bigint"), long(SECOND)
    ),
    "seconds_between": _between,
}
