"""Numbers that no broker writes, in files and in names: only the entry or file that contains them is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkawire import logdir
from kafkawire._java_numbers import INT32, INT64, whole_number
from kafkawire.records import Record, build
from tests.logdir.logged import all_rows, write

#: Python refuses to read more than 4,300 digits.
LONG = "1" * 5000
ABSURD = [LONG, "0" * 5000 + "1" * 30, str(1 << 63), str(-(1 << 63) - 1), "-" + LONG, "\u0663", "1_0", "1e3"]


@pytest.mark.parametrize("text", ABSURD)
def test_whole_numbers_are_bounded(text: str) -> None:
    assert whole_number(text, INT64) is None


def test_whole_numbers_are_parsed_as_in_java() -> None:
    for text, number in (("0", 0), ("000", 0), ("+7", 7), ("0" * 5000 + "9", 9), (str(INT64), INT64)):
        assert whole_number(text, INT64) == number
    assert whole_number(str(INT32), INT32) == INT32
    assert whole_number(str(INT32 + 1), INT32) is None
    assert whole_number("-1", INT32) is None
    assert whole_number("", INT32) is None


@pytest.mark.parametrize("number", [LONG, str(1 << 63), "\u0663"])
def test_invalid_numbers_in_small_files_are_damage(tmp_path: Path, number: str) -> None:
    files = {
        "replication-offset-checkpoint": f"0\n2\nt 0 {number}\nt {number} 0\n",
        "t-0/leader-epoch-checkpoint": f"0\n2\n{number} 0\n0 {number}\n",
        "cleaner-offset-checkpoint": f"0\n{number}\nt 0 0\n",
        "log-start-offset-checkpoint": f"{number}\n0\n",
        "t-0/quorum-state": f'{{"leaderEpoch":{number}}}' if number == LONG else f'{{"leaderEpoch":"{number}}}',
    }
    for name, text in files.items():
        found = all_rows(logdir.open(write(tmp_path / name, text)))
        reasons = [row["reason"] for row in found if row["kind"] == "damage"]
        assert set(reasons) <= {"bad_line", "bad_count", "bad_version", "bad_json"}, name
        assert len(reasons) == (2 if "leader" in name or "replication" in name else 1), name
    for name in ("meta.properties", "t-0/partition.metadata"):
        (row,) = all_rows(logdir.open(write(tmp_path / name, f"version: {number}\n")))
        assert (row["kind"], row["value"]) == ("metadata", number), "properties are text"


@pytest.mark.parametrize("name", ["99999999999999999999.log", f"{1 << 63:020}.index", f"{(1 << 63) - 1:020}.snapshot",
                                  f"{1 << 63:020}-0000000001.checkpoint", f"{1 << 62:019}9.txnindex"])  # fmt: skip
def test_offset_out_of_range_is_no_segment(tmp_path: Path, name: str) -> None:
    whole = build([Record(value=b"v")])
    write(tmp_path / "t-0" / name, whole)
    write(tmp_path / "t-0" / f"{0:020}.log", whole)
    (partition,) = logdir.open(tmp_path).partitions
    assert {file.name: file.kind for file in partition.files}[name] == "unknown"
    assert [file.offset for file in partition.segments] == [0]


def test_number_out_of_range_is_no_partition(tmp_path: Path) -> None:
    for number in ("2147483648", "9999999999", LONG[:200]):
        write(tmp_path / f"t-{number}" / f"{0:020}.log", b"")
    write(tmp_path / "t-2147483647" / f"{0:020}.log", b"")
    assert [partition.partition for partition in logdir.open(tmp_path).partitions] == [INT32]
