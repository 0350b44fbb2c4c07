"""Records of `__transaction_state` by the native engine, and by the reference: the same facts, whatever is in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire import records
from kafkawire.messages import TransactionLogKey, TransactionLogValue
from kafkawire.records import Batch, columns
from kafkawire.records.columns import Batches
from kafkawire.records.compression import MAX_BATCH_BYTES
from kafkawire.transactions.auditing.id_history import EngineIdHistory, PlainIdHistory
from kafkawire.transactions.coordinator import id_columns
from kafkawire.transactions.coordinator.coordinator_rules import STATES, partition_list
from kafkawire.transactions.coordinator.id_columns import CoordinatorFact, IdColumns, columns_of, coordinator_facts
from kafkawire.transactions.coordinator.packed_ids import packed_ids, unpacked_ids
from kafkawire.transactions.facts import TRANSACTION_STATE, Place, Registration
from kafkawire.transactions.log.packed_columns import PackedColumns
from kafkawire.wire.backend import native
from tests.references.sequential_replay import comparable_ids

pytestmark = pytest.mark.skipif(native is None, reason="the native engine is absent")

PLACE = Place("logs", TRANSACTION_STATE, 0)
EPOCHS = st.sampled_from([-1, 0, 1, 2, 3, 32766, 32767])
IDS = st.sampled_from([-1, 7, 8, 9])
TIMES = st.sampled_from([-1, 0, 1000, 1001, 1002])
LISTS = st.none() | st.sets(st.tuples(st.sampled_from(["orders", "größe"]), st.integers(0, 2)), max_size=3).map(
    partition_list
)
VALUES = st.builds(
    TransactionLogValue,
    producer_id=st.sampled_from([7, 8]),
    previous_producer_id=IDS,
    next_producer_id=IDS,
    producer_epoch=EPOCHS,
    next_producer_epoch=st.sampled_from([-1, 3]),
    transaction_timeout_ms=st.sampled_from([0, 1000, 2**31 - 1]),
    transaction_status=st.sampled_from([*STATES, 9]),
    transaction_partitions=LISTS,
    transaction_last_update_timestamp_ms=TIMES,
    transaction_start_timestamp_ms=TIMES,
    client_transaction_version=st.sampled_from([0, 1, 2, 3]),
)
KEYS = st.sampled_from(["a", "b", "c\0é"]).map(
    lambda name: TransactionLogKey(transactional_id=name).encode_prefixed(version=0)
)
#: A key that is of another type, malformed, or has something after it.
ODD_KEYS = st.sampled_from([None, b"", b"\0\5xx", b"\0\0\0\4a", b"\0\0\0\1a!", b"\0\0\0\1\xff"])


@st.composite
def values(draw: st.DrawFn) -> bytes | None:
    if not draw(st.integers(0, 9)):
        return None
    version = draw(st.integers(0, 1))
    value = draw(VALUES)
    if not version:  # it has no tagged fields
        value = value.replace(
            previous_producer_id=-1, next_producer_id=-1, next_producer_epoch=-1, client_transaction_version=0
        )
    data = value.encode_prefixed(version=version)
    match draw(st.integers(0, 20)):
        case 0:
            return data[: draw(st.integers(0, len(data)))]
        case 1:
            return data + b"\0"
        case 2:
            at = draw(st.integers(0, len(data) - 1))
            return data[:at] + bytes([draw(st.integers(0, 255))]) + data[at + 1 :]
    return data


@st.composite
def steps(draw: st.DrawFn) -> list[tuple[bytes | None, bytes | None]]:
    """Records of a transaction as a coordinator writes them, and others."""
    if draw(st.booleans()):
        return [(draw(KEYS | ODD_KEYS), draw(values()))]
    key, version, epoch, outcome = draw(KEYS), draw(st.integers(0, 2)), draw(st.integers(0, 3)), draw(st.integers(0, 1))
    raised, listed = epoch + (version == 2), partition_list({("orders", draw(st.integers(0, 1)))})
    common = {"producer_id": 7, "previous_producer_id": 7 if version else -1, "transaction_timeout_ms": 1000}
    made = [
        TransactionLogValue(
            transaction_status=status, producer_epoch=of, transaction_partitions=partitions,
            transaction_start_timestamp_ms=start, transaction_last_update_timestamp_ms=time,
            client_transaction_version=version, **common,
        )
        for status, of, partitions, start, time in (
            (0, epoch, None, -1, 1000), (1, epoch, listed, 1000, 1000), (2 + outcome, raised, listed, 1000, 1001),
            (4 + outcome, raised, (), 1000, 1002),
        )
    ]  # fmt: skip
    return [(key, one.encode_prefixed(version=min(1, version))) for one in made[draw(st.integers(0, 1)) :]]


@st.composite
def logs(draw: st.DrawFn) -> bytes:
    """Batches of a partition, some of several records, some compressed, with gaps in between."""
    found = [step for listed in draw(st.lists(steps(), min_size=1, max_size=8)) for step in listed]
    data, offset = b"", draw(st.sampled_from([0, 0, 5]))
    while found:
        count = draw(st.integers(1, 3))
        some, found = found[:count], found[count:]
        data += records.build(
            [records.Record(key, value, timestamp=1000 + offset) for key, value in some],
            base_offset=offset,
            codec=draw(st.sampled_from(["none", "none", "gzip"])),
            partition_leader_epoch=draw(st.integers(0, 1)),
        )
        offset += len(some) + draw(st.sampled_from([0, 0, 0, 0, 2]))
    return data


def read_by_engine(data: bytes, history: EngineIdHistory) -> EngineIdHistory:
    """Batches as they are: decoded and replayed in one pass."""
    for found in columns.batches(data):
        assert isinstance(found, Batches | Batch)
        history.read(found)
    return history


def walked_by_engine(data: bytes, history: EngineIdHistory) -> EngineIdHistory:
    """Batches as they lie in the log, without columns of their headers; the others as usual."""
    following: int | None = None

    def take(position: int) -> int:
        nonlocal following
        found = history.walk(np.frombuffer(data, np.uint8)[position:], following, MAX_BATCH_BYTES)
        following = int(found.ends[-1]) if found.batches else following
        return found.size

    for found in columns.batches(data, take=take):
        assert isinstance(found, Batches | Batch)
        if isinstance(found, Batches) and not len(found):
            continue  # of what was taken
        history.read(found)
        following = int(np.atleast_1d(found.last_offset)[-1]) + 1
    return history


def facts_in(data: bytes, *, engine: bool) -> Iterator[CoordinatorFact]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(id_columns, "ENGINE", engine)
        for found in columns.batches(data):
            assert isinstance(found, Batches | Batch)
            yield from coordinator_facts(found)


def cut(found: Sequence[CoordinatorFact], sizes: Sequence[int]) -> Iterator[CoordinatorFact]:
    """Columns in pieces, by way of their bytes."""
    for fact in found:
        if not isinstance(fact, IdColumns):
            yield fact
            continue
        at = 0
        for size in [*sizes, len(fact)]:
            piece = IdColumns(fact.rows[at : at + size].copy(), fact.names, fact.lists)
            if len(piece):
                yield unpacked_ids(packed_ids(piece))
            at += size


@given(logs(), st.lists(st.integers(1, 4), max_size=4), st.sampled_from([None, 1, 5000]))
def test_the_engine_finds_what_the_reference_finds(data: bytes, sizes: list[int], expiration_ms: int | None) -> None:
    plain, engine = PlainIdHistory(PLACE, expiration_ms), EngineIdHistory(PLACE, expiration_ms)
    for fact in facts_in(data, engine=False):
        plain.take(fact)
    for fact in cut(list(facts_in(data, engine=True)), sizes):
        engine.take(fact)
    expected = comparable_ids(plain.facts())
    assert comparable_ids(engine.facts()) == expected
    assert comparable_ids(read_by_engine(data, EngineIdHistory(PLACE, expiration_ms)).facts()) == expected
    assert comparable_ids(walked_by_engine(data, EngineIdHistory(PLACE, expiration_ms)).facts()) == expected
    again = PlainIdHistory(PLACE, expiration_ms)
    for fact in facts_in(data, engine=True):
        again.take(fact)
    assert comparable_ids(again.facts()) == expected


@given(logs(), st.lists(st.booleans()))
def test_decisions_that_are_taken_out_are_those_of_the_whole(data: bytes, drained: list[bool]) -> None:
    found = list(cut(list(facts_in(data, engine=True)), [1] * 20))
    plain, engine, whole = PlainIdHistory(PLACE), EngineIdHistory(PLACE), PlainIdHistory(PLACE)
    taken: tuple[list[object], list[object]] = [], []
    for number, fact in enumerate(found):
        whole.take(fact)
        for history, listed in zip((plain, engine), taken, strict=True):
            history.take(fact)
            if drained[number : number + 1] == [True]:
                listed += history.decided()
    for history, listed in zip((plain, engine), taken, strict=True):
        listed += history.decided(last=True)
    of_whole = sorted(whole.facts().decisions, key=lambda one: one.producer_id)
    for listed in taken:
        assert sorted(listed, key=lambda one: one.producer_id) == of_whole  # type: ignore[attr-defined]


@given(logs())
def test_one_record_as_columns_is_the_same_record(data: bytes) -> None:
    for fact in facts_in(data, engine=True):
        if isinstance(fact, IdColumns):
            for found in fact.registrations(PLACE):
                assert isinstance(found, Registration)
                assert list(columns_of(found).registrations(PLACE)) == [found]


def test_many_steps_that_the_reference_judges_are_all_judged() -> None:
    value = TransactionLogValue(producer_id=7, transaction_timeout_ms=1000, transaction_status=4)
    key = TransactionLogKey(transactional_id="a").encode_prefixed(version=0)
    data = b"".join(
        records.build([records.Record(key, value.encode_prefixed(version=1))] * 100, base_offset=100 * number)
        for number in range(100)
    )
    engine = EngineIdHistory(PLACE)
    for fact in facts_in(data, engine=True):
        engine.take(fact)
    by_engine = (engine, read_by_engine(data, EngineIdHistory(PLACE)), walked_by_engine(data, EngineIdHistory(PLACE)))
    for history in by_engine:
        counts = [(one.held, one.violated, one.not_checkable) for one in history.facts().answers]
        assert all(sum(count) == 10_000 for count in counts)


def test_of_a_batch_that_is_refused_no_id_is_kept() -> None:
    """The reference reads it: an id and a list that were seen in it before the odd record are not in the engine."""
    value = TransactionLogValue(producer_id=7, transaction_timeout_ms=1000, transaction_partitions=())
    keys = [TransactionLogKey(transactional_id=name).encode_prefixed(version=0) for name in "abc"]
    right = [records.Record(key, value.encode_prefixed(version=1)) for key in keys]
    odd = records.Record(keys[0], b"\0\1 no value")
    data = records.build([right[0]]) + records.build([right[1], odd], base_offset=1)
    data += records.build([right[2], right[1]], base_offset=3)
    plain = PlainIdHistory(PLACE)
    for fact in facts_in(data, engine=False):
        plain.take(fact)
    for by_engine in (read_by_engine, walked_by_engine):
        engine = by_engine(data, EngineIdHistory(PLACE))
        assert comparable_ids(engine.facts()) == comparable_ids(plain.facts())
        assert engine.facts().unreadable is not None


def test_columns_that_are_none_are_refused() -> None:
    (fact,) = facts_in(
        records.build([records.Record(TransactionLogKey(transactional_id="a").encode_prefixed(version=0), None)]),
        engine=True,
    )
    assert isinstance(fact, IdColumns)
    packed = packed_ids(fact)
    with pytest.raises(ValueError, match="the id of a row is out of range"):
        unpacked_ids(type(packed)(packed.columns, [], packed.lists))
    for count, why in (
        (2, "80 bytes for the columns of 2 batches, which have 160"),
        (-1, "not the columns of batches"),
    ):
        with pytest.raises(ValueError, match=why):
            unpacked_ids(type(packed)(PackedColumns(count, packed.columns.data), packed.names, packed.lists))
    with pytest.raises(ValueError, match="a list of partitions"):
        unpacked_ids(type(packed)(packed.columns, packed.names, [b"\7"]))
    engine = EngineIdHistory(PLACE)
    with pytest.raises(ValueError, match="names what is not there"):
        engine.take(IdColumns(fact.rows, [], []))
