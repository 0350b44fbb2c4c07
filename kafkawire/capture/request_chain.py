"""Evidence that bytes are requests of Kafka's protocol, from headers alone: sizes that chain, one client id,
correlation ids that are near each other, one version of each api, and responses that repeat a correlation id.

Bodies are not decoded, so that requests of versions and apis newer than the schemas are recognized as well.
"""

from __future__ import annotations

import struct
from collections.abc import Container, Iterable, Mapping
from typing import NamedTuple

from kafkawire.frames import MAX_FRAME_BYTES
from kafkawire.frames.headers import API_VERSIONS

START = struct.Struct(">ihhih")  # size, api key, version, correlation id, length of the client id
SHORTEST_REQUEST, SHORTEST_RESPONSE = 8, 4
#: Longer client ids are not recognized. Kafka allows 32767 bytes.
LONGEST_CLIENT_ID = 1024
#: Versions above the newest one, and api keys beside those that are known, which may be those of a newer release.
_NEWER = 10
#: The same for ApiVersions: clients send it before they know the broker's versions.
MOST_API_VERSIONS = 100
#: Correlation ids of two requests that follow one another differ by this at most.
_MOST_STEPS = 1000
#: Headers that are compared at most.
_MOST = 4


class RequestChain(NamedTuple):
    """Requests that follow one another.

    Attributes:
        headers: number of headers that agree, `_MOST` at most; 0: the first request is not whole.
        end: position after the last whole request.
        whole: what follows that may be the beginning of a request, or nothing follows.
        client_id: of all of them; None for null.
        correlation_ids: of all of them.
    """

    headers: int
    end: int
    whole: bool
    client_id: bytes | None
    correlation_ids: tuple[int, ...]

    def is_certain(self, *, aligned: bool, echoed: bool) -> bool:
        """Whether these are requests of Kafka's protocol.

        Args:
            aligned: a packet begins with the first of them.
            echoed: a packet of the other direction begins with a response to one of them.
        """
        if not self.headers or not self.whole:
            return False
        if not aligned:
            return self.headers >= 3 and bool(self.client_id)
        if self.client_id:
            return self.headers >= (1 if echoed else 2)
        return self.headers >= (2 if echoed else 3 if self.client_id is None else 4)

    def is_likely(self, *, echoed: bool) -> bool:
        """Whether these may be requests of Kafka's protocol, where a packet begins with the first of them.

        A response resembles a request whose correlation id is 0: its first field is the time of a throttle, mostly 0.
        """
        if not self.headers or not self.whole:
            return False
        return echoed or bool(self.client_id and self.correlation_ids[0] > 0)


class HeaderVersions(NamedTuple):
    """The versions of requests, by api key, and the api keys that may be those of a newer release."""

    known: Mapping[int, tuple[int, int]]
    neighbours: Container[int]

    @classmethod
    def of(cls, known: Mapping[int, tuple[int, int]]) -> HeaderVersions:
        """`known`: the first and last version of each request. A release adds apis after the highest api key; those
        of protocols that are not Kafka's are not guessed."""
        highest = max(known, default=0)
        return cls(known, range(highest + 1, highest + 1 + _NEWER) if API_VERSIONS in known else ())

    def may_be(self, api_key: int, version: int) -> bool:
        """Whether a newer release of Kafka may have a request of that api key and version."""
        if version < 0:
            return False
        if api_key in self.known:
            newer = MOST_API_VERSIONS if api_key == API_VERSIONS else _NEWER
            return version <= self.known[api_key][1] + newer
        return api_key in self.neighbours and version <= _NEWER


class _Header(NamedTuple):
    """The header of a request. `end`: position after its frame."""

    api_key: int
    version: int
    correlation_id: int
    client_id: bytes | None
    end: int

    def may_follow(self, before: list[_Header]) -> bool:
        """Whether a client may send it after these."""
        if not before:
            return True
        if self.client_id != before[0].client_id:
            return False
        # Kafka's Java may number a request before others that it sends first.
        if not 0 < abs(self.correlation_id - before[-1].correlation_id) <= _MOST_STEPS:
            return False
        same = (one for one in before if one.api_key == self.api_key != API_VERSIONS)
        return all(one.version == self.version for one in same)


def chain(data: bytes | bytearray, position: int, versions: HeaderVersions) -> RequestChain:
    """The requests that follow one another from a position on.

    Args:
        data: bytes of one direction.
        position: where the first one begins.
        versions: those that requests may have.
    """
    headers: list[_Header] = []
    header: _Header | None = None
    end, whole = position, True
    while whole and end <= len(data) and len(headers) < _MOST:
        header = _header(data, end, versions)
        if header is None:
            break
        whole = header is not _NO_HEADER and header.may_follow(headers)
        if not whole or not (headers or header.end <= len(data)):
            break
        headers.append(header)
        end = header.end
    if headers and headers[-1].end > len(data):
        end = headers[-2].end
    client_id = headers[0].client_id if headers else header.client_id if header is not None else None
    return RequestChain(len(headers), end, whole, client_id, tuple(one.correlation_id for one in headers))


def named_request(data: bytes | bytearray, position: int) -> RequestChain:
    """A request that is not whole, whose header has a client id; otherwise a chain without correlation ids."""
    _, _, _, correlation_id, length = START.unpack_from(data, position)
    whole = 0 < length <= len(data) - position - START.size
    return RequestChain(0, position, whole, None, (correlation_id,) if whole else ())


_NO_HEADER = _Header(-1, -1, -1, None, -1)


def _header(data: bytes | bytearray, position: int, versions: HeaderVersions) -> _Header | None:
    """The header at a position; None: it is not all there; `_NO_HEADER`: there is none."""
    if len(data) - position < START.size:
        return None
    size, api_key, version, correlation_id, length = START.unpack_from(data, position)
    if not SHORTEST_REQUEST + 2 <= size <= MAX_FRAME_BYTES or not versions.may_be(api_key, version):
        return _NO_HEADER
    if not -1 <= length <= min(size - 10, LONGEST_CLIENT_ID):
        return _NO_HEADER
    begin, end = position + START.size, position + START.size + max(length, 0)
    if end > len(data):
        return None
    client_id = None if length < 0 else bytes(data[begin:end])
    if client_id is not None and not is_text(client_id):
        return _NO_HEADER
    return _Header(api_key, version, correlation_id, client_id, position + 4 + size)


def is_text(data: bytes | bytearray) -> bool:
    """Whether bytes are printable text in UTF-8; the last character may be incomplete."""
    try:
        return data.decode("utf-8").isprintable()
    except UnicodeDecodeError as error:
        return error.reason == "unexpected end of data"  # a character cut off by the end of the data


def is_echoed(found: RequestChain, peer: bytes | bytearray, starts: Iterable[int], versions: HeaderVersions) -> bool:
    """Whether a packet of the other direction begins with a response that has the correlation id of a request.

    Bytes that may be a request do not count as a response with the correlation id 0, which a Produce v0 resembles.

    Args:
        found: the requests.
        peer: bytes of the other direction. starts: offsets in it at which packets begin.
        versions: those that requests may have.
    """
    for start in starts:
        if len(peer) - start >= 8:
            size, correlation_id = struct.unpack_from(">ii", peer, start)
            if not SHORTEST_RESPONSE <= size <= MAX_FRAME_BYTES or correlation_id not in found.correlation_ids:
                continue
            if correlation_id or _header(peer, start, versions) in (None, _NO_HEADER):
                return True
    return False
