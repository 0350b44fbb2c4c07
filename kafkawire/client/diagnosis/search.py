"""`Search`: which transactions to look for, and how; `Observation`: the audit, and what it rests on."""

from __future__ import annotations

import shlex

import msgspec

from kafkawire import rows
from kafkawire.client.diagnosis.unread_partitions import UnreadGap
from kafkawire.client.errors import ClientError
from kafkawire.client.results import TopicPartition
from kafkawire.transactions.case import MAX_TIMEOUT_MS

#: Longer than a broker's session (broker.session.timeout.ms, 9 s): until then a dead coordinator's ids are in no list.
SESSION_S = 12.0


class Search(msgspec.Struct, frozen=True, kw_only=True):
    """What is looked for, and how.

    Attributes:
        topics: only these; None for all that are visible. `partitions`: only these numbers of them.
        places: only these partitions, of any topics.
        broker_id: only partitions with a replica on that broker, which is asked instead of the leader.
        max_timeout_ms: the brokers' transaction.max.timeout.ms; None: as they answer, or Kafka's default.
        confirm_after_s: before a suspect is read again; `session_s` where a broker is missing or a coordinator moves.
        confirm_young: read those again, too, that are only too young to be called hanging, and prove it.
        timeout_s: of each call; None as configured.
        address: how the cluster is reached, for the commands that are proposed; `command_config` the file that they
            name too.
    """

    topics: tuple[str, ...] | None = None
    partitions: tuple[int, ...] | None = None
    places: tuple[TopicPartition, ...] | None = None
    broker_id: int | None = None
    max_timeout_ms: int | None = None
    confirm_after_s: float = 1.0
    session_s: float = SESSION_S
    confirm_young: bool = False
    timeout_s: float | None = None
    address: str = "HOST:PORT"
    command_config: str | None = None

    @property
    def reach(self) -> str:
        """How the cluster is reached, as words of a command line after `--bootstrap-server`."""
        return self.address + (f" --command-config {shlex.quote(self.command_config)}" if self.command_config else "")


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """An audit of a live cluster, and by partition and broker what it rests on.

    Attributes:
        described: partitions that were read. `errors`: those that could not be.
        leaders: the broker that was asked for each, -1 for none.
        silent: brokers that did not list the ids that they coordinate. `gaps`: all that is missing.
        read_log: whether `__transaction_state` was read, to its end or not.
        expected: brokers of the cluster, and those that have replicas and are not there. `answered`: those of them that
            answered all that they were asked.
        max_timeout_ms: the limit that the verdicts count with.
    """

    audit: rows.Audit
    described: frozenset[TopicPartition]
    errors: dict[TopicPartition, ClientError]
    leaders: dict[TopicPartition, int]
    silent: dict[int, ClientError]
    gaps: tuple[UnreadGap, ...]
    read_log: bool = False
    expected: frozenset[int] = frozenset()
    answered: frozenset[int] = frozenset()
    max_timeout_ms: int = MAX_TIMEOUT_MS
