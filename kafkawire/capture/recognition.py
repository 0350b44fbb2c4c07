"""Recognition of Kafka's protocol by content: where requests and responses begin in a stream of bytes.

Ports are not considered, unless a rule names them. The header of a request has a plausible size, an api key and a
version that exist, and a printable client id. Requests of unknown versions and apis are recognized by several frames
that follow one another (`request_chain`).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from kafkawire.capture.request_chain import (
    LONGEST_CLIENT_ID,
    SHORTEST_REQUEST,
    SHORTEST_RESPONSE,
    START,
    HeaderVersions,
    RequestChain,
    chain,
    is_echoed,
    is_text,
    named_request,
)
from kafkawire.frames import MAX_FRAME_BYTES, Request, decode_request
from kafkawire.frames.headers import API_VERSIONS
from kafkawire.wire.registry import Registry

#: Bytes of a request's beginning that `request` examines; then without the client id.
HEAD = START.size + LONGEST_CLIENT_ID
_HEAD = START.size
#: Most bytes of a candidate frame that are waited for. After them its header alone decides.
_PATIENCE = 64 << 10

#: ApiVersions requests of unknown versions up to this one, without it, are recognized.
_MOST_API_VERSIONS = 100

#: The header of a TLS record of a connection that is established: type, version, and a length up to 16 KiB + 2 KiB.
_TLS_HEADER = re.compile(rb"[\x14-\x17]\x03\x03(?:[\x00-\x47][\x00-\xff]|\x48\x00)", re.DOTALL)
_TLS_HEADER_BYTES = 5
#: Consecutive headers that are certain to be TLS.
_TLS_HEADERS = 3


class Recognition(Enum):
    """Whether bytes are recognized. `LIKELY`: by the header of a request, of a version or api that is not known."""

    YES = "yes"
    LIKELY = "likely"
    NO = "no"
    TOO_SHORT = "too short"


class OtherDirection(NamedTuple):
    """Bytes of the other direction of a connection, and the offsets in them at which packets begin."""

    data: bytes | bytearray = b""
    starts: Collection[int] = ()


NOTHING = OtherDirection()


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
        ports: of brokers; all connections to them are Kafka's.

    Args:
        registry: the messages.
        ports: as the attribute.
    """

    def __init__(self, registry: Registry, ports: frozenset[int] = frozenset()) -> None:
        self._registry = registry
        self.ports = ports
        known = ((api_key, entry.valid_versions) for api_key, entry in registry.requests().items())
        self.versions = {api_key: (versions[0], versions[-1]) for api_key, versions in known if versions}
        self._later = HeaderVersions.of(self.versions)
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
        if not SHORTEST_REQUEST <= size <= MAX_FRAME_BYTES:
            return Recognition.NO
        versions = self.versions.get(api_key)
        # Clients may send an ApiVersions of a later version; for all other apis they ask for the versions first.
        later = api_key == API_VERSIONS and 0 <= version < _MOST_API_VERSIONS
        known = versions is not None and (later or versions[0] <= version <= versions[1])
        if not known and not self._later.may_be(api_key, version):
            return Recognition.NO
        found = Recognition.YES if known else Recognition.LIKELY
        if there < START.size:
            # ControlledShutdown v0 has no client id.
            return found if there >= 4 + size else Recognition.TOO_SHORT
        length = START.unpack_from(data, position)[4]
        if size >= 10 and -1 <= length <= min(size - 10, LONGEST_CLIENT_ID):
            return found if is_text(data[position + 14 : position + 14 + max(length, 0)]) else Recognition.NO
        return Recognition.NO

    def broker(self, ports: tuple[int, int]) -> int | None:
        """Which end of a connection is a broker's by `ports`; None where that is not certain."""
        found = [end for end, port in enumerate(ports) if port in self.ports]
        return found[0] if len(found) == 1 else None

    def first_request(
        self,
        data: bytes | bytearray,
        other: OtherDirection = NOTHING,
    ) -> Recognition:
        """Whether the first bytes of a connection are a request. A whole one has to decode, or what follows decides.

        Args:
            data: the bytes so far.
            other: the other direction.
        """
        found = self.request(data)
        if found in (Recognition.NO, Recognition.TOO_SHORT):
            return found
        end = 4 + int.from_bytes(data[:4], "big")
        if end <= len(data) and found is Recognition.YES and self._decodes(data[4:end]):
            return Recognition.YES
        requests = chain(data, 0, self._later)
        if end > len(data):
            begun = found is Recognition.YES and (requests.client_id or len(data) >= _PATIENCE)
            return Recognition.YES if begun else Recognition.TOO_SHORT
        if requests.is_certain(aligned=True, echoed=self._is_echoed(requests, other)):
            return Recognition.YES
        return Recognition.TOO_SHORT if requests.whole else Recognition.NO

    def may_begin(self, data: bytes, starts: Iterable[int], other: OtherDirection) -> bool:
        """Whether a packet begins with what may be a whole request, where too little follows to be certain.

        Args:
            data: bytes of one direction. starts: offsets in it at which packets begin.
            other: the other direction.
        """
        chains = (chain(data, start, self._later) for start in starts)
        return any(found.is_likely(echoed=self._is_echoed(found, other)) for found in chains)

    def _is_echoed(self, requests: RequestChain, other: OtherDirection) -> bool:
        return is_echoed(requests, *other, self._later)

    def _decodes(self, frame: bytes | bytearray) -> bool:
        return isinstance(decode_request(frame, registry=self._registry), Request)

    def find_request(
        self,
        data: bytes,
        starts: Container[int],
        other: OtherDirection = NOTHING,
        *,
        final: bool = False,
        known: bool = False,
    ) -> SearchResult:
        """Searches for the first request: one that decodes, followed by another request or by the end of the data; or
        one that is certain by the headers after it.

        Args:
            starts: offsets in `data` at which packets begin.
            other: the other direction.
            final: no more data will follow.
            known: the bytes are those of a Kafka client.
        """

        def judged(position: int, end: int) -> bool | None:
            aligned = position in starts
            followed = self.request(data, end) is not Recognition.NO
            if known and aligned and followed:
                return True
            requests = chain(data, position, self._later)
            echoed = self._is_echoed(requests, other)
            # A response may decode as a request, too: mostly as one with the correlation id 0 and without a client id.
            named = requests.client_id or data[position + 8 : position + 12] != bytes(4)
            enough = known or echoed or requests.headers > 1 or named
            header = self.request(data, position)
            if enough and followed and header is Recognition.YES and self._decodes(data[position + 4 : end]):
                return True
            if requests.is_certain(aligned=aligned, echoed=echoed):
                return True
            return None if aligned and requests.headers and requests.whole else False

        positions = (found.start() for found in self._candidate.finditer(data))
        likely = Recognition.YES, Recognition.LIKELY
        candidates = (position for position in positions if self.request(data, position) in likely)
        return _first(data, candidates, judged, starts, final)

    def cut_request(
        self, data: bytes, starts: Iterable[int], missing: int, other: OtherDirection, *, known: bool
    ) -> int | None:
        """Where a packet begins with a request that is cut by a hole after `data`; None: nowhere.

        Args:
            data: bytes of one direction. starts: offsets in it at which packets begin.
            missing: size of the hole.
            other: the other direction. Unless the connection is `known`, a response there has to name the request.
        """
        for start in _cut_frames(data, starts, missing):
            found = self.request(data, start)
            if known and found in (Recognition.YES, Recognition.LIKELY):
                return start
            if found is Recognition.YES and is_echoed(named_request(data, start), *other, self._later):
                return start
        return None


def cut_response(data: bytes, starts: Iterable[int], missing: int, outstanding: Container[int]) -> int | None:
    """Where a packet begins with a response that is cut by a hole after the data; it answers an outstanding request."""
    for start in _cut_frames(data, starts, missing):
        if int.from_bytes(data[start + 4 : start + 8], "big", signed=True) in outstanding:
            return start
    return None


def _cut_frames(data: bytes, starts: Iterable[int], missing: int) -> Iterator[int]:
    """Where packets begin with a size by which a frame has all bytes after it, and those of the hole."""
    for start in sorted(starts):
        there = len(data) - start - 4
        size = int.from_bytes(data[start : start + 4], "big", signed=True)
        if there >= 4 and there + missing <= size <= MAX_FRAME_BYTES:
            yield start


def find_response(
    data: bytes,
    starts: Container[int],
    outstanding: Mapping[int, Sequence[tuple[int, int]]],
    answers: Callable[[bytes, int, int], bool],
    *,
    final: bool = False,
) -> SearchResult:
    """Searches for the first response to one of the outstanding requests. Two of three conditions must hold: a packet
    begins with it; nothing or another response follows (brokers respond in the order of requests); it decodes.

    Args:
        outstanding: api keys and versions of the requests, by correlation id.
        answers: whether a frame decodes as the response to a request of an api key and version.
        starts, final: see `find_request`.
    """
    found = {}
    for correlation_id in outstanding:
        wanted = correlation_id.to_bytes(4, "big", signed=True)
        at = data.find(wanted, 4)
        while at >= 0:
            size = int.from_bytes(data[at - 4 : at], "big", signed=True)
            if SHORTEST_RESPONSE <= size <= MAX_FRAME_BYTES:
                found[at - 4] = correlation_id
            at = data.find(wanted, at + 1)

    def judged(position: int, end: int) -> bool:
        aligned, followed = position in starts, len(data) - end < 8 or end in found
        if aligned and followed:
            return True
        frame = data[position + 4 : end]
        return (aligned or followed) and any(answers(frame, *one) for one in outstanding[found[position]])

    return _first(data, sorted(found), judged, starts, final)


def _first(
    data: bytes,
    candidates: Iterable[int],
    judged: Callable[[int, int], bool | None],
    starts: Container[int],
    final: bool,
) -> SearchResult:
    """The first candidate that is complete and judged to be a frame.

    Without one, the first incomplete candidate is waited for, or the first one of which `judged` is None: what follows
    it decides. After `_PATIENCE` bytes it is accepted if a packet begins there. Candidates inside of one with which a
    packet begins, and that is waited for, count where a packet begins with them, too.
    """
    waiting: tuple[int, int] | None = None
    for position in candidates:
        end = position + 4 + int.from_bytes(data[position : position + 4], "big")
        if waiting is not None and waiting[0] in starts and position < waiting[1] and position not in starts:
            continue
        if end <= len(data):
            good = judged(position, end)
            if good:
                return SearchResult(position, position, 0)
            if good is None and not final and waiting is None:
                waiting = (position, len(data) + _HEAD)
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


#: What a client sends to a proxy before Kafka's first request: HAProxy's header in text and in binary, a CONNECT of
#: HTTP.
_PREAMBLES = (b"PROXY ", b"\r\n\r\n\0\r\nQUIT\n", b"CONNECT ")
#: What follows a SOCKS 5 greeting, once the proxy has chosen a method: CONNECT (version, command, a reserved byte); or
#: the version of RFC 1929 with a user name and a password, where the greeting offers that method.
_SOCKS_COMMAND, _SOCKS_PASSWORD, _SOCKS_PASSWORD_METHOD = b"\x05\x01\x00", b"\x01", 2


def is_preamble(data: bytes | bytearray) -> bool:
    """Whether a connection begins with what a client sends to a proxy before Kafka's first request."""
    if data.startswith(_PREAMBLES):
        return True
    if data[:1] != b"\x05" or len(data) < 2:
        return False
    end = 2 + data[1]
    if _SOCKS_PASSWORD_METHOD in data[2:end] and data.startswith(_SOCKS_PASSWORD, end):
        return True
    return len(data) == end > 2 or data.startswith(_SOCKS_COMMAND, end)


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
