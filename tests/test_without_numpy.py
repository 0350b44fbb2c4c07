"""Messages, frames and records as objects, where neither NumPy nor Arrow is installed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

#: An interpreter in which the two cannot be imported.
BLOCK = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("numpy", "pyarrow"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
"""

READ = """
import kafkawire, kafkawire.messages, kafkawire.frames, kafkawire.records
from kafkawire import frames, records
from kafkawire.messages import EndTxnRequest

request = EndTxnRequest(transactional_id="t", producer_id=1, producer_epoch=2, committed=True)
frame = frames.encode_request(request, version=3, correlation_id=7, client_id="c")
assert frames.decode_request(frame[4:]).body == request
assert kafkawire.to_json(request, 3)["producerId"] == 1

listed = [records.Record(b"k", b"v" * 50, (records.Header("h", None),), timestamp=i) for i in range(3)]
data = b"".join(records.build(listed, base_offset=3 * i, codec=codec) for i, codec in enumerate(records.CODECS))
old = records.build([records.Record(None, b"old")], base_offset=15, magic=1)
marker = records.build_marker("COMMIT", offset=16, timestamp=5, producer_id=1, producer_epoch=0, coordinator_epoch=0)
broken = bytearray(data)
broken[-1] ^= 1
# What lies behind damage is searched for.
found = list(records.read(b"torn" * 50 + data + old + bytes(broken) + b"torn" * 50 + marker))
batches = [item for item in found if isinstance(item, records.Batch)]
assert [len(list(batch.records)) for batch in batches] == [3] * 5 + [1] + [3] * 4 + [1], found
assert [item.reason for item in found if isinstance(item, records.Damage)] == ["unknown_magic", "crc_mismatch"], found
assert records.find_batch(b"torn" * 50 + data) == 200
assert str(batches[-1].control) == "COMMIT"
assert "numpy" not in sys.modules and "pyarrow" not in sys.modules
print("read", kafkawire.backend)
"""


def python(code: str, backend: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "KAFKAWIRE_BACKEND": backend, "PYTHONWARNINGS": "error"}
    return subprocess.run(
        [sys.executable, "-c", BLOCK + code], capture_output=True, text=True, cwd=ROOT, env=environment, timeout=60
    )


@pytest.fixture(params=["python", "native"])
def backend(request: pytest.FixtureRequest) -> str:
    from kafkawire.wire.backend import native

    if request.param == "native" and native is None:
        pytest.skip("the native engine is not installed")
    return str(request.param)


@pytest.mark.slow
def test_messages_frames_and_records_need_neither(backend: str) -> None:
    done = python(READ, backend)
    assert (done.stdout, done.stderr, done.returncode) == (f"read {backend}\n", "", 0)


@pytest.mark.slow
def test_a_log_directory_has_the_same_rows_without_either(backend: str) -> None:
    """Indexes and snapshots too; a selection, for which indexes are searched with NumPy, is found without them."""
    code = """
from zlib import crc32
from kafkawire import logdir
from kafkawire.logdir import Options, Selection
for options in (Options(), Options(selection=Selection(offsets=(20, 25)))):
    files = logdir.open("examples/kafka-logs/one-node/broker-1").files
    found = [row for file in files for row in logdir.rows_of(file, options)]
    print(len(found), crc32(repr(found).encode()))
"""
    without = python(code, backend)
    assert (without.stderr, without.returncode) == ("", 0)
    assert without.stdout == python(f"sys.meta_path.pop(0)\n{code}", backend).stdout


def test_the_block_works() -> None:
    done = python("import numpy", "python")
    assert "No module named 'numpy'" in done.stderr
