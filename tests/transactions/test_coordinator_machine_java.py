"""The coordinator's rules and machine against Kafka's own classes: every state, and steps at random."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kafkawire.messages import TransactionLogValue
from kafkawire.testing import coordinator_machine
from kafkawire.testing.coordinator_machine import TransactionMetadata
from kafkawire.transactions.coordinator.coordinator_rules import (
    IDLE,
    MAX_EPOCH,
    NEVER_WRITTEN,
    PREPARED,
    PREVIOUS,
    STATES,
    partition_of_id,
)
from tools.broker import BrokerUnavailableError, jars
from tools.oracle import Oracle, OracleUnavailableError

pytestmark = pytest.mark.broker

RELEASE = jars.BROKER_VERSION
NEW_ID = 8


@pytest.fixture(scope="module")
def java() -> Iterator[Oracle]:
    try:
        common = sorted(jars.broker_jars(RELEASE).glob("kafka-server-common-*.jar"))
        with Oracle(RELEASE, common) as oracle:
            yield oracle
    except (OracleUnavailableError, BrokerUnavailableError) as error:
        if os.environ.get("KAFKAWIRE_REQUIRE_BROKER"):
            raise
        pytest.skip(str(error))


def test_states(java: Oracle) -> None:
    states = java.one(op="transactions.states")["states"]
    assert {state["id"]: state["name"] for state in states} == STATES
    assert {state["name"]: set(state["previous"]) for state in states} == PREVIOUS
    assert {state["name"] for state in states if state["expires"]} == IDLE


IDS = ["", "a", "orders-service", "ü", "\U0001f600", "polygenelubricants", "\ud83d", "x" * 300]


def test_partitions_of_ids(java: Oracle) -> None:
    """One of them hashes to the smallest int, which has no absolute value."""
    ids = [(name, count) for name in IDS for count in (1, 3, 4, 50, 127)]
    answers = java.ask({"op": "transactions.partition", "id": name, "count": count} for name, count in ids)
    assert [answer["partition"] for answer in answers] == [partition_of_id(name, count) for name, count in ids]


EPOCHS = st.sampled_from([0, 1, 2, 700, MAX_EPOCH - 2, MAX_EPOCH - 1, MAX_EPOCH])
PARTITIONS = st.frozensets(st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 3)), max_size=4)


@st.composite
def metadata(draw: st.DrawFn) -> TransactionMetadata:
    state = draw(st.sampled_from(sorted(set(STATES.values()) - NEVER_WRITTEN)))
    open_ = state not in IDLE
    return TransactionMetadata(
        producer_id=7,
        previous_producer_id=draw(st.sampled_from([6, 7, -1])),
        next_producer_id=draw(st.sampled_from([-1, NEW_ID])) if state in PREPARED else -1,
        epoch=draw(EPOCHS),
        last_epoch=draw(st.integers(-1, 3)),
        timeout_ms=1000,
        state=state,
        partitions=draw(PARTITIONS) if open_ else frozenset(),
        started=500 if open_ else -1,
        updated=600,
        version=draw(st.sampled_from([0, 1, 2])),
    )


def asked(java: Oracle, before: TransactionMetadata, step: str, **more: Any) -> tuple[TransactionMetadata | None, str]:
    """What Kafka makes of it; None and why where it refuses."""
    value = before.record().encode_prefixed(version=1).hex()
    answer = java.one(op="transactions.step", value=value, lastEpoch=before.last_epoch, step=step, now=1000, **more)
    if "error" in answer:
        return None, f"{answer['error']}: {answer['text']}"
    record, _ = TransactionLogValue.decode_prefixed(bytes.fromhex(answer["bytes"]))
    return replace(TransactionMetadata.of(record), last_epoch=answer["lastEpoch"]), ""


@given(metadata(), st.one_of(st.none(), st.integers(0, 4), EPOCHS))
def test_init_producer_id(java: Oracle, before: TransactionMetadata, epoch: int | None) -> None:
    if before.state not in IDLE:
        before = replace(before, state="Empty", partitions=frozenset(), started=-1)
    expected = None if epoch is None else (7, epoch)
    ours = coordinator_machine.init_producer_id(
        before, timeout_ms=9, now=1000, new_producer_id=NEW_ID, expected=expected
    )
    rotates = before.epoch >= MAX_EPOCH - 1 and epoch in (None, before.epoch)
    kafka, why = asked(
        java, before, "rotate" if rotates else "increment", timeoutMs=9, expected=epoch, newProducerId=NEW_ID
    )
    if ours.error:
        assert kafka is None
        fenced = "ProducerFencedException" in why
        assert fenced is (ours.error == coordinator_machine.PRODUCER_FENCED), why
    else:
        assert ours.after == kafka, why


@given(metadata(), PARTITIONS, st.sampled_from([0, 2]))
def test_add_partitions(java: Oracle, before: TransactionMetadata, added: frozenset[tuple[str, int]], to: int) -> None:
    ours = coordinator_machine.add_partitions(before, 7, before.epoch, added, now=1000, version=to)
    if ours.after is before and not ours.error:
        return  # nothing new: the coordinator does not even ask
    kafka, why = asked(java, before, "add", partitions=sorted(added), version=to)
    assert (kafka is None) is bool(ours.error), why
    if kafka is not None:
        assert ours.after == kafka


@given(metadata(), st.booleans(), st.sampled_from([0, 2]))
def test_end(java: Oracle, before: TransactionMetadata, committed: bool, version: int) -> None:
    """Only what the coordinator lets through is asked: an epoch that no producer has (32767) cannot be raised."""
    if before.state in PREPARED or (version == 2 and before.epoch == MAX_EPOCH and committed):
        return
    ours = coordinator_machine.end(
        before, 7, before.epoch, committed=committed, now=1000, version=version, new_producer_id=NEW_ID
    )
    if ours.error or ours.after is before:
        return
    rotates = version == 2 and before.epoch >= MAX_EPOCH - 1
    kafka, why = asked(
        java,
        before,
        "end",
        committed=committed,
        version=version,
        none=before.state in IDLE,
        newProducerId=NEW_ID if rotates else -1,
    )
    assert ours.after == kafka, why


@given(metadata(), st.sampled_from([0, 2]))
def test_fence(java: Oracle, before: TransactionMetadata, version: int) -> None:
    before = replace(before, state="Ongoing", next_producer_id=-1, started=500)
    ours = coordinator_machine.fence(before, now=1000, version=version, new_producer_id=NEW_ID)
    rotates = version == 2 and before.epoch >= MAX_EPOCH - 1
    kafka, why = asked(java, before, "fence", version=version, newProducerId=NEW_ID if rotates else -1)
    assert ours == kafka, why


@given(metadata())
def test_complete(java: Oracle, before: TransactionMetadata) -> None:
    if before.state not in PREPARED:
        before = replace(before, state="PrepareAbort", started=500)
    if before.next_producer_id != -1:  # it is set where the epochs are used up, and the last one is MAX - 1 then
        before = replace(before, epoch=MAX_EPOCH, last_epoch=MAX_EPOCH - 1)
    kafka, why = asked(java, before, "complete")
    assert coordinator_machine.complete(before, now=1000) == kafka, why
