"""Run by conftest.py in a process of its own: moto's S3 server on a free port of loopback, until stdin ends.

It can write down the requests it gets, as `tests/feed/test_remote_feed.py` asks it to.
"""

from __future__ import annotations

import logging
import os
import sys
import tempfile

if __name__ == "__main__":
    # It logs every request to a pipe that nobody reads, which would fill up.
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as folder:
        # Read when moto is imported; otherwise it writes into the working directory.
        os.environ["MOTO_RECORDER_FILEPATH"] = os.path.join(folder, "requests")
        from moto.server import ThreadedMotoServer

        server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        server.start()
        print(server.get_host_and_port()[1], flush=True)
        sys.stdin.read()
        server.stop()
