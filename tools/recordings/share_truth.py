"""Share groups of real brokers, large: `explain --share-group` of every offset, against what consumers were given.

`make share-fates` runs it; the recording `share-groups` is the same, small. Then faults around share groups are
planted on brokers of 4.4.0: a second copy in a dead-letter topic, a state in a topic that is gone, brokers that are
killed while they coordinate, offsets that an administrator sets back, records of the state that are removed. `explain`
is compared with what consumers were given, and `audit` has to name only the first two faults.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from kafkawire import logdir
from kafkawire.messages import ShareUpdateKey, ShareUpdateValue
from kafkawire.messages.share_update_value import StateBatch
from kafkawire.offsets.copied_shares import explained_shares
from kafkawire.offsets.leading_replica import LeadingReplicas
from kafkawire.offsets.share_audit import share_answers
from kafkawire.offsets.share_copies import STATE_TOPIC, copied_shares
from kafkawire.rows import ShareRange, ShareTotal
from tools.broker import RunningCluster, cluster
from tools.broker.jars import BROKER_VERSION

from . import clients, share_groups
from .cluster_clients import delete_topic, producer_of, read, write
from .log_copies import copy_without_indexes
from .share_groups import ShareRun, share_run

#: `workers` has a dead-letter topic of its own; `auditors` is set back; `trimmers` read the topic that goes.
_COPIES = {share_groups.AUDITORS: share_groups.DEAD_LETTERS, share_groups.WORKERS: "dlq.workers"}
_LIMIT = 3
#: Of each topic.
_RECORDS = 120
#: The rules that what is planted breaks.
FAULTS = {"share_dead_letter_once", "share_topic_exists"}
_LATER_MS = 120_000
_SECONDS = 60.0
_READ_S = 5
_FATES = ("accept", "reject", "accept", "release", "retry", "accept")
#: A delivery: its number, what was done, and the mode of the consumer.
Delivery = tuple[int, str, str]


class Compared(NamedTuple):
    """Offsets that were compared, by status and reason; what is wrong, a sentence each; those that are not known since
    their records were removed from the state."""

    offsets: Counter[tuple[str, str | None]]
    wrong: list[str]
    removed: int


def compare(folder: Path) -> Compared:
    """Every offset of every group of a recording.

    Args:
        folder: as `share_groups.make` leaves it.
    """
    truth = json.loads((folder / "truth.json").read_text())
    replicas = LeadingReplicas(logdir.open(str(folder / "node-1"), str(folder / "node-2")))
    told = _told(truth)
    offsets: Counter[tuple[str, str | None]] = Counter()
    wrong: list[str] = []
    removed = 0
    for group in sorted({one["group"] for one in truth["deliveries"]}):
        shares, gaps = explained_shares(replicas, group, limit=truth["limit"])
        wrong += gaps
        for share in shares:
            place = group, share.source.topic or "", share.source.key.partition
            given, added, reached = told.get(place, {}), 0, 0
            for row in share.rows(None):
                if isinstance(row, ShareTotal):
                    added += row.offsets
                if not isinstance(row, ShareRange):
                    continue
                if row.first_offset != reached:
                    wrong.append(f"{place}: offsets {reached} to {row.first_offset - 1} are in no range")
                reached = row.last_offset + 1
                for offset in range(row.first_offset, row.last_offset + 1):
                    if row.reason == "state_removed":
                        removed += 1
                        continue
                    offsets[row.status, row.reason] += 1
                    problem = judge(row, given.get(offset, []), truth["limit"], dead_letters=share.settings)
                    if problem is not None:
                        wrong.append(f"{place}, offset {offset}: {row.status}, {row.reason}: {problem}")
            if not added == reached == share.end:
                wrong.append(
                    f"{place}: {added} offsets in the totals, {reached} in the ranges, and {share.end} there are"
                )
            wrong += share.problems
    return Compared(offsets, wrong, removed)


def _told(truth: dict[str, Any]) -> dict[tuple[str, str, int], dict[int, list[Delivery]]]:
    told: dict[tuple[str, str, int], dict[int, list[Delivery]]] = {}
    for one in truth["deliveries"]:
        for partition, offset, count, done in one["rows"]:
            place = told.setdefault((one["group"], one["topic"], partition), {})
            place.setdefault(offset, []).append((count, done, one["mode"]))
    return told


def judge(row: ShareRange, deliveries: list[Delivery], limit: int, *, dead_letters: object) -> str | None:
    """What is wrong with a row of an offset; None where nothing is.

    Args:
        deliveries: of the offset, in order. limit: of delivery counts.
        dead_letters: the group's settings: with copies in its dead-letter topic reasons are certain.
    """
    status, reason, count = row.status, row.reason, row.delivery_count
    if not deliveries:
        plain = {("available", "never_delivered"), ("archived", "no_record"), ("archived", "aborted")}
        fits = (status, reason) in plain | {("no_record", None), ("available", "open_transaction")}
        return None if fits else "no consumer was given it"
    last, done, mode = deliveries[-1]
    certain = getattr(dead_letters, "dead_letter_topic", None) not in (None, share_groups.MISNAMED)
    if done == "accept":
        return None if (status, count) == ("acknowledged", last) else f"accepted at delivery {last}"
    if done == "reject":
        names = {"rejected"} if certain or last < limit else {"delivery_limit_or_rejected"}
        fits = status in ("archived", "archiving") and reason in names and count == last
        return None if fits else f"rejected at delivery {last}"
    if done == "none" and mode == "hold":
        last -= 1  # which is in the leader's memory only
        if not last:
            return None if (status, reason) == ("available", "never_delivered") else "held at its first delivery"
    if last >= limit:
        names = {"delivery_limit"} if certain else {"delivery_limit_or_rejected"}
        fits = status in ("archived", "archiving") and reason in names and count == last
        return None if fits else f"released at delivery {last}, the limit"
    if (status, reason) == ("archived", "below_log_start"):
        return None
    return None if (status, count) == ("available", last) else f"released at delivery {last}"


# Planted faults -------------------------------------------------------------------------------------------------------


def record_planted(folder: Path) -> Compared:
    """Makes `node-1/`, `node-2/` and truth.json in a folder, and compares every offset.

    Coordinators remove no records of the state meanwhile: what is removed is not known, and a second copy in a
    dead-letter topic may then follow from an offset that was set back.

    Args:
        folder: is made.
    """
    folder.mkdir(parents=True)
    with cluster(2, controllers=1, config=share_groups.CONFIG) as running, share_run(running) as run:
        _workload(running, run, _RECORDS)
        deliveries = run.deliveries()
        for number in (1, 2):
            copy_without_indexes(running.log_dirs[number], folder / f"node-{number}")
    (folder / "truth.json").write_text(json.dumps({"limit": _LIMIT, "deliveries": deliveries}) + "\n")
    return compare(folder)


def violated(folder: Path) -> dict[str, list[str]]:
    """The violations of the rules of share groups in copies, by rule."""
    replicas = LeadingReplicas(logdir.open(str(folder / "node-1"), str(folder / "node-2")))
    found: dict[str, list[str]] = {}
    for one in share_answers(replicas):
        for breach in one.answer.breaches:
            found.setdefault(one.answer.check, []).append(breach.what)
    return found


def _workload(running: RunningCluster, run: ShareRun, records: int) -> None:
    enabled = {"errors.deadletterqueue.group.enable": "true"}
    topics = {"orders": 1, "killed": 1, "gone": 1, **dict.fromkeys(_COPIES.values(), 1)}
    clients.create_topics(running.bootstrap, topics, replicas=2, config=dict.fromkeys(_COPIES.values(), enabled))
    for group in (*_COPIES, share_groups.TRIMMERS):
        topic = _COPIES.get(group)
        given = ["share.auto.offset.reset=earliest"]
        given += [] if topic is None else [f"errors.deadletterqueue.topic.name={topic}"]
        run.configure(group, *given)
    fates = [_FATES[number % len(_FATES)] for number in range(records)]
    run.produce("orders", 0, fates)
    run.produce("gone", 0, ["accept"] * 5)
    run.read("run", share_groups.TRIMMERS, "gone", seconds=_READ_S)
    run.read("run", share_groups.WORKERS, "orders", seconds=_READ_S)
    run.read("run", share_groups.AUDITORS, "orders", seconds=_READ_S)
    run.produce("killed", 0, fates)
    for node in (1, 2):  # one coordinates, one leads: both are killed, one after the other
        running.kill_node(node)
        running.start_node(node)
        running.wait_ready()
        run.read("run", share_groups.AUDITORS, "killed", seconds=_READ_S)
        run.produce("killed", 0, fates)
    run.read("run", share_groups.AUDITORS, "killed", seconds=_READ_S)
    time.sleep(15)  # the coordinator keeps a group that was just left for a while
    run.reset(share_groups.AUDITORS, "orders", 0, records // 2)
    run.read("run", share_groups.AUDITORS, "orders", seconds=_READ_S)
    _copy_again(running.bootstrap, _COPIES[share_groups.WORKERS])
    _write_of_gone(running, run)
    time.sleep(5)  # brokers write high watermarks to their checkpoints each half a second


def _copy_again(bootstrap: str, topic: str) -> None:
    """Writes the first copy in a dead-letter topic once more, as a tool that mirrors topics may."""
    found, *_ = read(bootstrap, [(topic, 0)], "reader", "read_uncommitted")
    producer = producer_of(bootstrap, {})
    producer.produce(topic, found.value(), key=found.key(), headers=found.headers(), partition=0)
    assert not producer.flush(_SECONDS)


def _write_of_gone(running: RunningCluster, run: ShareRun) -> None:
    """Removes the topic, and writes a record of its state that is later, as a coordinator that had not seen that."""
    replicas = LeadingReplicas(logdir.open(*map(str, running.log_dirs.values())))
    (source,) = (one for one in copied_shares(replicas, share_groups.TRIMMERS)[0] if one.topic == "gone")
    delete_topic(running.bootstrap, "gone")
    time.sleep(2)
    key = ShareUpdateKey(group_id=source.key.group, topic_id=source.key.topic_id, partition=source.key.partition)
    value = ShareUpdateValue(leader_epoch=0, start_offset=0, state_batches=(StateBatch(0, 4, 2, 1),))
    # Brokers let none but an administrator's client write into their own topics.
    producer = producer_of(running.bootstrap, {"client.id": "__admin_client"})
    later = int(time.time() * 1000) + _LATER_MS
    write(producer, STATE_TOPIC, [(b"\0\1" + key.encode(0), value.encode_prefixed(0), later)], partition=source.number)
    assert replicas.name_of(source.key.topic_id) == "gone"


def main(
    partitions: Annotated[int, typer.Option(min=1, help="Partitions of the topic with each fate.")] = 4,
    records: Annotated[int, typer.Option(min=20, help="Records of each.")] = 700,
    keep: Annotated[Path | None, typer.Option(help="Where the recordings stay; by default they are removed.")] = None,
) -> None:
    """Records both releases, large, and what goes wrong around share groups, and compares every offset."""
    failed = False
    with tempfile.TemporaryDirectory(prefix="kafkawire-share-") as scratch:
        for version in (BROKER_VERSION, "4.2.0"):
            folder = (keep or Path(scratch)) / f"kafka-{version}"
            share_groups.make(folder, version, partitions, records)
            failed = show(version, compare(folder)) or failed
        folder = (keep or Path(scratch)) / "planted"
        failed = show("planted", record_planted(folder)) or failed
        found = violated(folder)
        print(f"planted: {found}")
        failed = failed or set(found) != FAULTS
    sys.exit(1 if failed else 0)


def show(name: str, found: Compared) -> bool:
    """Prints what was compared; whether something is wrong."""
    print(
        f"{name}: {found.offsets.total():,} offsets, {len(found.wrong):,} wrong; {found.removed:,} of removed records"
    )
    for (status, reason), number in sorted(found.offsets.items(), key=str):
        print(f"  {number:6,} {status}{'' if reason is None else f', {reason}'}")
    for text in found.wrong[:20]:
        print(f"  wrong: {text}")
    return bool(found.wrong)


if __name__ == "__main__":
    typer.run(main)
