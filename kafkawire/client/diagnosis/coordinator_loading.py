"""Whether the coordinators have loaded what they lead: before that they list none of its ids, without an error.

A broker that takes over a partition of `__transaction_state` can be its leader in all metadata for some time before it
begins to load it; only while it loads does ListTransactions fail. DescribeTransactions shows it the whole time: for an
id that does not exist it answers TRANSACTIONAL_ID_NOT_FOUND only where the id's partition is loaded
(`TransactionStateManager.getTransactionState`; otherwise NOT_COORDINATOR or COORDINATOR_LOAD_IN_PROGRESS). So an id is
made up for each partition, and asked for.
"""

from __future__ import annotations

from collections.abc import Collection

from kafkawire.client.cluster.cluster import Cluster
from kafkawire.client.errors import ClientError, is_unknown_id
from kafkawire.client.rpc.transactional_ids import describe_transactions
from kafkawire.transactions.coordinator_rules import partition_of_id

#: With it hashes are positive, and far from the largest int.
_PREFIX = "kafkawire-loaded-"
_DIGITS = 5
_BASE = 31  # of Java's String.hashCode
_ZERO = ord("0")
_FIRST = partition_of_id(_PREFIX + chr(_ZERO) * _DIGITS, 1 << 31)


def id_of_partition(partition: int, count: int) -> str:
    """A transactional id of one of `count` partitions: the hash counts upwards with its last five characters."""
    rest = (partition - _FIRST) % count
    digits = []
    for _ in range(_DIGITS):
        rest, digit = divmod(rest, _BASE)
        digits.append(chr(_ZERO + digit))
    return _PREFIX + "".join(reversed(digits))


async def unloaded(
    cluster: Cluster, partitions: Collection[int], count: int, timeout_s: float | None
) -> dict[int, ClientError]:
    """The partitions of `__transaction_state`, of `count`, that no broker was seen to have loaded, and why.

    What is being loaded is waited for. Takes for granted that nothing is hidden: an authorizer denies what is asked.
    """
    ids = {id_of_partition(partition, count): partition for partition in partitions}
    answers = await describe_transactions(cluster, ids, cluster.deadline(timeout_s))
    return {ids[name]: error for name, error in answers.errors.items() if not is_unknown_id(error)}
