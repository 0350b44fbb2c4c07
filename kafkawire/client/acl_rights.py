"""Which right a principal lacks, by request and error code (Kafka's AclAuthorizer table; tried on 4.4.0)."""

from __future__ import annotations

from kafkawire.client.errors import CLUSTER_DENIED, GROUP_DENIED, ID_DENIED, TOPIC_DENIED

#: (api, code) -> right and resource; `{}` is the topic, the id or the group.
_RIGHTS = {
    ("DescribeProducers", TOPIC_DENIED): "Read on topic {}",
    ("Fetch", TOPIC_DENIED): "Read on topic {}",
    ("WriteTxnMarkers", CLUSTER_DENIED): "Alter or ClusterAction on the cluster",
    ("DescribeConfigs", CLUSTER_DENIED): "DescribeConfigs on the cluster",
    ("InitProducerId", ID_DENIED): "Write on transactional id {}",
    ("InitProducerId", CLUSTER_DENIED): "IdempotentWrite on the cluster",
}
_USUAL = {
    TOPIC_DENIED: "Describe on topic {}",
    GROUP_DENIED: "Describe on group {}",
    CLUSTER_DENIED: "Describe on the cluster",
    ID_DENIED: "Describe on transactional id {}",
}


def missing_right(api: str, code: int, resource: str = "") -> str | None:
    """`Read on topic orders`; None where the error is not about rights."""
    right = _RIGHTS.get((api, code), _USUAL.get(code))
    return None if right is None else right.format(resource)
