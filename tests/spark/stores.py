"""An object store like S3 on loopback (moto), with files in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import pytest


@contextmanager
def bucket(files: dict[str, Path]) -> Iterator[Callable[[str], str]]:
    """A function from a path in a bucket to its URI. Files and folders of this machine are there under those names."""
    moto = pytest.importorskip("moto.server", reason="moto[server] is not installed")
    boto3 = pytest.importorskip("boto3")
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        endpoint = f"http://{host}:{port}"
        client = boto3.client(
            "s3", endpoint_url=endpoint, region_name="us-east-1", aws_access_key_id="me", aws_secret_access_key="secret"
        )
        client.create_bucket(Bucket="fleet")
        for name, path in files.items():
            for file in [path] if path.is_file() else sorted(one for one in path.rglob("*") if one.is_file()):
                below = "" if path.is_file() else f"/{file.relative_to(path)}"
                client.upload_file(str(file), "fleet", f"{name}{below}")
        query = f"region=us-east-1&scheme=http&endpoint_override={quote(endpoint.removeprefix('http://'))}"
        yield lambda path: f"s3://me:secret@fleet/{path}?{query}"
    finally:
        server.stop()
