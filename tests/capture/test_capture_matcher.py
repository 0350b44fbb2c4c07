"""Matching of requests and responses, and the problems of unmatched ones."""

from __future__ import annotations

import struct

import pytest

from kafkawire.capture import exchange_rows, matcher
from kafkawire.capture.matcher import NO_REQUEST, NO_RESPONSE, TOKEN
from kafkawire.messages import (
    ApiVersionsResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from kafkawire.messages.api_versions_response import ApiVersion
from tests.capture.wiretap import (
    Conversation,
    answer,
    ask,
    asked,
    brief,
    exchanges,
    produce,
    question,
)


def test_matches_pipelined_requests() -> None:
    talk = Conversation()
    for number in (1, 2, 3):
        question(talk, number)
    for number in (1, 2, 3):
        answer(talk, number)
    found = exchanges(talk)
    assert brief(found) == asked(1, 2, 3)
    assert [(e.packet, e.response_packet) for e in found] == [(4, 7), (5, 8), (6, 9)]


def test_produce_without_acknowledgment_has_no_response() -> None:
    talk = Conversation().request(produce(0), version=9, correlation_id=1)
    ask(talk, 2)
    assert brief(exchanges(talk)) == [("Produce", 1, False, None), *asked(2)]


def test_an_unknown_api_or_version_keeps_its_header() -> None:
    talk = ask(Conversation(), 1)
    talk.send(0, b"\0\0\0\x0e" + struct.pack(">hhih", 9999, 1, 2, 2) + b"me" + b"\xaa\xbb")
    talk.send(1, b"\0\0\0\x05" + struct.pack(">i", 2) + b"\0")
    _, unknown = exchanges(talk, body=True)
    assert (unknown.api, unknown.api_key, unknown.client_id) == ("UNKNOWN_9999", 9999, "me")
    assert (unknown.request, unknown.response, unknown.response_bytes) == (None, None, 5)
    assert unknown.problem == (
        "request: no request is known with api key 9999; response: no response is known with api key 9999"
    )


def test_decodes_the_version_0_response_to_an_unsupported_api_versions_request() -> None:
    answer_0 = ApiVersionsResponse(error_code=35, api_keys=(ApiVersion(api_key=18, max_version=4),))
    talk = Conversation().send(0, bytes.fromhex("0000000d 0012 0009 00000001 0001 78 00 00"))
    talk.response(answer_0, version=0, correlation_id=1)
    (exchange,) = exchanges(talk, body=True)
    assert (exchange.version, exchange.errors) == (9, {"UNSUPPORTED_VERSION": 1})
    assert exchange.problem == "request: ApiVersionsRequest has no version 9; it has 0-5"
    assert exchange.response == {
        "errorCode": 35,
        "apiKeys": [{"apiKey": 18, "minVersion": 0, "maxVersion": 4}],
    }


def test_reports_a_response_that_does_not_decode() -> None:
    talk = question(Conversation(), 1).send(1, b"\0\0\0\x07" + struct.pack(">i", 1) + b"\0\0\0")
    (exchange,) = exchanges(talk)
    assert exchange.problem is not None
    assert exchange.problem.startswith("response: ApiVersionsResponse v0")


def test_reports_requests_without_responses_and_responses_without_requests() -> None:
    talk = ask(Conversation(), 1)
    question(talk, 2)
    answer(talk, 77)
    found = exchanges(talk)
    assert brief(found) == [*asked(1), ("ApiVersions", 2, False, NO_RESPONSE), (None, 77, True, NO_REQUEST)]
    assert (found[2].packet, found[2].response_packet, found[2].time_ns) == (None, 7, None)


def test_matches_a_response_captured_before_its_request() -> None:
    packets = ask(Conversation(), 1).packets
    packets[3], packets[4] = packets[4], packets[3]
    assert brief(exchanges(packets)) == asked(1)


def test_hides_tokens_without_headers_after_sasl_handshake_0() -> None:
    talk = Conversation()
    talk.request(SaslHandshakeRequest(mechanism="PLAIN"), version=0, correlation_id=1)
    talk.response(SaslHandshakeResponse(), version=0, correlation_id=1)
    talk.send(0, b"\0\0\0\x0e\0alice\0hunter2").send(1, b"\0\0\0\0")
    ask(talk, 2)
    found = exchanges(talk, body=True)
    assert brief(found) == [
        ("SaslHandshake", 1, True, None),
        (None, None, True, TOKEN),
        ("ApiVersions", 2, True, None),
    ]
    assert "hunter2" not in str(found)


def test_a_lost_answer_to_a_token_does_not_take_the_next_response() -> None:
    talk = Conversation()
    talk.request(SaslHandshakeRequest(mechanism="PLAIN"), version=0, correlation_id=1)
    talk.response(SaslHandshakeResponse(), version=0, correlation_id=1)
    talk.send(0, b"\0\0\0\x0e\0alice\0hunter2").send(1, b"\0\0\0\0")
    lost = len(talk.packets) - 1
    ask(talk, 2)
    assert brief(exchanges(talk.packets[:lost] + talk.packets[lost + 1 :])) == [
        ("SaslHandshake", 1, True, None),
        (None, None, False, f"{TOKEN}; {NO_RESPONSE}"),
        ("ApiVersions", 2, True, None),
        (None, None, False, "from the broker: 4 bytes are missing in the capture"),
    ]


def test_unmatched_requests_and_responses_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of unanswered tokens, unmatched responses and unanswered requests the oldest ones are closed."""
    monkeypatch.setattr(matcher, "MOST_OUTSTANDING", 2)
    monkeypatch.setattr(matcher, "MOST_EARLY", 2)
    talk = Conversation()
    talk.request(SaslHandshakeRequest(mechanism="PLAIN"), version=0, correlation_id=1)
    talk.response(SaslHandshakeResponse(), version=0, correlation_id=1)
    for _ in range(3):
        talk.send(0, b"\0\0\0\x04\0a\0b")
    assert [row.problem for row in exchanges(talk)] == [None, *[f"{TOKEN}; {NO_RESPONSE}"] * 3]
    talk = ask(Conversation(), 1)
    for number in (5, 6, 7):
        question(talk, number)
    for number in (5, 6, 7):
        answer(talk, number)
    # The requests are captured after their responses.
    talk.packets[-6:] = [*talk.packets[-3:], *talk.packets[-6:-3]]
    assert brief(exchanges(talk)) == [*asked(1), (None, 5, True, NO_REQUEST), ("ApiVersions", 5, False, NO_RESPONSE),
                                      *asked(6, 7)]  # fmt: skip
    talk = Conversation()
    for number in (1, 2, 3, 3):
        question(talk, number)
    assert [row.problem for row in exchanges(answer(talk, 3))] == [NO_RESPONSE, NO_RESPONSE, None, NO_RESPONSE]


def test_time_is_null_outside_the_calendar() -> None:
    assert exchange_rows.iso_time(-1) == "1969-12-31T23:59:59.999999Z"
    assert exchange_rows.iso_time(10**21) is None
