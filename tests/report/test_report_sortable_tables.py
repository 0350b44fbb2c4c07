"""The report's sortable tables."""

from __future__ import annotations

from kafkawire import report
from kafkawire.rows import Audit, Coverage, Finding
from tests.report.audits import NOON, finding


def test_rows_name_the_cluster_where_there_are_several() -> None:
    read = Coverage(clusters=("a", "b"), complete=True)
    found: tuple[Finding, ...] = (finding(cluster_id="a"), finding(cluster_id="b"))
    html = report.render(Audit(as_of=NOON, read=read, findings=found))
    assert "a: orders-1" in html
    assert "b: orders-1" in html
