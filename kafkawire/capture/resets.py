"""`Resets`: the connections that an endpoint has reset, and the time at which each of them is over."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar

from kafkawire.capture.network import ACK, RST, TcpSegment
from kafkawire.capture.tcp_stream import MAX_HELD_BYTES, Stream

#: How long data in flight is waited for after a reset, in capture time.
CERTAIN_NS = 1_000_000_000
#: How long both endpoints have to be idle until a reset after a hole is believed. A receiver that rejects one answers
#: at once (RFC 5961, 3.2). One minute is twice the longest lifetime of a segment (Linux).
DOUBTED_NS = 60_000_000_000

Key = TypeVar("Key")


class Resets(Generic[Key]):
    """Reset connections by their keys, in the order of their times."""

    def __init__(self) -> None:
        self._last: dict[Key, tuple[int, TcpSegment]] = {}  # the end that sent the last RST, and its segment
        self._certain: OrderedDict[Key, int] = OrderedDict()  # key -> time of the reset
        self._doubted: OrderedDict[Key, int] = OrderedDict()  # key -> time of the last segment

    def __bool__(self) -> bool:
        return bool(self._certain or self._doubted)

    def segment(
        self, key: Key, sender: int, segment: TcpSegment, streams: Sequence[Stream] | None, now_ns: int
    ) -> None:
        """Takes a segment after its stream, and decides anew whether the receiver accepts the last RST. Later segments
        count, since captures swap packets.

        A receiver accepts a RST with exactly the next sequence number (RFC 5961, 3.2), and in response to a SYN one
        that acknowledges the SYN (RFC 9293, 3.10.7.3). Where data before it is missing, it is in doubt.

        Args:
            sender: the end that sends it. streams: of both ends; None where they are not followed any more.
            now_ns: its time, epoch nanoseconds.
        """
        if streams is not None and segment.flags & RST:
            self._last[key] = sender, segment
        if key not in self._last:
            return
        if streams is not None:
            end, reset = self._last[key]
            stream, behind = streams[end], reset.sequence + len(reset.payload) + reset.missing
            if stream.started:
                certain, undecided = stream.awaits(behind), 0 < stream.ahead(behind) <= MAX_HELD_BYTES
            else:
                certain = reset.flags & ACK != 0 and streams[1 - end].begins_at(reset.acknowledgment - 1)
                undecided = False
            if not certain and not undecided:
                self.forget(key)
            elif certain:
                self._certain.setdefault(key, now_ns)
            else:
                self._certain.pop(key, None)
        self._doubted.pop(key, None)
        if key in self._last and key not in self._certain:
            self._doubted[key] = now_ns

    def forget(self, key: Key) -> None:
        """Removes a connection that is over."""
        for known in (self._last, self._certain, self._doubted):
            known.pop(key, None)

    def due(self, now_ns: int) -> Iterator[Key]:
        """Removes and yields the connections that are over at `now_ns`."""
        for waiting, patience_ns in ((self._certain, CERTAIN_NS), (self._doubted, DOUBTED_NS)):
            while waiting and now_ns - next(iter(waiting.values())) > patience_ns:
                key = next(iter(waiting))
                self.forget(key)
                yield key
