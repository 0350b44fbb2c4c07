"""Files and a cluster in which everything has a hostile name."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from kafkawire.frames import encode_request, encode_response
from kafkawire.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ProduceRequest,
    ProduceResponse,
)
from kafkawire.messages.describe_transactions_response import TopicData, TransactionState
from kafkawire.messages.produce_request import PartitionProduceData, TopicProduceData
from kafkawire.records import Header, Record, build
from kafkawire.wire.message import Message
from tests.audit_logs import HOUR, NOON, LogDirectory
from tests.capture.wiretap import Conversation, ethernet, pcap
from tests.cli.hostile import ALL, NAMES, OF_HELD, HostileBroker, as_file

OLD = NOON - 3 * HOUR
#: The names as files can be called; the folder of all that is written.
FILE_NAMES = tuple(map(as_file, NAMES))


@dataclasses.dataclass(frozen=True)
class World:
    """Where the names are.

    Attributes:
        folder: message.bin and .json, frame.bin, trace.pcap, cut.pcap, a cut capture of each name, logs, broken (logs),
            schemas, wrong (schemas), web-N.yml, a journal, client.properties.
        broker: its topics, ids and states have them.
    """

    folder: Path
    broker: HostileBroker

    def path(self, name: str) -> str:
        return str(self.folder / name)


def write(folder: Path) -> None:
    """All files."""
    _messages(folder)
    _captures(folder)
    _logs(folder)
    _broken_logs(folder / "broken")
    _schemas(folder)
    for number, name in enumerate(NAMES):
        (folder / f"web-{number}.yml").write_text(json.dumps({"basic_auth_users": {name: "no hash"}}))
    (folder / f"journal {as_file(ALL)[:120]}").write_text("no journal\n")
    (folder / "client.properties").write_text("default.api.timeout.ms=5000\nrequest.timeout.ms=2000\n")


def _messages(folder: Path) -> None:
    message = DescribeTransactionsRequest(transactional_ids=NAMES)
    (folder / "message.bin").write_bytes(message.encode(0))
    (folder / "message.json").write_text(json.dumps({"transactionalIds": NAMES}))
    (folder / "frame.bin").write_bytes(_conversation()[1][0])


def _conversation() -> list[tuple[bytes, bytes]]:
    """Requests and their responses."""
    described = DescribeTransactionsResponse(
        transaction_states=tuple(
            TransactionState(transactional_id=name, transaction_state=name, topics=(TopicData(topic=name),))
            for name in NAMES
        )
    )
    talk: list[tuple[Message, Message, int, str]] = [
        (ApiVersionsRequest(), ApiVersionsResponse(), 0, "kafka"),
        (DescribeTransactionsRequest(transactional_ids=NAMES), described, 0, ALL),
        (ApiVersionsRequest(client_software_name=ALL, client_software_version=ALL), ApiVersionsResponse(), 3, ALL),
    ]
    for name in NAMES:
        data = build([Record(key=_raw(name), value=_raw(name), headers=(Header(name, b""),))])
        topic = TopicProduceData(name=name, partition_data=(PartitionProduceData(index=0, records=data),))
        talk.append((ProduceRequest(transactional_id=name, acks=1, topic_data=(topic,)), ProduceResponse(), 9, name))
    return [
        (
            encode_request(request, version=version, correlation_id=number, client_id=client_id),
            encode_response(response, version=version, correlation_id=number),
        )
        for number, (request, response, version, client_id) in enumerate(talk)
    ]


def _captures(folder: Path) -> None:
    def capture(pairs: list[tuple[bytes, bytes]]) -> bytes:
        talk = Conversation()
        for request, response in pairs:
            talk.send(0, request).send(1, response)
        return pcap(map(ethernet, talk.packets))

    (folder / "trace.pcap").write_bytes(capture(_conversation()))
    cut = capture(_conversation()[:1])[:-3]
    for name in FILE_NAMES:
        (folder / name).write_bytes(cut)


def _logs(folder: Path) -> None:
    logs = LogDirectory(folder / "logs")
    for number, (name, topic) in enumerate(zip(NAMES, FILE_NAMES, strict=True)):
        logs.partition(topic).data(100 + number, 3, at=OLD)
        logs.partition(topic).data(OF_HELD + number, 3, at=OLD)
        logs.id(name, "CompleteCommit", 100 + number, 4, at=NOON)
        logs.id(f"held {name}", "Ongoing", OF_HELD + number, 3, (topic, 0), at=NOON)
        headers = (Header(name, _raw(name)),)
        logs.partition("words").records([Record(key=_raw(name), value=_raw(name), headers=headers, timestamp=NOON)])
    logs.write()
    line = "".join(c for c in ALL if c not in "\r\n")
    (folder / "logs" / "meta.properties").write_bytes(_raw(f"version=1\nnode.id=1\ncluster.id={line}\n"))


def _broken_logs(folder: Path) -> None:
    for name in FILE_NAMES:
        (folder / f"{name}-0").mkdir(parents=True)
        (folder / f"{name}-0" / f"{0:020}.log").write_bytes(b"\xff" * 40)
        (folder / f"{name}-0" / "leader-epoch-checkpoint").write_bytes(_raw(f"0\n1\n{name} x\n"))
    (folder / "recovery-point-offset-checkpoint").write_bytes(_raw(f"0\n1\n{ALL} 1 x\n"))


def _schemas(folder: Path) -> None:
    text = _raw(ALL).decode("utf-8", "replace")  # a schema's file is UTF-8

    def schema(name: str, default: str = text, **more: Any) -> str:
        field = {"name": "Text", "type": "string", "versions": "0", "about": text, "default": default}
        given = {
            "name": name, "type": "data", "validVersions": "0", "flexibleVersions": "none", "about": text,
            "fields": [field], **more,
        }  # fmt: skip
        return json.dumps(given)

    for which, default in (("schemas", text), ("older", f"older {text}")):
        (folder / which / "strange").mkdir(parents=True)
        (folder / which / "strange" / "Strange.json").write_text(schema("Strange", default))
    for name in FILE_NAMES:
        (folder / "wrong" / name).mkdir(parents=True)
        (folder / "wrong" / name / f"{name}.json").write_text(schema(name, type=name, validVersions=name))


def _raw(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
