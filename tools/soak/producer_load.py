"""Transactional producers, one thread each, which count what they wrote, ended and sent.

A record's key is its number: no two records of a run have the same. Its delivery report (partition and
offset) is kept, so that a reader of the log can be compared with it record by record.
"""

from __future__ import annotations

import random
import struct
import threading
import time
from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from .child_process import SoakError

#: A record's key.
KEY = struct.Struct(">q")
_VALUE = b"a record of some bytes, as an order or a payment has them: " * 2
#: One transaction in this many is aborted.
_ABORTED = 8
_TIMEOUT_S = 30.0
#: For one transaction, a broker's restart included.
_PATIENCE_S = 180.0
_SETTLE_S = 30.0
#: The interval of librdkafka's statistics, and the number of equal ones after which it is at rest.
_STATISTICS_MS, _QUIET = 100, 10


@dataclass
class ProducerTotals:
    """What one producer, or all of them, did.

    Attributes:
        offsets, numbers: of the records that were written, by partition, in the same order.
        unknown: numbers of records without a delivery report.
        markers: by (partition, "COMMIT" or "ABORT"), of transactions that went as they should.
        failed: transactions that did not.
        requests: that were sent, by (client id, api). `responses`: that came, by client id.
    """

    offsets: dict[int, array[int]] = field(default_factory=dict)
    numbers: dict[int, array[int]] = field(default_factory=dict)
    unknown: set[int] = field(default_factory=set)
    markers: Counter[tuple[int, str]] = field(default_factory=Counter)
    committed: int = 0
    aborted: int = 0
    failed: int = 0
    requests: Counter[tuple[str, str]] = field(default_factory=Counter)
    responses: Counter[str] = field(default_factory=Counter)

    @property
    def records(self) -> int:
        return sum(map(len, self.offsets.values()))

    def record(self, partition: int, offset: int, number: int) -> None:
        """Adds a record that was written.

        Args:
            number: of the record, its key.
        """
        self.offsets.setdefault(partition, array("q")).append(offset)
        self.numbers.setdefault(partition, array("q")).append(number)

    def add(self, other: ProducerTotals) -> None:
        for partition, offsets in other.offsets.items():
            self.offsets.setdefault(partition, array("q")).extend(offsets)
            self.numbers.setdefault(partition, array("q")).extend(other.numbers[partition])
        self.unknown |= other.unknown
        for mine, others in (
            (self.markers, other.markers),
            (self.requests, other.requests),
            (self.responses, other.responses),
        ):
            mine.update(others)  # type: ignore[arg-type]
        self.committed += other.committed
        self.aborted += other.aborted
        self.failed += other.failed


class _Transactor:
    """One transactional id."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, index: int) -> None:
        self.wrote = ProducerTotals()
        self._name = f"soak-{index}"
        self._topic = topic
        self._partitions = partitions
        self._random = random.Random(index)
        self._numbers = iter(range(index << 40, (index + 1) << 40))
        self._sent = RequestTotals()
        self._config: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "client.id": self._name,
            "transactional.id": self._name,
            "transaction.timeout.ms": 60_000,
            "linger.ms": 1,
            "retry.backoff.ms": 20,  # EndTxn is answered before its markers are written: the next one has to wait
            "statistics.interval.ms": _STATISTICS_MS,
            "stats_cb": lambda text: self._sent.take(text),
            "log_level": 0,  # brokers restart: expected, and errors come back anyway
        }
        self._producer = self._opened()

    def transaction(self) -> None:
        """Writes one, and ends it."""
        wanted = self._random.sample(range(self._partitions), self._random.randint(1, min(3, self._partitions)))
        abort = self._random.randrange(_ABORTED) == 0
        try:
            self._producer.begin_transaction()
            for partition in wanted:
                for _ in range(self._random.randint(1, 3)):
                    key = KEY.pack(next(self._numbers))
                    self._producer.produce(self._topic, _VALUE, key, partition, on_delivery=self._delivered)
            if abort:
                self._flush()  # what is not sent yet would be thrown away
                self._retrying(self._producer.abort_transaction)
            else:
                self._retrying(self._producer.commit_transaction)
        except KafkaException as error:
            self.wrote.failed += 1
            self._recover(error.args[0])
            return
        self.wrote.committed += not abort
        self.wrote.aborted += abort
        self.wrote.markers.update((partition, "ABORT" if abort else "COMMIT") for partition in wanted)
        self._producer.poll(0)

    def close(self) -> None:
        """Counts what was sent, once nothing more is."""
        deadline = time.monotonic() + _SETTLE_S
        self._sent.quiet = 0
        while self._sent.quiet < _QUIET:
            self._producer.poll(0.2)
            if time.monotonic() > deadline:
                raise SoakError(f"{self._name} does not come to rest")
        self._sent.end()
        self.wrote.responses[self._name] += self._sent.responses
        self.wrote.requests.update({(self._name, api): count for api, count in self._sent.requests.items()})
        del self._producer

    def _opened(self) -> Producer:
        producer = Producer(self._config)
        self._retrying(producer.init_transactions)
        return producer

    def _retrying(self, call: Callable[[float], object]) -> None:
        """Calls again while that is what the error asks for."""
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            try:
                call(_TIMEOUT_S)
                return
            except KafkaException as error:
                if not error.args[0].retriable() or time.monotonic() > deadline:
                    raise

    def _flush(self) -> None:
        if self._producer.flush(_PATIENCE_S):
            raise SoakError(f"{self._name}: records are not written in {_PATIENCE_S:g} s")

    def _recover(self, error: KafkaError) -> None:
        if error.txn_requires_abort():
            with suppress(KafkaException):
                self._retrying(self._producer.abort_transaction)
                return
        if not error.fatal():
            raise SoakError(f"{self._name}: {error}")
        self.close()
        self._sent = RequestTotals()
        self._producer = self._opened()

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        key: Any = message.key()
        (number,) = KEY.unpack(key)
        partition, offset = message.partition(), message.offset()
        if error is not None or partition is None or offset is None:
            self.wrote.unknown.add(number)
        else:
            self.wrote.record(partition, offset, number)


class ProducerLoad:
    """Producers at work."""

    def __init__(self, transactors: list[_Transactor], rate: float) -> None:
        self.failures: list[str] = []
        self._ended = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(one, len(transactors) / rate), name=f"load {i}", daemon=True)
            for i, one in enumerate(transactors)
        ]
        self._transactors = transactors
        for thread in self._threads:
            thread.start()

    def check(self) -> None:
        """Raises SoakError where a producer gave up."""
        if self.failures:
            raise SoakError(self.failures[0])

    def stop(self) -> None:
        """Begins no transaction any more; returns when all have ended."""
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def wrote(self) -> ProducerTotals:
        """All of it, once it was stopped."""
        total = ProducerTotals()
        for one in self._transactors:
            total.add(one.wrote)
        return total

    def _run(self, one: _Transactor, every_s: float) -> None:
        due = time.monotonic()
        try:
            while not self._ended.wait(max(0.0, due - time.monotonic())):
                one.transaction()
                due = max(due + every_s, time.monotonic() - 1)  # what a restart held back is not made up for
            one.close()
        except (SoakError, KafkaException) as error:
            self.failures.append(str(error))


@contextmanager
def load(bootstrap: str, topic: str, partitions: int, *, producers: int, rate: float) -> Iterator[ProducerLoad]:
    """Transactions, `rate` a second over all producers, until the block ends.

    Raises SoakError or KafkaException where a producer cannot begin.

    Args:
        partitions: number of the topic's partitions. `producers`: number of producers, a thread each.
        rate: transactions a second of all producers.
    """
    running = ProducerLoad([_Transactor(bootstrap, topic, partitions, index) for index in range(producers)], rate)
    try:
        yield running
    finally:
        running.stop()


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
