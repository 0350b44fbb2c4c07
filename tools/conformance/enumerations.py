"""The numbers that our sentences on fields explain, against Kafka's enums: `python -m tools.conformance.enumerations`.

Each number of an enum has to be in the sentence, or in `left_out` with the reason; each number that the sentence
explains has to be in the enum, or in `more`. A sentence that explains numbers and is in no row here is a failure, too:
it has to be compared, or be among `PLAIN`.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from tools import ROOT
from tools.broker import jars
from tools.broker.errors import BrokerToolError
from tools.broker.jars import BROKER_VERSION

ABOUT = ROOT / "tools" / "import_schemas" / "about"
_SOURCE = Path(__file__).parent / "EnumNumbers.java"
#: A number that a sentence explains: at its beginning, after punctuation or a conjunction, and followed by words.
_EXPLAINED = re.compile(r"(?:^|[:;,(.] |\bor |\band )(-?\d+)(?= \(?[A-Za-z*]|:)")
#: A number anywhere.
_NUMBER = re.compile(r"(?<![\w.-])-?\d+(?![\w.]*\w)")


class Enumeration(NamedTuple):
    """Fields whose numbers are those of an enum.

    Attributes:
        fields: names of messages and fields; `*` as a message: all. `*.` before a field's name: wherever it is.
        enum: class, and the field or method with the number.
        left_out: numbers of the enum that no message carries -> why.
        more: numbers that are in no constant of the enum -> why.
    """

    fields: tuple[str, ...]
    enum: str
    left_out: Mapping[int, str] = {}
    more: Mapping[int, str] = {}


_CLIENTS = "org.apache.kafka.clients"
_COMMON = "org.apache.kafka.common"
_UNKNOWN = "for numbers that a client does not know"
_FILTERS = "a filter's only"
_ACLS = {0: _UNKNOWN, 1: _FILTERS}
_OF_ACLS = ("CreateAclsRequest", "DeleteAclsResponse", "DescribeAclsResponse", "AccessControlEntryRecord")

ENUMERATIONS = (
    Enumeration(("*:DeliveryState",), "org.apache.kafka.server.share.fetch.RecordState#id"),
    Enumeration(
        ("ConsumerGroupCurrentMemberAssignmentValue:State",),
        "org.apache.kafka.coordinator.group.modern.MemberState#value",
    ),
    Enumeration(
        ("StreamsGroupCurrentMemberAssignmentValue:State",),
        "org.apache.kafka.coordinator.group.streams.MemberState#value",
    ),
    Enumeration(
        ("*:AcknowledgeTypes",), f"{_CLIENTS}.consumer.AcknowledgeType#id", more={0: "a gap: clients alone write it"}
    ),
    Enumeration(("*:ShareAcquireMode",), f"{_CLIENTS}.consumer.internals.ShareAcquireMode#id"),
    Enumeration(("*:StatusCode",), f"{_COMMON}.requests.StreamsGroupHeartbeatResponse$Status#code"),
    Enumeration(("*:LeaderRecoveryState",), "org.apache.kafka.metadata.LeaderRecoveryState#value"),
    Enumeration(("*:RemoteLogSegmentState",), "org.apache.kafka.server.log.remote.storage.RemoteLogSegmentState#id"),
    Enumeration(
        ("*:RemotePartitionDeleteState",), "org.apache.kafka.server.log.remote.storage.RemotePartitionDeleteState#id"
    ),
    Enumeration(
        ("ControlRecordTypeSchema:Type",),
        f"{_COMMON}.record.internal.ControlRecordType#type",
        left_out={-1: _UNKNOWN},
    ),
    Enumeration(("*:CompressionType", "*:AcceptedCompressionTypes"), f"{_COMMON}.record.internal.CompressionType#id"),
    Enumeration(("*:IsolationLevel",), f"{_COMMON}.IsolationLevel#id"),
    Enumeration(("*:KeyType",), f"{_COMMON}.requests.FindCoordinatorRequest$CoordinatorType#id"),
    Enumeration(("*:ConfigOperation",), f"{_CLIENTS}.admin.AlterConfigOp$OpType#id"),
    Enumeration(("*:UpgradeType",), f"{_CLIENTS}.admin.FeatureUpdate$UpgradeType#code", left_out={0: _UNKNOWN}),
    Enumeration(("*:EndpointType",), f"{_CLIENTS}.admin.EndpointType#id", left_out={0: _UNKNOWN}),
    Enumeration(("*:ConfigType",), f"{_COMMON}.requests.DescribeConfigsResponse$ConfigType#id"),
    Enumeration(
        ("DescribeConfigsResponse:ConfigSource",), f"{_COMMON}.requests.DescribeConfigsResponse$ConfigSource#id"
    ),
    Enumeration(
        ("ConfigRecord:ResourceType", "ListConfigResourcesRequest:ResourceTypes", "AlterConfigsRequest:ResourceType",
         "DescribeConfigsRequest:ResourceType", "DescribeConfigsResponse:ResourceType",
         "IncrementalAlterConfigsRequest:ResourceType", "AlterConfigsResponse:ResourceType",
         "IncrementalAlterConfigsResponse:ResourceType", "ListConfigResourcesResponse:ResourceType"),
        f"{_COMMON}.config.ConfigResource$Type#id",
        left_out={0: _UNKNOWN, 8: "loggers, which are in no record of the metadata log"},
    ),
    Enumeration(
        tuple(f"{message}:ResourceType" for message in _OF_ACLS),
        f"{_COMMON}.resource.ResourceType#code",
        left_out=_ACLS,
    ),
    Enumeration(("*:ResourceTypeFilter",), f"{_COMMON}.resource.ResourceType#code", left_out={0: _UNKNOWN}),
    Enumeration(
        ("*:PatternType", "*:ResourcePatternType"),
        f"{_COMMON}.resource.PatternType#code",
        left_out={**_ACLS, 2: _FILTERS},
    ),
    Enumeration(("*:PatternTypeFilter",), f"{_COMMON}.resource.PatternType#code", left_out={0: _UNKNOWN}),
    Enumeration(("*:Operation",), f"{_COMMON}.acl.AclOperation#code", left_out=_ACLS),
    Enumeration(("*:PermissionType",), f"{_COMMON}.acl.AclPermissionType#code", left_out=_ACLS),
)  # fmt: skip
#: Fields whose sentences explain numbers that are in no enum of Kafka: constants, versions, reserved ids. Name -> why.
PLAIN = {
    "Acks": "a protocol's convention",
    "AuthorizedOperations": "bits, by the codes of AclOperation, as examples",
    "ClientTransactionVersion": "levels of a feature",
    "ConfigSource": "of CreateTopicsResponse: the numbers of DescribeConfigsResponse, which are compared",
    "Directories": "reserved ids",
    "Fenced": "a change, of three values",
    "InControlledShutdown": "a change, of two values",
    "MemberType": "written in the code, without an enum",
    "NodeType": "written in the code of Kafka Streams",
    "TopologyDescriptionStatus": "written in the code of the group coordinator",
    "Type": "of requests of ZooKeeper's time, without an enum in 4.4",
    "ZkMigrationState": "of ZooKeeper's time: the enum is gone",
}


class Sentence(NamedTuple):
    """Our sentence on a field."""

    message: str
    field: str
    text: str

    @property
    def last(self) -> str:
        """The field's own name."""
        return self.field.rpartition(".")[2]


def sentences() -> Iterator[Sentence]:
    """All sentences on fields."""
    for path in sorted(ABOUT.glob("*.json")):
        for message, about in json.loads(path.read_text("utf-8")).items():
            for field, text in about.get("fields", {}).items():
                yield Sentence(message, field, text)


def rows_of(one: Sentence) -> list[Enumeration]:
    """The enumerations that a field is in."""
    names = {f"{one.message}:{one.last}", f"*:{one.last}"}
    return [row for row in ENUMERATIONS if names & set(row.fields)]


def explains(one: Sentence) -> bool:
    """Whether a sentence explains numbers, each by words."""
    if one.last.lower().endswith(("errorcode", "throttletimems")):
        return False
    found = re.findall(r"(?:^|[:;,(] |, or | or )(\d+)(?: \([a-z]+\))? [a-z]", one.text)
    return len(set(found)) >= 2


def compare(numbers: Mapping[str, Mapping[int, str]]) -> list[str]:
    """What is wrong, a sentence each.

    Args:
        numbers: class of an enum -> number -> constant.
    """
    wrong: list[str] = []
    seen: set[str] = set()
    for one in sentences():
        rows, name = rows_of(one), f"{one.message}.{one.field}"
        if not rows:
            if explains(one) and one.last not in PLAIN:
                wrong.append(f"{name} explains numbers, and is compared with no enum: {one.text}")
            continue
        for row in rows:
            seen |= set(row.fields)
            wrong += _compared(one, row, numbers[row.enum.partition("#")[0]], name)
    named = {field for row in ENUMERATIONS for field in row.fields}
    wrong += [f"no field is {field}" for field in sorted(named - seen)]
    return wrong


def _compared(one: Sentence, row: Enumeration, known: Mapping[int, str], name: str) -> Iterator[str]:
    told = {int(text) for text in _NUMBER.findall(one.text)}
    explained = {int(text) for text in _EXPLAINED.findall(one.text)}
    if not told & set(known):
        return  # a sentence that refers to another one
    for number, constant in sorted(known.items()):
        if number not in told and number not in row.left_out:
            yield f"{name} does not explain {number}, {constant} of {row.enum}"
    most = max((*known, *row.more), default=0)
    for number in sorted(explained - set(known) - set(row.more)):
        if 0 <= number <= most:
            yield f"{name} explains {number}, which {row.enum} has not"


def asked(version: str = BROKER_VERSION, cache: Path | None = None) -> dict[str, dict[int, str]]:
    """The numbers of all enums, from a release's jars.

    Raises:
        BrokerToolError: Java or the jars are missing. CalledProcessError: a class is not there.
    """
    path = f"{jars.broker_jars(version, cache=cache)}/*"
    enums = sorted({row.enum for row in ENUMERATIONS})
    found: dict[str, dict[int, str]] = {}
    command = [jars.java(), "-cp", path, str(_SOURCE), *enums]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    for line in done.stdout.splitlines():
        name, constant, number = line.split(" ")
        found.setdefault(name, {})[int(number)] = constant
    return found


def main() -> None:
    """Compares all sentences. Exit code 1: a number is not explained, or is none of the enum."""
    try:
        numbers = asked()
    except (BrokerToolError, OSError) as error:
        print(f"enumerations: {error}", file=sys.stderr)
        sys.exit(1)
    wrong = compare(numbers)
    count = sum(bool(rows_of(one)) for one in sentences())
    print(f"{count} sentences, {len(numbers)} enums of Kafka {BROKER_VERSION}: {len(wrong)} wrong")
    for text in wrong:
        print(f"  {text}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
