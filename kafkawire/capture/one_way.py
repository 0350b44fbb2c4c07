"""Recognition of responses without requests: a capture of what brokers send, as from a mirror port of one direction.

Correlation ids that are near each other do not prove Kafka's protocol, because other protocols number their messages,
too. The port of a broker proves it, or a response that no message of another protocol resembles.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from kafkawire.frames import MAX_FRAME_BYTES, decode_response
from kafkawire.messages import REGISTRY

if TYPE_CHECKING:
    from kafkawire.capture.frame_stream import FrameStream
    from kafkawire.wire.registry import Registry

#: Ports of brokers in Kafka's documentation: PLAINTEXT, SSL, SASL, controllers.
BROKER_PORTS = frozenset({9092, 9093, 9094, 9095})
#: Responses from such a port that follow one another.
_FEWEST = 4
_HEADER = struct.Struct(">ii")  # size, correlation id
#: Correlation ids of responses that follow one another differ by this at most: Kafka's Java numbers the requests of all
#: its connections in one row.
_MOST_STEPS = 1000
#: Kafka's Java numbers requests from here on while it authenticates.
_RESERVED = (1 << 31) - 8
#: Packets that begin with what looks like a response, of which each is tried.
_MOST_TRIED = 8
#: Bytes after which there has to be a response: the first ones may be the end of one.
_PATIENCE = 64 << 10
_MOST_DECODED = 16
_FETCH, _METADATA, _API_VERSIONS = 1, 3, 18
_FEWEST_APIS = 5
_BATCH_HEADER, _MAGIC_AT = 61, 16


class OneWay:
    """Whether the bytes of a direction are responses alone. They are looked at again when they have doubled.

    Args:
        port: of the end that sends. `ruled`: a rule says that it is a broker's.
        api_keys: of the messages that are looked for.
    """

    def __init__(self, port: int, *, ruled: bool, api_keys: Collection[int]) -> None:
        self._port, self._ruled, self._api_keys = port, ruled, api_keys
        self._may_be = True
        self._wanted = 0

    def may_be_responses(self, stream: FrameStream) -> bool:
        """Whether its loose bytes may be responses that follow one another."""
        if self._may_be and len(stream.loose) >= self._wanted:
            self._wanted = 2 * len(stream.loose)
            self._may_be = may_be_responses(bytes(stream.loose), stream.starts())
        return self._may_be

    def is_due(self, stream: FrameStream) -> bool:
        """Whether there are enough bytes for another look, also for requests in them."""
        return len(stream.loose) >= self._wanted

    def first(self, stream: FrameStream) -> int | None:
        """Where the first response begins; None: it is not certain that these are Kafka's."""
        data, starts = bytes(stream.loose), stream.starts()
        return first_response(data, starts, self._port, ruled=self._ruled, api_keys=self._api_keys)


def chain(data: bytes, starts: Iterable[int]) -> list[tuple[int, int]] | None:
    """Beginnings and ends of the responses that follow one another up to the end of the data; None: there are none.

    Args:
        data: bytes of one direction. starts: offsets in it at which packets begin.
    """
    tried = 0
    for start in sorted(starts):
        found = list(_responses(data, start))
        end, last = start, None
        if found:
            tried += 1
            end, last = found[-1][1], _HEADER.unpack_from(data, found[-1][0])[1]
        if len(data) - end < _HEADER.size or _may_follow(data, end, last):
            return found or [(start, end)]
        if tried >= _MOST_TRIED:
            break
    return None


def may_be_responses(data: bytes, starts: Iterable[int]) -> bool:
    """Whether bytes of one direction may be responses that follow one another, or the end of one before those."""
    return len(data) < _PATIENCE or chain(data, starts) is not None


def _responses(data: bytes, position: int) -> Iterator[tuple[int, int]]:
    last = None
    while len(data) - position >= _HEADER.size and _may_follow(data, position, last):
        size, last = _HEADER.unpack_from(data, position)
        if position + 4 + size > len(data):
            return
        yield position, position + 4 + size
        position += 4 + size


def _may_follow(data: bytes, position: int, last: int | None) -> bool:
    number: int
    size, number = _HEADER.unpack_from(data, position)
    if not 4 <= size <= MAX_FRAME_BYTES:
        return False
    if last is None:
        return number >= 0
    if number < 0 <= last < _RESERVED:  # numbers that wrap are negative
        return False
    return last < 0 <= number or 0 < abs(number - last) <= _MOST_STEPS or max(number, last) >= _RESERVED


def first_response(
    data: bytes, starts: Iterable[int], port: int, *, ruled: bool, api_keys: Collection[int]
) -> int | None:
    """Where the first of responses alone begins; None: it is not certain that these are Kafka's.

    Args:
        data, starts: see `chain`. port, ruled, api_keys: see `OneWay`.
    """
    found = chain(data, starts)
    if found is None or found[0][0] == found[0][1]:
        return None
    known = port in BROKER_PORTS and len(found) >= _FEWEST and not _is_zookeepers(data, found)
    return found[0][0] if ruled or known or _is_named(data, found, api_keys) else None


def _is_zookeepers(data: bytes, found: list[tuple[int, int]]) -> bool:
    """Whether these are ZooKeeper's: requests for a path each, or replies with a transaction id and an error code."""
    bodies = [data[begin + 8 : end] for begin, end in found]
    if all(body[8:9] == b"/" for body in bodies):
        return True
    replies = [struct.unpack_from(">qi", body) for body in bodies if len(body) >= 12]
    ids = [one for one, _ in replies]
    return (
        len(replies) == len(bodies)
        and ids[0] > 0
        and ids == sorted(ids)
        and all(-200 < error <= 0 for _, error in replies)
    )


def _is_named(data: bytes, found: list[tuple[int, int]], api_keys: Collection[int]) -> bool:
    """Whether a response is one that no other protocol's message resembles."""
    frames = [data[begin + 4 : end] for begin, end in found[:_MOST_DECODED]]
    return any(
        api_key in api_keys and any(test(body) for frame in frames for body in _bodies(frame, api_key, REGISTRY))
        for api_key, test in ((_API_VERSIONS, _lists_apis), (_METADATA, _lists_brokers), (_FETCH, _has_records))
    )


def _bodies(frame: bytes, api_key: int, registry: Registry) -> Iterator[Any]:
    cls = registry.rpc(api_key, "response")
    for version in () if cls is None else cls.spec.valid_versions:
        body = decode_response(frame, api_key=api_key, version=version, registry=registry).body
        if body is not None:
            yield body


def _lists_apis(body: Any) -> bool:
    listed = body.api_keys
    known = [one for one in listed if one.api_key in REGISTRY.requests() and 0 <= one.min_version <= one.max_version]
    return len(known) >= _FEWEST_APIS and len({one.api_key for one in listed}) == len(listed)


def _lists_brokers(body: Any) -> bool:
    listed = [one for one in body.brokers if one.host and one.host.isprintable() and 0 < one.port < 1 << 16]
    topics = [one for one in body.topics if one.name and one.name.isprintable() and one.partitions]
    return bool(listed and topics) and len(listed) == len(body.brokers) and len(topics) == len(body.topics)


def _has_records(body: Any) -> bool:
    found = [part.records for topic in body.responses for part in topic.partitions if part.records]
    return any(
        len(one) >= _BATCH_HEADER and one[_MAGIC_AT] == 2 and int.from_bytes(one[8:12], "big") + 12 <= len(one)
        for one in found
    )
