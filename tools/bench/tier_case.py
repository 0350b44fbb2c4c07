"""`kafkawire dump` of committed records: a segment on this machine, and the same one in a tier on S3 (moto), in both
layouts. What counts is the clock's time in one process: the store works in another."""

from __future__ import annotations

import base64
import json
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote

from kafkawire.records.compression import compress
from tools.bench.cases import SEGMENT, Inputs
from tools.bench.measurement import BenchError
from tools.bench.results import Result
from tools.bench.turns import all_absent, clocked, in_turn, timings
from tools.polling import until

KEY = "tier/committed"
LOCAL, TIER, OBJECTS = "local files", "LocalTieredStorage on S3", "Aiven's objects on S3"
_TOPIC_ID, _SEGMENT = "AAAAAAAAAAAAAAAAAAAAAQ", f"{0:020}-AAAAAAAAAAAAAAAAAAAAAg"
#: The plugin recommends to begin with it.
_CHUNK = 4 << 20
#: Most rounds: each takes some seconds.
_ROUNDS = 7


def tiers(rounds: int, inputs: Inputs) -> Iterator[Result]:
    """One case. Raises BenchError where a contestant prints other rows."""
    segment, count = inputs.segment("none", SEGMENT, "segment")
    with TemporaryDirectory() as scratch:
        folder = Path(scratch)
        folders = {TIER: _tier(folder / "tier", segment), OBJECTS: _objects(folder / "objects", segment)}
        try:
            with _bucket(folders) as uri:
                paths = {LOCAL: str(segment.parent), TIER: uri(TIER), OBJECTS: uri(OBJECTS)}
                runs = {name: clocked(partial(_dump, path, count)) for name, path in paths.items()}
                costs, _ = in_turn(runs, min(rounds, _ROUNDS))
            yield _result(segment, count, timings=timings(costs, paths))
        except ImportError as error:
            yield _result(segment, count, absent=all_absent((LOCAL, *folders), error))


def _dump(path: str, count: int) -> None:
    import pyarrow.parquet as pq

    from kafkawire.cli import main

    with TemporaryDirectory() as folder:
        output = f"{folder}/rows.parquet"
        words = ("--print-data-log", "--isolation-level", "read_committed", "--output", output)
        code = main(["dump", path, *words])
        rows = pq.read_table(output, columns=["kind"]).column(0).to_pylist().count("record") if not code else 0
    if rows != count:
        raise BenchError(f"{KEY}: {path} has {rows} records, and not {count} (exit code {code})")


def _result(segment: Path, count: int, **found: Any) -> Result:
    title, size = "records with payloads to Parquet, committed only", segment.stat().st_size
    return Result(key=KEY, table="tier", title=title, unit="record", items=count, size=size, **found)


def _tier(root: Path, segment: Path) -> Path:
    folder = root / f"orders-0-{_TOPIC_ID}"
    folder.mkdir(parents=True)
    shutil.copy(segment, folder / f"{_SEGMENT}.log")
    return root


def _objects(root: Path, segment: Path) -> Path:
    """Chunks compressed with zstd, and no index."""
    folder = root / f"orders-{_TOPIC_ID}" / "0"
    folder.mkdir(parents=True)
    data = segment.read_bytes()
    chunks = [compress("zstd", data[start : start + _CHUNK]) for start in range(0, len(data), _CHUNK)]
    header = bytes(4) + b"\4" if len(chunks) > 1 else b""  # differences to 0, of 4 bytes
    listed = len(chunks).to_bytes(4) + header + b"".join(len(chunk).to_bytes(4) for chunk in chunks)
    nothing = {"position": 0, "size": 0}
    kinds = ("offset", "timestamp", "producerSnapshot", "leaderEpoch", "transaction")
    manifest = {
        "version": "1",
        "chunkIndex": {
            "type": "variable",
            "originalChunkSize": _CHUNK,
            "originalFileSize": len(data),
            "transformedChunks": base64.b64encode(compress("zstd", listed)).decode(),
        },
        "segmentIndexes": dict.fromkeys(kinds, nothing),
        "compression": True,
    }
    (folder / f"{_SEGMENT}.log").write_bytes(b"".join(chunks))
    (folder / f"{_SEGMENT}.rsm-manifest").write_text(json.dumps(manifest))
    return root


@contextmanager
def _bucket(folders: dict[str, Path]) -> Iterator[Callable[[str], str]]:
    """A function from a name to the URI of its folder's content."""
    import boto3

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until(lambda: _answers(port) or None, "the store", seconds=60)
        keys = {"aws_access_key_id": "me", "aws_secret_access_key": "secret", "region_name": "us-east-1"}
        client = boto3.client("s3", endpoint_url=f"http://127.0.0.1:{port}", **keys)
        client.create_bucket(Bucket="tier")
        numbers = {name: number for number, name in enumerate(folders)}
        for name, folder in folders.items():
            for path in filter(Path.is_file, folder.rglob("*")):
                client.upload_file(str(path), "tier", f"{numbers[name]}/{path.relative_to(folder)}")
        query = f"region=us-east-1&scheme=http&endpoint_override={quote(f'127.0.0.1:{port}')}"
        yield lambda name: f"s3://me:secret@tier/{numbers[name]}?{query}"
    finally:
        server.terminate()
        server.wait()


def _answers(port: int) -> bool:
    with socket.socket() as connection:
        return connection.connect_ex(("127.0.0.1", port)) == 0
