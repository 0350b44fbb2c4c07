"""Rows of `kafkawire why`: what blocks a group, a partition or an id, until when, and what to run."""

from __future__ import annotations

from kafkawire.rows.audits import Coverage, Outcome
from kafkawire.rows.base import Row
from kafkawire.rows.lags import Lag


class Wait(Row, frozen=True, kw_only=True):
    """Something that waits.

    Attributes:
        what: `records` (read_committed consumers stop at `offset`), `offset` (the group's offset of the partition
            cannot be fetched), `compaction` (the cleaner goes no further than `offset`) or `partition` (nobody can
            read it).
        offset: where it waits.
        now: whether it waits for this blocker now; False: another one is before it, and this comes next.
        since: since when it has waited for certain, epoch milliseconds; None where that is not known.
        last_timestamp: of `records`: the transaction's last batch, epoch milliseconds, mostly by its producer's clock.
        records, bytes: how much is held back; of compaction, the bytes that it does not look at.
        freed_bytes: of compaction: an estimate of what it would free.
        estimated: whether `records` and `bytes` are estimates.
        group: of `offset`: the group.
    """

    what: str
    topic: str
    partition: int
    offset: int | None = None
    now: bool = True
    since: int | None = None
    last_timestamp: int | None = None
    records: int | None = None
    bytes: int | None = None
    freed_bytes: int | None = None
    estimated: bool = False
    group: str | None = None


class FillShare(Row, frozen=True, kw_only=True):
    """How much of a partition of `__consumer_offsets` a group fills, from where its cleaner is held.

    Attributes:
        group: its id; None: records that belong to no group, or to one that could not be read.
        records, bytes: its records, and the bytes of their keys and values.
        share: of all those bytes, 0 to 1.
        keys: number of different keys: as many records are left after compaction.
    """

    group: str | None
    records: int
    bytes: int
    share: float
    keys: int


class Blocker(Row, frozen=True, kw_only=True):
    """What others wait for: one transaction of an id however many partitions it has, or one place.

    Attributes:
        cause: hanging, stuck, late, live, two_phase_commit, young, ghost or unknown, as the reasons of findings are;
            unstable_offset, no_leader, offline_replicas, unreplayable_record (of the metadata log), unreadable, damage
            or tier_lag.
        attention: hanging, stuck, blocked (held for longer than `--blocked-after`), or the cause of what is no
            transaction; None: it passes by itself.
        waits: what waits for it. `on`: what that is, a sentence without its end.
        who: who must act: `you`, `owner` (of the producer), `coordinator` or `broker`. `action`: what they do.
        begun: the time at which the transaction began, by its coordinator.
        since, until: since when it has blocked for certain; until when it does at the latest, or when it can be judged
            again; epoch milliseconds, None where that is not known.
        command: what to run; None where there is nothing to run. `commands`: all, where one block needs several.
        fills: of a partition of `__consumer_offsets` whose cleaner is held: the groups that fill it, the largest first.
        evidence: sentences. `holds`: whether all premises of it hold.
    """

    kind: str = "blocker"
    cause: str
    attention: str | None = None
    on: str
    who: str
    action: str
    waits: tuple[Wait, ...] = ()
    begun: int | None = None
    since: int | None = None
    until: int | None = None
    transactional_id: str | None = None
    producer_id: int | None = None
    producer_epoch: int | None = None
    state: str | None = None
    command: str | None = None
    commands: tuple[str, ...] = ()
    fills: tuple[FillShare, ...] = ()
    evidence: tuple[str, ...] = ()
    holds: bool = True


class Subject(Row, frozen=True, kw_only=True):
    """The subject of the question: a group, a topic or some partitions of it, a transactional id, or a producer id."""

    kind: str = "subject"
    group: str | None = None
    topic: str | None = None
    partitions: tuple[int, ...] = ()
    transactional_id: str | None = None
    producer_id: int | None = None


class HistoryEvent(Row, frozen=True, kw_only=True):
    """A record of a coordinator, described by what it changed (`kafkawire why --history`).

    Attributes:
        topic, partition, offset, timestamp: of the record; the time is the broker's clock, epoch milliseconds.
        what: a sentence without its end. `damaged`: the record could not be read.
    """

    kind: str = "event"
    topic: str
    partition: int
    offset: int
    timestamp: int
    what: str
    damaged: bool = False


class Hold(Row, frozen=True, kw_only=True):
    """How long a transaction held the last stable offset of a partition (`kafkawire why --longest`).

    Attributes:
        transactional_id: by the coordinator's records or brokers; None: not known, or there is none.
        first_offset, last_offset, records: of its data.
        outcome: COMMIT, ABORT, `open` (it lasts), or `unknown` (the marker cannot be read).
        began: timestamp of its first batch, mostly a client's clock. `ended`: of its marker, a broker's.
        held_since: when it began to hold the last stable offset: `began`, or the end of the one before it.
        held_ms: from then on to its end; of one that lasts up to now, of copies to the newest timestamp of the log.
            None: the first batch has no timestamp.
    """

    kind: str = "hold"
    topic: str
    partition: int
    held_ms: int | None
    transactional_id: str | None = None
    producer_id: int
    producer_epoch: int
    outcome: str
    first_offset: int
    last_offset: int
    marker_offset: int | None
    records: int
    began: int | None
    held_since: int | None
    ended: int | None


class Why(Row, frozen=True, kw_only=True):
    """The answer of `kafkawire why`: one JSON object. In jsonl each of its parts is a line with a `kind`.

    Attributes:
        blockers: the most urgent first.
        lags: the lag of the group in each partition.
        read: what was read, with the premises of "nothing blocks it".
        together: a command that ends all transactions that one kind of command ends; None where there are not several.
    """

    as_of: int | None = None
    subject: Subject
    blockers: tuple[Blocker, ...] = ()
    lags: tuple[Lag, ...] = ()
    read: Coverage
    together: str | None = None
    outcome: Outcome
