"""The engine's pass over a log is that of the reference: states, what ends, and what each rule says, at every cut."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from kafkawire import logdir
from kafkawire.messages.producer_snapshot import ProducerEntry
from kafkawire.records.control import DATA_CODE, MALFORMED_CODE
from kafkawire.transactions.log import ordered_replay as module
from kafkawire.transactions.log.appends import NO_COORDINATOR, Appends
from kafkawire.transactions.log.batch_rules import RULES
from kafkawire.transactions.log.batch_rules.batch_rule import BatchRule, Step
from kafkawire.transactions.log.log_checks import LogChecks
from kafkawire.transactions.log.ordered_replay import EndedRows, OrderedReplay, ordered_replay
from kafkawire.transactions.parts.part_scan import read_range
from kafkawire.wire.backend import native
from tests.injected.cases import CASES
from tests.random_logs import entry, random_partitions
from tools.recordings.archive import LOG_DIRECTORIES, unpacked

pytestmark = pytest.mark.skipif(native is None, reason="the reference is compared with the native engine")

HOUR = 3_600_000
EXAMPLES = Path(__file__).parents[2] / "examples" / "kafka-logs"


def no_odd_timestamp(step: Step, tally: Any) -> None:
    """A rule that the engine does not have: the timestamps of data are even."""
    if step.append.timestamp % 2:
        step.breach(tally, f"timestamp {step.append.timestamp}")
    elif step.append.timestamp % 5 == 0:
        tally.held += 1


#: Of no others than multiples of five, and odd ones, it says anything.
ODD = BatchRule(
    name="no_odd_timestamp",
    sentence="The timestamps of data are even.",
    source="a test",
    judge=no_odd_timestamp,
    control=False,
    asks=lambda appends: (appends.timestamp % 2 != 0) | (appends.timestamp % 5 == 0),
)
#: It asks for all batches.
EVERY = BatchRule(
    name="every_batch",
    sentence="Every batch is seen, with its producer's epoch before it.",
    source="a test",
    judge=lambda step, tally: tally.lack(f"after epoch {None if step.producer is None else step.producer.epoch}"),
)


class Pass:
    """A replay, and all that it has found."""

    def __init__(self, engine: bool, entries: list[ProducerEntry], expiration_ms: int, rules: list[BatchRule]) -> None:
        self.checks = LogChecks(expiration_ms, rules)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "ENGINE", engine)
            self.log: OrderedReplay = ordered_replay(entries, checks=self.checks)
            self.others = ordered_replay(entries)
        self.ended: list[tuple[Any, ...]] = []

    def run(self, appends: Appends) -> None:
        for found in (self.log.run(appends), self.others.run(appends)):
            self.ended += rows(found)

    def state(self) -> dict[str, Any]:
        return {
            "ended": self.ended,
            "answers": [replace(one, lacked=tuple(sorted(one.lacked))) for one in self.checks.answers()],
            "producers": [of(one) for log in (self.log, self.others) for one in log.all()],
            "open": [of(one) for log in (self.log, self.others) for one in log.open()],
            "last": [column.tolist() for column in self.log.last_appends()],
            "count": len(self.log),
        }


def rows(found: EndedRows) -> list[tuple[Any, ...]]:
    return list(zip(found.rows.tolist(), found.last_stable_offset.tolist(), found.intact_from.tolist(), strict=True))


def of(producer: Any) -> dict[str, Any]:
    return {name: getattr(producer, name) for name in producer.__slots__}


def compare(
    appends: Appends,
    random_: random.Random,
    entries: list[ProducerEntry],
    expiration_ms: int,
    others: tuple[BatchRule, ...] = (ODD, EVERY),
) -> list[dict[str, Any]]:
    """Compare both after each of some cuts; returns the states of the engine there."""
    rules = [*RULES, *others]
    engine, reference = (Pass(one, entries, expiration_ms, rules) for one in (True, False))
    cuts = sorted({0, len(appends), *(random_.randrange(len(appends) + 1) for _ in range(4))})
    found = []
    for start, stop in pairwise(cuts):
        for one in (engine, reference):
            one.run(appends.where(slice(start, stop)))
        found.append(engine.state())
        assert found[-1] == reference.state()
    return found


#: Numbers as producers write them, and such as nobody does.
_EPOCHS = [0, 0, 0, 1, 1, 2, 7, -1, -2, 32767, -32768]
_SEQUENCES = [0, 0, 1, 2, 3, 4, -1, -2, 2**31 - 1, 2**31 - 2, -(2**31)]
_TIMES = [0, 1, 5, 10, HOUR, 3 * HOUR, 10 * HOUR, -1, -(2**63), 2**63 - 1]
_COORDINATORS = [0, 0, 1, 2, -1, -2, 2**31 - 1, NO_COORDINATOR]


def drawn(random_: random.Random, count: int, producers: int, odd: float) -> Appends:
    """Batches of which each follows from its producer's before it, but for some."""
    columns: dict[str, list[Any]] = {name: [] for name in Appends.__struct_fields__ if name != "problems"}
    state = {producer: [0, 0, False, 0] for producer in range(producers)}  # epoch, next sequence, open, coordinator
    offset = intact = 0
    for _ in range(count):
        producer = random_.randrange(producers)
        known = state[producer]
        if random_.random() < 0.1:
            offset += random_.randrange(3)
            intact = offset
        if random_.random() < 0.03 * odd:
            offset = max(0, offset - random_.randrange(9))
        records = random_.randrange(1, 4)
        control = random_.choice([DATA_CODE, DATA_CODE, DATA_CODE, 0, 1, 1])
        if random_.random() < odd / 4:
            control = random_.choice([2, MALFORMED_CODE])
        if control != DATA_CODE:
            records = 1
            known[0] += random_.randrange(2)
            known[1] = 0 if random_.random() < 0.5 else known[1]
        epoch, sequence, coordinator = known[0], known[1], known[3]
        transactional = control != DATA_CODE or random_.random() < 0.8 or known[2]
        if random_.random() < odd:
            epoch, sequence = random_.choice(_EPOCHS), random_.choice(_SEQUENCES)
            coordinator, transactional = random_.choice(_COORDINATORS), random_.random() < 0.5
        row = {
            "base_offset": offset,
            "last_offset": offset + records - 1,
            "timestamp": random_.choice(_TIMES) if random_.random() < odd else 10 * HOUR + len(columns["control"]),
            "producer_id": producer - 1 if random_.random() < odd / 4 else producer,
            "producer_epoch": max(-(2**15), min(epoch, 2**15 - 1)),
            "control": control,
            "coordinator_epoch": NO_COORDINATOR if control in (DATA_CODE, 2) else coordinator,
            "base_sequence": sequence if control == DATA_CODE else -1,
            "transactional": transactional,
            "intact_from": intact,
            "compacted": random_.random() < 0.1,
            "problem": 0 if control == MALFORMED_CODE or (control != DATA_CODE and random_.random() < odd / 4) else -1,
            "append_time": random_.random() < 0.2,
        }
        for name, value in row.items():
            columns[name].append(value)
        offset += records
        if control == DATA_CODE:
            known[1] = (known[1] + records) % 2**31
            known[2] = transactional
        else:
            known[2], known[3] = False, known[3] + random_.randrange(2)
    kinds = {"producer_epoch": np.int16, "control": np.int8, "base_sequence": np.int32, "problem": np.int32}
    kinds |= dict.fromkeys(("transactional", "compacted", "append_time"), np.bool_)
    arrays = {name: np.array(values, kinds.get(name, np.int64)) for name, values in columns.items()}
    return Appends(**arrays, problems=("it is wrong",))


@settings(deadline=None, max_examples=300)
@given(st.integers(0, 2**32), st.integers(0, 120), st.sampled_from([1, 2, 9]), st.sampled_from([0.0, 0.05, 0.5]))
def test_any_batches_at_any_cut(seed: int, count: int, producers: int, odd: float) -> None:
    random_ = random.Random(seed)
    entries = [entry(random_, random_.randrange(producers + 2)) for _ in range(random_.randrange(4))]
    compare(drawn(random_, count, producers, odd), random_, entries, random_.choice([1, HOUR, 2**62]))


def test_what_is_drawn_has_every_answer_of_every_rule_of_the_engine() -> None:
    """Otherwise the comparison would not compare it."""
    assert native is not None
    random_ = random.Random(7)
    found: dict[str, set[str]] = {}
    for _ in range(60):
        appends = drawn(random_, 100, 2, 0.2)
        for state in compare(appends, random_, [], random_.choice([HOUR, 2**62])):
            for answer in state["answers"]:
                kinds = {kind for kind in ("held", "violated", "not_checkable", "noted") if getattr(answer, kind)}
                found.setdefault(answer.check, set()).update(kinds)
    steps = {"held", "violated", "not_checkable"}
    assert {name: found[name] for name in native.LOG_RULES} == {
        **dict.fromkeys(native.LOG_RULES, steps),
        "marker_shape": {"held", "violated"},
        "marker_without_data": {"held", "noted"},
    }


def test_batches_that_come_back_are_bounded_in_number() -> None:
    """The engine stops for the reference before their states fill the memory."""
    appends = drawn(random.Random(1), 3000, 3, 0.0)
    many = Appends.joined([appends] * 4)
    compare(many, random.Random(2), [], HOUR)


def test_the_engine_has_no_rule_that_the_reference_has_not() -> None:
    assert native is not None
    assert set(native.LOG_RULES) <= {rule.name for rule in RULES}


def of_directory(*roots: str | Path) -> list[Appends]:
    parts = [read_range(file).appends for one in logdir.open(*map(str, roots)).partitions for file in one.segments]
    return [Appends.joined(part) for part in parts if part]


@pytest.mark.slow
def test_what_brokers_wrote() -> None:
    random_ = random.Random(3)
    found = of_directory(EXAMPLES, *map(unpacked, [*LOG_DIRECTORIES, "read-committed", "hanging-transactions"]))
    for appends in found:
        compare(appends, random_, [], 24 * HOUR)
    assert len(found) > 20


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_any_log(tmp_path: Path, seed: int) -> None:
    random_ = random.Random(seed)
    logs = random_partitions(random_, tmp_path / "logs", seed)
    for appends in of_directory(logs.root):
        compare(appends, random_, [], random_.choice([1, HOUR, 24 * HOUR]))


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES[::3], ids=str)
def test_logs_that_break_a_rule(tmp_path: Path, case: Any) -> None:
    random_ = random.Random(str(case))
    for appends in of_directory(*case.write(tmp_path)):
        compare(appends, random_, [], 24 * HOUR)
