"""Texts in Arrow. Case goes through Python's own mapping, which is Unicode's full one, where a text is not ASCII."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.backends.arrow.values import Flat, Lists, Text
from penstock.backends.base import Kernel, Site
from penstock.expr.patterns import WHITE, parse_pattern


def _cased(ascii_kernel: Callable[[Any], Any], python: Callable[[str], str]) -> Kernel:
    def kernel(site: Site, x: Text) -> Text:
        if pc.all(pc.string_is_ascii(x.array)).as_py() is not False:
            return Text(ascii_kernel(x.array))
        coded = pc.dictionary_encode(x.array)
        mapped = pa.array([python(word) for word in coded.dictionary.to_pylist()], pa.string())
        return Text(mapped.take(coded.indices))

    return kernel


def _truth(function: Callable[..., Any]) -> Kernel:
    def kernel(site: Site, x: Text) -> Flat:
        found = function(x.array, site.params["text"]).fill_null(False)
        return Flat(found.to_numpy(zero_copy_only=False), x.valid)

    return kernel


def _length(site: Site, x: Text) -> Flat:
    return Flat(pc.utf8_length(x.array).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64), x.valid)


def _replace(site: Site, x: Text) -> Text:
    return Text(pc.replace_substring(x.array, site.params["old"], site.params["new"]))


def _split(site: Site, x: Text) -> Lists:
    parts = pc.split_pattern(x.array.fill_null(""), site.params["separator"])
    offsets = np.asarray(parts.offsets).astype(np.int64)
    return Lists(offsets - offsets[0], Text(parts.values[offsets[0] : offsets[-1]]), x.valid)


def _substring(site: Site, x: Text) -> Text:
    start = site.params["start"]
    return Text(pc.utf8_slice_codeunits(x.array, start, start + site.params["length"]))


def _extract(site: Site, x: Text) -> Text:
    wanted = site.params["group"]
    # Arrow wants every group named, so the whole pattern becomes group 0, and the groups inside get numbers.
    named, count = [], 0
    text = parse_pattern(site.params["pattern"]).text
    place = 0
    while place < len(text):
        if text[place] == "\\":
            named.append(text[place : place + 2])
            place += 2
            continue
        if text[place] == "(" and text[place + 1 : place + 2] != "?":
            count += 1
            named.append(f"(?P<g{count}>")
        else:
            named.append(text[place])
        place += 1
    found = pc.extract_regex(x.array, f"(?P<g0>{''.join(named)})")
    return Text(pc.if_else(found.is_valid(), found.field(wanted), pa.scalar(None, pa.string())))


KERNELS: dict[str, Kernel] = {
    "lower": _cased(pc.ascii_lower, str.lower),
    "upper": _cased(pc.ascii_upper, str.upper),
    "strip": lambda site, x: Text(pc.utf8_trim(x.array, characters=WHITE)),
    "length": _length,
    "contains": _truth(pc.match_substring),
    "startswith": _truth(pc.starts_with),
    "endswith": _truth(pc.ends_with),
    "replace": _replace,
    "split": _split,
    "substring": _substring,
    "regex_extract": _extract,
}
