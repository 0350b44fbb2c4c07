"""Copies compared range by range: what is said is that of whole copies, and batches are read of ranges that differ."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from kafkawire import logdir, offsets
from kafkawire.offsets import Replica
from kafkawire.records import Record
from kafkawire.transactions.log import range_digests
from kafkawire.witness import range_comparison
from kafkawire.witness.copies import both_ways
from kafkawire.witness.copy_comparison import SAME, Run, Side
from kafkawire.witness.held import Held, copy_of, newest_first
from kafkawire.witness.range_comparison import Windows, digests, parts, window
from tests.audit_logs import LogDirectory
from tests.witness.histories import TOPIC, History

_BITS = 3


@pytest.fixture(autouse=True)
def short_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranges of eight offsets, so that most batches are at a border."""
    monkeypatch.setattr(range_digests, "ENGINE", False)  # its ranges have one size
    monkeypatch.setattr(range_digests, "_RANGE_BITS", _BITS)
    monkeypatch.setattr(range_comparison, "RANGE_OFFSETS", 1 << _BITS)


def replica(path: Path, topic: str = TOPIC) -> Replica:
    (found,) = newest_first(offsets.replicas(logdir.open(path), topic, 0))
    return found


def by_ranges(a: Replica, b: Replica) -> tuple[list[Side], set[int], dict[int, int]]:
    """What each copy is in the other one, the ranges whose batches were read, and the batches of each range in `a`."""
    found = [{int(one["number"]): one for one in digests(each, side)} for side, each in enumerate((a, b))]
    numbers = sorted(found[0].keys() | found[1].keys())
    same = {number for number in numbers if all(number in one for one in found)}
    same = {number for number in same if found[0][number] == found[1][number]}
    wanted = [number for number in numbers if number not in same]
    end = [max(int(one[number]["last"]) for one in found if number in one) + 1 for number in wanted]
    copies: list[dict[int, list[Held]]] = [{}, {}]
    whole = []
    for side, each in enumerate((a, b)):
        rest = {}
        for part in parts(each, Windows(np.array(wanted, np.int64), np.array(end, np.int64))) if wanted else ():
            if part.copy is not None:
                rest[part.number] = part.copy
            elif part.batches is not None:
                assert part.number not in rest
                copies[side].setdefault(part.number, []).append(part.batches)
        whole.append(rest)
    sides = [Side(1000), Side(1000)]
    for number in numbers:
        if number in same:
            one = found[0][number]
            runs = [[Run(SAME, int(one["first"]), int(one["last"]), int(one["batches"]))]] * 2
        else:
            windows = [window(copies[side].get(number, []), whole[side][number]) for side in (0, 1)]
            runs = [list(of_side) for of_side in both_ways(windows[0], windows[1])]
        for side, of_side in zip(sides, runs, strict=True):
            side.add(of_side)
    return [side.finish() for side in sides], set(wanted), {n: int(one["batches"]) for n, one in found[0].items()}


def whole(a: Replica, b: Replica) -> list[Side]:
    return [Side(1000).add(runs).finish() for runs in both_ways(copy_of(a, same=True), copy_of(b, same=True))]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(60))
def test_ranges_give_what_whole_copies_give(tmp_path: Path, seed: int) -> None:
    """Copies of other times, after elections, retention and compaction."""
    random_ = random.Random(seed)
    history = History(random_, faults=True, compacts=seed % 3 == 0)
    history.run(80)
    until = random_.choice([entry.base for entry in history.log[2:]]) if seed % 2 else None
    written = history.write(tmp_path / "a", until=until)
    other = History(random.Random(f"other {seed}"), faults=False, compacts=False)
    other.run(30)
    pairs = [(written[0], history.write(tmp_path / "b")[0]), (written[0], other.write(tmp_path / "c")[0])]
    pairs += [(written[0], written[1])] if len(written) > 1 else []
    for one, second in pairs:
        expected = whole(replica(one), replica(second))
        found, _, _ = by_ranges(replica(one), replica(second))
        for side, wanted in zip(found, expected, strict=True):
            assert (side.counts, side.differences, side.broken) == (wanted.counts, wanted.differences, wanted.broken)


def logs(root: Path, changed: int | None = None) -> Replica:
    """Forty batches of a record, of which one may be another."""
    made = LogDirectory(root, ids=1)
    for number in range(40):
        made.partition("t").records([Record(b"k", b"%d" % (number if number != changed else 99))])
    made.high_watermark("t", 0, made.partitions["t", 0].end)
    return replica(made.write(), "t")


def test_batches_are_read_where_digests_differ_alone(tmp_path: Path) -> None:
    (of_a, _), wanted, batches = by_ranges(logs(tmp_path / "a"), logs(tmp_path / "b"))
    assert (of_a.counts, wanted, sum(batches.values())) == ({"same": 40}, set(), 40)
    (of_a, of_b), wanted, _ = by_ranges(logs(tmp_path / "c"), logs(tmp_path / "d", changed=17))
    assert wanted == {17 >> _BITS}
    assert of_a.counts == of_b.counts == {"same": 39, "changed": 1}
    assert [(one.first_offset, one.number) for one in of_a.differences] == [(17, 1)]


def test_what_is_compared_changes_the_digest(tmp_path: Path) -> None:
    """The outcome of a transaction, too, and a copy that is damaged equals none."""
    found = []
    for name in ("COMMIT", "ABORT"):
        made = LogDirectory(tmp_path / name, ids=1)
        log = made.partition("t")
        log.data(1000, records=1)
        log.marker(name, 1000)
        made.high_watermark("t", 0, log.end)
        found.append(replica(made.write(), "t"))
    one, other = (digests(each, 0) for each in found)
    assert one["digest"].tolist() != other["digest"].tolist()
    log_file = tmp_path / "COMMIT" / "t-0" / f"{0:020}.log"
    data = log_file.read_bytes()
    log_file.write_bytes(data + data)
    twice = [digests(replica(tmp_path / "COMMIT", "t"), salt) for salt in (0, 1)]
    assert twice[0]["digest"].tolist() != twice[1]["digest"].tolist()
