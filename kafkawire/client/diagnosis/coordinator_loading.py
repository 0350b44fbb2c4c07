"""Whether coordinators have loaded the partitions of `__transaction_state` that they lead. Until a coordinator has
loaded a partition, it lists none of the partition's ids and returns no error.

A broker can be the leader of a partition in all metadata for some time before it begins to load it; ListTransactions
fails only during the load. DescribeTransactions always shows whether the partition is loaded: for an id that does not
exist it answers TRANSACTIONAL_ID_NOT_FOUND only if the id's partition is loaded, otherwise NOT_COORDINATOR or
COORDINATOR_LOAD_IN_PROGRESS (`TransactionStateManager.getTransactionState`). So an invented id of each partition is
described.
"""

from __future__ import annotations

from collections.abc import Collection

from kafkawire.client.cluster.cluster import Cluster
from kafkawire.client.errors import ClientError, is_unknown_id
from kafkawire.client.rpc.transactional_ids import describe_transactions
from kafkawire.transactions.coordinator.coordinator_rules import partition_of_id

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
    """The `partitions` of `__transaction_state`, which has `count`, that no broker has loaded, and why.

    Waits for partitions that are being loaded. Only without an authorizer, which would deny the request.

    Args:
        partitions: numbers of partitions that have a leader. `count`: how many partitions the topic has.
        timeout_s: seconds for each request with its retries; None as configured.
    """
    ids = {id_of_partition(partition, count): partition for partition in partitions}
    answers = await describe_transactions(cluster, ids, cluster.deadline(timeout_s))
    return {ids[name]: error for name, error in answers.errors.items() if not is_unknown_id(error)}
