"""Rows of `txn doctor`: risky settings and states of a cluster, and a census of producer ids and transactional ids."""

from __future__ import annotations

from kafkawire.rows.audits import Outcome
from kafkawire.rows.base import Row


class Risk(Row, frozen=True, kw_only=True):
    """A setting or state of a cluster that invites hanging transactions, loss of data or trouble of coordinators.

    Attributes:
        check: name of the check.
        subject: what has the setting: `broker 1`, `topic orders`, `the cluster`.
        setting, value: Kafka's name of it, and its value; of a state, what was counted.
        why: the reason, as a sentence.
        source: the KIP or issue that the sentence rests on; None for Kafka's own documentation of the setting.
        action: what to do.
    """

    kind: str = "risk"
    check: str
    subject: str
    setting: str
    value: str
    why: str
    source: str | None = None
    action: str


class ProducerCensus(Row, frozen=True, kw_only=True):
    """The producers that the leader of a partition remembers.

    Attributes:
        producer_ids: their number. `open`: how many have an open transaction, and do not expire.
        memory_bytes: of the leader and of each follower, as an estimate.
        first_expires, last_expires: when the first and the last of them expire if they write nothing more.
    """

    kind: str = "producers"
    topic: str
    partition: int
    producer_ids: int
    open: int
    memory_bytes: int
    first_expires: int | None = None
    last_expires: int | None = None


class IdCensus(Row, frozen=True, kw_only=True):
    """Transactional ids of one pattern.

    Attributes:
        pattern: the ids, with `<n>` for digits, `<uuid>`, and `<hex>`.
        ids: their number. `states`: how many are in each state. `example`: one of them.
        memory_bytes: of their coordinators, as an estimate.
        first_expires, last_expires: when the first and the last of them expire if they are not used again; None where
            `__transaction_state` was not read.
    """

    kind: str = "transactional_ids"
    pattern: str
    ids: int
    states: dict[str, int]
    example: str
    memory_bytes: int
    first_expires: int | None = None
    last_expires: int | None = None


class Checkup(Row, frozen=True, kw_only=True):
    """The result of `txn doctor`: one JSON object. In jsonl, each of its parts is a line with a `kind`.

    Attributes:
        as_of: when the cluster was read, epoch milliseconds.
        brokers: their ids. `partitions`: the number of partitions.
        checks: names of the checks that could be made.
        hidden: what could not be read, and why, in sentences.
        outcome: `found`: there are risks. `complete`: nothing is hidden.
    """

    kind: str = "checkup"
    as_of: int
    cluster_id: str | None = None
    brokers: tuple[int, ...] = ()
    partitions: int = 0
    checks: tuple[str, ...] = ()
    risks: tuple[Risk, ...] = ()
    producers: tuple[ProducerCensus, ...] = ()
    transactional_ids: tuple[IdCensus, ...] = ()
    hidden: tuple[str, ...] = ()
    outcome: Outcome
