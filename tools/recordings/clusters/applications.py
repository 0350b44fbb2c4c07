"""Transactional producers of three client libraries, with one interface."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from kafka import KafkaProducer

from tools.oracle import Oracle
from tools.recordings import RecordingError
from tools.recordings.clients import Service, order

_TIMEOUT_S = 30
_TRANSACTION_TIMEOUT_MS = 900_000

__all__ = ["Application", "JavaService", "PythonService", "Service"]


class Application(Protocol):
    """What has transactions. `Service` is librdkafka."""

    def begin(self) -> None: ...

    def send(self, topic: str, partition: int, numbers: Iterable[int], *, timestamp: int) -> None: ...

    def end(self, *, committed: bool) -> None: ...


class PythonService:
    """kafka-python."""

    def __init__(self, bootstrap: str, transactional_id: str) -> None:
        self._producer = KafkaProducer(
            bootstrap_servers=bootstrap.split(","),
            client_id=transactional_id,
            transactional_id=transactional_id,
            transaction_timeout_ms=_TRANSACTION_TIMEOUT_MS,
        )
        self._producer.init_transactions()

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, partition: int, numbers: Iterable[int], *, timestamp: int) -> None:
        sent = [
            self._producer.send(
                topic, order(number), key=b"%d" % number, partition=partition, timestamp_ms=timestamp + 1000 * i
            )
            for i, number in enumerate(numbers)
        ]
        for one in sent:
            one.get(_TIMEOUT_S)

    def end(self, *, committed: bool) -> None:
        if committed:
            self._producer.commit_transaction()
        else:
            self._producer.abort_transaction()

    def close(self) -> None:
        """Without an end of what is open."""
        self._producer.close(timeout=0)


class JavaService:
    """Kafka's Java client, which uses transaction version 2 where brokers have it. It lives as long as the oracle."""

    def __init__(self, oracle: Oracle, bootstrap: str, transactional_id: str) -> None:
        self._oracle = oracle
        self._of = {
            "op": "produce",
            "bootstrap": bootstrap,
            "transactionalId": transactional_id,
            "timeoutMs": _TRANSACTION_TIMEOUT_MS,
        }
        self._step("init")

    def begin(self) -> None:
        self._step("begin")

    def send(self, topic: str, partition: int, numbers: Iterable[int], *, timestamp: int) -> None:
        records = [[str(number), order(number).decode(), timestamp + 1000 * i] for i, number in enumerate(numbers)]
        self._step("send", topic=topic, partition=partition, records=records)

    def send_offset(self, group: str, topic: str, partition: int, offset: int) -> None:
        """A group's offset, as part of the transaction."""
        self._step("offsets", group=group, topic=topic, partition=partition, offset=offset)

    def end(self, *, committed: bool) -> None:
        self._step("commit" if committed else "abort")

    def _step(self, step: str, **more: Any) -> None:
        answer = self._oracle.one(step=step, **self._of, **more)
        if "error" in answer:
            raise RecordingError(f"{self._of['transactionalId']}: {step}: {answer['error']}: {answer['text']}")
