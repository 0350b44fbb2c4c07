"""The topics of a mock broker, and the requests about the cluster: Metadata, CreateTopics, FindCoordinator."""

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
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataResponse,
)
from kafkawire.messages.create_topics_request import CreatableTopic
from kafkawire.messages.create_topics_response import CreatableTopicConfigs, CreatableTopicResult
from kafkawire.messages.find_coordinator_response import Coordinator
from kafkawire.messages.incremental_alter_configs_request import AlterableConfig
from kafkawire.messages.metadata_response import (
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kafkawire.testing.state.call import MAX_ENTRIES, POLICY_VIOLATION, Call, Handlers
from kafkawire.testing.state.memory import PARTITION, Memory
from kafkawire.testing.state.nodes import GROUP, NO_NODE, TRANSACTION, Node, Nodes
from kafkawire.testing.state.stored_configs import TOPIC_SETTINGS, Configs, Values, altered, size_of
from kafkawire.testing.state.stored_partition import PartitionLog

UNKNOWN_TOPIC_OR_PARTITION = CODES["UNKNOWN_TOPIC_OR_PARTITION"]
UNKNOWN_TOPIC_ID = CODES["UNKNOWN_TOPIC_ID"]
INVALID_TOPIC_EXCEPTION = CODES["INVALID_TOPIC_EXCEPTION"]
TOPIC_ALREADY_EXISTS = CODES["TOPIC_ALREADY_EXISTS"]
INVALID_PARTITIONS = CODES["INVALID_PARTITIONS"]
INVALID_REQUEST = CODES["INVALID_REQUEST"]
SECURITY_DISABLED = CODES["SECURITY_DISABLED"]
NOT_LEADER_OR_FOLLOWER = CODES["NOT_LEADER_OR_FOLLOWER"]
LEADER_NOT_AVAILABLE = CODES["LEADER_NOT_AVAILABLE"]
FENCED_LEADER_EPOCH = CODES["FENCED_LEADER_EPOCH"]
UNKNOWN_LEADER_EPOCH = CODES["UNKNOWN_LEADER_EPOCH"]

CLUSTER_ID = "kafkawire-mock"

_NO_ID = UUID(int=0)
_NAME = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}", re.ASCII)
_DEFAULT = -1
_TOPIC_CONFIG, _DEFAULT_CONFIG = 1, 5  # of DescribeConfigsResponse.ConfigSource


class Topic:
    """A topic, its partitions, and the settings that it has of its own."""

    def __init__(self, name: str, topic_id: UUID, partitions: Iterable[PartitionLog]) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions = list(partitions)
        self.settings: Values = {}

    def setting(self, name: str) -> str:
        """The value of a setting, of its own or by default."""
        return self.settings.get(name, TOPIC_SETTINGS[name].default)


class Topics:
    """See the module.

    Args:
        auto_create: partitions of a topic that a Metadata request creates; 0: it creates none.
        max_log_bytes, max_batch_bytes: of each partition, see `PartitionLog`.
        max_bytes: of all that the broker keeps.
        nodes: of the cluster; None: one.
    """

    def __init__(
        self,
        *,
        auto_create: int,
        max_log_bytes: int,
        max_batch_bytes: int,
        max_bytes: int = sys.maxsize,
        nodes: Nodes | None = None,
    ) -> None:
        self.memory = Memory(max_bytes)
        self.nodes = nodes or Nodes()
        self.by_name: dict[str, Topic] = {}
        self._by_id: dict[UUID, Topic] = {}
        self._partitions = 0
        self._auto_create = auto_create
        self._sizes = max_log_bytes, max_batch_bytes
        self.handlers: Handlers = {
            MetadataRequest: (self.metadata, range(14)),
            CreateTopicsRequest: (self.create_topics, range(2, 8)),
            FindCoordinatorRequest: (self.find_coordinator, range(7)),
            DescribeAclsRequest: (self.describe_acls, range(1, 4)),
            **Configs(self.nodes.ids, self._settings, self.memory).handlers,
        }

    def _settings(self, name: str) -> Values | int:
        topic = self.topic(name)
        return topic if isinstance(topic, int) else topic.settings

    def create(self, name: str, partitions: int) -> int:
        """Creates a topic. Returns the error code, 0 for none."""
        if error := self._refusal(name, partitions):
            return error
        number = len(self._by_id) + 1
        topic_id = UUID(int=number << 64 | number)
        logs = [PartitionLog(*self._sizes, self.memory) for _ in range(partitions)]
        for log in logs:
            log.leader = self.nodes.chosen(self._partitions)
            self._partitions += 1
        topic = Topic(name, topic_id, logs)
        self.by_name[name] = self._by_id[topic_id] = topic
        return 0

    def identify(self, name: str, topic_id: UUID) -> None:
        """Gives a topic the id that it has elsewhere."""
        topic = self.by_name[name]
        del self._by_id[topic.topic_id]
        topic.topic_id = topic_id
        self._by_id[topic_id] = topic

    def _refusal(self, name: str, partitions: int) -> int:
        if not _NAME.fullmatch(name):
            return INVALID_TOPIC_EXCEPTION
        if name in self.by_name:
            return TOPIC_ALREADY_EXISTS
        if not 0 < partitions <= MAX_ENTRIES - self._partitions:
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

    def led(self, call: Call, topic: Topic | int, partition: int, leader_epoch: int = -1) -> PartitionLog | int:
        """A partition that the node of the request leads; an error code where the client has to look elsewhere.

        Args:
            call: the request.
            topic, partition: what it is about.
            leader_epoch: the epoch that the client knows; -1: none.
        """
        log = self.log(topic, partition)
        if isinstance(log, int):
            return log
        if leader_epoch >= 0 and leader_epoch != log.leader_epoch:
            return FENCED_LEADER_EPOCH if leader_epoch < log.leader_epoch else UNKNOWN_LEADER_EPOCH
        return log if log.leader == call.node else NOT_LEADER_OR_FOLLOWER

    def elect(self) -> None:
        """Partitions whose leader is down get another one."""
        logs = (log for topic in self.by_name.values() for log in topic.partitions)
        for number, log in enumerate(logs):
            if log.leader == NO_NODE or log.leader in self.nodes.down:
                log.lead(self.nodes.chosen(number))

    # Requests ---------------------------------------------------------------------------------------------------------

    def metadata(self, call: Call) -> MetadataResponse:
        request: MetadataRequest = call.body
        if request.topics is None or (call.version == 0 and not request.topics):
            answers = [self._described(topic, call.error) for topic in self.by_name.values()]
        else:
            answers = [self._asked(call, asked.name, asked.topic_id) for asked in request.topics]
        return MetadataResponse(
            brokers=tuple(
                MetadataResponseBroker(node_id=node.node_id, host=node.host, port=node.port)
                for node in self.nodes.all_up(call.host, call.node, call.port)
            ),
            cluster_id=CLUSTER_ID,
            controller_id=self.nodes.chosen(0),
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

    def _described(self, topic: Topic, error: int) -> MetadataResponseTopic:
        replicas = tuple(self.nodes.ids)
        in_sync = tuple(node for node in replicas if node not in self.nodes.down)
        return MetadataResponseTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            error_code=error,
            partitions=tuple(
                MetadataResponsePartition(
                    error_code=LEADER_NOT_AVAILABLE if log.leader == NO_NODE else 0,
                    partition_index=number,
                    leader_id=log.leader,
                    leader_epoch=log.leader_epoch,
                    replica_nodes=replicas,
                    isr_nodes=in_sync,
                    offline_replicas=tuple(sorted(self.nodes.down)),
                )
                for number, log in enumerate(() if error else topic.partitions)
            ),
        )

    def create_topics(self, call: Call) -> CreateTopicsResponse:
        request: CreateTopicsRequest = call.body
        results = (self._created(wanted, request.validate_only, call.error) for wanted in request.topics)
        return CreateTopicsResponse(topics=tuple(results))

    def _created(self, wanted: CreatableTopic, validate_only: bool, error: int) -> CreatableTopicResult:
        count = len(wanted.assignments) or wanted.num_partitions
        count = max(self._auto_create, 1) if count == _DEFAULT else count
        changes = tuple(AlterableConfig(name=each.name, value=each.value) for each in wanted.configs)
        settings = altered({}, TOPIC_SETTINGS, changes)
        if not error and isinstance(settings, int):
            error = settings
        error = error or self._refusal(wanted.name, count)
        if error or isinstance(settings, int):
            return CreatableTopicResult(name=wanted.name, error_code=error, error_message=None)
        if not validate_only:
            self.create(wanted.name, count)
            self.by_name[wanted.name].settings = settings
            self.memory.keep(("configs", wanted.name), size_of(settings))
        topic = self.by_name.get(wanted.name)
        return CreatableTopicResult(
            name=wanted.name,
            topic_id=topic.topic_id if topic else _NO_ID,
            error_message=None,
            num_partitions=count,
            replication_factor=len(self.nodes.ids),
            configs=tuple(
                CreatableTopicConfigs(
                    name=name,
                    value=settings.get(name, setting.default),
                    config_source=_TOPIC_CONFIG if name in settings else _DEFAULT_CONFIG,
                )
                for name, setting in TOPIC_SETTINGS.items()
            ),
        )

    def find_coordinator(self, call: Call) -> FindCoordinatorResponse:
        request: FindCoordinatorRequest = call.body
        if call.version < 4:
            error, (node_id, host, port) = self._coordinator(call, request.key)
            return FindCoordinatorResponse(error_code=error, error_message=None, node_id=node_id, host=host, port=port)
        found = ((key, *self._coordinator(call, key)) for key in request.coordinator_keys)
        return FindCoordinatorResponse(
            coordinators=tuple(
                Coordinator(
                    key=key,
                    error_code=error,
                    error_message=None,
                    node_id=node.node_id,
                    host=node.host,
                    port=node.port,
                )
                for key, error, node in found
            )
        )

    def _coordinator(self, call: Call, key: str) -> tuple[int, Node]:
        kind = call.body.key_type
        error = call.error or (0 if kind in (GROUP, TRANSACTION) else INVALID_REQUEST)
        if error:
            return error, Node(NO_NODE, "", -1)
        return 0, self.nodes.reached(self.nodes.coordinator(kind, key), call.host, call.node, call.port)

    @staticmethod
    def describe_acls(call: Call) -> DescribeAclsResponse:
        """There is no authorizer."""
        return DescribeAclsResponse(error_code=call.error or SECURITY_DISABLED, error_message=None)
