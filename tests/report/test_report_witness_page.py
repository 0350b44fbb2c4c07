"""The page of the witness: the shipped example, each kind of anomaly, and strangers' text."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

import pytest

from kafkawire import capture, logdir, report, rows
from kafkawire.report.witness_page import witness_content
from kafkawire.witness import Witness
from tools.recordings.archive import ROOT

_BATCH: dict[str, Any] = {
    "topic": "t", "partition": 0, "records": 1, "producer_id": 1, "producer_epoch": 0, "sequence": 0,
    "client": "10.0.0.1", "client_id": "app", "file": "a.pcap", "packet": 5, "response_packet": 6, "log": "t-0/0.log",
    "rule": "the promise",
}  # fmt: skip
_SUMMARY = rows.WitnessSummary(
    captures=1, requests=1, sendings=1, batches=1, records=1, acknowledged=1, held=0, anomalies=1, unknown=0,
    undecoded=0, old=0, partitions=1, copies=1, unseen=0,
)  # fmt: skip


class Text(HTMLParser):
    """The text of a page, and the names of its elements."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.text, self.tags = "", set[str]()
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_shipped_example() -> None:
    witness = Witness(logdir.open(ROOT / "docs" / "witness" / "broker-1"))
    for exchange in capture.read(ROOT / "docs" / "witness" / "clients.pcap", keep=True).matched():
        witness.add(exchange)
    content = witness_content(witness.rows())
    assert content.verdict == "35 of 36 acknowledged batches are held as acknowledged; 1 anomalies, 0 unknown."
    (section,) = content.sections
    assert (section.name, section.place) == ("held twice", "metrics-0")
    assert [step.name for step in section.steps] == ["request", "response", "log", "log"]
    assert [step.what for step in section.steps][1:] == ["acknowledged, offset 7", "offset 6", "offset 7"]
    assert content.hidden == 0


@pytest.mark.parametrize(
    ("row", "steps"),
    [
        (rows.DeliveryAnomaly(name="lost", response="acknowledged", acks=1, sendings=1, **_BATCH),
         ["request", "response", "log"]),
        (rows.TransactionAnomaly(name="late_data", offset=5, marker_offset=3, end_txn="ABORT", transaction="open",
                                 **_BATCH),
         ["request", "response", "marker", "log"]),
        (rows.OrderAnomaly(name="out_of_order", offset=5, later_offset=3, later_sequence=2, **_BATCH),
         ["request", "response", "log", "log"]),
        (rows.ReadAnomaly(name="aborted_read", first_offset=1, last_offset=2, **_BATCH), ["log", "fetch", "response"]),
        (rows.CommitAnomaly(name="gap", group="g", topic="t", partition=0, offset=9, first_offset=4, last_offset=5,
                            packet=7, response_packet=8, file="a.pcap", rule="the promise"),
         ["log", "commit", "response"]),
    ],
)  # fmt: skip
def test_the_way_of_a_record(row: rows.Row, steps: list[str]) -> None:
    (section,) = witness_content([_SUMMARY, row]).sections
    assert [step.name for step in section.steps] == steps


def test_text_of_strangers_does_nothing() -> None:
    hostile = "<script>alert(1)</script>\x1b[2J"
    row = rows.DeliveryAnomaly(
        name="lost", response="acknowledged", acks=1, sendings=1, **{**_BATCH, "topic": hostile, "client_id": hostile}
    )
    page = report.render_witness([_SUMMARY, row])
    assert "<script>alert" not in page
    assert "\x1b" not in page
    assert "alert(1)" in Text(page).text
    assert "default-src 'none'" in page


def test_rows_without_a_summary_are_refused() -> None:
    with pytest.raises(ValueError, match="WitnessSummary"):
        report.render_witness([])
