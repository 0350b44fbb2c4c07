"""Rules of batches, of the files that come from them, of open transactions and of replicas, broken one by one."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import crc32c
from msgspec.structs import replace

from kafkawire.logdir.entries import SnapshotEntry
from kafkawire.logdir.indexes import producer_snapshot
from kafkawire.messages import AbortedTxn
from kafkawire.messages.producer_snapshot import ProducerEntry
from kafkawire.records import Record, build
from kafkawire.transactions.log.batch_rules import RULES
from tests.audit_logs import NOON
from tests.injected.injection import INJECTIONS, Early, Injection, Late, early, late
from tests.worlds import TOPIC, World

# A producer's batches ------------------------------------------------------------------------------------------------


def _batches(check: str, name: str, *steps: tuple[int, int, int]) -> None:
    """An idempotent producer's batches: (epoch, sequence, records); one of them breaks the rule."""

    def step(world: World) -> None:
        producer_id = world.producer_id()
        for epoch, sequence, records in steps:
            world.orders[0].data(
                producer_id, epoch, at=world.tick(), records=records, sequence=sequence, transactional=False
            )

    INJECTIONS.append(Injection(check, name, early=step))


for _rule in RULES:
    for _name, _steps in _rule.faults.items():
        _batches(_rule.name, _name, *_steps)


@early("epoch_not_backwards", "marker")
def _(world: World) -> None:
    producer = world.producer("fenced")
    producer.epoch = 4
    world.orders[0].data(producer.producer_id, 4, at=world.tick(), transactional=False)
    world.marker(producer, 0, False, epoch=3)


@early("coordinator_epoch_monotonic", "by-one")
def _(world: World) -> None:
    _markers(world, 7, 6)


@early("coordinator_epoch_monotonic", "overshot")
def _(world: World) -> None:
    _markers(world, 1_000_000, 2)


def _markers(world: World, *coordinator_epochs: int) -> None:
    producer = world.producer("idle", 0)
    for coordinator_epoch in coordinator_epochs:
        world.marker(producer, 0, False, by=coordinator_epoch)


@early("marker_shape", "two-records")
def _(world: World) -> None:
    _odd_marker(world, records=2)


@early("marker_shape", "with-a-sequence")
def _(world: World) -> None:
    _odd_marker(world, sequence=4)


@early("marker_shape", "no-key")
def _(world: World) -> None:
    _odd_marker(world, key=b"\0")


def _odd_marker(world: World, *, records: int = 1, sequence: int = -1, key: bytes = b"\0\0\0\1") -> None:
    log = world.orders[1]
    listed = [Record(key=key, value=b"\0\0\0\0\0\0", timestamp=world.tick())] * records
    data = build(
        listed, base_offset=log.end, producer_id=world.producer_id(), producer_epoch=0, base_sequence=sequence,
        transactional=True, control=True,
    )  # fmt: skip
    log.segments[-1][1].extend(data)
    log.end += records


def _mixed(version: int, sequence: int | None, *, more: bool) -> Early:
    def step(world: World) -> None:
        producer = world.producer("mixed", version)
        world.begin(producer, 1)
        log = world.orders[1]
        log.data(producer.producer_id, producer.epoch, at=world.tick(), transactional=False, sequence=sequence)
        if more:
            log.data(producer.producer_id, producer.epoch, at=world.tick(), sequence=2 if sequence is None else 1)
        world.end(producer, True)

    return step


INJECTIONS += [
    Injection("mixed_batches", f"version-{version}{name}", early=_mixed(version, sequence, more=more))
    for version in (0, 2)
    for name, sequence, more in (("", None, False), ("-counted", None, True), ("-not-counted", -1, True))
]


# Files that are derived from the log ---------------------------------------------------------------------------------


def _indexed(change: Callable[[AbortedTxn], list[AbortedTxn]]) -> tuple[Early, Late]:
    def step(world: World) -> None:
        for _ in range(2):
            producer = world.producer(f"aborter-{world.next_producer_id}")
            world.begin(producer, 2)
            world.end(producer, False)

    def after(world: World) -> None:
        path = sorted(world.orders[2].directory.glob("*.txnindex"))[-1]
        data = path.read_bytes()
        last, _ = AbortedTxn.decode_prefixed(data[-34:])
        path.write_bytes(data[:-34] + b"".join(entry.encode_prefixed(version=0) for entry in change(last)))

    return step, after


for _name, _change in (
    ("missing", lambda last: []),
    ("another-producer", lambda last: [replace(last, producer_id=last.producer_id + 1)]),
    ("first-offset", lambda last: [replace(last, first_offset=last.first_offset + 1)]),
    ("stable-offset", lambda last: [replace(last, last_stable_offset=last.last_stable_offset - 1)]),
    ("stable-behind-what-follows", lambda last: [replace(last, last_stable_offset=last.last_stable_offset + 1)]),
    ("twice", lambda last: [last, last]),
    ("before-its-segment", lambda last: [replace(last, last_offset=-1, first_offset=-2), last]),
    ("behind-its-segment", lambda last: [last, replace(last, last_offset=last.last_offset + 100)]),
    ("invented", lambda last: [replace(last, first_offset=0, last_offset=last.first_offset), last]),
):
    INJECTIONS.append(Injection("txnindex_equals_log", _name, *_indexed(_change)))


def _snapshot(change: Callable[[ProducerEntry], list[ProducerEntry]]) -> Late:
    def after(world: World) -> None:
        log = max(world.orders, key=lambda log: len(set(log.sequences)))
        path = sorted(log.directory.glob("*.snapshot"))[-1]
        entries = [e.producer for e in producer_snapshot(path.read_bytes()) if isinstance(e, SnapshotEntry)]
        whole = [entry for entry in entries if entry.last_offset >= 0 or entry.epoch >= 0]
        log.snapshot(*(e for e in entries if e != whole[0]), *change(whole[0]), offset=int(path.stem))

    return after


for _field, _more in (
    ("epoch", 1), ("last_sequence", 7), ("last_offset", 1), ("offset_delta", 2), ("timestamp", 5),
    ("coordinator_epoch", 3),
):  # fmt: skip

    def _changed(entry: ProducerEntry, field: str = _field, more: int = _more) -> list[ProducerEntry]:
        return [replace(entry, **{field: getattr(entry, field) + more})]

    INJECTIONS.append(Injection("snapshot_equals_replay", _field.replace("_", "-"), late=_snapshot(_changed)))


@late("snapshot_ghost", "log-start-moved")
def _(world: World) -> None:
    log = world.orders[0]
    ghost = ProducerEntry(
        producer_id=world.next_producer_id, epoch=0, last_sequence=0, last_offset=1, offset_delta=0, timestamp=NOON,
        coordinator_epoch=-1, current_txn_first_offset=1,
    )  # fmt: skip
    for path in log.directory.glob("*.snapshot"):
        path.unlink()
    log.snapshot(ghost, offset=log.end)
    for path in log.directory.glob("*.txnindex"):
        path.unlink()
    for path in log.directory.glob("*.log"):
        path.unlink()
    (log.directory / f"{log.end:020}.log").write_bytes(b"")
    shutil.rmtree(world.root / "broker-1" / log.directory.name)


@late("lso", "above-the-end")
def _(world: World) -> None:
    _checkpoint(world, 40)


@late("lso", "negative")
def _(world: World) -> None:
    (world.logs.root / ".kafka_cleanshutdown").unlink()
    _checkpoint(world, -world.orders[0].end - 1)


@late("lso", "below-the-start")
def _(world: World) -> None:
    for path in sorted(world.orders[0].directory.iterdir()):
        path.unlink()
    world.orders[0].directory.joinpath(f"{world.orders[0].end:020}.log").write_bytes(b"")
    _checkpoint(world, -1)


def _checkpoint(world: World, more: int) -> None:
    path = world.logs.root / "replication-offset-checkpoint"
    end = world.orders[0].end
    path.write_text(path.read_text().replace(f"{TOPIC} 0 {end}\n", f"{TOPIC} 0 {end + more}\n"))


# Open transactions ---------------------------------------------------------------------------------------------------


@early("transaction_unknown_to_coordinator", "no-id")
def _(world: World) -> None:
    world.orders[0].data(world.producer_id(), at=world.tick())


@early("transaction_unknown_to_coordinator", "not-begun")
def _(world: World) -> None:
    world.data(world.producer("never-added", 0), 0)


@early("transaction_unknown_to_coordinator", "ended")
def _(world: World) -> None:
    producer = world.producer("late-batch", 0)
    world.begin(producer, 0)
    world.end(producer, True)
    world.data(producer, 0)


@early("transaction_unknown_to_coordinator", "bumped")
def _(world: World) -> None:
    producer = world.producer("restarted", 0)
    world.data(producer, 0)
    producer.epoch += 1
    world.write(producer, "Empty")


@early("transaction_unknown_to_coordinator", "not-listed")
def _(world: World) -> None:
    producer = world.producer("half-added")
    producer.timeout = 2**31 - 1
    world.write(producer, "Empty")
    world.begin(producer, 0)
    world.data(producer, 1)


def _forgotten(version: int) -> Early:
    def step(world: World) -> None:
        world.begin(world.producer("forgotten", version), 0, 2)

    return step


INJECTIONS += [Injection("late_transaction", f"version-{version}", early=_forgotten(version)) for version in (0, 2)]


def _stuck(commit: bool, version: int) -> Early:
    def step(world: World) -> None:
        producer = world.producer("stuck", version)
        world.begin(producer, 0, 1)
        world.prepare(producer, commit)
        for number in (0, 1):
            world.marker(producer, number, commit)

    return step


for _commit in (False, True):
    for _version in (0, 2):
        _name = f"{'commit' if _commit else 'abort'}-version-{_version}"
        INJECTIONS.append(Injection("prepare_completed", _name, early=_stuck(_commit, _version)))


# Replicas ------------------------------------------------------------------------------------------------------------


def _plain(world: World) -> None:
    """A batch of no producer, and where it is."""
    log = world.orders[0]
    world.spot = log.segments[-1][0], len(log.segments[-1][1])
    log.plain(at=world.tick(), records=2)


def _another_batch(world: World) -> None:
    path, data, at, end = _replica(world)
    base_offset = int.from_bytes(data[at : at + 8], "big")
    batch = build([Record(value=b"a", timestamp=NOON), Record(value=b"b", timestamp=NOON)], base_offset=base_offset)
    path.write_bytes(data[:at] + batch + data[end:])


def _another_value(world: World) -> None:
    path, data, at, end = _replica(world)
    data[end - 2] ^= 1
    data[at + 17 : at + 21] = crc32c.crc32c(bytes(data[at + 21 : end])).to_bytes(4, "big")
    path.write_bytes(data)


def _two_for_one(world: World) -> None:
    path, data, at, end = _replica(world)
    base_offset = int.from_bytes(data[at : at + 8], "big")
    batches = (build([Record(value=b"a", timestamp=NOON)], base_offset=base_offset + more) for more in (0, 1))
    path.write_bytes(data[:at] + b"".join(batches) + data[end:])


def _between(world: World) -> None:
    _plain(world)
    world.orders[0].plain(at=world.tick())


def _lacking(world: World) -> None:
    """Neither broker has compacted the partition."""
    for root in (world.logs.root, world.root / "broker-1"):
        (root / "cleaner-offset-checkpoint").write_text("0\n1\n__consumer_offsets 0 9\n")
    path, data, at, end = _replica(world)
    path.write_bytes(data[:at] + data[end:])


def _replica(world: World) -> tuple[Path, bytearray, int, int]:
    """The segment on the other broker that holds the batch of `_plain`: its path and bytes, and where the batch is."""
    segment, at = world.spot
    path = world.root / "broker-1" / f"{TOPIC}-0" / f"{segment:020}.log"
    data = bytearray(path.read_bytes())
    return path, data, at, at + 12 + int.from_bytes(data[at + 8 : at + 12], "big")


INJECTIONS += [
    Injection("replicas_agree", "another-batch", _plain, _another_batch),
    Injection("replicas_agree", "another-value", _plain, _another_value),
    Injection("replicas_agree", "two-for-one", _plain, _two_for_one),
    Injection("replicas_agree", "lacking", _between, _lacking),
]
