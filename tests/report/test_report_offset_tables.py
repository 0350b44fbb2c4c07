"""The offsets of replicas in a report: every kind of row has its table."""

from __future__ import annotations

from kafkawire import report, rows
from kafkawire.report.offset_tables import replica_offsets
from kafkawire.rows import Audit, Row
from tests.report.audits import READ

PLACE = {"file": "copies/node-1/orders-0", "topic": "orders", "partition": 0}
BOUNDS = {"log_start_offset": 5, "local_start_offset": 5, "last_stable_offset": 20, "high_watermark": 90}
ROWS: list[Row] = [
    rows.ReplicaBounds(**PLACE, broker=1, **BOUNDS, log_end_offset=95, end_offset=100, diverges_at=40),
    rows.StatusRange(**PLACE, first_offset=0, last_offset=89, offsets=90, status="mixed",
                     of={"record_committed": 60, "marker_commit": 30}),
    rows.StatusRange(**PLACE, first_offset=90, last_offset=99, offsets=10, status="unreadable", reason="crc_mismatch",
                     detail="the checksum is wrong", segment="0.log", position=17),
    rows.StatusTotal(**PLACE, status="record", transaction="committed", offsets=60, ranges=30, first_offset=0,
                     last_offset=88),
    rows.StatusTotal(**PLACE, status="marker", control="COMMIT", coordinator_epoch=3, offsets=30, ranges=30,
                     first_offset=2, last_offset=89),
    rows.StatusTotal(**PLACE, status="unreadable", reason="crc_mismatch", offsets=10, ranges=1, first_offset=90,
                     last_offset=99),
    rows.PartialTransaction(**PLACE, producer_id=7, producer_epoch=0, first_offset=3, last_offset=9,
                            transaction="committed", left=1, removed=2),
    rows.PartialTransactionTotal(**PLACE, transactions=12, left=20, removed=30),
    rows.EqualRecords(**PLACE, first_offset=8, last_offset=9, offsets=2, producer_id=8, producer_epoch=0, sequence=0,
                      transaction="none", earlier_first_offset=1, earlier_last_offset=2, earlier_producer_id=7,
                      earlier_producer_epoch=0, earlier_sequence=5, earlier_transaction="none"),
]  # fmt: skip


def test_each_replica_has_its_bounds_and_tables() -> None:
    (one, other) = replica_offsets([*ROWS, ROWS[0]])
    assert (one.name, one.place) == ("orders-0", "broker 1: copies/node-1/orders-0")
    assert ("Diverges from the newest log at", "40") in one.facts
    assert other.tables == ()
    totals, ranges, partial, equal = one.tables
    assert [[cell.text for cell in row[:2]] for row in totals.rows] == [
        ["record, committed", "60"], ["marker, COMMIT", "30"], ["unreadable", "10"],
    ]  # fmt: skip
    assert [row[-1].text for row in ranges.rows] == [
        "60 record committed, 30 marker commit", "the checksum is wrong (0.log, byte 17)",
    ]  # fmt: skip
    assert (len(partial.rows), partial.hidden, partial.complete) == (1, 11, "explain --max-ranges 0")
    assert equal.rows[0][2].text == "1"


def test_pages_of_offsets_and_of_audits_have_them() -> None:
    page, audit = report.render_offsets(iter(ROWS)), report.render(Audit(read=READ), ROWS)
    for html in (page, audit):
        for text in ("What its 100 offsets are", "crc mismatch", "Transactions of which compaction", "written twice"):
            assert text in html
        assert "default-src &#39;none&#39;" in html or "default-src 'none'" in html
    assert "<title>Offsets of orders-0" in page
    assert "What its" not in report.render(Audit(read=READ))
