"""`MockBroker`: a Kafka broker for tests: one node, in this process, in memory.

    with MockBroker(topics={"orders": 3}) as broker:          # in a thread of its own; or `async with`
        producer = Producer({"bootstrap.servers": broker.address})
        ...
        assert [record.value for record in broker.records("orders", 0)] == [b"1"]

The answers are made by the handlers in `state`, which do no input or output; `Server` has the connections.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from types import TracebackType
from typing import Any, TypeVar

from kafkawire import frames, records, versions
from kafkawire.errors import KafkaWireError
from kafkawire.kafka_errors import CODES, NAMES
from kafkawire.messages import REGISTRY, ApiVersionsRequest, ApiVersionsResponse
from kafkawire.messages.api_versions_response import FinalizedFeatureKey, SupportedFeatureKey
from kafkawire.testing.apis import Apis
from kafkawire.testing.script import Answer, Fault, RequestLog, Script
from kafkawire.testing.server import Address, Reply, Server
from kafkawire.testing.state.call import Call, Handlers, Wait
from kafkawire.testing.state.group_requests import GroupRequests
from kafkawire.testing.state.log_requests import LogRequests
from kafkawire.testing.state.partition_log import PartitionLog
from kafkawire.testing.state.topics import Topics
from kafkawire.testing.state.transactions import Transactions
from kafkawire.transactions.coordinator_machine import TransactionMetadata
from kafkawire.wire.message import Message
from kafkawire.wire.registry import Registry

M = TypeVar("M", bound=Message)

UNSUPPORTED_VERSION = CODES["UNSUPPORTED_VERSION"]
_API_VERSIONS = 18
_END_TXN = 26
_REFUSALS = 100
_CLOSED = Reply(end="close")


class MockBroker:
    """A broker for tests. It has no security, keeps nothing on disk, and replicates nothing.

    Args:
        topics: name -> number of partitions.
        release: the release of Kafka whose versions it offers, as far as it has them; by default the newest.
        transaction_version: level of the feature `transaction.version`, 0 to 2; by default 2, or 0 where the release
            has no version 2.
        verify_transactions: transaction.partition.verification.enable. Without it, transactions can be left hanging.
        auto_create_partitions: of topics that Metadata requests create; 0: they create none.
        registry: the messages that it reads. Requests of your own get a handler by `on`.
        max_log_bytes: of a partition; the oldest batches are dropped beyond it.
        max_bytes: of all partitions, producers, transactional ids and groups together, about; what would exceed them
            is refused with POLICY_VIOLATION.
        max_request_bytes: a connection with a larger request is closed; no batch is larger, decompressed either.
        max_connections: further connections are closed.
        host, port: where it listens: loopback by default; port 0 takes a free one.

    Attributes:
        requests: the last requests, as `frames.Request`.
        refusals: why connections were closed because of what the client had sent; the last 100.
    """

    def __init__(
        self,
        topics: Mapping[str, int] | None = None,
        *,
        release: str | None = None,
        transaction_version: int | None = None,
        verify_transactions: bool = True,
        auto_create_partitions: int = 1,
        registry: Registry = REGISTRY,
        max_log_bytes: int = 64 << 20,
        max_bytes: int = 1 << 30,
        max_request_bytes: int = 16 << 20,
        max_connections: int = 1000,
        host: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        self._release = versions.of(release or versions.releases()[-1])
        if transaction_version is None:
            transaction_version = 2 if 5 in self._release.get(_END_TXN, ()) else 0
        if not 0 <= transaction_version <= 2:
            raise ValueError(f"transaction_version={transaction_version}: there are 0, 1 and 2")
        self._transaction_version = transaction_version
        self._topics = Topics(
            auto_create=auto_create_partitions,
            max_log_bytes=max_log_bytes,
            max_batch_bytes=max_request_bytes,
            max_bytes=max_bytes,
        )
        self._transactions = Transactions(
            self._topics, transaction_version=transaction_version, verify=verify_transactions
        )
        self._groups = GroupRequests(self._topics, self._transactions)
        handlers: Handlers = {
            ApiVersionsRequest: (self._api_versions, range(6)),
            **self._topics.handlers,
            **LogRequests(self._topics, self._transactions).handlers,
            **self._groups.handlers,
            **self._transactions.handlers,
        }
        self._apis = Apis(handlers, self._release, registry)
        self._script = Script()
        self._lock = threading.RLock()
        self._ahead_ms = 0
        self._listen = host, port
        self._bound: Address | None = None
        self._server = Server(
            self._respond, self._refuse, max_request_bytes=max_request_bytes, max_connections=max_connections
        )
        self._loop: asyncio.AbstractEventLoop | None = None
        self._change = asyncio.Event()
        self._thread: threading.Thread | None = None
        self.requests = RequestLog()
        self.refusals: deque[str] = deque(maxlen=_REFUSALS)
        for name, partitions in (topics or {}).items():
            self.create_topic(name, partitions)

    # Running ----------------------------------------------------------------------------------------------------------

    @property
    def address(self) -> str:
        """host:port of the running broker, for `bootstrap.servers`."""
        if self._bound is None:
            raise RuntimeError("the broker is not running: use `with` or `async with`")
        return str(self._bound)

    async def __aenter__(self) -> MockBroker:
        self._loop = asyncio.get_running_loop()
        self._bound = await self._server.start(*self._listen)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._server.stop()
        self._bound = self._loop = None

    def __enter__(self) -> MockBroker:
        started: Future[asyncio.Event] = Future()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._main(started)), name="mock-broker", daemon=True
        )
        self._thread.start()
        self._stop = started.result()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._loop is not None
        assert self._thread is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    async def _main(self, started: Future[asyncio.Event]) -> None:
        try:
            async with self:
                stop = asyncio.Event()
                started.set_result(stop)
                await stop.wait()
        except OSError as error:
            started.set_exception(error)

    # Arranging --------------------------------------------------------------------------------------------------------

    @property
    def versions(self) -> dict[int, range]:
        """Api key -> the versions that the broker offers."""
        return self._apis.versions

    def on(self, kind: type[M], handler: Callable[[M], Message | None]) -> None:
        """Answers a request of your own, or one of Kafka's before this broker does.

        Args:
            kind: the request's class; of your own messages, one of the broker's `registry`.
            handler: the request -> its response; None leaves the request to the broker. It runs in the broker's thread.
        """
        self._apis.on(kind, handler)

    def change(self, kind: type[M], change: Callable[[M, Any], Message]) -> None:
        """Changes what the broker itself answers to the requests of a class.

        Args:
            kind: the request's class.
            change: the request and the broker's response -> the response that is sent. It runs in the broker's thread.
        """
        self._apis.change(kind, change)

    def answer(self, kind: type[Message], answer: Answer, *, times: int | None = 1) -> None:
        """Answers the next requests of a class with a response, bytes, or what a function makes of the request.

        Args:
            kind: the request's class.
            answer: a response; bytes of a frame with its size, sent as they are; or a function of the request.
            times: for how many requests; None: for all.
        """
        with self._lock:
            self._script.add(kind, answer, times)

    def fault(self, kind: type[Message] | None, fault: Fault, *, times: int | None = 1) -> None:
        """Lets the next requests of a class go wrong.

        Args:
            kind: their class; None: any.
            fault: what goes wrong.
            times: for how many requests; None: for all.
        """
        with self._lock:
            self._script.add(kind, fault, times)

    def clear_script(self) -> None:
        """Forgets the faults and answers that have not happened yet."""
        with self._lock:
            self._script.clear()

    def advance(self, milliseconds: int) -> None:
        """Puts the broker's clock forward: sessions and transactions over their time end."""
        with self._lock:
            self._ahead_ms += milliseconds
            self._transactions.expire(self._now())
        self._notify()

    def drop_connections(self) -> None:
        """Closes all connections; clients may connect again."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._server.drop_connections)

    def create_topic(self, name: str, partitions: int = 1) -> None:
        """Creates a topic. Raises ValueError where the broker refuses it."""
        with self._lock:
            if error := self._topics.create(name, partitions):
                raise ValueError(f"topic {name!r} with {partitions} partitions: {NAMES[error]}")
        self._notify()

    def append(self, topic: str, partition: int, listed: Iterable[records.Record]) -> int:
        """Appends records to a partition in one batch, as a producer does: those without a timestamp get the time.

        Args:
            topic, partition: where.
            listed: the records.

        Returns:
            The offset of the first.

        Raises:
            LookupError: there is no such partition.
            ValueError: it does not take the records.
        """
        with self._lock:
            log = self._log(topic, partition)
            batch = log.checked(records.build(listed, timestamp=self._now()))
            if isinstance(batch, int):
                raise ValueError(f"{topic}-{partition} does not take the records: {NAMES[batch]}")
            offset = log.append(batch, self._now()).base_offset
        self._notify()
        return offset

    # Looking ----------------------------------------------------------------------------------------------------------

    def records(self, topic: str, partition: int = 0, *, committed: bool = False) -> list[records.Record]:
        """The records of a partition, in order of offset, without markers.

        Args:
            topic: its name. `partition`: its number.
            committed: those that a consumer with isolation.level=read_committed gets; otherwise all.
        """
        with self._lock:
            return self._log(topic, partition).visible(committed=committed)

    def offsets(self, topic: str, partition: int = 0) -> tuple[int, int, int]:
        """Log start offset, last stable offset and high watermark of a partition."""
        with self._lock:
            log = self._log(topic, partition)
            return log.start, log.last_stable_offset, log.end

    def committed(self, group: str) -> dict[tuple[str, int], int]:
        """(topic, partition) -> the committed offset of a group; empty for an unknown group."""
        with self._lock:
            found = self._groups.groups.get(group)
            return {} if found is None else {place: entry.offset for place, entry in found.offsets.items()}

    def transaction(self, transactional_id: str) -> TransactionMetadata | None:
        """The coordinator's state of a transactional id; None for an unknown one."""
        with self._lock:
            return self._transactions.ids.get(transactional_id)

    def _log(self, topic: str, partition: int) -> PartitionLog:
        log = self._topics.log(self._topics.topic(topic), partition)
        if isinstance(log, int):
            raise LookupError(f"the broker has no partition {topic}-{partition}")
        return log

    # Answering --------------------------------------------------------------------------------------------------------

    def _api_versions(self, call: Call) -> ApiVersionsResponse:
        level = self._transaction_version
        response = versions.to_response(self.versions)
        return ApiVersionsResponse(
            error_code=call.error,
            api_keys=response.api_keys,
            supported_features=(SupportedFeatureKey(name="transaction.version", max_version=2),) if level else (),
            finalized_features_epoch=0,
            finalized_features=(
                (FinalizedFeatureKey(name="transaction.version", max_version_level=level, min_version_level=level),)
                if level
                else ()
            ),
        )

    def _now(self) -> int:
        return time.time_ns() // 1_000_000 + self._ahead_ms

    def _notify(self) -> None:
        """Runs handlers again that wait for a change; from any thread."""
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop has just ended
                self._loop.call_soon_threadsafe(self._changed)

    def _changed(self) -> None:
        self._change.set()
        self._change = asyncio.Event()

    def _refuse(self, reason: str) -> None:
        self.refusals.append(reason)

    async def _respond(self, frame: bytes, address: Address) -> Reply:
        request = frames.decode_request(frame, registry=self._apis.registry)
        key, number = request.api_key, request.correlation_id
        if key == _API_VERSIONS and number is not None and request.version not in self.versions.get(key, ()):
            return self._lower_api_versions(number)
        if isinstance(request, frames.UndecodedRequest):
            self._refuse(request.reason)
            return _CLOSED
        if request.version not in self.versions.get(request.api_key, ()):
            self._refuse(f"{type(request.body).__name__} version {request.version} is not offered")
            return _CLOSED
        with self._lock:
            self.requests.add(request, len(frame))
            step = self._script.take(request.body)
        try:
            return await self._answered(request, step, address)
        except KafkaWireError as error:
            self._refuse(f"{type(request.body).__name__}: no response: {error}")
            return _CLOSED

    def _lower_api_versions(self, correlation_id: int) -> Reply:
        """The answer to an ApiVersions request of a version that is not offered: version 0 with an error (KIP-511)."""
        keys = versions.to_response(self.versions).api_keys
        answer = ApiVersionsResponse(error_code=UNSUPPORTED_VERSION, api_keys=keys)
        return Reply(frames.encode_response(answer, version=0, correlation_id=correlation_id))

    async def _answered(self, request: frames.Request[Message], step: Fault | Answer | None, address: Address) -> Reply:
        if step is not None and not isinstance(step, Fault):
            return self._reply(request, step(request.body) if callable(step) else step)
        fault = step or Fault()
        dropped = Reply(end="reset" if fault.reset else "close")
        if fault.delay_s:
            await asyncio.sleep(fault.delay_s)
        if fault.drop == "before":
            return dropped
        response = await self._carried_out(request, fault, address)
        if fault.drop == "after":
            return dropped
        if response is None or fault.silent:
            return Reply()
        return self._reply(request, response, shift=int(fault.wrong_correlation_id))

    def _reply(self, request: frames.Request[Message], response: Message | bytes, shift: int = 0) -> Reply:
        if isinstance(response, bytes):
            return Reply(response)
        number = (request.correlation_id + shift) & 0x7FFFFFFF if shift else request.correlation_id
        response = self._apis.response(request.body, response)
        return Reply(frames.encode_response(response, version=request.version, correlation_id=number))

    async def _carried_out(self, request: frames.Request[Message], fault: Fault, address: Address) -> Message | None:
        if not fault.error and (own := self._apis.own(request.body)) is not None:
            return own
        found = self._apis.handler(request.body)
        if found is None:
            return frames.error_response(request, fault.error)
        handler, body = found
        call = Call(
            body,
            request.version,
            client_id=request.client_id,
            now_ms=self._now(),
            host=address.host,
            port=address.port,
            error=fault.error,
        )
        while True:
            change = self._change
            with self._lock:
                call.now_ms = self._now()
                self._transactions.expire(call.now_ms)
                result = handler(call)
            if not isinstance(result, Wait):
                self._changed()
                return None if result is None else self._apis.changed(request.body, result)
            with suppress(TimeoutError):
                await asyncio.wait_for(change.wait(), max(0.001, (result.until_ms - call.now_ms) / 1000))
