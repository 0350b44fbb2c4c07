"""`Relay`: passes requests from a client's connection to the proxy's connection to the broker, and responses back, in
order."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable
from contextlib import suppress

import msgspec

from kafkawire import _closing, frames, visit
from kafkawire.proxy.faults import Fault, Faults
from kafkawire.proxy.filters import Filters
from kafkawire.proxy.recording import RecordedConnection
from kafkawire.proxy.splitter import Frame, Splitter
from kafkawire.wire.message import Message

_CHUNK = 1 << 18
_HEADER = struct.Struct(">hhi")  # api key, version, correlation id
#: Requests without a response that are remembered: a Produce with acks=0 has none.
_MOST_OPEN = 10_000
#: Seconds for the responses that are under way when a client has sent its last request.
_LINGER_S = 30.0

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
#: The address at which a client reaches a broker through the proxy.
Resolve = Callable[[visit.Endpoint], Awaitable[visit.Endpoint]]


class _Asked(msgspec.Struct):
    """A request whose response is awaited.

    Attributes:
        api_key, version: of the request. `body`: where a filter of its response needs it.
        takes: whether the response is read. `answer`: the proxy's own response, with its size.
        lost: the connection ends in place of the response.
    """

    api_key: int
    version: int
    body: Message | None = None
    takes: bool = False
    answer: bytes | None = None
    lost: bool = False


class DroppedError(Exception):
    """A fault ends the connection."""


async def pass_bytes(client: Streams, broker: Streams, recorded: RecordedConnection | None) -> None:
    """Copies the bytes of both directions, which nothing here reads, until one of them ends."""

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, from_client: bool) -> None:
        while data := await reader.read(_CHUNK):
            if recorded is not None:
                recorded.data(from_client=from_client, data=data)
            writer.write(data)
            await writer.drain()

    ways = [
        asyncio.create_task(copy(client[0], broker[1], True)),
        asyncio.create_task(copy(broker[0], client[1], False)),
    ]
    await _until_one_ends(ways, (client, broker), recorded)


async def _until_one_ends(
    ways: list[asyncio.Task[None]], ends: tuple[Streams, Streams], recorded: RecordedConnection | None
) -> None:
    try:
        done, _ = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for way in done:
            with suppress(ConnectionError):  # a reset ends a connection, as FIN does
                way.result()
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        for _, writer in ends:
            _closing.start_closing(writer)
        if recorded is not None:
            recorded.end()


class Relay:
    """Passes requests and responses between a client and a broker. `run` returns when either side has closed its
    connection, or a fault ends both."""

    def __init__(
        self,
        client: Streams,
        broker: Streams,
        filters: Filters,
        faults: Faults,
        resolve: Resolve,
        recorded: RecordedConnection | None,
    ) -> None:
        self._client, self._broker = client, broker
        self._filters, self._faults = filters, faults
        self._resolve = resolve
        self._recorded = recorded
        self._asked: dict[int, _Asked] = {}
        self._coming = Splitter(4, self._takes_response)

    async def run(self) -> None:
        ways = [asyncio.create_task(self._requests()), asyncio.create_task(self._responses())]
        await _until_one_ends(ways, (self._client, self._broker), self._recorded)

    # Requests ---------------------------------------------------------------------------------------------------------

    async def _requests(self) -> None:
        reader, writer = self._client[0], self._broker[1]
        splitter = Splitter(_HEADER.size, self._takes_request)
        while data := await reader.read(_CHUNK):
            if self._recorded is not None:
                self._recorded.data(from_client=True, data=data)
            for part in splitter.feed(data):
                if isinstance(part, Frame):
                    part = await self._request(part)
                writer.write(part)
                await writer.drain()
        if writer.can_write_eof():  # not with TLS; the responses that are under way still come
            writer.write_eof()
            await asyncio.sleep(_LINGER_S)

    def _takes_request(self, head: bytes) -> bool:
        if len(head) < _HEADER.size:
            return False
        api_key, version, number = _HEADER.unpack(head)
        self._asked[number] = _Asked(api_key, version, takes=self._filters.wants_response(api_key))
        if len(self._asked) > _MOST_OPEN:
            del self._asked[next(iter(self._asked))]
        return self._filters.wants_request(api_key) or self._faults.concern(api_key)

    async def _request(self, frame: Frame) -> bytes:
        """The bytes that the broker gets in place of a request."""
        whole = frames.with_size(frame)
        found = frames.decode_request(frame, registry=self._filters.registry)
        if not isinstance(found, frames.Request):
            return whole
        number, version = found.correlation_id, found.version
        asked = self._asked.get(number)
        fault = self._faults.of(found.body)
        if fault is not None and (answer := await self._fault(fault, found, asked)) is not None:
            return self._answered(number, asked, answer)
        body = await self._filters.request(found.body)
        if body.spec.kind == "response":
            return self._answered(number, asked, frames.encode_response(body, version=version, correlation_id=number))
        if asked is not None and asked.takes:
            asked.body = body
        if getattr(body, "acks", 1) == 0:
            self._asked.pop(number, None)
        if body is found.body:
            return whole
        return frames.encode_request(body, version=version, correlation_id=number, client_id=found.client_id)

    async def _fault(self, fault: Fault, found: frames.Request[Message], asked: _Asked | None) -> bytes | None:
        if fault.delay_s:
            await asyncio.sleep(fault.delay_s)
        if fault.drop == "request":
            raise DroppedError
        if fault.drop == "response" and asked is not None:
            asked.lost = asked.takes = True
        if not fault.error:
            return None
        response: Message = frames.error_response(found, fault.error)
        return frames.encode_response(response, version=found.version, correlation_id=found.correlation_id)

    def _answered(self, number: int, asked: _Asked | None, answer: bytes) -> bytes:
        """Keeps the proxy's answer until those to earlier requests have come. The broker gets nothing."""
        if asked is not None:
            asked.answer = answer
            self._flush()
        return b""

    def _flush(self) -> None:
        while self._asked and not self._coming.inside:
            number = next(iter(self._asked))
            answer = self._asked[number].answer
            if answer is None:
                return
            del self._asked[number]
            self._to_client(answer)

    # Responses --------------------------------------------------------------------------------------------------------

    async def _responses(self) -> None:
        reader, writer = self._broker[0], self._client[1]
        while data := await reader.read(_CHUNK):
            for part in self._coming.feed(data):
                if isinstance(part, Frame):
                    self._to_client(await self._response(part))
                    self._flush()
                else:
                    self._to_client(part)
                await writer.drain()
            self._flush()

    def _takes_response(self, head: bytes) -> bool:
        number = int.from_bytes(head, "big", signed=True)
        asked = self._asked.get(number)
        if asked is None or len(head) < 4:
            return False
        # Responses come in the order of requests: what was asked before has none.
        for earlier in list(self._asked):
            if earlier == number or self._asked[earlier].answer is not None:
                break
            del self._asked[earlier]
        following = len(self._asked) > 1 and any(each.answer is not None for each in self._asked.values())
        if asked.takes or following:
            return True
        del self._asked[number]
        return False

    async def _response(self, frame: Frame) -> bytes:
        """The bytes that the client gets in place of a response."""
        number = int.from_bytes(frame[:4], "big", signed=True)
        asked = self._asked.pop(number)
        if asked.lost:
            raise DroppedError
        whole = frames.with_size(frame)
        if not asked.takes:
            return whole
        found = frames.decode_response(
            frame, api_key=asked.api_key, version=asked.version, registry=self._filters.registry
        )
        if not isinstance(found, frames.Response):
            return whole
        body = found.body
        if asked.body is not None:
            body = await self._filters.response(asked.body, body)
        places = {named.value: await self._resolve(named.value) for named in visit.find(body, visit.ENDPOINT)}
        body = visit.rewrite(body, {visit.ENDPOINT: lambda endpoint: places[endpoint]})
        if body is found.body:
            return whole
        return frames.encode_response(body, version=found.version, correlation_id=number)

    def _to_client(self, data: bytes | memoryview) -> None:
        if self._recorded is not None:
            self._recorded.data(from_client=False, data=data)
        with suppress(OSError):
            self._client[1].write(data)
