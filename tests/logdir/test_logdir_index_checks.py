"""Indexes against their logs: which mismatches are reported."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from kafkawire import logdir, rows
from kafkawire.messages import AbortedTxn
from kafkawire.records import Record, build, build_marker
from tools.broker import BrokerUnavailableError
from tools.broker.kafka_tools import run_tool

BASE = 100
STEM = f"{BASE:020}"


def batches() -> list[bytes]:
    """Ten batches of ten records, offsets 100 to 199, each newer than the one before."""
    return [
        build([Record(b"k", b"v" * 50, timestamp=1000 + 10 * i + j) for j in range(10)], base_offset=BASE + 10 * i)
        for i in range(10)
    ]


@pytest.fixture
def segment(tmp_path: Path) -> Path:
    """A partition's directory with the log of those batches."""
    folder = tmp_path / "t-0"
    folder.mkdir()
    (folder / f"{STEM}.log").write_bytes(b"".join(batches()))
    return folder


SIZE = len(batches()[0])
GOOD = [(19, SIZE), (59, 5 * SIZE), (99, 9 * SIZE)]
GOOD_TIMES = [(1019, 19), (1099, 99)]


def offset_index(folder: Path, entries: list[tuple[int, int]], tail: int = 0) -> logdir.LogFile:
    path = folder / f"{STEM}.index"
    path.write_bytes(b"".join(struct.pack(">ii", *entry) for entry in entries) + bytes(tail))
    return logdir.open(path).files[0]


def time_index(folder: Path, entries: list[tuple[int, int]], tail: int = 0) -> logdir.LogFile:
    path = folder / f"{STEM}.timeindex"
    path.write_bytes(b"".join(struct.pack(">qi", *entry) for entry in entries) + bytes(tail))
    return logdir.open(path).files[0]


def damage(file: logdir.LogFile, **options: str) -> list[tuple[int | None, str]]:
    found = logdir.rows_of(file, logdir.Options(**options))  # type: ignore[arg-type]
    return [(row.position, row.reason) for row in found if isinstance(row, rows.DamageRow)]


@pytest.mark.parametrize("tail", [0, 8, 800, 96_000])
def test_valid_indexes_have_no_damage(segment: Path, tail: int) -> None:
    assert damage(offset_index(segment, GOOD, tail)) == []
    assert damage(time_index(segment, GOOD_TIMES, tail * 3 // 2)) == []


@pytest.mark.parametrize(
    ("entries", "wrong"),
    [
        ([(19, SIZE), (59, 5 * SIZE + 1)], [(8, "index_mismatch")]),  # no batch begins there
        ([(19, SIZE), (49, 5 * SIZE)], [(8, "index_mismatch")]),  # the batch there begins behind the offset
        ([(19, SIZE), (100, 9 * SIZE)], [(8, "index_mismatch")]),  # an offset behind the log's last
        ([(19, SIZE), (98, 10 * SIZE), (99, 11 * SIZE)], [(8, "index_mismatch")]),  # after the end: reported once
        ([(59, 5 * SIZE), (19, SIZE)], [(8, "not_ascending")]),
        ([(59, 5 * SIZE), (19, SIZE), (29, 2 * SIZE), (99, 9 * SIZE)], [(8, "not_ascending")]),  # a run, reported once
        # Followers append several batches at once: the last offset of all, the position of the first.
        ([(49, 2 * SIZE), (99, 5 * SIZE)], []),
        # Before Kafka 0.10.1 the entry named the first offset.
        ([(10, SIZE), (50, 5 * SIZE)], []),
    ],
)
def test_finds_damage_of_offset_indexes(
    segment: Path, entries: list[tuple[int, int]], wrong: list[tuple[int, str]]
) -> None:
    assert damage(offset_index(segment, entries)) == wrong


@pytest.mark.parametrize(
    ("entries", "wrong"),
    [
        ([(1019, 19), (1098, 99)], [(12, "index_mismatch")]),
        ([(1019, 19), (1099, 89)], [(12, "index_mismatch")]),
        ([(1019, 19), (1200, 120)], [(12, "index_mismatch")]),  # behind the log's end
        ([(1099, 99), (1019, 99)], [(12, "not_ascending"), (12, "index_mismatch")]),
    ],
)
@pytest.mark.parametrize("indexed", [False, True])
def test_finds_damage_of_time_indexes(
    segment: Path, entries: list[tuple[int, int]], wrong: list[tuple[int, str]], indexed: bool
) -> None:
    if indexed:
        offset_index(segment, GOOD, 800)
    assert damage(time_index(segment, entries)) == wrong


def test_wrong_offset_index_does_not_affect_the_time_index(segment: Path) -> None:
    offset_index(segment, [(19, 3), (59, 9 * SIZE)])
    assert damage(time_index(segment, GOOD_TIMES)) == []


def test_damaged_log_is_not_reported_for_its_time_index(segment: Path) -> None:
    log = segment / f"{STEM}.log"
    data = bytearray(log.read_bytes())
    data[SIZE : SIZE + 40] = b"\xff" * 40
    log.write_bytes(data)
    assert damage(time_index(segment, GOOD_TIMES)) == []


def test_finds_damage_of_transaction_indexes(tmp_path: Path) -> None:
    folder = tmp_path / "t-0"
    folder.mkdir()
    log = build([Record(b"a")], base_offset=0, producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    log += build_marker("ABORT", offset=1, timestamp=1, producer_id=7, producer_epoch=0, coordinator_epoch=0)
    (folder / f"{0:020}.log").write_bytes(log)
    path = folder / f"{0:020}.txnindex"
    aborted = [(7, 0, "no marker"), (7, 1, "right"), (8, 1, "of another producer"), (7, 9, "compacted away")]
    path.write_bytes(b"".join(AbortedTxn(producer_id=p, last_offset=o).encode_prefixed(0) for p, o, _ in aborted))
    assert damage(logdir.open(path).files[0]) == [(0, "index_mismatch"), (68, "index_mismatch")]


def test_index_without_its_log_is_not_checked(segment: Path) -> None:
    (segment / f"{STEM}.log").unlink()
    assert damage(offset_index(segment, [(1, 1), (2, 99)])) == []
    assert damage(time_index(segment, [(5, 1)])) == []


def test_verify_index_only_prints_checks_alone(segment: Path) -> None:
    found = list(logdir.rows_of(offset_index(segment, GOOD, 80), logdir.Options(indexes="verify")))
    assert [rows.to_dict(row) for row in found] == [
        {
            "kind": "check",
            "file": str(segment / f"{STEM}.index"),
            "topic": "t",
            "partition": 0,
            "check": "verify",
            "passed": True,
            "entries": 3,
        }
    ]
    bad = list(logdir.rows_of(offset_index(segment, [(19, 3)]), logdir.Options(indexes="verify")))
    assert [type(row) for row in bad] == [rows.DamageRow, rows.Check]
    assert isinstance(bad[1], rows.Check)
    assert (bad[1].passed, bad[1].entries) == (False, 1)


#: What is done to an index, and whether brokers would rebuild it.
SANITY = [
    ("index", lambda data: data, True),
    ("index", lambda data: data + b"\1\2\3", False),
    ("index", lambda data: data[:-8] + struct.pack(">ii", -5, 10), False),
    ("timeindex", lambda data: data, True),
    ("timeindex", lambda data: data[:-5], False),
    ("timeindex", lambda data: data[:-12] + struct.pack(">qi", 4, 99), False),
    ("timeindex", lambda data: data[:-12] + struct.pack(">qi", 9999, -1), False),
    ("index", lambda data: data + bytes(80), True),
    ("index", lambda data: data + bytes(81), False),
    ("timeindex", lambda data: data + bytes(12), False),  # as a killed broker leaves it, and as a running one has it
    ("timeindex", lambda data: bytes(120), True),  # no entry yet
    ("timeindex", lambda data: bytes(121), False),
]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "change", "passes"), SANITY)
def test_sanity_check_equals_the_brokers(segment: Path, kind: str, change: object, passes: bool) -> None:
    offset_index(segment, GOOD)
    time_index(segment, GOOD_TIMES)
    path = segment / f"{STEM}.{kind}"
    path.write_bytes(change(path.read_bytes()))  # type: ignore[operator]
    (file,) = logdir.open(path).files
    *_, last = logdir.rows_of(file, logdir.Options(indexes="sanity"))
    assert isinstance(last, rows.Check)
    assert last.passed == passes
    try:
        printed = run_tool("DumpLogSegments", "--files", str(path), "--index-sanity-check", statuses=(0, 1))
    except BrokerUnavailableError as error:
        pytest.skip(str(error))
    assert ("passed sanity check" in printed) == passes


@pytest.mark.parametrize(
    ("version", "last_offset", "cut", "expected"),
    [(0, 9, 34, []), (0, 9, 20, []), (0, 4, 34, ["bad_entry"]), (7, 9, 34, ["bad_entry"])],
)
def test_aborted_transactions_of_a_sane_index_end_in_the_segment(
    tmp_path: Path, version: int, last_offset: int, cut: int, expected: list[str]
) -> None:
    """As a starting broker judges it: a torn entry at the end is passed over."""
    path = tmp_path / "t-0" / f"{5:020}.txnindex"
    path.parent.mkdir()
    entry = struct.pack(">hqqqq", version, 1, 0, last_offset, 0)
    path.write_bytes(entry + entry[:cut])
    *found, check = logdir.rows_of(logdir.open(path).files[0], logdir.Options(indexes="sanity"))
    assert [row.reason for row in found if isinstance(row, rows.DamageRow)] == expected * (1 + (cut == 34))
    assert isinstance(check, rows.Check)
    assert check.passed == (not expected)


def test_crafted_index_causes_a_bounded_number_of_reads(segment: Path) -> None:
    """Every entry leads to the first batch and names the last offset: reading ends at a bound."""
    entries = [(i, 0) for i in range(90, 100)] * 2000
    found = damage(offset_index(segment, entries))
    assert found[0] == (80, "not_ascending")
    assert len(found) <= 4000


@pytest.mark.parametrize("kind", ["index", "timeindex", "txnindex"])
@pytest.mark.parametrize(("log", "reason"), [("absent", "missing"), ("unreadable", "unreadable")])
def test_an_index_that_was_compared_with_no_log_does_not_pass(tmp_path: Path, kind: str, log: str, reason: str) -> None:
    path = tmp_path / "t-0" / f"{5:020}.{kind}"
    path.parent.mkdir()
    path.write_bytes(b"")
    if log == "unreadable":
        path.with_suffix(".log").mkdir()
    damage, check = logdir.rows_of(logdir.open(path).files[0], logdir.Options(indexes="verify"))
    assert isinstance(damage, rows.DamageRow)
    assert isinstance(check, rows.Check)
    assert (damage.reason, check.passed) == (reason, False)
