"""The topics of a mock broker, and the requests about the cluster: Metadata, CreateTopics, FindCoordinator,
DescribeConfigs, DescribeAcls."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from uuid import UUID

from kafkawire.kafka_errors import CODES
from kafkawire.messages import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataResponse,
)
from kafkawire.messages.create_topics_request import CreatableTopic
from kafkawire.messages.create_topics_response import CreatableTopicResult
from kafkawire.messages.describe_configs_request import DescribeConfigsResource
from kafkawire.messages.describe_configs_response import DescribeConfigsResourceResult, DescribeConfigsResult
from kafkawire.messages.find_coordinator_response import Coordinator
from kafkawire.messages.metadata_response import (
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kafkawire.testing.state.call import MAX_ENTRIES, POLICY_VIOLATION, Call, Handlers
from kafkawire.testing.state.memory import PARTITION, Memory
from kafkawire.testing.state.partition_log import LEADER_EPOCH, PartitionLog
from kafkawire.transactions.case import MAX_TIMEOUT_MS

UNKNOWN_TOPIC_OR_PARTITION = CODES["UNKNOWN_TOPIC_OR_PARTITION"]
UNKNOWN_TOPIC_ID = CODES["UNKNOWN_TOPIC_ID"]
INVALID_TOPIC_EXCEPTION = CODES["INVALID_TOPIC_EXCEPTION"]
TOPIC_ALREADY_EXISTS = CODES["TOPIC_ALREADY_EXISTS"]
INVALID_PARTITIONS = CODES["INVALID_PARTITIONS"]
INVALID_REQUEST = CODES["INVALID_REQUEST"]
SECURITY_DISABLED = CODES["SECURITY_DISABLED"]

NODE_ID = 1
CLUSTER_ID = "kafkawire-mock"

_NO_ID = UUID(int=0)
_NAME = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}", re.ASCII)
_DEFAULT = -1
_KEY_TYPES = (0, 1)  # groups, transactional ids
_TOPIC_RESOURCE, _BROKER_RESOURCE = 2, 4  # ConfigResource.Type
_DEFAULT_CONFIG, _INT = 5, 3  # DescribeConfigsResponse.ConfigSource, ConfigType
#: Settings of the broker that clients ask for; topics have none of their own.
_SETTINGS = {"transaction.max.timeout.ms": str(MAX_TIMEOUT_MS)}


class Topic:
    """A topic and its partitions."""

    def __init__(self, name: str, topic_id: UUID, partitions: Iterable[PartitionLog]) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions = list(partitions)


class Topics:
    """See the module.

    Args:
        auto_create: partitions of a topic that a Metadata request creates; 0: it creates none.
        max_log_bytes, max_batch_bytes: of each partition, see `PartitionLog`.
        max_bytes: of all that the broker keeps.
    """

    def __init__(
        self, *, auto_create: int, max_log_bytes: int, max_batch_bytes: int, max_bytes: int = sys.maxsize
    ) -> None:
        self.memory = Memory(max_bytes)
        self.by_name: dict[str, Topic] = {}
        self._by_id: dict[UUID, Topic] = {}
        self._auto_create = auto_create
        self._sizes = max_log_bytes, max_batch_bytes
        self.handlers: Handlers = {
            MetadataRequest: (self.metadata, range(14)),
            CreateTopicsRequest: (self.create_topics, range(2, 8)),
            FindCoordinatorRequest: (self.find_coordinator, range(7)),
            DescribeConfigsRequest: (self.describe_configs, range(1, 5)),
            DescribeAclsRequest: (self.describe_acls, range(1, 4)),
        }

    def create(self, name: str, partitions: int) -> int:
        """Creates a topic. Returns the error code, 0 for none."""
        if error := self._refusal(name, partitions):
            return error
        number = len(self._by_id) + 1
        topic_id = UUID(int=number << 64 | number)
        topic = Topic(name, topic_id, (PartitionLog(*self._sizes, self.memory) for _ in range(partitions)))
        self.by_name[name] = self._by_id[topic_id] = topic
        return 0

    def _refusal(self, name: str, partitions: int) -> int:
        if not _NAME.fullmatch(name):
            return INVALID_TOPIC_EXCEPTION
        if name in self.by_name:
            return TOPIC_ALREADY_EXISTS
        used = sum(len(topic.partitions) for topic in self.by_name.values())
        if not 0 < partitions <= MAX_ENTRIES - used:
            return INVALID_PARTITIONS
        return 0 if self.memory.has_room(partitions * PARTITION) else POLICY_VIOLATION

    def topic(self, name: str, topic_id: UUID = _NO_ID) -> Topic | int:
        """A topic by its id, or by its name where no id is given; an error code for an unknown one."""
        if topic_id != _NO_ID:
            return self._by_id.get(topic_id, UNKNOWN_TOPIC_ID)
        return self.by_name.get(name, UNKNOWN_TOPIC_OR_PARTITION)

    def log(self, topic: Topic | int, partition: int) -> PartitionLog | int:
        """A partition of a topic; an error code for an unknown one."""
        if isinstance(topic, int):
            return topic
        known = 0 <= partition < len(topic.partitions)
        return topic.partitions[partition] if known else UNKNOWN_TOPIC_OR_PARTITION

    # Requests ---------------------------------------------------------------------------------------------------------

    def metadata(self, call: Call) -> MetadataResponse:
        request: MetadataRequest = call.body
        if request.topics is None or (call.version == 0 and not request.topics):
            answers = [self._described(topic, call.error) for topic in self.by_name.values()]
        else:
            answers = [self._asked(call, asked.name, asked.topic_id) for asked in request.topics]
        return MetadataResponse(
            brokers=(MetadataResponseBroker(node_id=NODE_ID, host=call.host, port=call.port),),
            cluster_id=CLUSTER_ID,
            controller_id=NODE_ID,
            topics=tuple(answers),
            error_code=call.error if call.version >= 13 else 0,
        )

    def _asked(self, call: Call, name: str | None, topic_id: UUID) -> MetadataResponseTopic:
        create = call.body.allow_auto_topic_creation and self._auto_create and topic_id == _NO_ID
        error = call.error
        if create and not error and name is not None and name not in self.by_name:
            error = self.create(name, self._auto_create)
        topic = self.topic(name or "", topic_id)
        if isinstance(topic, int):
            return MetadataResponseTopic(
                name=name if call.version >= 12 else name or "", topic_id=topic_id, error_code=error or topic
            )
        return self._described(topic, error)

    @staticmethod
    def _described(topic: Topic, error: int) -> MetadataResponseTopic:
        return MetadataResponseTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            error_code=error,
            partitions=tuple(
                MetadataResponsePartition(
                    partition_index=number,
                    leader_id=NODE_ID,
                    leader_epoch=LEADER_EPOCH,
                    replica_nodes=(NODE_ID,),
                    isr_nodes=(NODE_ID,),
                )
                for number in range(0 if error else len(topic.partitions))
            ),
        )

    def create_topics(self, call: Call) -> CreateTopicsResponse:
        request: CreateTopicsRequest = call.body
        results = (self._created(wanted, request.validate_only, call.error) for wanted in request.topics)
        return CreateTopicsResponse(topics=tuple(results))

    def _created(self, wanted: CreatableTopic, validate_only: bool, error: int) -> CreatableTopicResult:
        count = len(wanted.assignments) or wanted.num_partitions
        count = max(self._auto_create, 1) if count == _DEFAULT else count
        check = self._refusal if validate_only else self.create
        error = error or check(wanted.name, count)
        if error:
            return CreatableTopicResult(name=wanted.name, error_code=error, error_message=None)
        topic = self.by_name.get(wanted.name)
        return CreatableTopicResult(
            name=wanted.name,
            topic_id=topic.topic_id if topic else _NO_ID,
            error_message=None,
            num_partitions=count,
            replication_factor=1,
            configs=(),
        )

    @staticmethod
    def find_coordinator(call: Call) -> FindCoordinatorResponse:
        request: FindCoordinatorRequest = call.body
        error = call.error or (0 if request.key_type in _KEY_TYPES else INVALID_REQUEST)
        node_id, host, port = (-1, "", -1) if error else (NODE_ID, call.host, call.port)
        if call.version < 4:
            return FindCoordinatorResponse(error_code=error, error_message=None, node_id=node_id, host=host, port=port)
        return FindCoordinatorResponse(
            coordinators=tuple(
                Coordinator(key=key, error_code=error, error_message=None, node_id=node_id, host=host, port=port)
                for key in request.coordinator_keys
            )
        )

    def describe_configs(self, call: Call) -> DescribeConfigsResponse:
        request: DescribeConfigsRequest = call.body
        return DescribeConfigsResponse(results=tuple(self._configs(call, wanted) for wanted in request.resources))

    def _configs(self, call: Call, wanted: DescribeConfigsResource) -> DescribeConfigsResult:
        error, settings = call.error, {}
        if wanted.resource_type == _BROKER_RESOURCE and wanted.resource_name == str(NODE_ID):
            settings = _SETTINGS
        elif wanted.resource_type == _TOPIC_RESOURCE:
            topic = self.topic(wanted.resource_name)
            error = error or (topic if isinstance(topic, int) else 0)
        else:
            error = error or INVALID_REQUEST
        asked = settings if wanted.configuration_keys is None else settings.keys() & set(wanted.configuration_keys)
        return DescribeConfigsResult(
            error_code=error,
            error_message=None,
            resource_type=wanted.resource_type,
            resource_name=wanted.resource_name,
            configs=tuple(
                DescribeConfigsResourceResult(
                    name=name, value=settings[name], config_source=_DEFAULT_CONFIG, config_type=_INT, documentation=None
                )
                for name in sorted(asked)
                if not error
            ),
        )

    @staticmethod
    def describe_acls(call: Call) -> DescribeAclsResponse:
        """There is no authorizer."""
        return DescribeAclsResponse(error_code=call.error or SECURITY_DISABLED, error_message=None)
