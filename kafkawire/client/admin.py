"""`Admin`: the calls of KIP-664 and the fencing of KIP-360, as methods.

    async with Admin.connect("localhost:9092") as admin:
        listed = await admin.list_transactions(states=["Ongoing"])
        for broker_id, transactions in listed.values.items(): ...

Where a call covers several brokers, ids or partitions, each has a value or an error of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from types import TracebackType

from kafkawire import rows
from kafkawire.client import results
from kafkawire.client.cluster.cluster import Cluster
from kafkawire.client.diagnosis.hanging_search import find_hanging
from kafkawire.client.diagnosis.search import Search
from kafkawire.client.rpc.partition_offsets import list_offsets
from kafkawire.client.rpc.producer_states import describe_producers
from kafkawire.client.rpc.transactional_ids import describe_transactions, fence_producers, list_transactions
from kafkawire.client.rpc.write_txn_markers import named_marker, write_abort
from kafkawire.client.transport.config import Config

_EVERYTHING = Search()


class Admin:
    """The calls of KIP-664 and the fencing of KIP-360 on a live cluster: transactions listed and described, producers
    of partitions, offsets, hanging transactions found, markers written, ids fenced.

    Use it in an `async with`; `Admin.connect` makes one from bootstrap servers. Where a call covers several brokers,
    ids or partitions, each has a value or an error of its own (`Results`).

    Attributes:
        cluster: the brokers and their connections.

    The argument `timeout_s` of a method is the time for the whole call in seconds, by default `default.api.timeout.ms`.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    @classmethod
    def connect(cls, bootstrap: str, properties: Mapping[str, str] | None = None) -> Admin:
        """From "host:port,host:port" and Java-style client properties. Nothing is sent yet. Raises ConfigError."""
        return cls(Cluster(Config.of(bootstrap, properties)))

    async def __aenter__(self) -> Admin:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.cluster.close()

    # Transactional ids ------------------------------------------------------------------------------------------------

    async def list_transactions(
        self,
        *,
        states: Collection[str] = (),
        producer_ids: Collection[int] = (),
        duration_ms: int | None = None,
        pattern: str | None = None,
        broker_ids: Collection[int] | None = None,
        timeout_s: float | None = None,
    ) -> results.Results[int, tuple[results.TransactionListing, ...]]:
        """The transactional ids that brokers coordinate, by broker; by default of all brokers.

        Ids that the principal may not Describe are left out without notice (KIP-664).

        Args:
            states: only ids in these states, by name: "Ongoing". `producer_ids`: only ids with these producer ids.
            duration_ms: only transactions that are open for longer, milliseconds (brokers from 3.8 on). Brokers also
                list ids without an open transaction: those are left out here.
            pattern: a regular expression of RE2 that the whole id matches (brokers from 4.1 on).
            broker_ids: only these brokers.

        Raises:
            ConfigError: the pattern is empty. No id matches it, and brokers answer with all ids.
        """
        return await list_transactions(
            self.cluster,
            self.cluster.deadline(timeout_s),
            states=states,
            producer_ids=producer_ids,
            duration_ms=duration_ms,
            pattern=pattern,
            broker_ids=broker_ids,
        )

    async def describe_transactions(
        self, transactional_ids: Iterable[str], *, timeout_s: float | None = None
    ) -> results.Results[str, results.TransactionDescription]:
        """Each transactional id, as its coordinator describes it."""
        return await describe_transactions(self.cluster, transactional_ids, self.cluster.deadline(timeout_s))

    async def fence_producers(
        self, transactional_ids: Iterable[str], *, timeout_s: float | None = None
    ) -> results.Results[str, results.ProducerIdAndEpoch]:
        """Ends the open transaction of each id through its coordinator, and fences its producer (InitProducerId).

        As with Kafka's `fenceProducers`, an id that does not exist is created.
        """
        return await fence_producers(self.cluster, transactional_ids, self.cluster.deadline(timeout_s))

    # Partitions -------------------------------------------------------------------------------------------------------

    async def describe_producers(
        self,
        partitions: Iterable[results.TopicPartition],
        *,
        broker_id: int | None = None,
        timeout_s: float | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> results.Results[results.TopicPartition, tuple[results.ProducerState, ...]]:
        """The producers that the leader of each partition remembers, or the replica on `broker_id`.

        Args:
            progress: called with the number of partitions that were described since its last call.
        """
        deadline = self.cluster.deadline(timeout_s)
        return await describe_producers(self.cluster, partitions, deadline, broker_id=broker_id, progress=progress)

    async def offsets(
        self, partitions: Iterable[results.TopicPartition], *, timeout_s: float | None = None
    ) -> results.Results[results.TopicPartition, results.Offsets]:
        """Log start, last stable offset and high watermark of partitions (ListOffsets; Describe on the topic)."""
        return await list_offsets(self.cluster, partitions, self.cluster.deadline(timeout_s))

    async def abort_transaction(
        self,
        partition: results.TopicPartition,
        *,
        start_offset: int | None = None,
        producer_id: int | None = None,
        producer_epoch: int | None = None,
        coordinator_epoch: int | None = None,
        timeout_s: float | None = None,
    ) -> results.Marked:
        """Writes an ABORT marker for one transaction into one partition, whatever the state at its coordinator.

        Destroys data where the transaction is not hanging: `actions.aborting.abort` judges it first, and verifies. The
        request is sent once.

        Args:
            start_offset: of the transaction; or `producer_id`, `producer_epoch` and `coordinator_epoch` (as in Kafka's
                AbortTransactionSpec).

        Raises:
            ConfigError: neither or both are given. OutcomeUnknownError: no response came, it may have been written.
            ClientError: no marker was written.
        """
        epochs = producer_id, producer_epoch, coordinator_epoch
        marker = await named_marker(self.cluster, partition, start_offset, epochs, self.cluster.deadline(timeout_s))
        return await write_abort(self.cluster, marker, self.cluster.deadline(timeout_s))

    async def find_hanging_transactions(
        self, search: Search = _EVERYTHING, progress: Callable[[int, int], None] | None = None
    ) -> rows.Audit:
        """Every open transaction with its verdict, evidence and advice; see `diagnosis.hanging_search.find_hanging`."""
        return await find_hanging(self.cluster, search, progress)
