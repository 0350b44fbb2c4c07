"""Decisions that no rule can make: names that Kafka gave up, and versions to which two releases give different layouts.

The bytes of a renamed message or field did not change, so its old names stay readable as aliases (input only). Struct
names are neither on the wire nor in JSON: a renamed struct needs no alias. Nor does OffsetFetch's `groupId`, now
`GroupId`: the two have one JSON name. Each entry was found in the jars; the comment names the last release tried that
has the old name.
"""

RENAMED_MESSAGES = {
    "AlterPartitionRequest": ["AlterIsrRequest"],  # 3.0.2
    "AlterPartitionResponse": ["AlterIsrResponse"],  # 3.0.2
    "ListConfigResourcesRequest": ["ListClientMetricsResourcesRequest"],  # 3.9.1; v0 is the same on the wire
    "ListConfigResourcesResponse": ["ListClientMetricsResourcesResponse"],  # 3.9.1
    "ListOffsetsRequest": ["ListOffsetRequest"],  # 2.7.2
    "ListOffsetsResponse": ["ListOffsetResponse"],  # 2.7.2
}
"""Today's name -> the earlier ones."""

RENAMED_FIELDS: dict[str, dict[str, list[str]]] = {
    "AddPartitionsToTxnRequest": {  # 3.4.1
        "V3AndBelowTransactionalId": ["TransactionalId"],
        "V3AndBelowProducerId": ["ProducerId"],
        "V3AndBelowProducerEpoch": ["ProducerEpoch"],
        "V3AndBelowTopics": ["Topics"],
    },
    "AddPartitionsToTxnResponse": {  # 3.4.1
        "ResultsByTopicV3AndBelow": ["Results"],
        "ResultsByTopicV3AndBelow.ResultsByPartition": ["Results"],
        "ResultsByTopicV3AndBelow.ResultsByPartition.PartitionErrorCode": ["ErrorCode"],
    },
    "AlterPartitionRequest": {
        "Topics.TopicName": ["Name"],  # 3.2.3
        "Topics.Partitions.PartitionEpoch": ["CurrentIsrVersion"],  # 3.0.2
    },
    "AlterPartitionResponse": {
        "Topics.TopicName": ["Name"],  # 3.2.3
        "Topics.Partitions.PartitionEpoch": ["CurrentIsrVersion"],  # 3.0.2
    },
    "DescribeAclsRequest": {  # 2.4.1
        "ResourceTypeFilter": ["ResourceType"],
        "PatternTypeFilter": ["ResourcePatternType"],
    },
    "DescribeAclsResponse": {  # 2.4.1
        "Resources.ResourceType": ["Type"],
        "Resources.ResourceName": ["Name"],
    },
    "DescribeConfigsRequest": {"IncludeSynonyms": ["IncludeSynoyms"]},  # 2.5.1
    "DescribeLogDirsRequest": {"Topics.Partitions": ["PartitionIndex"]},  # 2.8.2
    "ElectLeadersRequest": {"TopicPartitions.Partitions": ["PartitionId"]},  # 2.8.2
    "FetchRequest": {  # 2.6.3
        "MaxWaitMs": ["MaxWait"],
        "SessionEpoch": ["Epoch"],
        "Topics.Topic": ["Name"],
        "Topics.Partitions": ["FetchPartitions"],
        "Topics.Partitions.Partition": ["PartitionIndex"],
        "Topics.Partitions.PartitionMaxBytes": ["MaxBytes"],
        "ForgottenTopicsData": ["Forgotten"],
        "ForgottenTopicsData.Topic": ["Name"],
        "ForgottenTopicsData.Partitions": ["ForgottenPartitionIndexes"],
    },
    "FetchResponse": {
        "Responses": ["Topics"],  # 2.6.3
        "Responses.Topic": ["Name"],  # 2.6.3
        "Responses.Partitions": ["PartitionResponses"],  # 2.8.2
        "Responses.Partitions.PartitionIndex": ["Partition"],  # 2.8.2
        "Responses.Partitions.AbortedTransactions": ["Aborted"],  # 2.6.3
        "Responses.Partitions.Records": ["RecordSet"],  # 2.8.2
    },
    "LeaderAndIsrRequest": {  # 3.2.3
        "UngroupedPartitionStates.PartitionEpoch": ["ZkVersion"],
        "TopicStates.PartitionStates.PartitionEpoch": ["ZkVersion"],
    },
    "ListConfigResourcesResponse": {  # 3.9.1
        "ConfigResources": ["ClientMetricsResources"],
        "ConfigResources.ResourceName": ["Name"],
    },
    "OffsetCommitRequest": {"GenerationIdOrMemberEpoch": ["GenerationId"]},  # 3.4.1
    "OffsetForLeaderEpochRequest": {  # 2.7.2
        "Topics.Topic": ["Name"],
        "Topics.Partitions.Partition": ["PartitionIndex"],
    },
    "OffsetForLeaderEpochResponse": {  # 2.7.2
        "Topics.Topic": ["Name"],
        "Topics.Partitions.Partition": ["PartitionIndex"],
    },
    "ProduceRequest": {  # 2.7.2
        "TopicData": ["Topics"],
        "TopicData.PartitionData": ["Partitions"],
        "TopicData.PartitionData.Index": ["PartitionIndex"],
    },
    "ProduceResponse": {  # 2.7.2
        "Responses.PartitionResponses": ["Partitions"],
        "Responses.PartitionResponses.Index": ["PartitionIndex"],
    },
    # 4.3.1. Version 1 gave the old name to another, wider field: the alias holds for version 0 alone.
    "StreamsGroupHeartbeatResponse": {"AcceptableRecoveryLagLegacy": ["AcceptableRecoveryLag"]},
    "TxnOffsetCommitRequest": {"GenerationIdOrMemberEpoch": ["GenerationId"]},  # 4.3.1
    "VoteRequest": {  # 3.9.1
        "Topics.Partitions.ReplicaEpoch": ["CandidateEpoch"],
        "Topics.Partitions.ReplicaId": ["CandidateId"],
        "Topics.Partitions.ReplicaDirectoryId": ["CandidateDirectoryId"],
    },
}
"""Message -> path of a field (names joined by dots) -> the names it had."""

CONFLICTS = {
    # The newest layout is kept. Both are previews of share groups; nothing released as stable conflicts.
    ("ReadShareGroupStateSummaryResponse", 0): "LeaderEpoch was added to version 0 in 4.1",
    ("ShareGroupMetadataValue", 0): "MetadataHash was added to version 0",
}
"""(message, version) that an older release lays out otherwise -> how."""


def new_name(message: str) -> str:
    """Today's name of a message."""
    return next((new for new, old_names in RENAMED_MESSAGES.items() if message in old_names), message)
