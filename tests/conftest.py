"""What tests of several layers share: one Spark session for the whole run, and a server that speaks S3 on loopback.

Tests on `local-cluster` and Spark Connect run in processes of their own, because one process has one JVM.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib
import os
import re
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

import penstock as pk

# How long an example takes is the machine's business.
settings.register_profile("untimed", settings(), deadline=None)
settings.load_profile("untimed")


# Spark runs for seconds here: code that is compiled quickly is done with in two thirds of the time that making better
# code takes. Long runs test what users have. For drivers, Connect servers and a cluster's executors; all inherit it.
if not os.environ.get("PENSTOCK_LONG"):
    for started_with in ("SPARK_SUBMIT_OPTS", "SPARK_EXECUTOR_OPTS"):
        os.environ.setdefault(started_with, "-XX:TieredStopAtLevel=1")


# Comes with CUDA's torch, which imports it late; after TensorFlow that ends the process.
with contextlib.suppress(ImportError):
    importlib.import_module("triton")


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out what tests run as scripts: looking for doctests imports a file, and some start Spark when imported."""
    beside_tests = collection_path.suffix == ".py" and Path(__file__).parent in collection_path.parents
    return True if beside_tests and not collection_path.name.startswith("test_") else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not os.environ.get("PENSTOCK_LONG"):
        for item in items:
            if item.get_closest_marker("long"):
                item.add_marker(pytest.mark.skip(reason="runs in make test-long"))


@pytest.fixture(autouse=True)
def one_connect_server_at_a_time(request: pytest.FixtureRequest) -> Iterator[None]:
    """A local Spark Connect server has the one port that clients look for, also when tests run side by side.

    Who starts one has "connect" or "remote" in its name.
    """
    if not re.search("connect|remote", request.node.name):
        yield
        return
    with (Path(tempfile.gettempdir()) / "penstock-tests-connect.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture(scope="session")
def spark():
    session = pk.session(cores=2, memory="2g")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    """The address of the server. It ends with its standard input, so also when the tests are killed."""
    process = subprocess.Popen(
        [sys.executable, str(Path(__file__).parent / "dataset" / "s3.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    port = process.stdout.readline().strip()
    if not port:
        pytest.fail(f"the S3 server did not start: {process.stderr.read()[-2000:]}")
    yield f"http://127.0.0.1:{port}"
    process.stdin.close()
    try:
        process.wait(20)
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def s3_bucket(s3_server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """An empty bucket of the test's own, reached by the usual environment."""
    from pyarrow import fs

    for name, value in {
        "AWS_ENDPOINT_URL": s3_server,
        "AWS_REGION": "eu-west-1",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
    }.items():
        monkeypatch.setenv(name, value)
    name = f"bucket-{uuid.uuid4().hex[:12]}"
    host = s3_server.removeprefix("http://")
    fs.S3FileSystem(
        endpoint_override=host, scheme="http", region="eu-west-1", allow_bucket_creation=True
    ).create_dir(name)
    return name
