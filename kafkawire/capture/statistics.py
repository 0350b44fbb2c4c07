"""`Statistics`: exchanges counted by api, version and client, in memory that does not grow with their number."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kafkawire.capture.matcher import NO_RESPONSE
from kafkawire.rows import Exchange, ExchangeStatistics

#: Latencies are counted in buckets, each 2 % wider than the one before, so that quantiles are accurate to 1 %.
WIDTH = math.log(1.02)
#: The shortest latency with a bucket of its own, in milliseconds.
SHORTEST_MS = 1e-3


class _Key(NamedTuple):
    api: str | None
    api_key: int | None
    version: int | None
    client_id: str | None


#: Errors with their numbers.
_Errors = list[tuple[str, int]]
#: The counts of a group: its key; count, unanswered, bytes of requests and of responses, problems; errors; latencies by
#: bucket, and the longest.
_Counted = tuple[
    tuple[str | None, int | None, int | None, str | None], tuple[int, ...], _Errors, dict[int, int], float | None
]


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
            self.latencies[round(math.log(max(row.latency_ms, SHORTEST_MS)) / WIDTH)] += 1
            self.slowest = row.latency_ms if self.slowest is None else max(row.latency_ms, self.slowest)

    def add_sums(
        self, sums: tuple[int, ...], errors: _Errors, latencies: dict[int, int], slowest: float | None
    ) -> None:
        count, unanswered, request_bytes, response_bytes, problems = sums
        self.count += count
        self.unanswered += unanswered
        self.request_bytes += request_bytes
        self.response_bytes += response_bytes
        self.problems += problems
        for name, number in errors:
            self.errors[name] += number
        for bucket, number in latencies.items():
            self.latencies[bucket] += number
        if slowest is not None:
            self.slowest = slowest if self.slowest is None else max(slowest, self.slowest)

    def quantile(self, share: float) -> float | None:
        """The latency in milliseconds that a share of the responses, from 0 to 1, does not exceed; None without any."""
        left = math.ceil(share * self.latencies.total())
        for place in sorted(self.latencies):
            left -= self.latencies[place]
            if left <= 0:
                return min(round(math.exp(place * WIDTH), 3), self.slowest or 0.0)
        return None


class Statistics:
    """Counts exchanges. `rows` yields one row for each api, version and client id, the most frequent first."""

    def __init__(self) -> None:
        self._groups: dict[_Key, _Group] = {}

    def add(self, row: Exchange) -> None:
        self._group(_Key(row.api, row.api_key, row.version, row.client_id)).add(row)

    def add_groups(self, groups: Iterable[_Counted]) -> None:
        """Adds exchanges that the native engine has counted."""
        for key, sums, errors, latencies, slowest in groups:
            self._group(_Key(*key)).add_sums(sums, errors, latencies, slowest)

    def _group(self, key: _Key) -> _Group:
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = _Group()
        return group

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
