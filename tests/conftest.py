"""Spark sessions for the tests: one JVM for the whole run, quiet and on loopback.

Tests on `local-cluster` and Spark Connect run in processes of their own, because one process has one JVM.
"""

from __future__ import annotations

import pytest

import penstock as pk


@pytest.fixture(scope="session")
def spark():
    session = pk.session(cores=2, memory="2g")
    yield session
    session.stop()
