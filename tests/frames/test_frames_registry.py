"""Frames of messages that Kafka does not have, and of edited ones."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import kafkawire
from kafkawire import frames
from kafkawire.codegen import generate
from kafkawire.messages import REGISTRY, ApiVersionsRequest
from tests.own_schemas import with_start_times, write


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    folder = write(tmp_path / "mine")
    with_start_times(folder)
    return folder


def test_frames_of_a_private_message_are_read_back(mine: Path) -> None:
    loaded = kafkawire.load_schemas(mine)
    registry = loaded.registry.over(REGISTRY)
    for version in (0, 1):
        ping, pong = loaded.PingRequest(text="a"), loaded.PingResponse(text="b")
        frame = frames.encode_request(ping, version=version, correlation_id=5, client_id="me")
        request = frames.decode_request(frame[4:], registry=registry)
        assert isinstance(request, frames.Request)
        assert (request.body, request.version, request.client_id) == (ping, version, "me")
        frame = frames.encode_response(pong, version=version, correlation_id=5)
        response = frames.decode_response(frame[4:], api_key=9001, version=version, registry=registry)
        assert isinstance(response, frames.Response)
        assert response.body == pong
    undecoded = frames.decode_request(frames.encode_request(ping, version=0, correlation_id=5)[4:])
    assert isinstance(undecoded, frames.UndecodedRequest)
    assert undecoded.reason == "no request is known with api key 9001"


def test_an_edited_message_replaces_the_shipped_one(mine: Path) -> None:
    loaded = kafkawire.load_schemas(mine)
    registry = loaded.registry.over(REGISTRY)
    body = loaded.ListTransactionsRequest(extra=7)
    version = body.spec.valid_versions[-1]
    frame = frames.encode_request(body, version=version, correlation_id=1)[4:]
    request = frames.decode_request(frame, registry=registry)
    assert isinstance(request, frames.Request)
    assert request.body == body
    undecoded = frames.decode_request(frame)
    assert isinstance(undecoded, frames.UndecodedRequest)
    assert f"has no version {version}" in undecoded.reason
    plain = frames.encode_request(ApiVersionsRequest(), version=0, correlation_id=2)[4:]
    assert frames.decode_request(plain, registry=registry) == frames.decode_request(plain)


@pytest.mark.slow
def test_registry_of_a_generated_package_reads_its_frames(mine: Path) -> None:
    generate.write(generate.package_files(generate.load(mine), "Mine."), mine.parent / "my_codecs")
    program = (
        "import my_codecs\n"
        "from kafkawire import frames, messages\n"
        "registry = my_codecs.REGISTRY.over(messages.REGISTRY)\n"
        "frame = frames.encode_request(my_codecs.PingRequest(text='a'), version=1, correlation_id=1)\n"
        "assert frames.decode_request(frame[4:], registry=registry).body == my_codecs.PingRequest(text='a')\n"
    )
    subprocess.run([sys.executable, "-c", program], cwd=mine.parent, check=True)


def test_drafts_are_not_found_by_key() -> None:
    from kafkawire.drafts.kip_664_draft import REGISTRY as DRAFTS

    registry = DRAFTS.over(REGISTRY)
    assert registry.rpc(27, "request") is REGISTRY.rpc(27, "request")
