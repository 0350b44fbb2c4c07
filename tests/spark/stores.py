"""An object store like S3 on loopback (moto), with files in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest


class Requests(list[tuple[str, str]]):
    """The requests that a store got: method and what was asked for, `LIST` for a page of a listing."""

    def named(self) -> Counter[tuple[str, str]]:
        return Counter((method, path.rpartition("/")[2]) for method, path in self)


@contextmanager
def counted() -> Iterator[Requests]:
    """What the stores of this process get while the context lasts."""
    pytest.importorskip("moto.server", reason="moto[server] is not installed")
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication

    found, answer = Requests(), DomainDispatcherApplication.__call__

    def noted(self: Any, environ: dict[str, Any], start: Any) -> Any:
        is_list = "list-type=" in environ.get("QUERY_STRING", "")
        found.append((environ["REQUEST_METHOD"], "LIST" if is_list else environ["PATH_INFO"]))
        return answer(self, environ, start)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(DomainDispatcherApplication, "__call__", noted)
        yield found


@contextmanager
def bucket(files: dict[str, Path]) -> Iterator[Callable[[str], str]]:
    """A function from a path in a bucket to its URI. Files and folders of this machine are there under those names."""
    moto = pytest.importorskip("moto.server", reason="moto[server] is not installed")
    boto3 = pytest.importorskip("boto3")
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        core = pytest.importorskip("moto.core")
        models = pytest.importorskip("moto.s3.models")
        models.s3_backends.reset()  # other stores of this process would share the objects
        host, port = server.get_host_and_port()
        endpoint = f"http://{host}:{port}"
        client = boto3.client(
            "s3", endpoint_url=endpoint, region_name="us-east-1", aws_access_key_id="me", aws_secret_access_key="secret"
        )
        client.create_bucket(Bucket="fleet")
        # The server is in this process: a request for each file would take longer than the tests.
        backend = models.s3_backends[core.DEFAULT_ACCOUNT_ID]["aws"]
        for name, path in files.items():
            for file in [path] if path.is_file() else sorted(one for one in path.rglob("*") if one.is_file()):
                below = "" if path.is_file() else f"/{file.relative_to(path)}"
                backend.put_object("fleet", f"{name}{below}", file.read_bytes())
        query = f"region=us-east-1&scheme=http&endpoint_override={quote(endpoint.removeprefix('http://'))}"
        yield lambda path: f"s3://me:secret@fleet/{path}?{query}"
    finally:
        server.stop()
