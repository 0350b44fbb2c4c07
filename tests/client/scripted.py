"""A broker on loopback with scripted responses, encoded by the package's own `frames`."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from kafkawire import frames
from kafkawire.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataResponse,
)
from kafkawire.messages.api_versions_response import ApiVersion
from kafkawire.messages.find_coordinator_response import Coordinator
from kafkawire.messages.metadata_response import (
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kafkawire.testing.server import Connection, Reply, Server
from kafkawire.wire.message import Message

#: What 4.4.0 offers of the requests that tests use.
VERSIONS = {3: (0, 13), 2: (1, 10), 10: (0, 6), 18: (0, 4), 22: (0, 5), 27: (1, 2), 61: (0, 0), 65: (0, 0), 66: (0, 2)}

#: Instead of a response: resets the connection.
RESET = "reset"
#: A response; bytes as they are; None to close the connection, RESET to reset it; ... to send nothing.
Scripted = Message | bytes | str | None | type(...)
Handler = Callable[[Any], Scripted | Awaitable[Scripted]]


class ScriptedBroker:
    """Answers ApiVersions, Metadata and FindCoordinator by itself, other requests by `on[RequestClass]`.

    Attributes:
        on: request class -> function of the request's body.
        requests: every body that came, in order. `connections`: how many were made.
        topics: topic -> partition -> leader.
        brokers: node id -> port; by default this broker alone, as node 1.
    """

    def __init__(self, topics: dict[str, dict[int, int]] | None = None, node_id: int = 1) -> None:
        self.node_id = node_id
        self.topics = topics or {}
        self.versions = dict(VERSIONS)
        self.brokers: dict[int, int] = {}
        self.coordinator = node_id
        self.on: dict[type[Message], Handler] = {
            ApiVersionsRequest: lambda _: self.api_versions(),
            MetadataRequest: self.metadata,
            FindCoordinatorRequest: self.find_coordinator,
        }
        self.requests: list[Message] = []
        self.connections = 0
        self.port = 0
        self._server = Server(self._respond, _refused, max_request_bytes=1 << 20, max_connections=1000)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def count(self, kind: type[Message]) -> int:
        return sum(isinstance(body, kind) for body in self.requests)

    def api_versions(self) -> ApiVersionsResponse:
        return ApiVersionsResponse(
            api_keys=tuple(
                ApiVersion(api_key=key, min_version=low, max_version=high) for key, (low, high) in self.versions.items()
            )
        )

    def metadata(self, request: MetadataRequest) -> MetadataResponse:
        asked = list(self.topics) if request.topics is None else [topic.name or "" for topic in request.topics]
        return MetadataResponse(
            cluster_id="scripted",
            brokers=tuple(
                MetadataResponseBroker(node_id=node, host="127.0.0.1", port=port) for node, port in self.brokers.items()
            ),
            topics=tuple(self._topic(name) for name in asked),
        )

    def _topic(self, name: str) -> MetadataResponseTopic:
        if name not in self.topics:
            return MetadataResponseTopic(name=name, error_code=3)
        return MetadataResponseTopic(
            name=name,
            partitions=tuple(
                MetadataResponsePartition(partition_index=p, leader_id=leader, leader_epoch=0, replica_nodes=(leader,))
                for p, leader in self.topics[name].items()
            ),
        )

    def find_coordinator(self, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
        return FindCoordinatorResponse(
            coordinators=tuple(
                Coordinator(key=key, node_id=self.coordinator, host="127.0.0.1", port=self.port)
                for key in request.coordinator_keys
            )
        )

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        await self._server.serve(reader, writer)

    async def _respond(self, frame: bytes, _: Connection) -> Reply:
        request = frames.decode_request(frame)
        assert isinstance(request, frames.Request), request
        self.requests.append(request.body)
        response = self.on[type(request.body)](request.body)
        if isinstance(response, Awaitable):
            response = await response
        if response is None:
            return Reply(end="close")
        if response is RESET:
            return Reply(end="reset")
        if response is ...:
            return Reply()
        if isinstance(response, Message):
            correlation_id = request.header.correlation_id
            response = frames.encode_response(response, version=request.version, correlation_id=correlation_id)
        assert isinstance(response, bytes)
        return Reply(response)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[ScriptedBroker]:
        """Listens on a free port of loopback."""
        async with served(self.serve) as port:
            self.port = port
            self.brokers = self.brokers or {self.node_id: port}
            try:
                yield self
            finally:
                self.drop()

    def drop(self) -> None:
        """Cuts every connection."""
        self._server.drop_connections()


def _refused(reason: str) -> None:
    raise AssertionError(reason)


@contextlib.asynccontextmanager
async def served(
    handler: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]], **options: Any
) -> AsyncIterator[int]:
    """A server on a free port of loopback; the port."""
    server = await asyncio.start_server(handler, "127.0.0.1", 0, **options)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def silence(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Reads everything and sends nothing. It keeps the writer: without a reference that is closed."""
    await reader.read()
    writer.close()


async def closed_port() -> int:
    """A port without a listener."""
    async with served(lambda _reader, _writer: asyncio.sleep(0)) as port:
        pass
    return port
