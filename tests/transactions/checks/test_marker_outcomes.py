"""one_outcome and marker_epoch where the coordinator's log holds less: what is still proven, and what is not."""

from __future__ import annotations

import math
import shutil
import tracemalloc
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from kafkawire import logdir, transactions
from kafkawire.records import Batch, read
from kafkawire.rows import Audit
from kafkawire.transactions.answers import Answer
from kafkawire.transactions.checks.marker_outcomes import Tallies, judge, judge_epoch
from kafkawire.transactions.checks.timed_decisions import CLOCK_SKEW_MS
from kafkawire.transactions.coordinator.decisions import Decision
from kafkawire.transactions.facts import Place
from kafkawire.transactions.log.endings import Ending
from tests.injected.cases import CASES
from tests.worlds import World


def audit(world: World) -> Audit:
    return transactions.audit(logdir.open(world.logs.root))


def broken(root: Path, name: str) -> World:
    """A world with one of the injected breaches, not written yet."""
    world = World(root, 2)
    world.run()
    (case,) = (case for case in CASES if case.seed == 2 and case.injection.name == name and case.injection.early)
    assert case.injection.early is not None
    case.injection.early(world)
    return world


def compact(world: World) -> None:
    """Of `__transaction_state` only the newest record of each id is left."""
    for (topic, _), log in world.logs.partitions.items():
        if topic == "__transaction_state":
            items = [item for item in read(bytes(log.segments[0][1])) if isinstance(item, Batch)]
            newest = {next(iter(item.records)).key: item for item in items}
            kept = sorted(newest.values(), key=lambda item: item.base_offset)
            log.segments[0][1][:] = b"".join(bytes(item.data) for item in kept)


#: Of each breach: whether it is named where only Complete records are left, and where none are.
LESS = {
    "aborted-as-by-a-coordinator": (True, True),  # the markers of one epoch contradict each other
    "committed": (True, True),
    "aborted-by-hand": (False, False),  # it may have been a batch that was never in the transaction
    "aborted-by-hand-below-2": (False, False),
    "committed-below-2": (True, False),  # one epoch has many transactions
    "committed-by-no-coordinator": (False, False),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LESS)
def test_outcomes_are_judged_by_complete_records_alone(tmp_path: Path, name: str) -> None:
    world = broken(tmp_path, name)
    compact(world)
    world.finish()
    found = audit(world)
    assert {row.check for row in found.violations} == ({"one_outcome"} if LESS[name][0] else set())
    assert any(answer.not_checkable for answer in found.answers if answer.check == "one_outcome") or LESS[name][0]


@pytest.mark.parametrize("name", LESS)
def test_without_records_markers_are_compared_with_each_other(tmp_path: Path, name: str) -> None:
    world = broken(tmp_path, name)
    world.finish()
    for path in world.logs.root.glob("__transaction_state-*"):
        shutil.rmtree(path)
    found = audit(world)
    assert {row.check for row in found.violations} == ({"one_outcome"} if LESS[name][1] else set())
    (answer,) = (answer for answer in found.answers if answer.check == "legal_transition")
    assert (answer.answer, answer.lacked) == ("not_checkable", ("no partition of __transaction_state was read",))


def test_a_hanging_batch_that_was_aborted_by_hand_breaks_nothing(tmp_path: Path) -> None:
    """What `kafkawire txn abort` does to a partition that the transaction does not have, in either version."""
    world = World(tmp_path, 4)
    for version in (0, 2):
        producer = world.producer(f"repaired-{version}", version)
        world.begin(producer, 0)
        world.data(producer, 1)
        epoch = producer.epoch
        world.end(producer, True)
        world.marker(producer, 1, False, epoch=epoch)
    world.finish()
    found = audit(world)
    assert found.violations == ()
    (answer,) = (answer for answer in found.answers if answer.check == "one_outcome")
    assert answer.lacked == ("the coordinator's transaction does not list the partition: an abort by hand",)


def test_times_distinguish_transactions_of_one_epoch(tmp_path: Path) -> None:
    """Below version 2, and within less than clocks may differ by: what lies between Prepare and Complete is certain."""
    world = World(tmp_path, 4)
    world.step = 10
    producer = world.producer("fast", 0)
    for number in range(30):
        world.begin(producer, number % 3)
        world.end(producer, number % 2 == 0)
    world.finish()
    found = audit(world)
    assert found.violations == ()
    (answer,) = (answer for answer in found.answers if answer.check == "one_outcome")
    assert (answer.held, answer.not_checkable) == (30, 0)


PLACE = Place("logs", "orders", 0)


def decided(outcome: str, since: int, until: int, version: int = 0) -> Decision:
    """A decision about data of epoch 3 in `PLACE`."""
    marker_epoch = 3 + (version >= 2)
    return Decision(
        transactional_id="pay",
        place=Place("logs", "__transaction_state", 0),
        offset=since,
        producer_id=7,
        lowest_epoch=3,
        highest_epoch=3,
        marker_epoch=marker_epoch,
        outcome=outcome,
        version=version,
        partitions=frozenset({("orders", 0)}),
        since=since,
        until=until,
    )


def ended(outcome: str, timestamp: int, marker_epoch: int = 3) -> Ending:
    return Ending(PLACE, timestamp, 7, 3, marker_epoch, outcome, timestamp)


def test_two_decisions_within_the_clock_skew_are_not_checkable() -> None:
    """One to commit and one to abort, and a marker at a time that is of neither: clocks differ."""
    tallies = Tallies()
    judge([ended("COMMIT", 2500)], [decided("ABORT", 1000, 2000), decided("COMMIT", 3000, 4000)], tallies)
    for tally in (tallies.outcome[PLACE], tallies.epoch[PLACE]):
        answer = tally.answer()
        assert (answer.held, answer.violated, answer.not_checkable) == (0, 0, 1)
    between = Tallies()
    judge([ended("COMMIT", 3500)], [decided("ABORT", 1000, 2000), decided("COMMIT", 3000, 4000)], between)
    assert between.outcome[PLACE].answer().held == 1


@pytest.mark.parametrize(
    ("version", "completed", "time", "until", "violated"),
    [
        pytest.param(0, 2000, 3000, None, False, id="records of the coordinator are missing"),
        pytest.param(0, 2000, 3000, 2500, False, id="they end before the marker"),
        pytest.param(0, 2000, 3000, 3500, False, id="they end after it by less than clocks may differ"),
        pytest.param(0, 2000, 3000, 3001 + CLOCK_SKEW_MS, True, id="they go on"),
        pytest.param(0, 2000, 1500, 2000, True, id="the marker is between Prepare and Complete"),
        pytest.param(0, None, 1500, 1200, False, id="the Complete record may not have been read"),
        pytest.param(0, None, 1500, 1600, True, id="there is none"),
        pytest.param(2, 2000, 3000, 2500, True, id="no other transaction has the epoch"),
    ],
)
def test_a_marker_after_the_last_decision_may_be_of_a_later_one(
    version: int, completed: int | None, time: int, until: int | None, violated: bool
) -> None:
    """A copy of the coordinator's log that was made before that of the data, below version 2: one epoch for all."""
    tallies = Tallies()
    judge(
        [ended("ABORT", time, marker_epoch=3 + (version >= 2))],
        [replace(decided("COMMIT", 1000, 2000, version), until=completed)],
        tallies,
        decided_until=until,
    )
    answer = tallies.outcome[PLACE].answer()
    assert (answer.violated, answer.not_checkable) == (int(violated), int(not violated))


def test_an_epoch_that_goes_back_violates_another_rule_only() -> None:
    tallies = Tallies()
    judge([ended("COMMIT", 1500, marker_epoch=2)], [decided("COMMIT", 1000, 2000, version=2)], tallies)
    assert tallies.outcome[PLACE].answer().held == 1
    assert tallies.epoch[PLACE].answer() == Answer(check="marker_epoch")


# Against a walk over all decisions ------------------------------------------------------------------------------------


def is_over(decision: Decision, ending: Ending) -> bool:
    over = decision.until is not None and decision.until + CLOCK_SKEW_MS < ending.timestamp
    return over and decision.version < 2


def is_ahead(decision: Decision, ending: Ending) -> bool:
    return decision.version < 2 and ending.timestamp < decision.since - CLOCK_SKEW_MS


def walked(endings: list[Ending], decisions: list[Decision]) -> dict[str, list[int]]:
    """How many markers hold, break and do not decide each of the two rules, as `judge` should count them."""
    found = {"one_outcome": [0, 0, 0], "marker_epoch": [0, 0, 0]}
    past: dict[Place, list[Decision]] = {}
    agreed: Counter[tuple[str, Place]] = Counter()
    wrong: defaultdict[tuple[str, Place], list[int | None]] = defaultdict(list)
    orphans = False
    by_time = sorted(decisions, key=lambda one: -math.inf if one.version >= 2 else one.since)
    for ending in sorted(endings, key=lambda one: (one.timestamp, one)):
        place = ending.place.topic, ending.place.partition
        listing = [one for one in by_time if one.partitions is None or place in one.partitions]
        candidates = [
            one
            for one in listing
            if not is_over(one, ending) and not is_ahead(one, ending) and one not in past.get(ending.place, [])
        ]
        if not candidates:
            orphans = orphans or ending.outcome != "ABORT" or len(listing) == len(decisions)
            judged: tuple[int | None, int | None] = (2, 2)
        else:
            judged = compared(ending, candidates)
            agreed[ending.outcome, ending.place] += any(one.outcome == ending.outcome for one in candidates)
            if judged[0] == 1 and all(one.version < 2 for one in candidates):
                wrong[ending.outcome, ending.place].append(judged[1])
            if judged != (2, 2) and len(candidates) == 1:
                past.setdefault(ending.place, []).append(candidates[0])
        for rule, which in zip(found.values(), judged, strict=True):
            if which is not None:
                rule[which] += 1
    assume(not orphans)  # these are compared with each other
    for (outcome, log), of_epoch in wrong.items():  # those that may have been decided at another time
        where = log.topic, log.partition
        same = [one for one in decisions if one.outcome == outcome]
        listing = [one for one in same if one.partitions is None or where in one.partitions]
        spare = of_epoch[: max(0, len(listing) - agreed[outcome, log])]
        for name, moved in ("one_outcome", len(spare)), ("marker_epoch", spare.count(1)):
            found[name][1] -= moved
            found[name][2] += moved
    return found


def compared(ending: Ending, candidates: list[Decision]) -> tuple[int | None, int | None]:
    """Which count goes up for each rule: 0 holds, 1 is broken, 2 cannot be decided; None: none."""
    agreeing = [one for one in candidates if one.outcome == ending.outcome]
    if agreeing and len(agreeing) < len(candidates):
        exact = [one for one in candidates if one.since <= ending.timestamp <= (one.until or math.inf)]
        return compared(ending, exact) if len(exact) == 1 and exact[0] in agreeing else (2, 2)
    first = candidates[0]
    own = bool(agreeing) and len(candidates) == 1 and first.version >= 2 and first.partitions is not None
    own = own and first.since <= ending.timestamp <= (math.inf if first.until is None else first.until)
    by_hand = ending.outcome == "ABORT" and ending.marker_epoch == ending.data_epoch and not own
    if not agreeing and by_hand and any(one.partitions is None for one in candidates):
        return 2, 2
    named = any(one.marker_epoch == ending.marker_epoch for one in candidates)
    epoch = 0 if by_hand or named else 1 if ending.marker_epoch >= ending.data_epoch else None
    return int(not agreeing), epoch


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[Decision], list[Ending]]:
    """Transactions of one producer id in two partitions, close to each other, and markers at about their times."""
    now = 1_000_000
    decisions, endings = [], []
    for number in range(draw(st.integers(1, 12))):
        now += draw(st.sampled_from([0, 1, 50, 3000, 20_000]))
        until = now + draw(st.sampled_from([0, 1, 50]))
        version = draw(st.sampled_from([0, 0, 0, 2]))
        listed = draw(st.sampled_from([frozenset({0}), frozenset({1}), frozenset({0, 1}), None]))
        decision = replace(
            decided(draw(st.sampled_from(["COMMIT", "ABORT"])), now, until, version),
            partitions=None if listed is None else frozenset(("orders", one) for one in listed),
            offset=number,
            until=None if draw(st.integers(0, 9)) == 0 else until,
        )
        decisions.append(decision)
        for partition in draw(st.sets(st.sampled_from([0, 1]))):
            endings.append(
                Ending(
                    Place("logs", "orders", partition),
                    number,
                    7,
                    3,
                    draw(st.sampled_from([2, 3, 4, decision.marker_epoch])),
                    draw(st.sampled_from(["COMMIT", "ABORT", decision.outcome, decision.outcome])),
                    now + draw(st.sampled_from([-6000, -100, 0, 0, 30, 6000])),
                )
            )
        now = until
    return decisions, endings


@pytest.mark.parametrize(("until", "violated"), [(CLOCK_SKEW_MS, 0), (CLOCK_SKEW_MS + 1, 1)])
def test_a_commit_without_a_decision_is_wrong_where_the_coordinators_log_goes_on_behind_it(
    until: int, violated: int
) -> None:
    """By the clock of the coordinator, which may differ from that of the marker's broker."""
    tallies = Tallies()
    judge([ended("COMMIT", 20_000)], [], tallies, decided_until=20_000 + until)
    assert [(tally.violated, tally.not_checkable) for tally in tallies.outcome.values()] == [(violated, 1 - violated)]


@pytest.mark.parametrize(("decisions", "violated"), [(1, 1), (2, 0)])
def test_a_commit_may_be_one_that_was_decided_at_another_time_where_clocks_differ(
    decisions: int, violated: int
) -> None:
    """As many as were decided: where another marker is at the time of the one decision, no other can be of it."""
    markers = [ended("COMMIT", 20_000), ended("COMMIT", 260_000)]
    tallies = Tallies()
    decided_ = [decided("COMMIT", 20_000, 20_001), decided("COMMIT", 500_000, 500_001)][:decisions]
    judge(markers, decided_, tallies, decided_until=10**6)
    found = tallies.outcome[PLACE].answer()
    assert (found.held, found.violated, found.not_checkable) == (1, violated, 1 - violated)


@pytest.mark.parametrize("time", [26_000, 14_000])
def test_time_of_an_earlier_decision_does_not_rule_out_one_of_version_2(time: int) -> None:
    decisions = [
        decided("COMMIT", 20_000, 20_000),
        decided("COMMIT", 20_000, 20_000, 2),
        decided("COMMIT", 20_000, 20_000),
    ]
    tallies = Tallies()
    judge([ended("COMMIT", time)], decisions, tallies)
    assert [tally.held for tally in tallies.outcome.values()] == [1]


@pytest.mark.parametrize("listed", [(True, False), (False, True)])
def test_an_abort_by_hand_may_be_of_a_transaction_whose_partitions_are_not_known(listed: tuple[bool, bool]) -> None:
    decisions = [
        replace(one, partitions=one.partitions if has else None)
        for one, has in zip([decided("COMMIT", 20_000, 20_000), decided("COMMIT", 20_001, 20_001)], listed, strict=True)
    ]
    tallies = Tallies()
    judge([ended("ABORT", 20_000)], decisions, tallies)
    assert [(tally.violated, tally.not_checkable) for tally in tallies.outcome.values()] == [(0, 1)]


@pytest.mark.slow
@given(histories())
def test_markers_are_judged_as_by_a_walk_over_all_decisions(history: tuple[list[Decision], list[Ending]]) -> None:
    decisions, endings = history
    expected = walked(endings, decisions)
    tallies = Tallies()
    judge(endings, decisions, tallies, decided_until=10**12)
    found = {rule: [0, 0, 0] for rule in expected}
    for _, tally in tallies.all():
        counts = found[tally.check]
        found[tally.check] = [
            counts[0] + tally.held,
            counts[1] + tally.violated,
            counts[2] + tally.not_checkable,
        ]
    assert found == expected


@pytest.mark.slow
def test_memory_does_not_grow_with_the_transactions_of_an_epoch() -> None:
    """One id that ends fifty transactions a second below version 2, in two partitions of which one is never read."""

    def listed(count: int) -> Iterator[Decision | Ending]:
        for number in range(count):
            time = 20 * number
            partitions = frozenset({("orders", 0), ("orders", 1)})
            yield replace(decided("COMMIT", time + CLOCK_SKEW_MS, time + CLOCK_SKEW_MS + 5), partitions=partitions)
            yield ended("COMMIT", time)
            yield replace(ended("ABORT", time), place=Place("logs", "other", 0))

    def peak(count: int) -> int:
        tallies = Tallies()
        tracemalloc.start()
        try:
            judge_epoch(3, listed(count), tallies)
            found = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert tallies.outcome[PLACE].answer().held > count - 300
        assert tallies.outcome[Place("logs", "other", 0)].answer().not_checkable == count
        return found

    few, many = peak(1_000), peak(10_000)
    assert many < 1.1 * few
