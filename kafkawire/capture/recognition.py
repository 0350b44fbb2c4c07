"""Recognition of Kafka's protocol by content: where requests and responses begin in a stream of bytes.

Ports are not considered. The header of a request has a plausible size, an api key and a version that exist, and a
printable client id.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Container, Iterable, Mapping
from enum import Enum
from typing import NamedTuple, Protocol

from kafkawire.frames import MAX_FRAME_BYTES, Request, decode_request
from kafkawire.frames.headers import API_VERSIONS
from kafkawire.wire.registry import Registry

_START = struct.Struct(">ihhih")  # size, api key, version, correlation id, length of the client id
_SHORTEST_REQUEST, _SHORTEST_RESPONSE = 8, 4
#: Longer client ids are not recognized. Kafka allows 32767 bytes.
_LONGEST_CLIENT_ID = 1024
#: Bytes of a request's beginning that `request` examines; then without the client id.
HEAD = _START.size + _LONGEST_CLIENT_ID
_HEAD = _START.size
#: Most bytes of a candidate frame that are waited for. After them its header alone decides.
_PATIENCE = 64 << 10

#: ApiVersions requests of unknown versions up to this one, without it, are recognized.
_MOST_API_VERSIONS = 100

#: The header of a TLS record of a connection that is established: type, version, and a length up to 16 KiB + 2 KiB.
_TLS_HEADER = re.compile(rb"[\x14-\x17]\x03\x03(?:[\x00-\x47][\x00-\xff]|\x48\x00)", re.DOTALL)
_TLS_HEADER_BYTES = 5
#: Consecutive headers that are certain to be TLS.
_TLS_HEADERS = 3


class ExpectedResponse(Protocol):
    """A response that is waited for."""

    def is_answered_by(self, frame: bytes) -> bool:
        """Whether a frame with its correlation id decodes as its response."""
        ...


class Recognition(Enum):
    """Whether bytes are recognized."""

    YES = "yes"
    NO = "no"
    TOO_SHORT = "too short"


class SearchResult(NamedTuple):
    """The result of a search for the beginning of a frame.

    Attributes:
        offset: of the frame; None while none is certain.
        settled: no frame begins before this offset.
        wanted: number of bytes from there that the next search needs.
    """

    offset: int | None
    settled: int
    wanted: int


class Recognizer:
    """Recognises the requests of a registry.

    Attributes:
        versions: the first and last version of each request, by api key.

    Args:
        registry: the messages.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        known = ((api_key, entry.valid_versions) for api_key, entry in registry.requests().items())
        self.versions = {api_key: (versions[0], versions[-1]) for api_key, versions in known if versions}
        # Matches the beginning of every request that `request` may accept, to find candidates fast.
        keys = bytes(sorted({api_key >> 8 for api_key in self.versions}))
        highest = max((last for _, last in self.versions.values()), default=0)
        version = rb"\x00[\x00-\x63]" if highest < _MOST_API_VERSIONS else rb"[\x00-\x7f]."
        self._candidate = re.compile(
            rb"(?!\x00\x00\x00[\x00-\x07])(?=[\x00-\x10].{3}[" + re.escape(keys or b"\0") + rb"]." + version + rb")",
            re.DOTALL,
        )

    def request(self, data: bytes | bytearray, position: int = 0) -> Recognition:
        """Whether a request, with its size prefix, may begin at `position`."""
        there = len(data) - position
        if there < 8:
            return Recognition.TOO_SHORT
        size, api_key, version = struct.unpack_from(">ihh", data, position)
        versions = self.versions.get(api_key)
        if versions is None or not _SHORTEST_REQUEST <= size <= MAX_FRAME_BYTES:
            return Recognition.NO
        # Clients may send an ApiVersions of a later version; for all other apis they ask for the versions first.
        later = api_key == API_VERSIONS and 0 <= version < _MOST_API_VERSIONS
        if not (later or versions[0] <= version <= versions[1]):
            return Recognition.NO
        if there < _START.size:
            # ControlledShutdown v0 has no client id.
            return Recognition.YES if there >= 4 + size else Recognition.TOO_SHORT
        length = _START.unpack_from(data, position)[4]
        if size >= 10 and -1 <= length <= min(size - 10, _LONGEST_CLIENT_ID):
            return Recognition.YES if is_text(data[position + 14 : position + 14 + max(length, 0)]) else Recognition.NO
        return Recognition.NO

    def find_request(self, data: bytes, starts: Container[int], *, final: bool = False) -> SearchResult:
        """Searches for the first request that decodes, followed by another request or by the end of the data.

        Args:
            starts: offsets in `data` at which packets begin.
            final: no more data will follow.
        """

        def good(position: int, end: int) -> bool:
            return self.request(data, end) is not Recognition.NO and isinstance(
                decode_request(data[position + 4 : end], registry=self._registry), Request
            )

        positions = (found.start() for found in self._candidate.finditer(data))
        candidates = (position for position in positions if self.request(data, position) is Recognition.YES)
        return _first(data, candidates, good, starts, final)


def find_response(
    data: bytes,
    starts: Container[int],
    outstanding: Mapping[int, ExpectedResponse],
    *,
    final: bool = False,
) -> SearchResult:
    """Searches for the first response to one of the outstanding requests.

    Args:
        outstanding: the expected responses by correlation id.
        starts, final: as of `find_request`.
    """
    found = {}
    for correlation_id in outstanding:
        wanted = correlation_id.to_bytes(4, "big", signed=True)
        at = data.find(wanted, 4)
        while at >= 0:
            size = int.from_bytes(data[at - 4 : at], "big", signed=True)
            if _SHORTEST_RESPONSE <= size <= MAX_FRAME_BYTES:
                found[at - 4] = correlation_id
            at = data.find(wanted, at + 1)

    def good(position: int, end: int) -> bool:
        return outstanding[found[position]].is_answered_by(data[position + 4 : end])

    return _first(data, sorted(found), good, starts, final)


def _first(
    data: bytes, candidates: Iterable[int], good: Callable[[int, int], bool], starts: Container[int], final: bool
) -> SearchResult:
    """The first candidate that is complete and `good`.

    Without one, the first incomplete candidate is waited for. After `_PATIENCE` bytes it is accepted if a packet begins
    there.
    """
    waiting: tuple[int, int] | None = None
    for position in candidates:
        end = position + 4 + int.from_bytes(data[position : position + 4], "big")
        if end <= len(data):
            if good(position, end):
                return SearchResult(position, position, 0)
        elif not final and waiting is None and (len(data) - position < _PATIENCE or position in starts):
            waiting = (position, end)
    if waiting is None:
        settled = max(0, len(data) - _HEAD + 1)
        return SearchResult(None, settled, 0)
    position, end = waiting
    if len(data) - position >= _PATIENCE:
        return SearchResult(position, position, 0)
    return SearchResult(None, position, min(end, 2 * len(data), position + _PATIENCE) - position)


def is_tls(data: bytes | bytearray) -> bool:
    """Whether data begins with a TLS handshake record of any version."""
    return len(data) >= 2 and data[0] == 0x16 and data[1] == 3


class TlsRecords:
    """Recognises TLS in a direction whose beginning was not captured, by headers of records at their distances."""

    def __init__(self) -> None:
        self._recent = b""  # the bytes before the next ones, in which a header may begin
        self._left: int | None = None  # bytes up to the next header; None while none is known
        self._headers = 0

    def feed(self, data: bytes) -> bool:
        """Takes the next bytes in order; returns whether they are TLS."""
        data = self._recent + data
        place = 0
        while self._headers < _TLS_HEADERS:
            if self._left is None:
                found = _TLS_HEADER.search(data, place)
                place = max(place, len(data) - _TLS_HEADER_BYTES + 1) if found is None else found.start()
            else:
                place += self._left
            if place + _TLS_HEADER_BYTES > len(data):
                break
            if _TLS_HEADER.match(data, place) is None:
                self._left, self._headers = None, 0
                continue
            self._headers += 1
            self._left = _TLS_HEADER_BYTES + int.from_bytes(data[place + 3 : place + 5], "big")
        self._recent = data[place:]
        self._left = None if self._left is None else max(0, place - len(data))
        return self._headers >= _TLS_HEADERS

    def lose(self) -> None:
        """Takes a hole."""
        self._recent, self._left, self._headers = b"", None, 0


def is_text(data: bytes | bytearray) -> bool:
    """Whether bytes are printable text in UTF-8; the last character may be incomplete."""
    try:
        return data.decode("utf-8").isprintable()
    except UnicodeDecodeError as error:
        return error.reason == "unexpected end of data"  # a character cut off by the end of the data
