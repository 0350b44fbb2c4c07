"""Layouts that releases gave the same version of a message, and the union schema (the newest one) does not follow.

Every one was a preview when it was released. The table is (message, version) -> {release: what differs}.
"""

DIFFERENT_LAYOUTS: dict[tuple[str, int], dict[str, str]] = {
    ("EndQuorumEpochRequest", 0): {"2.7.2": "ReplicaId in Topics.Partitions; KRaft before its first release"},
    ("LeaderChangeMessage", 0): {
        "2.7.2": "no Version and no GrantingVoters; KRaft before its first release",
        "2.8.2": "no Version; KRaft before its first release",
    },
    ("ConsumerGroupHeartbeatRequest", 0): {"3.6.2": "ClientAssignors, SubscribedTopicRegex; KIP-848 early access"},
    ("ConsumerGroupHeartbeatResponse", 0): {
        "3.6.2": "ShouldComputeAssignment, another Assignment; KIP-848 early access"
    },
    ("ConsumerGroupDescribeResponse", 0): {"3.7.2": "Error, MetadataVersion, MetadataBytes; KIP-848 early access"},
    ("ReadShareGroupStateSummaryResponse", 0): {
        "3.9.1": "no LeaderEpoch; preview of share groups",
        "4.0.0": "no LeaderEpoch; preview of share groups",
    },
    ("ShareGroupMetadataValue", 0): {
        "3.9.1": "no MetadataHash; preview of share groups",
        "4.0.0": "no MetadataHash; preview of share groups",
    },
    ("ShareGroupPartitionMetadataValue", 0): {
        "4.0.0": "Topics with racks; preview of share groups (the name is 3.9's)"
    },
    ("ShareGroupStatePartitionMetadataValue", 0): {"4.0.0": "no InitializingTopics; preview of share groups"},
    ("ShareSnapshotValue", 0): {"4.0.0": "SnapshotEpoch uint16, no timestamps; preview of share groups"},
    ("ShareUpdateValue", 0): {"4.0.0": "SnapshotEpoch uint16; preview of share groups"},
}
