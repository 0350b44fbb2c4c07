"""`Statistics`: exchanges counted by api, version and client, in memory that does not grow with their number."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from kafkawire.capture.matcher import NO_RESPONSE
from kafkawire.rows import Exchange, ExchangeStatistics

#: Latencies are counted in buckets, each 2 % wider than the one before, so that quantiles are accurate to 1 %.
_WIDTH = math.log(1.02)
#: The shortest latency with a bucket of its own, in milliseconds.
_SHORTEST_MS = 1e-3


class _Key(NamedTuple):
    api: str | None
    api_key: int | None
    version: int | None
    client_id: str | None


class _Group:
    def __init__(self) -> None:
        self.count = self.unanswered = self.request_bytes = self.response_bytes = self.problems = 0
        self.errors: Counter[str] = Counter()
        self.latencies: Counter[int] = Counter()
        self.slowest: float | None = None

    def add(self, row: Exchange) -> None:
        self.count += 1
        self.request_bytes += row.request_bytes or 0
        self.response_bytes += row.response_bytes or 0
        self.errors.update(row.errors)
        if row.problem is not None:
            answered = NO_RESPONSE not in row.problem
            self.unanswered += not answered
            self.problems += answered
        if row.latency_ms is not None:
            self.latencies[round(math.log(max(row.latency_ms, _SHORTEST_MS)) / _WIDTH)] += 1
            self.slowest = max(row.latency_ms, self.slowest or row.latency_ms)

    def quantile(self, share: float) -> float | None:
        """The latency in milliseconds that a share of the responses, from 0 to 1, does not exceed; None without any."""
        left = math.ceil(share * self.latencies.total())
        for place in sorted(self.latencies):
            left -= self.latencies[place]
            if left <= 0:
                return min(round(math.exp(place * _WIDTH), 3), self.slowest or 0.0)
        return None


class Statistics:
    """Counts exchanges. `rows` yields one row for each api, version and client id, the most frequent first."""

    def __init__(self) -> None:
        self._groups: dict[_Key, _Group] = {}

    def add(self, row: Exchange) -> None:
        key = _Key(row.api, row.api_key, row.version, row.client_id)
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = _Group()
        group.add(row)

    def rows(self) -> Iterator[ExchangeStatistics]:
        for key, group in sorted(self._groups.items(), key=lambda found: -found[1].count):
            yield ExchangeStatistics(
                **key._asdict(),
                count=group.count,
                unanswered=group.unanswered,
                request_bytes=group.request_bytes,
                response_bytes=group.response_bytes,
                latency_p50_ms=group.quantile(0.5),
                latency_p95_ms=group.quantile(0.95),
                latency_p99_ms=group.quantile(0.99),
                latency_max_ms=group.slowest,
                errors=dict(group.errors),
                problems=group.problems,
            )
