"""Hostile names, the forms in which output may show them, and characters that no output may contain."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any
from unicodedata import category

from msgspec.structs import replace

from kafkawire.client.errors import ID_NOT_FOUND
from kafkawire.messages import (
    DescribeAclsRequest,
    DescribeAclsResponse,
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    FetchRequest,
    FetchResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
    MetadataRequest,
    MetadataResponse,
    WriteTxnMarkersRequest,
)
from kafkawire.messages.describe_producers_response import PartitionResponse, ProducerState, TopicResponse
from kafkawire.messages.describe_transactions_response import TopicData, TransactionState
from kafkawire.messages.fetch_response import FetchableTopicResponse, PartitionData
from kafkawire.messages.list_offsets_response import ListOffsetsPartitionResponse, ListOffsetsTopicResponse
from kafkawire.messages.list_transactions_response import TransactionState as Listed
from kafkawire.messages.metadata_response import MetadataResponseBroker
from kafkawire.records import Record, build
from tests.client.partition_script import STATE
from tests.client.scripted import ScriptedBroker

#: Names, by what is wrong with them. Where a text is shown as it is (markup, HTML), it is its reader who must not act.
TEXTS = {
    "escape": "\x1b[2J\x1b[66mred",
    "title": "\x1b]0;owned\x07",
    "link": "\x1b]8;;http://evil.example\x1b\\click\x1b]8;;\x1b\\",
    "clipboard": "\x1b]52;c;b3duZWQ=\x07",
    "c1": "a\x9b2J\x85\x90",
    "bidi": "\u202egpj.exe\u2066\u061c",
    "invisible": "pay\u200bpal\ufeff\u2060\U000e0041",
    "lines": "a\r\nerror: forged\tb\x0b\x0c\u2028",
    "nul": "a\x00b\x08\x7f",
    "markup": "[red]x[/red][link=http://evil.example]y[/link]:smile:[/]",
    "html": "<script>alert(1)</script><img src=x onerror=alert(1)>\"'&amp;",
    "formula": "=cmd|' /C calc'!A0",
    "plus": "+1+1",
    "minus": "-2+3",
    "at": "@SUM(A1)",
    "tab": "\t=1+1",
    "return": "\r=1+1",
    "newline": "\n=1+1",
    "wide": "＝1+1",
    "bytes": "\udcff\udc80",
    "shell": "$(touch owned)`id`; rm -rf ~ #\"'\\",
    "json": '"},{"x":"',
}
NAMES = tuple(TEXTS.values())
ALL = " ".join(NAMES)

#: What some spreadsheet takes for the beginning of a formula.
FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")

#: What rich itself writes on a terminal: bold headers, and bars that move. No text in `TEXTS` holds any of it.
_OWN = re.compile(r"\x1b\[(?:\?25[lh]|1A|2K|(?!66)[\d;]*m)|\r")


def as_file(text: str) -> str:
    """A text as a file may be called."""
    return text.replace("/", "|").replace("\0", "")


def escaped(text: str) -> str:
    """A text as one line shows it."""
    return "".join(c if c.isprintable() or category(c) == "Zs" else repr(c)[1:-1] for c in text)


def forms(text: str) -> tuple[str, ...]:
    """The forms in which a text can be recognized: as it is (where that is harmless), escaped, as JSON."""
    shown = escaped(text)
    quoted = escaped(json.dumps(text, ensure_ascii=False)[1:-1]), json.dumps(text)[1:-1]
    mixed = "".join(
        json.dumps(c)[1:-1] if c in '"\\' or not (c.isprintable() or category(c) == "Zs") else c for c in text
    )
    represented = repr(text)[1:-1], escaped(text.replace("\\", "\\\\").replace("'", "\\'"))
    return (text, shown, *represented, *quoted, mixed, mixed.replace("\x7f", "\\u007f"))


def unstyled(text: str) -> str:
    """What a terminal got, without what the table itself and the progress bar are drawn with."""
    return _OWN.sub("", text)


def strings(value: Any) -> Iterator[str]:
    """Every text in a value of JSON, keys too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from strings(inner)


def cells(text: str) -> list[list[str]]:
    """Of csv."""
    return list(csv.reader(io.StringIO(text)))


def is_number(cell: str) -> bool:
    return re.fullmatch(r"-?\d+(\.\d+)?(e[+-]?\d+)?", cell) is not None


def missing(names: Sequence[str], places: Sequence[str]) -> list[str]:
    """Those of the names that no place shows in any form."""
    text = "\0".join(places)
    return [name for name in names if not any(form in text for form in forms(name))]


# A cluster whose names they are ---------------------------------------------------------------------------------------

#: Offsets at which two transactions begin in partition 0 of each topic: of one that no coordinator knows, and of one
#: whose id and coordinator's state have the topic's name.
LOST, HELD, END = 40, 44, 48
OF_LOST, OF_HELD = 100, 500
_LONG_AGO = 1_700_000_000_000


def _log(topic: str, offset: int) -> bytes:
    """Both transactions of a topic, from an offset on."""
    number = NAMES.index(topic)
    return b"".join(
        build(
            [Record(value=b"x", timestamp=_LONG_AGO)] * (end - base),
            producer_id=first + number,
            producer_epoch=3,
            base_sequence=0,
            transactional=True,
            base_offset=base,
        )
        for first, base, end in ((OF_LOST, LOST, HELD), (OF_HELD, HELD, END))
        if base >= offset
    )


class HostileBroker(ScriptedBroker):
    """Leads a topic of each name, and coordinates an id of each name; two transactions are open in every topic.

    Attributes:
        state: of all ids; empty: each has its name for it.
        nowhere: host and port of brokers from 2 on, which are not there; a topic that each leads is in `topics`.
        ended: ids whose transaction was ended.
    """

    def __init__(self) -> None:
        super().__init__({**{name: {0: 1} for name in NAMES}, STATE: {0: 1}})
        self.versions |= {1: (4, 17), 29: (1, 3)}
        self.state = "Ongoing"
        self.nowhere: list[tuple[str, int]] = []
        self.ended: set[str] = set()
        self.on |= {
            DescribeAclsRequest: lambda _: DescribeAclsResponse(error_code=54),
            DescribeProducersRequest: self._producers,
            DescribeTransactionsRequest: self._describe,
            FetchRequest: self._fetch,
            InitProducerIdRequest: self._init,
            ListOffsetsRequest: self._offsets,
            ListTransactionsRequest: self._list,
            MetadataRequest: self.metadata,
            WriteTxnMarkersRequest: lambda _: None,
        }

    def metadata(self, request: MetadataRequest) -> MetadataResponse:
        answer = super().metadata(request)
        more = (
            MetadataResponseBroker(node_id=node, host=host, port=port)
            for node, (host, port) in enumerate(self.nowhere, 2)
        )
        return replace(answer, brokers=(*answer.brokers, *more))

    def _producers(self, request: DescribeProducersRequest) -> DescribeProducersResponse:
        def of(topic: str) -> tuple[ProducerState, ...]:
            if topic not in NAMES:
                return ()
            number = NAMES.index(topic)
            return tuple(
                ProducerState(
                    producer_id=first + number,
                    producer_epoch=3,
                    last_timestamp=_LONG_AGO,
                    coordinator_epoch=5,
                    current_txn_start_offset=start,
                )
                for first, start in ((OF_LOST, LOST), (OF_HELD, HELD))
                if first == OF_LOST or topic not in self.ended
            )

        return DescribeProducersResponse(
            topics=tuple(
                TopicResponse(
                    name=topic.name,
                    partitions=tuple(
                        PartitionResponse(partition_index=p, active_producers=of(topic.name))
                        for p in topic.partition_indexes
                    ),
                )
                for topic in request.topics
            )
        )

    def _init(self, request: InitProducerIdRequest) -> InitProducerIdResponse:
        name = request.transactional_id or ""
        self.ended.add(name)
        return InitProducerIdResponse(producer_id=OF_HELD + NAMES.index(name), producer_epoch=5)

    def _list(self, _: ListTransactionsRequest) -> ListTransactionsResponse:
        return ListTransactionsResponse(
            transaction_states=tuple(
                Listed(transactional_id=name, producer_id=OF_HELD + number, transaction_state=self.state or name)
                for number, name in enumerate(NAMES)
            )
        )

    def _describe(self, request: DescribeTransactionsRequest) -> DescribeTransactionsResponse:
        def state(name: str) -> TransactionState:
            if name not in NAMES:
                return TransactionState(transactional_id=name, error_code=ID_NOT_FOUND)
            return TransactionState(
                transactional_id=name,
                transaction_state="Empty" if name in self.ended else self.state or name,
                producer_id=OF_HELD + NAMES.index(name),
                producer_epoch=3,
                transaction_timeout_ms=1000,
                transaction_start_time_ms=-1 if name in self.ended else 5,
                topics=() if name in self.ended else (TopicData(topic=name, partitions=(0,)),),
            )

        return DescribeTransactionsResponse(transaction_states=tuple(map(state, request.transactional_ids)))

    def _offsets(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        def offset(topic: str, timestamp: int) -> int:
            return 0 if timestamp == -2 or topic not in NAMES else LOST if request.isolation_level else END

        return ListOffsetsResponse(
            topics=tuple(
                ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=tuple(
                        ListOffsetsPartitionResponse(
                            partition_index=p.partition_index, offset=offset(topic.name, p.timestamp)
                        )
                        for p in topic.partitions
                    ),
                )
                for topic in request.topics
            )
        )

    def _fetch(self, request: FetchRequest) -> FetchResponse:
        (topic,) = request.topics
        (one,) = topic.partitions
        # An empty answer below the high watermark is a quota's: a client asks again until its time is over.
        data = PartitionData(
            partition_index=one.partition, high_watermark=END, records=_log(topic.topic, one.fetch_offset)
        )
        return FetchResponse(responses=(FetchableTopicResponse(topic=topic.topic, partitions=(data,)),))
