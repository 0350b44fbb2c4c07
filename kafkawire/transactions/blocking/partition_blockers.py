"""Blockers of a partition that are no transactions: damage, missing replicas and a tier that lags, by the answers of
brokers; and records of a metadata log that cannot be replayed. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from kafkawire._java_numbers import INT64, whole_number
from kafkawire.rows import Blocker, Wait
from kafkawire.transactions.blocking.blockers import BROKER, DAMAGE, OFFLINE, PARTITION, TIER_LAG, UNREPLAYABLE, YOU
from kafkawire.transactions.cluster.metadata_replay import StoppedAt
from kafkawire.transactions.commands import Reach, at, quoted
from kafkawire.transactions.facts import CLUSTER_METADATA
from kafkawire.transactions.formatting import count, named, size

#: Settings of topics that these blockers depend on.
TOPIC_SETTINGS = frozenset({"min.insync.replicas", "remote.storage.enable", "segment.bytes"})
#: Records that are named.
_SHOWN = 20


class DamagedBatch(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes that a leader returned and that hold no valid batch. `offset`: of the batch by its header, or the next one
    that is expected. `reason`, `detail`: see `records.Damage`."""

    offset: int
    reason: str
    detail: str


class Replicas(msgspec.Struct, frozen=True, kw_only=True):
    """The replicas of a partition: broker ids. `leader`: None where there is none."""

    topic: str
    partition: int
    leader: int | None
    replicas: tuple[int, ...]
    offline: tuple[int, ...]
    in_sync: tuple[int, ...]


class TierReach(msgspec.Struct, frozen=True, kw_only=True):
    """How far the tier of a partition reaches.

    Attributes:
        copied: the last offset in the tier; -1 for none.
        local_start: the first offset on the leader's disk.
        stable, high: the last stable offset, beyond which nothing is copied, and the high watermark.
        local_bytes: of the leader's log on its disk; None: not known.
        fetched_bytes: how much there is from the first offset that is not copied up to the last stable offset, at
            least.
    """

    topic: str
    partition: int
    copied: int
    local_start: int
    stable: int
    high: int
    local_bytes: int | None = None
    fetched_bytes: int = 0


def damaged(found: Sequence[DamagedBatch], replicas: Replicas, reach: Reach) -> Blocker:
    """The blocker that damaged batches of one partition are. `found`: the first is where consumers stop."""
    first, place = found[0], (replicas.topic, replicas.partition)
    others = f", and {count(len(found) - 1, 'more place')}" if len(found) > 1 else ""
    followers = [str(one) for one in replicas.in_sync if one != replicas.leader]
    if followers:
        action = f"consumers fail there: let an in-sync replica lead that is whole ({named('broker', followers)})"
    else:
        action = "consumers fail there, and no other replica is in sync: skip the batch, or restore the log"
    command = reach.reading("dump", *at(*place), f"--offset {first.offset}..")
    return Blocker(
        cause=DAMAGE,
        attention=DAMAGE,
        on=f"damage in the log of broker {replicas.leader} at offset {first.offset}: {first.reason}{others}",
        who=YOU,
        action=action,
        waits=(Wait(what=PARTITION, topic=place[0], partition=place[1], offset=first.offset),),
        command=command,
        commands=(command,),
        evidence=tuple(f"{place[0]}-{place[1]}: offset {one.offset}: {one.detail}" for one in found),
    )


def missing_replicas(found: Replicas, settings: Mapping[str, str], reach: Reach) -> Blocker | None:
    """The blocker of a partition that has a leader and offline replicas, or fewer replicas in sync than producers need.
    `settings`: of the topic; without min.insync.replicas it is not known whether producers wait."""
    least = whole_number(settings.get("min.insync.replicas", ""), INT64)
    short = least is not None and len(found.in_sync) < min(least, len(found.replicas))
    if found.leader is None or not (found.offline or short):
        return None
    what = f"{len(found.in_sync)} of {count(len(found.replicas), 'replica')} in sync"
    offline = f"; {named('broker', [*map(str, found.offline)])} offline" if found.offline else ""
    if short:
        needs, action = OFFLINE, "a broker with a replica must come back: writes with acks=all are refused until then"
    else:
        needs, action = None, "a broker with a replica must come back; nobody waits for it now"
    command = reach.reading("txn doctor")
    return Blocker(
        cause=OFFLINE,
        attention=needs,
        on=f"{what}{offline}; min.insync.replicas {'not known' if least is None else least}",
        who=BROKER,
        action=action,
        waits=(Wait(what=PARTITION, topic=found.topic, partition=found.partition),),
        command=command,
        commands=(command,),
        evidence=(f"Metadata: leader {found.leader}, replicas {found.replicas}, in sync {found.in_sync}",),
    )


def tier_behind(found: TierReach, settings: Mapping[str, str]) -> Blocker | None:
    """The blocker of a partition whose tier lacks a segment that is certainly closed: more than segment.bytes is not
    copied, and the active segment alone cannot be as large. None where that is not proven. The newest closed segment
    may just be copied: with two, the tier lags. `settings`: of the topic."""
    most = whole_number(settings.get("segment.bytes", ""), INT64)
    first = max(found.copied + 1, found.local_start)
    if settings.get("remote.storage.enable") != "true" or most is None or first >= found.stable:
        return None
    least = found.fetched_bytes
    whole = found.copied + 1 <= found.local_start and found.stable == found.high  # nothing on the disk is copied
    if whole and found.local_bytes is not None:
        least = max(least, found.local_bytes)
    if least <= most:
        return None
    lags = least > 2 * most
    name = f"{found.topic}-{found.partition}"
    must = "the leader must copy its segments: local retention deletes nothing that is not copied"
    return Blocker(
        cause=TIER_LAG,
        attention=TIER_LAG if lags else None,
        on=(
            f"tiered storage: the tier ends at offset {found.copied}; at least {size(least)} from offset {first} on is "
            f"not copied, more than a segment ({size(most)})"
        ),
        who=BROKER,
        action=must if lags else f"it may be copied now; {must}",
        waits=(Wait(what=PARTITION, topic=found.topic, partition=found.partition, offset=first),),
        evidence=(
            f"{name}: ListOffsets: tier up to {found.copied}, local log from {found.local_start}, last stable offset "
            f"{found.stable}",
        ),
    )


def unreplayable(found: Sequence[StoppedAt], path: str) -> Blocker:
    """The blocker that records of a metadata log are. `found`: the first is where brokers stop. `path`: of the copy."""
    first = found[0]
    others = f" (and {count(len(found) - 1, 'more record')})" if len(found) > 1 else ""
    commands = tuple(f"kafkawire dump {quoted(path)} --offset {one.offset} --print-data-log" for one in found[:_SHOWN])
    return Blocker(
        cause=UNREPLAYABLE,
        attention=UNREPLAYABLE,
        on=f"offset {first.offset}: {first.why}{others}",
        who=YOU,
        action="nodes stop there when they load it: give them the log of one that loads",
        waits=(Wait(what=PARTITION, topic=CLUSTER_METADATA, partition=0, offset=first.offset),),
        command=commands[0],
        commands=commands,
        evidence=tuple(f"offset {one.offset}: {one.why}" for one in found[:_SHOWN]),
    )
