"""Batches of which readers of Kafka's format disagreed, kept as files: each is read as Kafka's Java reads it, which
`tests/conformance/test_conformance_batches.py` asks, as part of a message and as part of a log."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from kafkawire.errors import RecordError
from kafkawire.records import Batch, read, record
from tests.capture.wiretap import Conversation, exchanges, produce

CASES = {path.stem: path.read_bytes() for path in sorted((Path(__file__).parent / "cases").glob("*.bin"))}
TWO = [(b"k", b"v" * 300), (b"k", b"w" * 300)]
#: Keys and values; None: Java refuses the batch.
RECORDS: dict[str, list[tuple[bytes, bytes]] | None] = {
    "empty_gzip_v2": [],
    "gzip_trailing_zeros": TWO,
    "lz4_bad_content_checksum": TWO,
    "lz4_two_frames": None,
    "m1_c1_off_-1_inner_-1": [(b"k", b"v0"), (b"k", b"v1"), (b"k", b"v2")],
}
#: Of a log offsets are checked, too.
IN_A_LOG = RECORDS | {"m1_c1_off_-1_inner_-1": None}


def test_every_case_has_what_is_right() -> None:
    assert sorted(CASES) == sorted(RECORDS)


@pytest.mark.parametrize("reader", ["native", "python"])
@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_a_batch_is_read_as_java_reads_it(name: str, log: bool, reader: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if reader == "python":
        monkeypatch.setattr(record, "_READER", None)
    (found,) = read(CASES[name], check_offsets=log)
    expected = (IN_A_LOG if log else RECORDS)[name]
    if expected is None:
        assert isinstance(found, Batch) != (log and RECORDS[name] is not None)
        with pytest.raises(RecordError):
            list(found.records)
    else:
        assert isinstance(found, Batch)
        assert [(one.key, one.value) for one in found.records] == expected


@pytest.mark.parametrize("text", [False, True], ids=["values", "text"])
@pytest.mark.parametrize("name", CASES)
def test_a_produce_request_shows_its_records_or_a_problem(name: str, text: bool) -> None:
    talk = Conversation().request(produce(0, CASES[name]), version=9, correlation_id=1)
    (row,) = exchanges(talk, body=True, records=True, text=text)
    (partition,) = msgspec.json.decode(msgspec.json.encode(row.request))["topicData"][0]["partitionData"]
    shown = [one for batch in partition["records"] for one in batch["records"]]
    expected = RECORDS[name]
    if expected is None:
        assert row.problem is not None
        assert row.problem.startswith("request: records: at byte 0: bad_records: records[1]: ")
        assert [one["kind"] for one in shown] == ["record", "damage"]
    else:
        assert row.problem is None
        assert [(one["key"].encode(), one["value"].encode()) for one in shown] == expected
