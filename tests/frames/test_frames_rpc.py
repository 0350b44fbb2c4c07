"""Encoding and decoding of requests and responses: the ApiVersions rule, undecodable frames, rejected messages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire import lookup
from kafkawire.drafts import kip_664_draft
from kafkawire.errors import EncodeError, UnsupportedVersionError
from kafkawire.frames import (
    FrameReader,
    Request,
    Response,
    UndecodedRequest,
    UndecodedResponse,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    with_size,
)
from kafkawire.messages import (
    REGISTRY,
    ApiVersionsRequest,
    ApiVersionsResponse,
    ControlledShutdownRequest,
    DescribeProducersRequest,
    DescribeProducersResponse,
    TransactionLogValue,
    WriteTxnMarkersRequest,
)
from kafkawire.messages.api_versions_response import ApiVersion
from kafkawire.testing import strategies


def framed(data: bytes) -> bytes:
    (frame,) = FrameReader().feed(data)
    return frame


def test_encodes_a_request_to_exact_bytes() -> None:
    data = encode_request(ApiVersionsRequest(), version=3, correlation_id=7, client_id="x")
    # size; key 18, version 3, correlation id, client id (never compact), no tags; two empty compact strings, no tags
    assert data.hex(" ") == "00 00 00 0f 00 12 00 03 00 00 00 07 00 01 78 00 01 01 00"
    request = decode_request(framed(data))
    assert isinstance(request, Request)
    assert (request.header.correlation_id, request.header.client_id, request.version) == (7, "x", 3)
    assert (request.api_key, request.correlation_id, request.client_id) == (18, 7, "x")
    assert request.body == ApiVersionsRequest()


@pytest.mark.slow
@pytest.mark.parametrize(
    "entry", [e for e in REGISTRY if e.family == "rpc" and e.kind == "request"], ids=lambda e: e.name
)
def test_every_request_and_response_round_trips_in_every_version(entry: object) -> None:
    name = entry.name  # type: ignore[attr-defined]
    request_class, response_class = lookup(name), lookup(name.removesuffix("Request") + "Response")
    for version in request_class.spec.valid_versions:
        data = encode_request(request_class(), version=version, correlation_id=-5, client_id=None)
        request = decode_request(framed(data))
        assert isinstance(request, Request)
        assert (request.body, request.version, request.header.correlation_id) == (request_class(), version, -5)
        assert request.header.client_id in (None, "")

        data = encode_response(response_class(), version=version, correlation_id=9)
        assert request_class.spec.api_key is not None
        response = decode_response(framed(data), api_key=request_class.spec.api_key, version=version)
        assert isinstance(response, Response)
        assert (response.body, response.version, response.header.correlation_id) == (response_class(), version, 9)


def test_controlled_shutdown_v0_has_no_client_id() -> None:
    data = encode_request(ControlledShutdownRequest(broker_id=4), version=0, correlation_id=1, client_id="dropped")
    assert data.hex(" ") == "00 00 00 0c 00 07 00 00 00 00 00 01 00 00 00 04"
    assert decode_request(framed(data)).body.broker_id == 4  # type: ignore[union-attr]


@pytest.mark.parametrize("version", [1, 3, 4, 5, 99])
def test_decodes_the_v0_response_to_an_unsupported_api_versions_request(version: int) -> None:
    answer = ApiVersionsResponse(error_code=35, api_keys=(ApiVersion(api_key=18, min_version=0, max_version=2),))
    frame = framed(encode_response(answer, version=0, correlation_id=3))
    response = decode_response(frame, api_key=18, version=version)
    assert response == Response(response.header, answer, 0)  # type: ignore[union-attr]


def test_falls_back_to_v0_only_for_error_35_of_api_versions() -> None:
    other = ApiVersionsResponse(error_code=42, api_keys=(ApiVersion(api_key=18),))
    frame = framed(encode_response(other, version=0, correlation_id=3))
    assert isinstance(decode_response(frame, api_key=18, version=3), UndecodedResponse)
    broken = framed(encode_response(ApiVersionsResponse(error_code=35), version=0, correlation_id=3))[:-1]
    assert isinstance(decode_response(broken, api_key=18, version=3), UndecodedResponse)


def test_decodes_error_35_in_the_requested_version_where_it_can() -> None:
    answer = ApiVersionsResponse(error_code=35, throttle_time_ms=5)
    frame = framed(encode_response(answer, version=3, correlation_id=3))
    response = decode_response(frame, api_key=18, version=3)
    assert isinstance(response, Response)
    assert (response.version, response.body) == (3, answer)


# What cannot be decoded ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("frame", "expected"),
    [
        ("", (None, None, None, None, "0 bytes, too few")),
        ("0012 0003 000000", (None, None, None, None, "7 bytes, too few")),
        ("03e7 0001 00000005 0002 6162 ff", (999, 1, 5, "ab", "no request is known with api key 999")),
        ("0012 0063 00000005 ffff", (18, 99, 5, None, "ApiVersionsRequest has no version 99; it has 0-5")),
        ("0012 ffff 00000005 0001 61", (18, -1, 5, "a", "has no version -1")),
        ("0012 0003 00000005 0063 61", (18, 3, 5, None, "RequestHeader v2, client_id: at byte")),
        ("0012 0003 00000005 0001 61 00 01", (18, 3, 5, "a", "ApiVersionsRequest v3")),
        ("0012 0000 00000005 0001 61 aa", (18, 0, 5, "a", "expected the end of the message, found 1 more byte")),
    ],
)
def test_undecodable_requests_keep_bytes_and_reason(frame: str, expected: tuple[object, ...]) -> None:
    raw = bytes.fromhex(frame)
    found = decode_request(raw)
    assert isinstance(found, UndecodedRequest)
    assert found.raw == raw
    assert (found.api_key, found.version, found.correlation_id, found.client_id) == expected[:4]
    assert str(expected[4]) in found.reason


@pytest.mark.parametrize(
    ("frame", "api_key", "version", "correlation_id", "reason"),
    [
        ("", 1, 1, None, "0 bytes, too few"),
        ("00000005", 999, 1, 5, "no response is known with api key 999"),
        ("00000005", 61, 7, 5, "DescribeProducersResponse has no version 7; it has 0"),
        ("00000005 00 000000", 61, 0, 5, "DescribeProducersResponse v0"),
        ("00000005 00 00000000 01 00 00", 61, 0, 5, "found 1 more byte"),
    ],
)
def test_undecodable_responses_keep_bytes_and_reason(
    frame: str, api_key: int, version: int, correlation_id: int | None, reason: str
) -> None:
    raw = bytes.fromhex(frame)
    found = decode_response(raw, api_key=api_key, version=version)
    assert isinstance(found, UndecodedResponse)
    assert (found.raw, found.correlation_id) == (raw, correlation_id)
    assert reason in found.reason
    assert (found.body is None) == ("1 more byte" not in reason)
    assert found.left_over == ("1 more byte" in reason)
    assert found.version == (None if found.partial is None else 0)
    assert (found.partial is None) == ("DescribeProducersResponse v0" not in reason + found.reason)


def test_trailing_bytes_leave_the_body_readable() -> None:
    request = DescribeProducersRequest()
    undecoded = decode_request(framed(encode_request(request, version=0, correlation_id=1)) + b"\0")
    assert isinstance(undecoded, UndecodedRequest)
    assert undecoded.body == request
    response = DescribeProducersResponse(throttle_time_ms=8)
    frame = framed(encode_response(response, version=0, correlation_id=1)) + b"\0\0"
    found = decode_response(frame, api_key=61, version=0)
    assert isinstance(found, UndecodedResponse)
    assert (found.body, found.version) == (response, 0)
    assert "found 2 more bytes" in found.reason


@given(st.integers(-1, 95), st.integers(-1, 20), st.binary(max_size=60))
def test_decoding_never_raises_for_any_bytes(api_key: int, version: int, rest: bytes) -> None:
    frame = api_key.to_bytes(2, "big", signed=True) + version.to_bytes(2, "big", signed=True) + rest
    for found in (decode_request(frame), decode_response(rest, api_key=api_key, version=version)):
        if isinstance(found, (UndecodedRequest, UndecodedResponse)):
            assert found.reason


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_decodes_bytes_bytearrays_and_memoryviews(kind: type) -> None:
    frame = framed(encode_request(DescribeProducersRequest(), version=0, correlation_id=1))
    assert isinstance(decode_request(kind(frame)), Request)


@pytest.mark.parametrize("kind", [Request, UndecodedRequest])
def test_requests_are_frozen_and_hashable(kind: type) -> None:
    frame = framed(encode_request(DescribeProducersRequest(), version=0, correlation_id=1))
    found = decode_request(frame if kind is Request else frame[:-1])
    assert isinstance(found, kind)
    with pytest.raises(AttributeError):
        found.body = None  # type: ignore[misc]
    assert {found: 1}[decode_request(frame if kind is Request else frame[:-1])] == 1


@pytest.mark.parametrize("kind", [Response, UndecodedResponse])
def test_responses_are_frozen_and_hashable(kind: type) -> None:
    frame = framed(encode_response(DescribeProducersResponse(), version=0, correlation_id=1))
    found = decode_response(frame if kind is Response else frame[:-1], api_key=61, version=0)
    assert isinstance(found, kind)
    with pytest.raises(AttributeError):
        found.body = None  # type: ignore[misc]
    assert {found: 1}[decode_response(frame if kind is Response else frame[:-1], api_key=61, version=0)] == 1


@pytest.mark.parametrize("copy", [True, False])
def test_decodes_memoryviews_with_strides_and_shapes(copy: bool) -> None:
    request = framed(encode_request(DescribeProducersRequest(), version=0, correlation_id=1))
    response = framed(encode_response(DescribeProducersResponse(), version=0, correlation_id=1))
    for frame in (request, request[:-2], response, response[:-2], bytes(6)):
        for view in (memoryview(frame).cast("B", (1, len(frame))), memoryview(frame[::-1])[::-1]):
            assert decode_request(view, copy=copy) == decode_request(frame)
            found = decode_response(view, api_key=61, version=0, copy=copy)
            assert found == decode_response(frame, api_key=61, version=0)


# What may not be sent ------------------------------------------------------------------------------------------------


def test_rejects_drafts() -> None:
    """The draft's v1 has the api key and the version of a released request, and other bytes."""
    draft = kip_664_draft.WriteTxnMarkersRequest()
    released = WriteTxnMarkersRequest()
    assert (draft.spec.api_key, 1 in draft.spec.valid_versions) == (released.spec.api_key, True)
    assert encode_request(released, version=1, correlation_id=1)
    with pytest.raises(EncodeError, match="'kip-664-draft' is no request of Kafka's protocol"):
        encode_request(draft, version=1, correlation_id=1)
    with pytest.raises(EncodeError):
        encode_response(kip_664_draft.WriteTxnMarkersResponse(), version=1, correlation_id=1)


def test_rejects_messages_of_another_kind_or_family() -> None:
    with pytest.raises(EncodeError, match="a response of family 'rpc' is no request"):
        encode_request(DescribeProducersResponse(), version=0, correlation_id=1)
    with pytest.raises(EncodeError, match="is no response"):
        encode_response(DescribeProducersRequest(), version=0, correlation_id=1)
    with pytest.raises(EncodeError, match="coordinator-value of family 'transaction'"):
        encode_request(TransactionLogValue(), version=0, correlation_id=1)
    with pytest.raises(UnsupportedVersionError):
        encode_request(ApiVersionsRequest(), version=9, correlation_id=1)


def test_response_has_the_correlation_id_of_its_request() -> None:
    data = encode_response(ApiVersionsResponse(), version=3, correlation_id=41)
    response = decode_response(data[4:], api_key=18, version=3)
    assert isinstance(response, Response)
    assert response.correlation_id == 41


@given(strategies.frames())
def test_bytes_with_their_size_say_so(frame: strategies.Frame) -> None:
    """What cannot be decoded because its size is before it says that; a frame alone never does."""
    spec = frame.body.spec

    def decoded(data: bytes) -> object:
        if spec.kind == "request":
            return decode_request(data)
        assert spec.api_key is not None
        return decode_response(data, api_key=spec.api_key, version=frame.version)

    assert isinstance(decoded(frame.data[4:]), Request | Response)
    found = decoded(frame.data)
    assert with_size(frame.data[4:]) == frame.data
    if isinstance(found, UndecodedRequest | UndecodedResponse):
        assert "the bytes begin with their own size, which is no part of a frame" in found.reason
