"""`MockBroker`: a Kafka cluster for tests, of one node or several, in this process, in memory.

    with MockBroker(topics={"orders": 3}) as broker:          # in a thread of its own; or `async with`
        producer = Producer({"bootstrap.servers": broker.address})
        ...
        assert [record.value for record in broker.records("orders", 0)] == [b"1"]

The answers are made by the handlers in `state`, which do no input or output; `Answering` runs them, and each node has a
`Server` with its connections.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, TypeVar

from kafkawire import records, versions
from kafkawire.kafka_errors import NAMES
from kafkawire.messages import REGISTRY, ApiVersionsRequest, ApiVersionsResponse
from kafkawire.messages.api_versions_response import FinalizedFeatureKey, SupportedFeatureKey
from kafkawire.testing.answering import Answering
from kafkawire.testing.apis import Apis
from kafkawire.testing.coordinator_machine import TransactionMetadata
from kafkawire.testing.script import Answer, Fault, RequestLog
from kafkawire.testing.server import Address, Server, address_of
from kafkawire.testing.state.call import Call, Handlers
from kafkawire.testing.state.group_requests import GroupRequests
from kafkawire.testing.state.log_requests import LogRequests
from kafkawire.testing.state.logins import Logins
from kafkawire.testing.state.nodes import GROUP, TRANSACTION, Nodes
from kafkawire.testing.state.stored_partition import PartitionLog
from kafkawire.testing.state.topics import Topics
from kafkawire.testing.state.transactions import Transactions
from kafkawire.wire.message import Message
from kafkawire.wire.registry import Registry

M = TypeVar("M", bound=Message)

_END_TXN = 26
_CONSUMER_GROUP_HEARTBEAT = 68


class MockBroker:
    """A broker for tests, or a cluster of several: in memory, and every node sees the same partitions.

    Args:
        topics: name -> number of partitions.
        release: the release of Kafka whose versions it offers, as far as it has them; by default the newest.
        transaction_version: level of the feature `transaction.version`, 0 to 2; by default 2, or 0 where the release
            has no version 2.
        verify_transactions: transaction.partition.verification.enable. Without it, transactions can be left hanging.
        auto_create_partitions: of topics that Metadata requests create; 0: they create none.
        registry: the messages that it reads. Requests of your own get a handler by `on`.
        nodes: how many there are, with the ids 1 to `nodes`. Partitions and coordinators are spread over them.
        tls: the context of a server, `ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)` with a certificate; None:
            without TLS.
        users: name -> password. Clients log in by SASL: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512 (needs the extra `net`).
        tokens: those that SASL's OAUTHBEARER accepts.
        max_log_bytes: of a partition; the oldest batches are dropped beyond it.
        max_bytes: of all partitions, producers, transactional ids and groups together, about; what would exceed them
            is refused with POLICY_VIOLATION.
        max_request_bytes: a connection with a larger request is closed; no batch is larger, decompressed either.
        max_connections: of a node; further connections are closed.
        host, port: where the first node listens: loopback by default; port 0 takes a free one. Further nodes listen on
            the ports that follow, or on free ones.

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
        nodes: int = 1,
        tls: ssl.SSLContext | None = None,
        users: Mapping[str, str] | None = None,
        tokens: Collection[str] = (),
        max_log_bytes: int = 64 << 20,
        max_bytes: int = 1 << 30,
        max_request_bytes: int = 16 << 20,
        max_connections: int = 1000,
        host: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        offered = versions.of(release or versions.releases()[-1])
        if transaction_version is None:
            transaction_version = 2 if 5 in offered.get(_END_TXN, ()) else 0
        if not 0 <= transaction_version <= 2:
            raise ValueError(f"transaction_version={transaction_version}: there are 0, 1 and 2")
        self._levels = {"transaction.version": (transaction_version, 2)} if transaction_version else {}
        if offered.get(_CONSUMER_GROUP_HEARTBEAT):
            self._levels["group.version"] = (1, 1)
        self._nodes = Nodes(nodes)
        self._topics = Topics(
            auto_create=auto_create_partitions,
            max_log_bytes=max_log_bytes,
            max_batch_bytes=max_request_bytes,
            max_bytes=max_bytes,
            nodes=self._nodes,
        )
        self._transactions = Transactions(
            self._topics, transaction_version=transaction_version, verify=verify_transactions
        )
        self._groups = GroupRequests(self._topics, self._transactions)
        logins = Logins(users or {}, tokens) if users or tokens else None
        handlers: Handlers = {
            ApiVersionsRequest: (self._api_versions, range(6)),
            **self._topics.handlers,
            **LogRequests(self._topics, self._transactions).handlers,
            **self._groups.handlers,
            **self._transactions.handlers,
            **(logins.handlers if logins else {}),
        }
        self._apis = Apis(handlers, offered, registry)
        self._answering = Answering(self._apis, self._nodes, self._transactions, logs_in=logins is not None)
        self._lock = self._answering.lock
        self._host, self._port = host, port
        self._bound: dict[int, Address] = {}
        self._servers = {
            node: Server(
                partial(self._answering.respond, node),
                self._answering.refuse,
                max_request_bytes=max_request_bytes,
                max_connections=max_connections,
                tls=tls,
            )
            for node in self._nodes.ids
        }
        self._loop: asyncio.AbstractEventLoop | None = None
        self._starting: set[asyncio.Task[None]] = set()
        self._thread: threading.Thread | None = None
        self.requests: RequestLog = self._answering.requests
        self.refusals: deque[str] = self._answering.refusals
        for name, partitions in (topics or {}).items():
            self.create_topic(name, partitions)

    # Running ----------------------------------------------------------------------------------------------------------

    @property
    def address(self) -> str:
        """host:port of the first node that is up, for `bootstrap.servers`."""
        return next(iter(self.addresses.values()))

    @property
    def addresses(self) -> dict[int, str]:
        """Node id -> host:port, of the nodes that are up."""
        found = {node: str(address) for node, address in self._bound.items() if node not in self._nodes.down}
        if not found:
            raise RuntimeError("the broker is not running: use `with` or `async with`")
        return found

    async def __aenter__(self) -> MockBroker:
        self._loop = asyncio.get_running_loop()
        try:
            for node in self._nodes.ids:
                if node not in self._nodes.down:
                    await self._servers[node].start(self._listener(node))
        except BaseException:
            await self._stop_all()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stop_all()

    async def _stop_all(self) -> None:
        await asyncio.gather(*self._starting, return_exceptions=True)
        for server in self._servers.values():
            await server.stop()
        self._bound.clear()
        self._nodes.ports.clear()
        self._loop = None

    def _listener(self, node: int) -> socket.socket:
        """A node's socket, which listens from now on: where it did before, if it did."""
        first = node == self._nodes.ids[0]
        wanted = self._nodes.ports.get(node, self._port + node - 1 if self._port else 0)
        try:
            listener = _listen(self._host, wanted)
        except OSError:
            if first or not wanted:
                raise
            listener = _listen(self._host, 0)
        self._bound[node] = address_of(listener.getsockname())
        self._nodes.ports[node] = self._bound[node].port
        return listener

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

    def on(
        self,
        kind: type[M],
        handler: Callable[[M], Message | Awaitable[Message | None] | None],
        *,
        times: int | None = None,
        node: int | None = None,
    ) -> None:
        """Answers a request of your own, or one of Kafka's before this broker does.

        Of several handlers of a class the last one is asked first.

        Args:
            kind: the request's class; of your own messages, one of the broker's `registry`.
            handler: the request -> its response; None leaves the request to the next handler, and then to the broker.
                It runs in the broker's thread. An `async` one may wait while other connections are served.
            times: how many requests it answers; None: all.
            node: for the requests that are sent to this node; None: to any.
        """
        with self._lock:
            self._apis.on(kind, handler, times=times, node=node)

    def change(self, kind: type[M], change: Callable[[M, Any], Message]) -> None:
        """Changes what the broker itself answers to the requests of a class.

        Args:
            kind: the request's class.
            change: the request and the broker's response -> the response that is sent. It runs in the broker's thread.
        """
        self._apis.change(kind, change)

    def answer(self, kind: type[Message], answer: Answer, *, times: int | None = 1, node: int | None = None) -> None:
        """Answers the next requests of a class with a response, bytes, or what a function makes of the request.

        Args:
            kind: the request's class.
            answer: a response; bytes of a frame with its size, sent as they are; or a function of the request.
            times: for how many requests; None: for all.
            node: those that are sent to this node; None: to any.
        """
        with self._lock:
            self._answering.script.add(kind, answer, times, node)

    def fault(
        self, kind: type[Message] | None, fault: Fault, *, times: int | None = 1, node: int | None = None
    ) -> None:
        """Lets the next requests of a class go wrong.

        Args:
            kind: their class; None: any.
            fault: what goes wrong.
            times: for how many requests; None: for all.
            node: those that are sent to this node; None: to any.
        """
        with self._lock:
            self._answering.script.add(kind, fault, times, node)

    def clear_script(self) -> None:
        """Forgets the faults and answers that have not happened yet."""
        with self._lock:
            self._answering.script.clear()

    def advance(self, milliseconds: int) -> None:
        """Puts the broker's clock forward: sessions and transactions over their time end."""
        self._answering.advance(milliseconds)
        self._notify()

    def drop_connections(self) -> None:
        """Closes all connections; clients may connect again."""
        if self._loop is not None:
            for server in self._servers.values():
                self._loop.call_soon_threadsafe(server.drop_connections)

    # Nodes ------------------------------------------------------------------------------------------------------------

    def move_leader(self, topic: str, partition: int, node: int) -> None:
        """Lets a node lead a partition, in a new leader epoch; also where it leads the partition already.

        Args:
            topic, partition: which. Raises LookupError where there is none.
            node: its id. Raises ValueError where there is no such node, or it is stopped.
        """
        self._nodes.check(node)
        if node in self._nodes.down:
            raise ValueError(f"node {node} is stopped")
        with self._lock:
            self._log(topic, partition).lead(node)
        self._notify()

    def leader(self, topic: str, partition: int) -> int:
        """The id of the node that leads a partition; -1 for none."""
        with self._lock:
            return self._log(topic, partition).leader

    def move_coordinator(self, node: int, *, group: str | None = None, transactional_id: str | None = None) -> None:
        """Lets a node coordinate a group or a transactional id.

        Args:
            node: its id.
            group, transactional_id: one of them. What shares its partition of the internal topic moves with it.
        """
        if (group is None) == (transactional_id is None):
            raise TypeError("either group or transactional_id")
        with self._lock:
            if group is not None:
                self._nodes.move_coordinator(GROUP, group, node)
            else:
                self._nodes.move_coordinator(TRANSACTION, transactional_id or "", node)
        self._notify()

    def stop_node(self, node: int) -> None:
        """Stops a node: its connections end, and others take over what it leads and coordinates."""
        self._nodes.check(node)
        with self._lock:
            self._nodes.down.add(node)
            self._topics.elect()
        self._in_loop(self._servers[node].stop_soon)  # its port is free when this returns
        self._notify()

    def start_node(self, node: int) -> None:
        """Starts a stopped node, at its former address. What it led stays where it is."""
        self._nodes.check(node)
        if node not in self._nodes.down:
            raise ValueError(f"node {node} is not stopped")
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._started, node, self._listener(node))
        with self._lock:
            self._nodes.down.discard(node)
            self._topics.elect()
        self._notify()

    def _in_loop(self, function: Callable[[], None]) -> None:
        """Calls a function in the event loop, and returns after it."""
        loop = self._loop
        if loop is None:
            return
        with suppress(RuntimeError):  # no loop runs in this thread
            if asyncio.get_running_loop() is loop:
                function()
                return

        async def call() -> None:
            function()

        asyncio.run_coroutine_threadsafe(call(), loop).result()

    def _started(self, node: int, listener: socket.socket) -> None:
        task = asyncio.ensure_future(self._servers[node].start(listener))
        self._starting.add(task)
        task.add_done_callback(self._starting.discard)

    # Topics -----------------------------------------------------------------------------------------------------------

    @property
    def topics(self) -> dict[str, int]:
        """Name -> number of partitions."""
        with self._lock:
            return {name: len(topic.partitions) for name, topic in self._topics.by_name.items()}

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
            batch = log.checked(records.build(listed, timestamp=self._answering.now()))
            if isinstance(batch, int):
                raise ValueError(f"{topic}-{partition} does not take the records: {NAMES[batch]}")
            offset = log.append(batch, self._answering.now()).base_offset
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
        return ApiVersionsResponse(
            error_code=call.error,
            api_keys=versions.to_response(self.versions).api_keys,
            supported_features=tuple(
                SupportedFeatureKey(name=name, max_version=most) for name, (_, most) in self._levels.items()
            ),
            finalized_features_epoch=0,
            finalized_features=tuple(
                FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
                for name, (level, _) in self._levels.items()
            ),
        )

    def _notify(self) -> None:
        """Runs handlers again that wait for a change; from any thread."""
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop has just ended
                self._loop.call_soon_threadsafe(self._answering.changed)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=128)
