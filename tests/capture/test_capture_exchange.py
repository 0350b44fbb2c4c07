"""Rows of exchanges without content, and their bodies."""

from __future__ import annotations

from kafkawire import rows
from kafkawire.capture.exchange import CapturedExchange, ReadOptions


def test_bodies_are_null_if_requested_and_else_unset() -> None:
    asked = rows.to_dict(ReadOptions(body=True).row(api="Fetch"))
    assert (asked["api"], asked["request"], asked["response"]) == ("Fetch", None, None)
    assert {"request", "response"}.isdisjoint(rows.to_dict(ReadOptions().row(api="Fetch")))


def test_version_is_0_for_a_row_without_one() -> None:
    """The row of a SASL token, or of a problem."""
    assert CapturedExchange(row=ReadOptions().row(version=7)).version == 7
    assert CapturedExchange(row=ReadOptions().row()).version == 0
