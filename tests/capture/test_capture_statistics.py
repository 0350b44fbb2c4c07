"""Counts of exchanges, and quantiles of their latencies."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import kafkawire
from kafkawire import capture
from kafkawire.capture import CapturedExchange, ExchangeSelection, Statistics, StatisticsOfExchanges
from kafkawire.capture.matcher import NO_RESPONSE
from kafkawire.capture.producer_overlaps import APIS
from kafkawire.capture.reader import read_with
from kafkawire.rows import Exchange

EXAMPLES = Path(__file__).parents[2] / "examples"


PCAP = EXAMPLES / "capture" / "transactions.pcap"


@pytest.fixture(scope="module")
def whole() -> list[Exchange]:
    return list(capture.read(PCAP))


def test_counts_the_example(whole: list[Exchange]) -> None:
    statistics = Statistics()
    for row in whole:
        statistics.add(row)
    found = list(statistics.rows())
    assert sum(row.count for row in found) == len(whole)
    assert sum(row.request_bytes for row in found) == sum(e.request_bytes or 0 for e in whole)
    assert sum((Counter(row.errors) for row in found), Counter()) == sum((Counter(e.errors) for e in whole), Counter())
    assert [row.count for row in found] == sorted((row.count for row in found), reverse=True)
    for row in found:
        mine = sorted(
            e.latency_ms for e in whole if e.latency_ms is not None
            and (e.api, e.version, e.client_id) == (row.api, row.version, row.client_id)
        )  # fmt: skip
        assert row.latency_max_ms == (mine[-1] if mine else None)
        for share, shown in ((0.5, row.latency_p50_ms), (0.95, row.latency_p95_ms), (0.99, row.latency_p99_ms)):
            if mine:
                exact = mine[max(0, -(-len(mine) * share // 1).__int__() - 1)]
                assert shown == pytest.approx(exact, rel=0.011, abs=1e-3)


def test_counts_unanswered_and_undecoded_exchanges_separately() -> None:
    statistics = Statistics()
    statistics.add(Exchange(api="Fetch", version=12, problem=NO_RESPONSE))
    statistics.add(Exchange(api="Fetch", version=12, problem="response: torn", latency_ms=1.0))
    statistics.add(Exchange(api="Fetch", version=12, latency_ms=0.0))
    (row,) = statistics.rows()
    assert (row.count, row.unanswered, row.problems, row.latency_p50_ms, row.latency_max_ms) == (3, 1, 1, 0.001, 1.0)


def test_latencies_are_null_without_responses() -> None:
    statistics = Statistics()
    statistics.add(Exchange(api="Fetch", version=12))
    (row,) = statistics.rows()
    assert (row.latency_p50_ms, row.latency_p99_ms, row.latency_max_ms) == (None, None, None)


@pytest.mark.parametrize("criteria", [{}, {"apis": ("Produce",)}, {"topics": ("orders",)}, {"errors": True}], ids=str)
def test_exchanges_that_the_engine_counts_are_those_of_rows(whole: list[Exchange], criteria: dict[str, Any]) -> None:
    selection = ExchangeSelection(**criteria)
    expected, found = Statistics(), Statistics()
    rows = capture.read(PCAP, selection=selection)
    for row in rows:
        expected.add(row)
    read = read_with(PCAP, selection=selection, keep_requests=APIS, statistics=True)
    kinds = set()
    for each in read.found():
        kinds.add(type(each))
        if isinstance(each, StatisticsOfExchanges):
            found.add_groups(each.groups)
        else:
            assert isinstance(each, CapturedExchange)
            found.add(each.row)
    assert list(found.rows()) == list(expected.rows()) != []
    assert read.summary == rows.summary
    assert (StatisticsOfExchanges in kinds) == (kafkawire.backend == "native")
