"""An S3-compatible server on 127.0.0.1, in a thread of this process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

BUCKET = "lake"


@contextmanager
def running_s3() -> Iterator[dict[str, str]]:
    """A server with one bucket, and the options that lead obstore to it."""
    moto_server = pytest.importorskip("moto.server")
    serving = pytest.importorskip("werkzeug.serving")
    app = moto_server.DomainDispatcherApplication(moto_server.create_backend_app)
    # One request at a time: a real store checks and creates in one step, the stand-in does not.
    server = serving.make_server("127.0.0.1", 0, app, request_handler=_quiet_handler(serving))
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    options = {
        "endpoint": f"http://127.0.0.1:{server.server_port}",
        "region": "us-east-1",
        "access_key_id": "test-key",
        "secret_access_key": "test-secret",
        "allow_http": "true",
    }
    client = pytest.importorskip("boto3").client(
        "s3",
        endpoint_url=options["endpoint"],
        region_name="us-east-1",
        aws_access_key_id="test-key",
        aws_secret_access_key="test-secret",
    )
    client.create_bucket(Bucket=BUCKET)
    client.close()
    try:
        yield options
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _quiet_handler(serving: Any) -> type:
    return type("Quiet", (serving.WSGIRequestHandler,), {"log": lambda self, *args: None})
