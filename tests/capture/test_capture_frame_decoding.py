"""Rows with bodies as JSON text are printed like rows with bodies as dicts."""

from __future__ import annotations

from io import BytesIO
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import pytest

import kafkawire
from kafkawire import capture, records
from kafkawire.capture.exchange import ReadOptions
from kafkawire.capture.frame_decoding import FrameDecoder
from kafkawire.capture.reader import read_with
from kafkawire.cli.formatting import json_bytes
from kafkawire.messages import (
    AlterClientQuotasRequest,
    AlterUserScramCredentialsRequest,
    ApiVersionsResponse,
    MetadataRequest,
    MetadataResponse,
    SaslAuthenticateRequest,
)
from kafkawire.messages.alter_client_quotas_request import EntryData, OpData
from kafkawire.messages.alter_user_scram_credentials_request import ScramCredentialUpsertion
from kafkawire.messages.metadata_request import MetadataRequestTopic
from kafkawire.messages.metadata_response import MetadataResponseTopic
from kafkawire.wire.values import TaggedField
from tests.capture.wiretap import Conversation, ethernet, pcap, produce

PCAP = Path(__file__).parents[2] / "examples" / "capture" / "transactions.pcap"
OPTIONS = [
    dict(zip(("records", "payloads", "show_secrets"), chosen, strict=True))
    for chosen in product((False, True), (False, True), (False, True))
]


def odd() -> bytes:
    """A capture of frames, some of which only Python decodes."""
    talk = Conversation()
    talk.request(produce(0), version=9, correlation_id=1)  # is never answered
    talk.request(produce(-1, records.build([records.Record(b"k", None)])), version=9, correlation_id=2)
    for number, (topic, client) in enumerate(
        [("é\u202e\x7f", "plain"), ("t\udcff", "plain"), ("t", "c\udcff\x1b[31m"), ("t", "é")], 3
    ):
        tags = (TaggedField(1000, b"\0\1"), TaggedField(1001, b""))
        request = MetadataRequest(topics=(MetadataRequestTopic(name=topic),), unknown_tagged_fields=tags)
        talk.request(request, version=12, correlation_id=number, client_id=client)
        answer = MetadataResponse(topics=(MetadataResponseTopic(error_code=3, name=topic), MetadataResponseTopic()))
        talk.response(answer, version=12, correlation_id=number)
    for number, value in enumerate((0.1, 1024.0, float("nan"), float("-inf"), 1e300), 10):
        quota = AlterClientQuotasRequest(entries=(EntryData(ops=(OpData(key="k", value=value),)),))
        talk.request(quota, version=1, correlation_id=number)
    talk.request(SaslAuthenticateRequest(auth_bytes=b"\0alice\0hunter2"), version=2, correlation_id=20)
    upsertion = ScramCredentialUpsertion(name="alice", salt=b"salt", salted_password=b"password")
    talk.request(AlterUserScramCredentialsRequest(upsertions=(upsertion,)), version=0, correlation_id=21)
    talk.request(MetadataRequest(), version=12, correlation_id=22)
    talk.response(ApiVersionsResponse(error_code=42), version=3, correlation_id=22)  # no such Metadata
    talk.send(0, b"\0\0\0\x0e\0\3\0\x0c\0\0\0\x17\0\1x\0\0\xff")  # cut short inside
    return pcap(map(ethernet, talk.packets))


@pytest.mark.slow
@pytest.mark.parametrize("given", OPTIONS, ids=str)
@pytest.mark.parametrize("data", [PCAP.read_bytes(), odd()], ids=["clients", "odd"])
def test_text_rows_equal_those_of_decoded_messages(data: bytes, given: dict[str, Any]) -> None:
    text = list(read_with(BytesIO(data), body=True, text=True, **given))
    plain = list(capture.read(BytesIO(data), body=True, **given))
    assert list(map(json_bytes, text)) == list(map(json_bytes, plain))
    native = sum(isinstance(row.request, msgspec.Raw) for row in text)
    assert (native > 0) == (kafkawire.backend == "native")
    assert not any(isinstance(row.request, msgspec.Raw) for row in plain)
    if not given["show_secrets"]:
        assert not any(b"aHVudGVyMg" in json_bytes(row) or b"hunter2" in json_bytes(row) for row in text)


@pytest.mark.parametrize("data", [PCAP.read_bytes(), odd()], ids=["clients", "odd"])
def test_rows_without_bodies_equal_those_of_decoded_messages(data: bytes) -> None:
    looked_through = list(capture.read(BytesIO(data)))
    decoded = [matched.row for matched in capture.read(BytesIO(data), keep=True).matched()]
    assert looked_through == decoded
    assert any(row.errors for row in decoded)
    with_bodies = [msgspec.structs.replace(row, request=msgspec.UNSET, response=msgspec.UNSET)
                   for row in read_with(BytesIO(data), body=True, text=True)]  # fmt: skip
    assert with_bodies == decoded


def test_reads_no_acks_from_a_truncated_produce_of_an_unknown_version() -> None:
    found = FrameDecoder(ReadOptions()).cut_request(b"\0\0\0\x63\0\0\0\1\xff\xff", "cut")
    assert (found.api, found.version, found.silent, found.problem) == ("Produce", 99, False, "request: cut")
