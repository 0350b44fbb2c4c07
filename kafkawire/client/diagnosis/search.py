"""`Search`: which transactions to look for, and how. `LogsRead`: what logs showed before. `Observation`: the audit, and
its coverage by partition."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kafkawire import rows
from kafkawire.client.diagnosis.cluster_reading import OpenKey
from kafkawire.client.diagnosis.unread_partitions import UnreadGap
from kafkawire.client.errors import ClientError
from kafkawire.client.results import Metadata, TopicPartition
from kafkawire.transactions.attention import BLOCKED_AFTER_MS
from kafkawire.transactions.commands import quoted
from kafkawire.transactions.facts import Open
from kafkawire.transactions.verdict.case import MAX_TIMEOUT_MS, given_limit
from kafkawire.transactions.verdict.live_case import LiveCase

#: Longer than a broker's session (broker.session.timeout.ms, 9 s): until then a dead coordinator's ids are in no list.
SESSION_S = 12.0
_CONFIRM_AFTER_S = 1.0
#: Bytes that are fetched of a partition to measure what is held back.
FETCH_BYTES = 8 << 20


class LogsRead(msgspec.Struct, frozen=True):
    """The logs that were read before a search. `opens`: the open transactions that were found in them. `read_to`: of
    each partition that was read from its log start offset on, the offset up to which."""

    opens: Mapping[OpenKey, Open] = {}
    read_to: Mapping[TopicPartition, int] = {}

    def seen(self, key: OpenKey, open_: Open) -> Open:
        """A transaction that a leader remembers, with what its log shows of it."""
        found = self.opens.get(key)
        if found is None or (found.start_offset, found.producer_epoch) != (open_.start_offset, open_.producer_epoch):
            return open_
        read = "last_offset", "written_after", "written_by", "first_timestamp", "batches"
        return msgspec.structs.replace(open_, **{name: getattr(found, name) for name in read})


class Search(msgspec.Struct, frozen=True, kw_only=True):
    """The transactions to look for, and how.

    Attributes:
        topics: only these; None for all that are visible. `partitions`: only these numbers of them.
        places: only these partitions, of any topics.
        broker_id: only partitions with a replica on that broker, which describes them instead of the leader.
        max_timeout_ms: transaction.max.timeout.ms in milliseconds; None: as brokers return it, or Kafka's default.
        confirm_after_s: seconds before a suspect is read again; `session_s` if a broker is missing or a coordinator
            moves.
        impact: read what transactions that need attention hold back (`impact_reading`), beyond their offsets, and what
            decides between their causes (`broker_traits`).
        impact_of_all: read it for transactions that need no attention, too.
        fetch_bytes: most bytes that are fetched of a partition for that; 0 for none.
        show_records: number of records of each transaction in its impact.
        as_of: the clock for ages, epoch milliseconds, not after this machine's; None: this machine's. Since when a
            transaction blocks readers always counts by this machine's.
        blocked_after_ms: a transaction that has held the last stable offset for longer needs attention.
        timeout_s: seconds for each call; None as configured.
        address: the bootstrap servers that proposed commands name; `command_config`: their properties file.
    """

    topics: tuple[str, ...] | None = None
    partitions: tuple[int, ...] | None = None
    places: tuple[TopicPartition, ...] | None = None
    broker_id: int | None = None
    max_timeout_ms: int | None = None
    confirm_after_s: float = _CONFIRM_AFTER_S
    session_s: float = SESSION_S
    impact: bool = False
    impact_of_all: bool = False
    fetch_bytes: int = FETCH_BYTES
    show_records: int = 0
    as_of: int | None = None
    blocked_after_ms: int = BLOCKED_AFTER_MS
    timeout_s: float | None = None
    address: str = "HOST:PORT"
    command_config: str | None = None

    @property
    def reach(self) -> str:
        """The arguments of a command line after `--bootstrap-server`."""
        return self.address + (f" --command-config {quoted(self.command_config)}" if self.command_config else "")

    @property
    def options(self) -> tuple[str, ...]:
        """The options of a command line that affect verdicts, so that a proposed command gives the same ones."""
        given = [*given_limit(self.max_timeout_ms)]
        if self.confirm_after_s > _CONFIRM_AFTER_S:
            given.append(f"--confirm-after {self.confirm_after_s:g}")
        return tuple(given)


def chosen(search: Search, metadata: Metadata) -> dict[TopicPartition, int]:
    """The partitions to look in, and the broker that should describe each, -1 for none. Raises ClientError for a number
    that no partition has."""
    found = {}
    numbers = frozenset(search.partitions or ())
    wanted = None if search.places is None else set(search.places)
    for place, info in metadata.partitions.items():
        if wanted is not None and place not in wanted:
            continue
        if search.partitions is not None and place.partition not in numbers:
            continue
        if search.broker_id is not None and search.broker_id not in info.replicas:
            continue
        asked = info.leader if search.broker_id is None else search.broker_id
        found[place] = -1 if asked is None else asked
    there = {place.partition for place in metadata.partitions}
    for number in search.partitions or ():
        if number not in there:
            raise ClientError(f"topic {', '.join(search.topics or ())} has no partition {number}")
    return found


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """An audit of a live cluster, with its coverage by partition and broker.

    Attributes:
        cases: of the findings, in their order.
        described: partitions that were read. `errors`: partitions that could not be read.
        leaders: the broker that should describe each partition, -1 for none.
        silent: brokers that did not list the ids that they coordinate. `gaps`: everything that was not read.
        read_log: whether `__transaction_state` was read, at least in part.
        expected: brokers of the cluster, with those that have replicas and are not there now. `answered`: brokers that
            answered every request.
        max_timeout_ms: transaction.max.timeout.ms as the verdicts use it, milliseconds.
    """

    audit: rows.Audit
    cases: tuple[LiveCase, ...] = ()
    described: frozenset[TopicPartition]
    errors: dict[TopicPartition, ClientError]
    leaders: dict[TopicPartition, int]
    silent: dict[int, ClientError]
    gaps: tuple[UnreadGap, ...]
    read_log: bool = False
    expected: frozenset[int] = frozenset()
    answered: frozenset[int] = frozenset()
    max_timeout_ms: int = MAX_TIMEOUT_MS
