"""What tests of several layers share: one Spark session for the whole run, and a server that speaks S3 on loopback.

Tests on `local-cluster` and Spark Connect run in processes of their own, because one process has one JVM.
"""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

import penstock as pk


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not os.environ.get("PENSTOCK_LONG"):
        for item in items:
            if item.get_closest_marker("long"):
                item.add_marker(pytest.mark.skip(reason="runs in make test-long"))


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
