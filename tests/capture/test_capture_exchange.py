"""Rows of exchanges without content, and their bodies."""

from __future__ import annotations

import msgspec

from kafkawire import rows
from kafkawire.capture.exchange import CapturedExchange, ReadOptions
from kafkawire.capture.exchange_rows import ExchangeRows
from kafkawire.capture.frame_decoding import FrameDecoder


def problem_alone(*, body: bool) -> CapturedExchange:
    made = ExchangeRows("a.pcap", FrameDecoder(ReadOptions(body=body)))
    return made.row((3, "client", "broker"), None, None, None, None, 9, "a problem", b"request", b"response")


def test_bodies_are_null_if_requested_and_else_unset() -> None:
    asked = rows.to_dict(problem_alone(body=True).row)
    assert (asked["file"], asked["connection"], asked["client"], asked["broker"]) == ("a.pcap", 3, "client", "broker")
    assert (asked["correlation_id"], asked["problem"], asked["note"]) == (9, "a problem", None)
    assert (asked["request"], asked["response"]) == (None, None)
    assert {"request", "response"}.isdisjoint(rows.to_dict(problem_alone(body=False).row))


def test_frames_are_kept_where_all_is() -> None:
    found = problem_alone(body=True)
    assert (found.request_frame, found.response_frame) == (None, None)
    kept = ExchangeRows("-", FrameDecoder(ReadOptions(keep=True)))
    found = kept.row(None, None, None, None, None, None, None, b"request", b"response")
    assert (found.request_frame, found.response_frame) == (b"request", b"response")


def test_version_is_0_for_a_row_without_one() -> None:
    """The row of a SASL token, or of a problem."""
    found = problem_alone(body=False)
    assert found.version == 0
    assert CapturedExchange(row=msgspec.structs.replace(found.row, version=7)).version == 7
