"""The settings of a mock broker and of its topics: DescribeConfigs and IncrementalAlterConfigs.

`max.message.bytes` of a topic is obeyed. The other settings are kept and described, and change nothing: the log is
neither compacted nor cleaned by time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from kafkawire.kafka_errors import CODES
from kafkawire.messages import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kafkawire.messages.describe_configs_request import DescribeConfigsResource
from kafkawire.messages.describe_configs_response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from kafkawire.messages.incremental_alter_configs_request import AlterableConfig, AlterConfigsResource
from kafkawire.messages.incremental_alter_configs_response import AlterConfigsResourceResponse
from kafkawire.testing.state.call import POLICY_VIOLATION, Call, Handlers
from kafkawire.testing.state.consumer_group import HEARTBEAT_MS, SESSION_MS
from kafkawire.testing.state.memory import ENTRY, Memory
from kafkawire.transactions.verdict.case import MAX_TIMEOUT_MS

INVALID_CONFIG = CODES["INVALID_CONFIG"]
INVALID_REQUEST = CODES["INVALID_REQUEST"]

MAX_MESSAGE_BYTES = "max.message.bytes"

_TOPIC_RESOURCE, _BROKER_RESOURCE = 2, 4  # ConfigResource.Type
_TOPIC_CONFIG, _DYNAMIC_BROKER_CONFIG, _DEFAULT_CONFIG = 1, 2, 5  # DescribeConfigsResponse.ConfigSource
_SET, _DELETE = 0, 1  # AlterConfigOp.OpType
_MOST_BYTES = 1000  # of a value
_BOOLEAN, _STRING, _INT, _LONG, _DOUBLE, _LIST = 1, 2, 3, 5, 6, 7  # ConfigType


class Setting(NamedTuple):
    """A setting: its default, and its type as DescribeConfigs states it."""

    default: str
    kind: int


#: Defaults of Kafka 4 (`LogConfig`), of the settings that programs read or change.
TOPIC_SETTINGS = {
    "cleanup.policy": Setting("delete", _LIST),
    "compression.type": Setting("producer", _STRING),
    "delete.retention.ms": Setting("86400000", _LONG),
    "file.delete.delay.ms": Setting("60000", _LONG),
    "max.compaction.lag.ms": Setting("9223372036854775807", _LONG),
    MAX_MESSAGE_BYTES: Setting("1048588", _INT),
    "message.timestamp.type": Setting("CreateTime", _STRING),
    "min.cleanable.dirty.ratio": Setting("0.5", _DOUBLE),
    "min.compaction.lag.ms": Setting("0", _LONG),
    "min.insync.replicas": Setting("1", _INT),
    "retention.bytes": Setting("-1", _LONG),
    "retention.ms": Setting("604800000", _LONG),
    "segment.bytes": Setting("1073741824", _INT),
    "segment.ms": Setting("604800000", _LONG),
    "unclean.leader.election.enable": Setting("false", _BOOLEAN),
}
BROKER_SETTINGS = {
    "default.replication.factor": Setting("1", _INT),
    "group.consumer.heartbeat.interval.ms": Setting(str(HEARTBEAT_MS), _INT),
    "group.consumer.session.timeout.ms": Setting(str(SESSION_MS), _INT),
    "log.retention.ms": Setting("604800000", _LONG),
    "message.max.bytes": Setting("1048588", _INT),
    "offsets.topic.num.partitions": Setting("50", _INT),
    "transaction.max.timeout.ms": Setting(str(MAX_TIMEOUT_MS), _INT),
    "transaction.state.log.num.partitions": Setting("50", _INT),
    "transactional.id.expiration.ms": Setting("604800000", _INT),
}

_NUMBERS: Mapping[int, Callable[[str], float]] = {_INT: int, _LONG: int, _DOUBLE: float}
#: What a resource has set: setting -> value.
Values = dict[str, str]


def is_value(setting: Setting, text: str) -> bool:
    """Whether a text is a value of a setting's type."""
    if len(text) > _MOST_BYTES:
        return False
    if setting.kind == _BOOLEAN:
        return text in ("true", "false")
    try:
        return setting.kind not in _NUMBERS or (_NUMBERS[setting.kind](text), text.isascii())[1]
    except ValueError:
        return False


class Configs:
    """See the module.

    Args:
        nodes: the ids of brokers.
        topic: name -> the settings of a topic, or the error code for an unknown one.
        memory: of the broker.
    """

    def __init__(self, nodes: range, topic: Callable[[str], Values | int], memory: Memory) -> None:
        self._brokers: dict[str, Values] = {str(node): {} for node in nodes}
        self._topic = topic
        self._memory = memory
        self.handlers: Handlers = {
            DescribeConfigsRequest: (self.describe, range(1, 5)),
            IncrementalAlterConfigsRequest: (self.alter, range(2)),
        }

    def _resource(self, kind: int, name: str) -> tuple[Values | int, Mapping[str, Setting], int]:
        """What a resource has set, or an error code; the settings that it may have; their source."""
        if kind == _TOPIC_RESOURCE:
            return self._topic(name), TOPIC_SETTINGS, _TOPIC_CONFIG
        if kind == _BROKER_RESOURCE:
            return self._brokers.get(name, INVALID_REQUEST), BROKER_SETTINGS, _DYNAMIC_BROKER_CONFIG
        return INVALID_REQUEST, {}, 0

    def describe(self, call: Call) -> DescribeConfigsResponse:
        request: DescribeConfigsRequest = call.body
        return DescribeConfigsResponse(
            results=tuple(self._described(call, wanted, request.include_synonyms) for wanted in request.resources)
        )

    def _described(self, call: Call, wanted: DescribeConfigsResource, synonyms: bool) -> DescribeConfigsResult:
        own, settings, source = self._resource(wanted.resource_type, wanted.resource_name)
        error = call.error or (own if isinstance(own, int) else 0)
        values = {} if isinstance(own, int) else own
        keys = wanted.configuration_keys
        names = sorted(settings if keys is None else settings.keys() & set(keys))
        described = []
        for name in () if error else names:
            found = [(name, values[name], source)] if name in values else []
            found.append((name, settings[name].default, _DEFAULT_CONFIG))
            chain = (DescribeConfigsSynonym(name=each, value=value, source=where) for each, value, where in found)
            described.append(
                DescribeConfigsResourceResult(
                    name=name,
                    value=found[0][1],
                    config_source=found[0][2],
                    config_type=settings[name].kind,
                    synonyms=tuple(chain) if synonyms else (),
                    documentation=None,
                )
            )
        return DescribeConfigsResult(
            error_code=error,
            error_message=None,
            resource_type=wanted.resource_type,
            resource_name=wanted.resource_name,
            configs=tuple(described),
        )

    def alter(self, call: Call) -> IncrementalAlterConfigsResponse:
        request: IncrementalAlterConfigsRequest = call.body
        return IncrementalAlterConfigsResponse(
            responses=tuple(
                AlterConfigsResourceResponse(
                    error_code=call.error or self._alter(wanted, request.validate_only),
                    error_message=None,
                    resource_type=wanted.resource_type,
                    resource_name=wanted.resource_name,
                )
                for wanted in request.resources
            )
        )

    def _alter(self, wanted: AlterConfigsResource, validate_only: bool) -> int:
        own, settings, _ = self._resource(wanted.resource_type, wanted.resource_name)
        if isinstance(own, int):
            return own
        after = altered(own, settings, wanted.configs)
        if isinstance(after, int) or validate_only:
            return after if isinstance(after, int) else 0
        more = size_of(after) - size_of(own)
        if more > 0 and not self._memory.has_room(more):
            return POLICY_VIOLATION
        own.clear()
        own.update(after)
        self._memory.keep(("configs", wanted.resource_name), size_of(own))
        return 0


def altered(own: Values, settings: Mapping[str, Setting], changes: tuple[AlterableConfig, ...]) -> Values | int:
    """The settings after changes; an error code where one cannot be made."""
    after = dict(own)
    for change in changes:
        if change.name not in settings:
            return INVALID_CONFIG
        if change.config_operation == _DELETE:
            after.pop(change.name, None)
        elif change.config_operation != _SET:
            return INVALID_REQUEST  # APPEND and SUBTRACT
        elif change.value is None or not is_value(settings[change.name], change.value):
            return INVALID_CONFIG
        else:
            after[change.name] = change.value
    return after


def size_of(values: Values) -> int:
    """Bytes that settings take in memory."""
    return sum(ENTRY + len(value) for value in values.values())
