"""When a text is a number: one rule, in patterns that RE2 and Java read the same way.

Plain decimal notation with ASCII digits, without spaces, underscores, suffixes or hexadecimals; and the words
below, in any case. Python, Java and Arrow each accept more, and each something else.
"""

from __future__ import annotations

import math

WHOLE = r"\A[+\-]?[0-9]+\z"
NUMBER = r"\A[+\-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+\-]?[0-9]+)?\z"
WORDS = {
    "nan": math.nan,
    "inf": math.inf,
    "+inf": math.inf,
    "-inf": -math.inf,
    "infinity": math.inf,
    "+infinity": math.inf,
    "-infinity": -math.inf,
}
