"""Log directories: segments, every other kind of file, and the audit of a whole directory."""

from __future__ import annotations

import random
import tempfile
import zlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import crc32c

from kafkawire import logdir, report, transactions
from kafkawire.cli.formatting import json_bytes
from kafkawire.transactions.verdict.verdicts import HANGING, NOT_HANGING, UNKNOWN
from tools.fuzz import input_files, inputs, seed_vectors
from tools.fuzz.target import FuzzTarget
from tools.fuzz.targets import records
from tools.recordings.archive import LOG_DIRECTORIES, unpacked

_SIZE, _MAGIC, _OLD_CRC, _CRC = 8, 16, 12, 17


def sealed(data: bytes) -> bytes:
    """With checksums that are right, so that a fuzzer gets behind them: of all batches up to the first without a size
    that can be."""
    out = bytearray(data)
    place = 0
    while place + _MAGIC < len(out):
        end = place + 12 + int.from_bytes(out[place + _SIZE : place + _SIZE + 4], "big", signed=True)
        if not place + 26 <= end <= len(out):
            break
        if out[place + _MAGIC] == 2:
            out[place + _CRC : place + _CRC + 4] = crc32c.crc32c(bytes(out[place + _CRC + 4 : end])).to_bytes(4, "big")
        else:
            crc = zlib.crc32(out[place + _OLD_CRC + 4 : end])
            out[place + _OLD_CRC : place + _OLD_CRC + 4] = crc.to_bytes(4, "big")
        place = max(end, place + 12)
    return bytes(out)


# Segments -------------------------------------------------------------------------------------------------------------

_SEGMENT = "00000000000000000000.log"
_TOPICS = ("orders", "__transaction_state", "__consumer_offsets", "__cluster_metadata", "__share_group_state")


def check_segment(data: bytes) -> None:
    """The first byte selects options and topic, and whether checksums are corrected."""
    from tests.logdir import test_logdir_jsonl, test_segment_arrays

    ways = test_logdir_jsonl.WAYS
    choice = data[0] if data else 0
    body = data[1:] if choice & 1 else sealed(data[1:])
    options = ways[choice // 2 % len(ways)]
    topic = _TOPICS[choice // (2 * len(ways)) % len(_TOPICS)]
    root = input_files.written("segment", [(f"{topic}-0/{_SEGMENT}", body)])
    (file,) = logdir.open(root).files
    test_logdir_jsonl.both(file, options)
    test_segment_arrays.both(file, options)


def _segments() -> Iterator[bytes]:
    choice = 0
    roots = (seed_vectors.EXAMPLES / "kafka-logs" / "one-node", *map(unpacked, LOG_DIRECTORIES))
    paths = sorted(path for root in roots for path in root.glob("*/*/*.log"))
    for path in paths:
        topic = path.parent.name.rpartition("-")[0]
        data = path.read_bytes()[:1500]
        if data:
            choice += 2
            number = _TOPICS.index(topic) if topic in _TOPICS else 0
            yield bytes([choice % 12 + 12 * number]) + data
    for built in (*records.batches(), *records.message_sets()):
        choice += 2
        yield bytes([choice % 12]) + built


# Files of every kind --------------------------------------------------------------------------------------------------


@cache
def _cases() -> list[Any]:
    """A real file of each kind, with its neighbours."""
    from tests.logdir import fuzzing

    found = fuzzing.files_of_every_kind()
    home = input_files.folder("files")
    smallest = {kind: min(paths, key=lambda path: (path.stat().st_size, path)) for kind, paths in found.items()}
    return [fuzzing.Case(path, home / kind) for kind, path in sorted(smallest.items())]


def check_file(data: bytes) -> None:
    """The first byte selects the kind of file, the second the options to read it with."""
    from tests.logdir import fuzzing

    case = inputs.pick(_cases(), data)
    choice = data[1] if len(data) > 1 else 0
    body = data[2:]
    if choice & 1 and case.kind in ("log", "kraft-snapshot"):
        body = sealed(body)
    options = fuzzing.OPTIONS[choice // 2 % len(fuzzing.OPTIONS)]
    case.check(fuzzing.Mutated(body, 0, 0), options)


def _files() -> Iterator[bytes]:
    from tests.logdir import fuzzing

    for number, (_, paths) in enumerate(sorted(fuzzing.files_of_every_kind().items())):
        for choice, path in enumerate(sorted(paths)[:40]):
            yield bytes([number, 2 * choice % 20 + 1]) + path.read_bytes()[:1000]
    for depth in (100, 990, 998, 5000):
        yield bytes([_kind("quorum-state"), 0]) + b'{"a":' * depth + b"1" + b"}" * depth
        yield bytes([_kind("quorum-state"), 0]) + b'{"a":' + b"[" * depth + b"]" * depth + b"}"


def _kind(name: str) -> int:
    from tests.logdir import fuzzing

    return sorted(fuzzing.files_of_every_kind()).index(name)


# Whole directories ----------------------------------------------------------------------------------------------------

_BASE, _NEXT = "00000000000000000000", "00000000000000000005"
_PATHS = [
    "meta.properties",
    "replication-offset-checkpoint",
    "log-start-offset-checkpoint",
    ".kafka_cleanshutdown",
    f"orders-0/{_BASE}.log",
    f"orders-0/{_NEXT}.log",
    f"orders-0/{_NEXT}.snapshot",
    f"orders-0/{_BASE}.txnindex",
    "orders-0/leader-epoch-checkpoint",
    "orders-0/partition.metadata",
    f"__transaction_state-0/{_BASE}.log",
    f"__transaction_state-0/{_NEXT}.log",
    f"__cluster_metadata-0/{_BASE}.log",
    "__cluster_metadata-0/quorum-state",
    f"__cluster_metadata-0/{_NEXT}-0000000001.checkpoint",
]
#: A file's number with this bit: its checksums are left as they are.
_AS_IS = 0x80
#: One audit in this many gets a report, since making it is slow.
_REPORTED = 8


def check_directory(data: bytes) -> None:
    """Parts, two a file: which it is, by the first byte, and its content."""
    from tests.transactions.test_segment_scan import compare

    parts = inputs.parts_of(data)
    files = []
    for named, content in zip(parts[::2], parts[1::2], strict=False):
        number = named[0] if named else 0
        path = _PATHS[number % _AS_IS % len(_PATHS)]
        sealable = path.endswith((".log", ".checkpoint")) and not number & _AS_IS
        files.append((path, sealed(content) if sealable else content))
    root = input_files.written("directory", files)
    compare(str(root))
    audit = transactions.audit(logdir.open(root))
    assert {finding.verdict for finding in audit.findings} <= {HANGING, NOT_HANGING, UNKNOWN}
    assert all(finding.evidence and finding.action for finding in audit.findings)
    json_bytes(audit)
    if not zlib.crc32(data) % _REPORTED:
        report.render(audit)


def _directories() -> Iterator[bytes]:
    from tests.audit_logs import LogDirectory
    from tests.random_logs import fill, register

    for seed in range(16):
        chance = random.Random(seed)
        with tempfile.TemporaryDirectory() as home:
            logs = LogDirectory(Path(home), ids=1, compacted=bool(seed % 2))
            register(chance, logs)
            partition = logs.partition("orders")
            fill(chance, partition, range(4))
            logs.high_watermark("orders", 0, partition.end)
            logs.write()
            partition.derive()
            yield _of_directory(Path(home))
    for root in seed_vectors.EXAMPLES.glob("kafka-logs/one-node/*"):
        yield _of_directory(root)


def _of_directory(root: Path) -> bytes:
    """The beginnings of its files."""
    parts = []
    for number, relative in enumerate(_PATHS):
        folder, _, name = relative.rpartition("/")
        pattern = f"{folder}/*.{name.rpartition('.')[2]}" if name.startswith("0") else relative
        for path in sorted(root.glob(pattern))[:1]:
            parts += [bytes([number]), path.read_bytes()[:1500]]
    return inputs.joined(parts)


# ----------------------------------------------------------------------------------------------------------------------

TARGETS = (
    FuzzTarget(
        name="segments",
        reads="a segment of any topic: rows, native JSON lines, Arrow columns",
        holds="the same rows, value for value",
        check=check_segment,
        seeds=_segments,
        longest=2048,
    ),
    FuzzTarget(
        name="files",
        reads="a file of any kind (segment, index, snapshot, checkpoint, properties, JSON), with real ones beside it",
        holds="rows inside of the file and not more of them than its bytes allow; bytes read in proportion",
        check=check_file,
        seeds=_files,
        longest=2048,
        words=(b"version", b"\n0\n", b" -1 ", b"9223372036854775807", b'{"', b'":', b"null", b"\xff" * 8, bytes(8)),
    ),
    FuzzTarget(
        name="directories",
        reads="a whole log directory: rules, columns and objects, audit, report",
        holds="columns give the facts that objects give; every finding has a verdict, evidence and an action",
        check=check_directory,
        seeds=_directories,
        form=inputs.PARTS,
        longest=8192,
    ),
)
