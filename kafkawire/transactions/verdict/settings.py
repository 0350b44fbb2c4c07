"""Settings that an audit uses: as given, else from the cluster's metadata log, else Kafka's default."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from kafkawire import rows
from kafkawire._java_numbers import INT64, whole_number
from kafkawire.transactions.attention import BLOCKED_AFTER_MS
from kafkawire.transactions.cluster.cluster_metadata import MOST_PARTITIONS, newest_of
from kafkawire.transactions.cluster.cluster_traits import ID_EXPIRATION, MAX_TIMEOUT, PRODUCER_EXPIRATION
from kafkawire.transactions.facts import ClusterMetadata
from kafkawire.transactions.log.replay import PRODUCER_ID_EXPIRATION_MS
from kafkawire.transactions.verdict.case import MAX_TIMEOUT_MS

#: Broker default of transaction.state.log.num.partitions.
TRANSACTION_STATE_PARTITIONS = 50
#: Broker default of transactional.id.expiration.ms.
TRANSACTIONAL_ID_EXPIRATION_MS = 604_800_000


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What the logs do not hold, or not certainly. None: from `__cluster_metadata` where it was copied, else Kafka's
    default.

    Attributes:
        as_of: the clock, epoch milliseconds; None: the newest time that a broker wrote.
        max_timeout_ms: transaction.max.timeout.ms of the brokers.
        producer_id_expiration_ms: producer.id.expiration.ms of the brokers.
        transactional_id_expiration_ms: transactional.id.expiration.ms of the brokers.
        transaction_state_partitions: transaction.state.log.num.partitions. Where it is not known, the default, or more
            where more are there.
        show_records: number of records of each open transaction in its `impact`.
        blocked_after_ms: a transaction that has held the last stable offset for longer needs attention, whatever its
            verdict.
    """

    as_of: int | None = None
    max_timeout_ms: int | None = None
    producer_id_expiration_ms: int | None = None
    transactional_id_expiration_ms: int | None = None
    transaction_state_partitions: int | None = None
    show_records: int = 0
    blocked_after_ms: int = BLOCKED_AFTER_MS


class ResolvedSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of one cluster, each with where it comes from."""

    max_timeout: rows.Setting
    producer_id_expiration: rows.Setting
    transactional_id_expiration: rows.Setting
    transaction_state_partitions: rows.Setting

    @property
    def rows(self) -> tuple[rows.Setting, ...]:
        return msgspec.structs.astuple(self)


def resolve(settings: Settings, metadata: Iterable[ClusterMetadata], copied: Sequence[int] = ()) -> ResolvedSettings:
    """The settings of a cluster. `metadata`: the copies of its metadata log; the newest counts. `copied`: numbers of
    the partitions of `__transaction_state` that are there."""
    newest = newest_of(metadata)
    return ResolvedSettings(
        max_timeout=_time(MAX_TIMEOUT, settings.max_timeout_ms, newest, MAX_TIMEOUT_MS),
        producer_id_expiration=_time(
            PRODUCER_EXPIRATION, settings.producer_id_expiration_ms, newest, PRODUCER_ID_EXPIRATION_MS
        ),
        transactional_id_expiration=_time(
            ID_EXPIRATION, settings.transactional_id_expiration_ms, newest, TRANSACTIONAL_ID_EXPIRATION_MS
        ),
        transaction_state_partitions=_partitions(settings.transaction_state_partitions, newest, copied),
    )


def _time(name: str, given: int | None, metadata: ClusterMetadata | None, default: int) -> rows.Setting:
    """A setting with a time. Where brokers differ, the longest counts: that broker is the last to forget, or to give
    up."""
    if given is not None:
        return rows.Setting(name=name, value=given, source=rows.Setting.GIVEN)
    configured = [] if metadata is None else [
        (number, broker)
        for (broker, key), value in metadata.configs.items()
        if key == name and (number := whole_number(value, INT64)) is not None
    ]  # fmt: skip
    if not configured or metadata is None:
        return rows.Setting(name=name, value=default, source=rows.Setting.DEFAULT)
    value, broker = max(configured)
    of = f"broker {broker}" if broker else "all brokers"
    return rows.Setting(name=name, value=value, source=f"the configuration of {of} in {metadata.path}")


def _partitions(given: int | None, metadata: ClusterMetadata | None, copied: Sequence[int]) -> rows.Setting:
    name = "transaction.state.log.num.partitions"
    if given is not None:
        return rows.Setting(name=name, value=given, source=rows.Setting.GIVEN)
    # Of one that is damaged, a record that adds partitions may be lost: then too many are expected rather than too few.
    if metadata is not None and metadata.complete and metadata.transaction_state_partitions is not None:
        source = f"the partitions of the topic in {metadata.path}"
        return rows.Setting(name=name, value=metadata.transaction_state_partitions, source=source)
    most = max((number + 1 for number in copied if number < MOST_PARTITIONS), default=0)
    if most > TRANSACTION_STATE_PARTITIONS:
        return rows.Setting(name=name, value=most, source="the partitions that were found")
    return rows.Setting(name=name, value=TRANSACTION_STATE_PARTITIONS, source=rows.Setting.DEFAULT)
