"""Whether a function's argument has one value however often it is computed.

A UDF's arguments are computed once and sent to Python; an expression may read them several times, and in a branch not
at all. For random numbers and the like that is another result, and a Column does not say whether it is one. So the
functions in it are looked at, as it prints itself: only those known to be pure are taken.
"""

from __future__ import annotations

import re
from typing import Any

_NAMES = """
    abs acos add_months array array_contains ascii asin atan atan2 bround cardinality case cast ceil ceiling
    char_length character_length coalesce concat concat_ws contains cos date_add date_format date_sub date_trunc
    datediff day dayofmonth dayofweek dayofyear degrees element_at endswith exp expm1 find_in_set floor format_number
    format_string get_json_object greatest hash hour if ifnull in initcap instr int isnan isnotnull isnull last_day
    lcase least left length levenshtein like ln locate log log10 log1p log2 lower lpad ltrim md5 minute mod month
    months_between nanvl negative not nullif nvl nvl2 octet_length pmod pow power quarter radians regexp_extract
    regexp_replace repeat replace reverse right rint rlike round rpad rtrim second sha1 sha2 sign signum sin size
    split sqrt startswith substr substring substring_index tan to_date to_timestamp_ntz translate trim trunc try_cast
    try_divide typeof ucase upper weekofyear xxhash64 year
    """
_OPERATORS = "+ - * / % > < >= <= = == <=> != ! ~ & | ^ and or && ||"
PURE = frozenset(f"{_NAMES} {_OPERATORS}".split())
_AGGREGATES = "sum avg mean min max count median mode stddev stddev_samp variance var_samp percentile"
AGGREGATES = frozenset(f"{_AGGREGATES} first last".split())
"""With one value for a group, however often they are read there."""
_OURS = "raise_error array_join forall transform filter aggregate exists get rint isin when then else"
OURS = frozenset(f"{_OURS} end".split())
"""What our own Columns are made of beside these, where a function is called with another one's result."""
_CALL = re.compile(r"([^\s(),\[\]]+)\(")


def not_surely_pure(argument: Any, also: frozenset[str] = frozenset()) -> str | None:
    """The first function in a Column that is neither known to be pure nor among `also`; None for none, and for a name.

    >>> import penstock as pk
    >>> from pyspark.sql import functions as F
    >>> spark = pk.session()
    >>> not_surely_pure(F.upper("text")), not_surely_pure(F.rand() * 2), not_surely_pure("rand()")
    (None, 'rand', None)
    """
    if isinstance(argument, str):
        return None
    names = (name.lstrip("'") for name in _CALL.findall(str(argument).removeprefix("Column<")))
    return next((name for name in names if name.lower() not in PURE and name.lower() not in also), None)
