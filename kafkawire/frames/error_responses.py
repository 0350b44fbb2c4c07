"""`error_response`: the response that refuses a request.

The schema of a response states where it has error codes. Most responses have one at the top. Others have one for each
topic, partition, group or resource; such a response names everything that the request names, as Kafka's
`AbstractRequest.getErrorResponse` does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

from kafkawire.frames.rpc import Request
from kafkawire.wire.message import Message, RequestOf
from kafkawire.wire.spec import Field

R = TypeVar("R", bound=Message)

#: The fields that identify an element; a set has the different names that requests and responses give to one field.
_IDENTITY = (
    {"Name", "Topic", "TopicName"},
    {"Index", "Partition", "PartitionId", "PartitionIndex"},
    {"User", "Name"},
    {"TopicId"},
    {"GroupId"},
    {"TransactionalId"},
    {"ProducerId"},
    {"ResourceType"},
    {"ResourceName"},
    {"EntityType"},
    {"EntityName"},
)
#: Array in a response -> the arrays of its request that name the same things, where none has its name.
_SOURCES = {
    "Coordinators": ("CoordinatorKeys",),
    "FilterResults": ("Filters",),
    "Groups": ("GroupIds",),
    "PartitionResponses": ("PartitionData",),
    "PartitionResult": ("Partitions",),
    "Partitions": ("PartitionIndexes",),
    "ReplicaElectionResults": ("TopicPartitions",),
    "Responses": ("TopicData", "Topics", "TopicNames", "Resources"),
    "Results": ("Creations", "Resources", "Topics", "GroupsNames", "Deletions", "Upsertions", "Dirs"),
    "ResultsByPartition": ("Partitions",),
    "ResultsByTopicV3AndBelow": ("V3AndBelowTopics",),
    "ResultsByTransaction": ("Transactions",),
    "TopicResults": ("Topics",),
    "TransactionStates": ("TransactionalIds",),
}
#: (message, array): its elements are not named by the request, though an array of that has a name of `_SOURCES`.
_UNNAMED = {("DescribeLogDirsResponse", "Results")}
#: -1 in a refusal, where the schema states another default.
_UNKNOWN = {"BaseOffset", "CommittedOffset", "HighWatermark", "LowWatermark", "NodeId", "Port", "ProducerEpoch"}


def error_response(request: RequestOf[R] | Request[Any], code: int, *, version: int | None = None) -> R:
    """The response that refuses a request with an error code, wherever the response has one.

    Args:
        request: a request, or a frame with one.
        code: an error code of Kafka, as in `kafkawire.kafka_errors`.
        version: that in which the response is sent; of a frame, its own. Without one the response holds the codes of
            all versions, except for those that other versions refuse to encode.

    Returns:
        The response; without elements, and without a code, if they alone have codes and the request names none.

    Raises:
        ValueError: the response has no place for an error code, in any version.
    """
    if isinstance(request, Request):
        body: Any = request.body
        version = request.version if version is None else version
    else:
        body = request
    response: type[Any] = body.response
    if not _codes(response) and not _arrays(response):
        raise ValueError(f"{response.spec.name} has no field ErrorCode")
    made: R = response(**_refused(response, body, code, version)[0])
    return made if version is None else made.for_version(version)


def _codes(cls: type[Any]) -> tuple[Field, ...]:
    return tuple(field for field in cls.spec.fields if field.name in ("ErrorCode", "PartitionErrorCode"))


def _arrays(cls: type[Any]) -> tuple[Field, ...]:
    """The arrays whose elements have codes; none where the struct has a code, in all its versions, that covers them."""
    there = {version for field in cls.spec.fields for version in field.versions}
    if any(set(field.versions) == there for field in _codes(cls)):
        return ()
    arrays = (field for field in cls.spec.fields if field.is_array and field.struct is not None)
    return tuple(field for field in arrays if _codes(field.struct) or _arrays(field.struct))


def _refused(cls: type[Any], source: Any, code: int, version: int | None) -> tuple[dict[str, Any], bool]:
    """The fields of a struct of the response, and whether one of them has the code, or something inside of one.

    Args:
        source: the struct of the request that names the same thing; or its name or number.
    """
    values: dict[str, Any] = {}
    for field in _arrays(cls):
        named = () if (cls.spec.name, field.name) in _UNNAMED else _named(field, source)
        elements = [(dict(_identity(field.struct, one)), _refused(field.struct, one, code, version)) for one in named]
        values[field.attribute] = tuple(
            field.struct(**(inside | which)) for which, (inside, found) in elements if found
        )
    found = any(values[field.attribute] for field in _arrays(cls))
    own = False
    for field in _codes(cls):
        # Without a version the code is where every version takes it, and elsewhere only if nothing else has it.
        everywhere = field.ignorable or set(field.versions) == set(cls.codec.message.spec.valid_versions)
        if version in field.versions if version is not None else everywhere or not found:
            values[field.attribute] = int(code)
            own = True
    if own:
        values |= {field.attribute: -1 for field in cls.spec.fields if field.name in _UNKNOWN}
    return values, found or own


def _named(field: Field, source: Any) -> Iterator[Any]:
    """The things that a struct of a request names, and that the elements of an array of the response answer."""
    arrays = {one.name: one.attribute for one in source.spec.fields if one.is_array}
    for name in dict.fromkeys((field.name, *_SOURCES.get(field.name, ()))):
        for one in getattr(source, arrays[name]) or () if name in arrays else ():
            if name == "Dirs":  # of AlterReplicaLogDirs, whose response has the topics of all of them
                yield from one.topics
            else:
                yield one


def _identity(cls: type[Any], source: Any) -> Iterator[tuple[str, Any]]:
    """The fields of an element that say which one it is."""
    if not hasattr(source, "spec"):
        key = {str: "string", int: "int32"}.get(type(source), "uuid")
        yield next((one.attribute, source) for one in cls.spec.fields if one.type == key and one not in _codes(cls))
        return
    there = {field.name: field for field in source.spec.fields}
    for field in cls.spec.fields:
        alike = [field.name, *(name for names in _IDENTITY if field.name in names for name in sorted(names))]
        for name in alike if len(alike) > 1 else ():
            if name in there and there[name].type == field.type:
                yield field.attribute, getattr(source, there[name].attribute)
                break
        if field.name == "Entity" and "Entity" in there:  # of AlterClientQuotas: a struct
            yield field.attribute, tuple(field.struct(**dict(_identity(field.struct, one))) for one in source.entity)
