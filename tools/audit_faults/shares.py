"""Faults of the rules of share groups, planted into copies of the logs of real brokers, each as a group of its own.

The faults are those that the files of the rules name (`offsets.share_rules`): of a record of `__share_group_state`, or
of a share partition beside its topic and its dead-letter topic. Each is planted several times, after other numbers of
sound records, in other partitions. Beside them stand groups whose state is sound.
"""

from __future__ import annotations

import shutil
import struct
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

from kafkawire import logdir, messages, rows
from kafkawire.messages import share_snapshot_value as snapshots
from kafkawire.messages import share_update_value as updates
from kafkawire.offsets import dead_letters as letters
from kafkawire.offsets.leading_replica import LeadingReplicas
from kafkawire.offsets.share_audit import share_answers
from kafkawire.offsets.share_copies import STATE_TOPIC
from kafkawire.offsets.share_rules import STANDING_RULES, STEP_RULES
from kafkawire.offsets.share_rules.share_rule import BEGIN, Fault, StandingFault
from kafkawire.offsets.share_settings import DEAD_LETTERS, ISOLATION, LIMIT
from kafkawire.records import Batch, Header, Record, build, read
from kafkawire.share_groups import SharePartition, ShareRecord
from kafkawire.transactions.checks.answer_rows import violations
from kafkawire.transactions.facts import CLUSTER_METADATA
from tools.recordings import share_groups
from tools.recordings.archive import unpacked

_GROUP_RESOURCE = 32  # Kafka's ConfigResource.Type.GROUP
_LIMIT = 5
_CHECKPOINT = "replication-offset-checkpoint"
_LATER_MS = 120_000
#: The time of what is planted, but for the state in a topic that is gone.
_PLANTED_MS = 1_900_000_000_000
#: Rounds: each plants every fault once, in a partition of `orders`, after so many sound updates.
ROUNDS = 10
#: What breaks no rule: every kind of record, and each transition of a record.
SOUND: Fault = (
    BEGIN,
    ("update", -1, 0, 1, -1, ((0, 9, 0, 1),)),
    ("update", 0, 0, 1, 1, ((0, 3, 2, 2), (4, 4, 3, 2), (5, 5, 4, 2), (6, 9, 0, 2))),
    ("update", 0, 0, 1, 1, ((4, 4, 4, 2), (6, 6, 0, 4), (10, 12, 2, 1))),
    ("snapshot", 6, 1, 1, 1, ((6, 6, 4, 5), (7, 9, 0, 2), (10, 12, 2, 1))),
    ("update", 7, 1, 1, 2, ()),
    ("cold", 7, 2, 1, 2, ((7, 9, 0, 2), (10, 12, 2, 1))),
    ("begin", 3, 3, 2, 0, ()),
    ("update", 3, 3, 2, 3, ((3, 4, 2, 1),)),
    ("tombstone", 0, 0, 0, 0, ()),
)
#: Sound share partitions: a copy of what was archived, and committed records in a group that reads these only.
_SOUND_STANDING = (
    StandingFault(
        (BEGIN, ("update", 0, 0, 1, 1, ((4, 4, 3, 1),)), ("update", 0, 0, 1, 1, ((4, 4, 4, 1),))), letters=(4,)
    ),
    StandingFault((BEGIN, ("update", 0, 0, 1, 1, ((0, 2, 2, 1),))), topic="ledger"),
)


class Planted(NamedTuple):
    """A group that was planted. `rule`: that its state breaks; None: it is sound."""

    group: str
    rule: str | None
    fault: StandingFault
    partition: int


class ShareOutcomes(NamedTuple):
    """What the audit says. `missed`, `false`: groups. `by_rule`: faults that were planted. `sound`: groups."""

    by_rule: Counter[str]
    missed: list[str]
    false: list[str]
    sound: int

    @property
    def line(self) -> str:
        rules = len({rule for rule, number in self.by_rule.items() if number})
        return (
            f"{self.by_rule.total():,} faults of the state of share groups, of {rules} rules: {len(self.missed)} not "
            f"named by their rule; {self.sound} groups with a sound state: {len(self.false)} with a violation."
        )


def records(fault: Fault, key: SharePartition, timestamp: int = 1000) -> list[ShareRecord]:
    """The records of a fault. `timestamp`: of the first, epoch milliseconds."""
    made = []
    for offset, (kind, start, epoch, state_epoch, leader, runs) in enumerate(fault):
        value: messages.ShareSnapshotValue | messages.ShareUpdateValue | None = None
        if kind == "update":
            value = messages.ShareUpdateValue(
                snapshot_epoch=epoch,
                leader_epoch=leader,
                start_offset=start,
                state_batches=tuple(updates.StateBatch(*run) for run in runs),
            )
        elif kind != "tombstone":
            value = messages.ShareSnapshotValue(
                snapshot_epoch=epoch,
                state_epoch=state_epoch,
                leader_epoch=leader,
                start_offset=start,
                create_timestamp=timestamp,
                write_timestamp=timestamp + 1000 if kind == "cold" else timestamp,
                state_batches=tuple(snapshots.StateBatch(*run) for run in runs),
            )
        made.append(ShareRecord(offset, timestamp + offset, key, kind != "update", value))
    return made


def planted(rounds: int, *, dead_letters: bool) -> Iterator[Planted]:
    """What is planted into one copy: every fault of every rule, and sound states. `dead_letters`: the release has
    dead-letter topics (Kafka 4.4)."""
    for one in _planted(rounds):
        if dead_letters or one.fault.letters is None:
            yield one


def _planted(rounds: int) -> Iterator[Planted]:
    for number in range(rounds):
        partition = number % share_groups.SMALL[0]
        shift = tuple(("update", -1, 0, 1, -1, ((40 + n, 40 + n, 2, 1),)) for n in range(number // 2))
        for rule in STEP_RULES:
            for name, fault in rule.faults.items():
                after_begin = (*fault[:1], *shift, *fault[1:]) if fault[0] == BEGIN and not _snapshots(fault) else fault
                yield Planted(f"{rule.name}.{name}.{number}", rule.name, StandingFault(after_begin), partition)
        for standing in STANDING_RULES:
            for name, broken in standing.faults.items():
                at = partition if broken.topic == "orders" else 0
                yield Planted(f"{standing.name}.{name}.{number}", standing.name, broken, at)
        for place, one in enumerate((StandingFault(SOUND), *_SOUND_STANDING)):
            yield Planted(f"sound.{place}.{number}", None, one, partition if one.topic == "orders" else 0)


def _snapshots(fault: Fault) -> bool:
    """Whether a snapshot has to hold what was before it: nothing can be put in front."""
    return any(kind in ("snapshot", "cold") for kind, *_ in fault)


def outcomes(folder: Path, version: str, rounds: int = ROUNDS) -> ShareOutcomes:
    """Plants into a copy of the recorded cluster of a release, and audits it.

    Args:
        folder: is made.
    """
    shutil.copytree(unpacked(share_groups.NAME) / f"kafka-{version}", folder)
    groups = list(planted(rounds, dead_letters=version != "4.2.0"))
    plant(folder, groups)
    named: dict[str, set[str]] = {one.group: set() for one in groups}
    false: list[str] = []
    for violation in found(folder):
        group = (violation.what or "").split("'")[1]
        if group in named:
            named[group].add(violation.check)
        elif group != share_groups.TRIMMERS:  # its dead-letter topic is one that brokers do not write into
            false.append(f"{group}: {violation.check}")
    false += [one.group for one in groups if one.rule is None and named[one.group]]
    missed = [one.group for one in groups if one.rule is not None and one.rule not in named[one.group]]
    return ShareOutcomes(
        Counter(one.rule for one in groups if one.rule is not None),
        missed,
        false,
        sum(one.rule is None for one in groups),
    )


def found(folder: Path) -> list[rows.Violation]:
    """The violations of the rules of share groups in copies."""
    return violations(share_answers(LeadingReplicas(logdir.open(*map(str, sorted(folder.glob("node-*")))))))


def plant(folder: Path, groups: Iterable[Planted]) -> None:
    """Appends the states of groups, their properties, and their copies in the dead-letter topic to all replicas."""
    metadata = LeadingReplicas(logdir.open(*map(str, sorted(folder.glob("node-*"))))).metadata
    assert metadata is not None
    ids = {name: id for id, name in (*metadata.topic_ids.items(), *metadata.removed_ids.items())}
    state: list[Record] = []
    properties: list[Record] = []
    copies: list[Record] = []
    for one in groups:
        gone = metadata.removed_at.get(ids[one.fault.topic])
        first = _PLANTED_MS if gone is None else gone + _LATER_MS
        state += _state(one, ids[one.fault.topic], first)
        given = {LIMIT: str(_LIMIT), ISOLATION: "read_committed"}
        if one.fault.letters is not None:
            given[DEAD_LETTERS] = share_groups.DEAD_LETTERS
        properties += [_config(one.group, name, value) for name, value in given.items()]
        copies += [_letter(one, offset) for offset in one.fault.letters or ()]
    for node in sorted(folder.glob("node-*")):
        append(node, CLUSTER_METADATA, 0, properties)
        append(node, STATE_TOPIC, 0, state)
        append(node, share_groups.DEAD_LETTERS, 0, copies)


def append(node: Path, topic: str, partition: int, added: list[Record]) -> None:
    """Appends records to a replica, and moves its high watermark; to none that is not there."""
    folder = node / f"{topic}-{partition}"
    if not added or not folder.is_dir():
        return
    path = max(folder.glob("*.log"))
    data = path.read_bytes()
    last = [one for one in read(data) if isinstance(one, Batch)][-1]
    end = last.last_offset + 1
    batch = build(added, base_offset=end, partition_leader_epoch=last.partition_leader_epoch)
    path.write_bytes(data + batch)
    checkpoint = node / _CHECKPOINT
    name, lines = f"{topic} {partition} ", checkpoint.read_text().splitlines()
    checkpoint.write_text(
        "".join(f"{name}{end + len(added)}\n" if line.startswith(name) else f"{line}\n" for line in lines)
    )


def _state(one: Planted, id: UUID, first: int) -> Iterator[Record]:
    for record in records(one.fault.records, SharePartition(one.group, id, one.partition), first):
        kind = messages.ShareSnapshotKey if record.snapshot else messages.ShareUpdateKey
        key = kind(group_id=one.group, topic_id=id, partition=one.partition)
        value = None if record.value is None else record.value.encode_prefixed(0)
        yield Record(
            key=struct.pack(">h", 0 if record.snapshot else 1) + key.encode(0), value=value, timestamp=record.timestamp
        )


def _config(group: str, name: str, value: str) -> Record:
    record = messages.ConfigRecord(resource_type=_GROUP_RESOURCE, resource_name=group, name=name, value=value)
    return Record(value=bytes([1, record.spec.api_key or 0, 0]) + record.encode(0), timestamp=_PLANTED_MS)


def _letter(one: Planted, offset: int) -> Record:
    given = {
        letters.TOPIC: one.fault.topic,
        letters.PARTITION: one.partition,
        letters.OFFSET: offset,
        letters.GROUP: one.group,
        letters.COUNT: 1,
        letters.MESSAGE: "Offset rejected by client.",
    }
    headers = tuple(Header(key.decode(), str(value).encode()) for key, value in given.items())
    return Record(headers=headers, timestamp=_PLANTED_MS)
