"""Every file that real brokers wrote, against Kafka's own DumpLogSegments: entry by entry, field by field."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from kafkawire import logdir
from tests.logdir.kafka_dump_log import DECODERS, Dumped, as_dumped, dump_log_segments
from tools.recordings.archive import LOG_DIRECTORIES, unpacked

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[2] / "examples" / "kafka-logs"
DIRECTORIES = [*sorted(EXAMPLES.iterdir()), *(unpacked(name) / "data" for name in LOG_DIRECTORIES)]
KINDS = ("log", "kraft-snapshot", "index", "timeindex", "txnindex", "snapshot")


def readable(directory: Path, decoder: str | None) -> dict[str, logdir.LogFile]:
    """The files that the tool reads, and decodes with that decoder."""
    found = {}
    for file in logdir.open(directory).files:
        topic = file.topic or ("__cluster_metadata" if file.kind == "kraft-snapshot" else None)
        if file.kind in KINDS and not file.state and (topic if topic in DECODERS else None) == decoder:
            found[file.path] = file
    return found


def ours(file: logdir.LogFile, decoder: str | None) -> list[Dumped]:
    return as_dumped(logdir.rows_of(file, logdir.Options(deep=True, payloads=True, show_secrets=True)), decoder)


@pytest.mark.parametrize("decoder", [None, *DECODERS])
def test_rows_match_kafkas_dump_log(decoder: str | None) -> None:
    files: dict[str, logdir.LogFile] = {}
    for directory in DIRECTORIES:
        files |= readable(directory, decoder)
    if not files:
        pytest.skip("no such topic here: made by ourselves below")
    theirs = dump_log_segments([Path(path) for path in files], DECODERS.get(decoder or "", "--print-data-log"))
    compared: Counter[str] = Counter()
    for path, file in files.items():
        printed = [_comparable(entry) for entry in theirs[path]]
        found = ours(file, decoder)
        if file.kind in ("index", "timeindex") and printed and not found:
            # Of a preallocated index without entries the tool shows the first zeros as one.
            assert len(printed) == 1
            assert not any(value for name, value in printed[0].items() if name != "offset")
            printed = []
        assert found == printed, path
        compared[file.kind] += len(found)
    assert compared["log"]
    assert decoder or all(compared.values()), compared


def _comparable(entry: Dumped) -> dict[str, Any]:
    # The tool prints each message of magic 0 and 1 twice, as batch and as record: checksums are compared once.
    return entry | {"valid": None, "crc": None} if entry.get("kind") == "record" else entry
