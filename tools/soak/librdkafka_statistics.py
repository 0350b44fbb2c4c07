"""What a client of librdkafka sent, added up from its statistics."""

from __future__ import annotations

from collections import Counter

import msgspec

#: What librdkafka calls a request otherwise than its schema does.
_NAMES = {"ApiVersion": "ApiVersions"}


class _Broker(msgspec.Struct):
    """What librdkafka counts of a broker while it knows it; that of one that restarts begins again at 0."""

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
    """See the module.

    Attributes:
        requests: that were sent, by api, and `responses` that came, without those of brokers as they are counted now.
        quiet: how many statistics in a row said the same, of a client that waits for nothing.
    """

    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()
        self.responses = 0
        self.quiet = 0
        self._brokers: dict[str, _Broker] = {}

    def take(self, text: str) -> None:
        """The next statistics."""
        now = msgspec.json.decode(text, type=_Statistics).brokers
        for name, before in self._brokers.items():
            if name not in now or now[name].tx < before.tx:
                self._add(before)
        rests = now == self._brokers and not any(broker.is_busy for broker in now.values())
        self.quiet = self.quiet + 1 if rests else 0
        self._brokers = now

    def end(self) -> None:
        """No more come."""
        for broker in self._brokers.values():
            self._add(broker)
        self._brokers = {}

    def _add(self, broker: _Broker) -> None:
        self.responses += broker.rx
        for api, count in broker.req.items():
            if count:
                self.requests[_NAMES.get(api, api)] += count
