"""Lets the tests of the feed import what they share: `several_ranks`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
