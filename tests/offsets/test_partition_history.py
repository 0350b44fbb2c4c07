"""Leaders, in-sync and eligible leader replicas of partitions, by a metadata log: elections of each kind."""

from __future__ import annotations

import json
from pathlib import Path
from uuid import UUID

import pytest

from kafkawire import logdir
from kafkawire.messages import PartitionChangeRecord, PartitionRecord, RemoveTopicRecord, TopicRecord
from kafkawire.offsets.leading_replica import LeadingReplicas
from kafkawire.offsets.partition_history import _Fold, partition_history
from kafkawire.rows import PartitionEvent
from kafkawire.transactions.cluster.metadata_log import MetadataRecord
from tools.recordings import elections
from tools.recordings.archive import unpacked

ID = UUID(int=3)


def events(*records: object) -> list[PartitionEvent]:
    fold = _Fold("orders", 0)
    found = (fold.take(MetadataRecord(offset, 1000, False, one), {}) for offset, one in enumerate(records))
    return [one for one in found if one is not None]


MADE = (
    TopicRecord("orders", ID),
    PartitionRecord(
        partition_id=0, topic_id=ID, replicas=(1, 2, 3), isr=(1, 2), leader=1, eligible_leader_replicas=(3,)
    ),
)


@pytest.mark.parametrize(
    ("change", "election", "what"),
    [
        (PartitionChangeRecord(0, ID, leader=2, isr=(2,)), "clean", "broker 2 leads"),
        (PartitionChangeRecord(0, ID, leader=3, isr=(3,)), "eligible", "an eligible leader replica"),
        (PartitionChangeRecord(0, ID, leader=4, isr=(4,)), "unclean", "an unclean election"),
        (PartitionChangeRecord(0, ID, leader=2, isr=(2,), leader_recovery_state=1), "unclean", "an unclean election"),
        (PartitionChangeRecord(0, ID, leader=-1), "none", "no broker leads: broker 1 has gone"),
        (PartitionChangeRecord(0, ID, isr=(1,), eligible_leader_replicas=(2, 3)), "none", "broker 2 is eligible"),
        (RemoveTopicRecord(ID), "none", "the topic is removed"),
    ],
)
def test_elections(change: object, election: str, what: str) -> None:
    _, found = events(*MADE, change)
    assert found.election == election
    assert what in found.what


def test_other_partitions_and_topics_are_left_out() -> None:
    other = UUID(int=9)
    found = events(
        *MADE, TopicRecord("x", other), PartitionChangeRecord(0, other, leader=2), PartitionChangeRecord(1, ID)
    )
    assert len(found) == 1


@pytest.fixture(scope="module")
def folder() -> Path:
    return unpacked(elections.NAME)


def history(topic: str, *nodes: Path) -> list[PartitionEvent]:
    found = partition_history(LeadingReplicas(logdir.open(*map(str, nodes))), topic, 0)
    return [one for one in found if isinstance(one, PartitionEvent)]


@pytest.mark.slow
def test_an_unclean_election_is_named_with_what_was_at_stake(folder: Path) -> None:
    lost = json.loads((folder / "truth.json").read_text())["lost"]
    found = history(elections.UNCLEAN, folder / "node-1", folder / "node-2")
    (one,) = [event for event in found if event.election == "unclean"]
    assert (one.leader, one.isr) == (2, (2,))
    assert one.at_stake is not None
    assert (
        f"broker 1 has offsets {lost['first_offset']} to {lost['first_offset'] + lost['records'] - 1}" in one.at_stake
    )
    # Without the copy of the old leader nobody knows.
    (alone,) = [event for event in history(elections.UNCLEAN, folder / "node-2") if event.election == "unclean"]
    assert "is not known" in (alone.at_stake or "")


@pytest.mark.slow
def test_an_eligible_leader_replica_leads_cleanly(folder: Path) -> None:
    found = history(elections.ELIGIBLE, folder / "node-1", folder / "node-2")
    assert any(event.elr for event in found)
    assert [event.leader for event in found if event.election == "eligible"] == [2]
    assert not [event for event in found if event.election == "unclean"]
