"""Totals of the requests and responses of a librdkafka client, from its statistics."""

from __future__ import annotations

from collections import Counter

import msgspec

#: librdkafka's names of requests that differ from those of the schemas.
_NAMES = {"ApiVersion": "ApiVersions"}


class _Broker(msgspec.Struct):
    """librdkafka's counters of a broker. They start again at 0 when the broker restarts."""

    req: dict[str, int]
    tx: int
    rx: int
    outbuf_cnt: int
    waitresp_cnt: int

    @property
    def is_busy(self) -> bool:
        return self.outbuf_cnt > 0 or self.waitresp_cnt > 0


class _Statistics(msgspec.Struct):
    brokers: dict[str, _Broker]


class RequestTotals:
    """Totals over restarts of brokers.

    Attributes:
        requests: number of requests sent, by api, without the current counters of brokers.
        responses: number of responses received, without the current counters of brokers.
        quiet: number of successive statistics without a change, while the client waits for no response.
    """

    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()
        self.responses = 0
        self.quiet = 0
        self._brokers: dict[str, _Broker] = {}

    def take(self, text: str) -> None:
        """Adds the next statistics, a JSON text."""
        now = msgspec.json.decode(text, type=_Statistics).brokers
        for name, before in self._brokers.items():
            if name not in now or now[name].tx < before.tx:
                self._add(before)
        rests = now == self._brokers and not any(broker.is_busy for broker in now.values())
        self.quiet = self.quiet + 1 if rests else 0
        self._brokers = now

    def end(self) -> None:
        """To be called after the last statistics: adds the current counters."""
        for broker in self._brokers.values():
            self._add(broker)
        self._brokers = {}

    def _add(self, broker: _Broker) -> None:
        self.responses += broker.rx
        for api, count in broker.req.items():
            if count:
                self.requests[_NAMES.get(api, api)] += count
