"""Random histories with a known truth: fates equal it or are unknown, and counts sum to what was seen."""

from __future__ import annotations

import random
from collections import Counter
from io import BytesIO
from pathlib import Path

import pytest

from kafkawire import capture, logdir
from kafkawire.rows import DeliveryAnomaly, FateTotal, WitnessSummary
from kafkawire.witness import FATES, Witness
from kafkawire.witness.batch_fates import RESPONSES
from kafkawire.witness.judgement import Judgement
from tests.witness.histories import History, Sending

pytestmark = pytest.mark.slow

ANOMALIES = {fate.name for fate in FATES if fate.anomaly}
#: (faults, share of packets that are dropped, whether the copy is older, compaction)
WORLDS = [
    (False, 0.0, False, False),
    (False, 0.0, True, False),
    (False, 0.0, False, True),
    (False, 0.3, False, False),
    (False, 0.3, True, True),
    (True, 0.0, False, False),
    (True, 0.0, True, False),
    (True, 0.3, False, False),
    (True, 0.3, True, True),
]


def witness_of(history: History, root: Path, *, drops: float, old: bool) -> tuple[Witness, int]:
    """The witness of what a history left, and the end of the leader's copy."""
    data = history.capture(drops=drops)
    until = history.random.choice([entry.base for entry in history.log[2:]]) if old and len(history.log) > 3 else None
    paths = history.write(root, until=until)
    witness = Witness(logdir.open(*paths))
    for exchange in capture.read(BytesIO(data), keep=True).matched():
        witness.add(exchange)
    return witness, history.end if until is None else until


def truth_of(history: History, number: int, seen: list[Sending], end: int, drops: float) -> set[str]:
    """The fates that are true of a batch, given what was captured of it, and where the leader's copy ends."""
    copies = [entry for entry in history.log if entry.batch == number and entry.last >= history.log_start]
    if history.cut:
        # What the log before an election has is not compacted; and no copy may be of after the election.
        known = history.cut[0].base if end >= history.cut[0].base else history.old[-1].last + 1
        there = {copy.base for copy in copies}
        copies += [e for e in history.old if e.batch == number and e.base < known and e.base not in there]
    made = history.produced[number]
    acked = [one.answer[1] for one in seen if one.response_seen and one.answer is not None and one.answer[0] == 0]
    true: set[str] = {"unknown"}
    if acked:
        if made.planted == "changed":
            true.add("changed")
        if len(copies) > 1:
            true.add("held_twice")
        if made.planted == "twice":  # the copy at the offset that was told may be deleted, or out of reach
            true.add("held_elsewhere")
        if any(entry.base in acked for entry in copies):
            true.add("held")
        elif copies:
            true.add("held_elsewhere")
        cut = {entry.base for entry in history.cut if entry.batch == number}
        if cut.issuperset(acked) and all(entry.base >= end or entry.base < history.log_start for entry in copies):
            true.add("lost")
        if made.planted == "elsewhere":  # other data is where it was told to be, and its copy may be out of reach
            true.add("lost")
        if all(offset < history.log_start for offset in acked):
            true.add("deleted")
        if history.cleaned and all(offset < history.cleaned for offset in acked):
            true.add("compacted")
    elif any(one.answer is None or not one.response_seen for one in seen):
        true |= {"unacknowledged_held"} if copies else set()
        if len(copies) > 1:
            true.add("held_twice")
    else:
        true.add("refused")
        if copies:
            true.add("refused_held")
    if drops and copies:  # a packet that was dropped hides others of its connection
        true.add("unacknowledged_held")
    # Without idempotence, sendings after one whose answer was dropped are judged apart.
    if made.producer < 2:
        if any(entry.base not in acked for entry in copies):
            true |= {"unacknowledged_held"} if any(not one.response_seen for one in seen) else set()
            true.add("refused_held")
        if any(one.response_seen and one.answer is not None and one.answer[0] for one in seen):
            true.add("refused")
    return true


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("world", range(len(WORLDS)))
def test_fates_are_the_truth_or_unknown(tmp_path: Path, world: int, seed: int) -> None:
    faults, drops, old, compacts = WORLDS[world]
    history = History(random.Random(f"{world} {seed}"), faults=faults, compacts=compacts)
    history.run(60)
    witness, end = witness_of(history, tmp_path, drops=drops, old=old)
    judged: list[Judgement] = []
    for place, sent in witness.sent.by_place():
        judgement = Judgement(place, sent)
        for copy in witness._held.copies(place, witness.identity, only_newest=False):
            judgement.add(copy)
        judged.append(judgement)
    seen = [one for one in history.sendings if one.request_seen]
    (judgement,) = judged
    assert sum(judgement.batches["sendings"]) == len(seen)
    by_number: dict[int, list[Sending]] = {}
    for one in seen:
        by_number.setdefault(one.batch, []).append(one)
    found: Counter[str] = Counter()
    # A capture has the sendings in order: the row of a sending is its number among those that were seen.
    columns = (judgement.batches["row"].tolist(), judgement.batches["response"].tolist(), judgement.fates.tolist())
    for row, told, fate in zip(*columns, strict=True):
        number = seen[row].batch
        mine = [one for one in by_number[number] if one.data[43:57] == seen[row].data[43:57]]
        true = truth_of(history, number, mine, end, drops)
        name = FATES[fate].name
        found[name] += 1
        assert name in true, (number, RESPONSES[told], name, true, history.produced[number])
        # What is lost is proven by what was sent later.
        if not (drops or old or compacts or "deleted" in true) and number < len(history.produced) - 8:
            if history.produced[number].producer < 2:  # without a sequence, copies may be of several
                continue
            planted = true & {"lost", "changed", "held_elsewhere"} if "held" not in true else set()
            assert not planted or name in ANOMALIES, (number, name, true, history.produced[number])
            if true == {"held", "unknown"}:
                assert name == "held"
    if not faults:
        assert not set(found) & {"lost", "changed", "held_elsewhere"}


@pytest.mark.parametrize("seed", range(10))
def test_counts_sum_to_what_was_seen(tmp_path: Path, seed: int) -> None:
    history = History(random.Random(seed), faults=True, compacts=False)
    history.run(80)
    witness, _ = witness_of(history, tmp_path, drops=0.2, old=False)
    rows = list(witness.rows())
    summary = rows[0]
    assert isinstance(summary, WitnessSummary)
    totals = [row for row in rows if isinstance(row, FateTotal)]
    seen = [one for one in history.sendings if one.request_seen]
    assert summary.sendings == summary.requests == len(seen)
    assert sum(row.batches for row in totals) == summary.batches <= summary.sendings
    assert sum(row.records for row in totals) == summary.records
    listed = Counter(row.name for row in rows if isinstance(row, DeliveryAnomaly))
    counted: Counter[str] = Counter()
    for row in totals:
        if row.fate in ANOMALIES:
            counted[row.fate] += row.batches
    assert listed == counted
    assert summary.anomalies == sum(counted.values())
