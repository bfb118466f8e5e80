"""Lets the tests of expressions import what they share: `expr_cases` and `expr_compare`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
