"""`Resets`: connections that one endpoint has reset, and when each of them is over."""

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
        self._certain: OrderedDict[Key, int] = OrderedDict()  # key -> time of the reset
        self._doubted: OrderedDict[Key, int] = OrderedDict()  # key -> time of the last segment

    def __bool__(self) -> bool:
        return bool(self._certain or self._doubted)

    def note(self, key: Key, certain_ns: int | None, doubted_ns: int | None) -> None:
        """Records a connection's state after one more segment.

        Args:
            certain_ns: since when its reset is certain, epoch nanoseconds; None: it is not.
            doubted_ns: time of the segment, where its reset is in doubt; None: it is not.
        """
        self._doubted.pop(key, None)
        if certain_ns is None:
            self._certain.pop(key, None)
        else:
            self._certain.setdefault(key, certain_ns)
        if doubted_ns is not None:
            self._doubted[key] = doubted_ns

    def forget(self, key: Key) -> None:
        """Removes a connection that is over."""
        self.note(key, None, None)

    def due(self, now_ns: int) -> Iterator[Key]:
        """Removes and yields the connections that are over at `now_ns`."""
        for waiting, patience_ns in ((self._certain, CERTAIN_NS), (self._doubted, DOUBTED_NS)):
            while waiting and now_ns - next(iter(waiting.values())) > patience_ns:
                yield waiting.popitem(last=False)[0]


class ConnectionReset:
    """Whether one connection is reset.

    Attributes:
        since_ns: since when that is certain; None: it is not. Data of the other direction may still follow.
    """

    def __init__(self) -> None:
        self.since_ns: int | None = None
        self._last: tuple[int, TcpSegment] | None = None  # the end that sent the last RST, and its segment

    @property
    def in_doubt(self) -> bool:
        """Whether a RST was captured that may be valid: data before it is missing in the capture."""
        return self._last is not None and self.since_ns is None

    def segment(self, sender: int, segment: TcpSegment, streams: Sequence[Stream], now_ns: int) -> None:
        """Takes a segment after its stream, and decides anew whether the receiver accepts a RST. Later segments count,
        since captures swap packets.

        Args:
            sender: the end that sends it. streams: of both ends.
            now_ns: its time.
        """
        if segment.flags & RST:
            self._last = sender, segment
        if self._last is None:
            return
        sender, reset = self._last
        certain, undecided = acceptance(reset, streams[sender], streams[1 - sender])
        if not certain:
            self.since_ns = None
        elif self.since_ns is None:
            self.since_ns = now_ns
        if not certain and not undecided:
            self._last = None


def acceptance(reset: TcpSegment, stream: Stream, peer: Stream) -> tuple[bool, bool]:
    """Whether the receiver of a RST accepts it, and whether later segments may show that it does.

    A receiver accepts a RST with exactly the next sequence number (RFC 5961, 3.2), and in response to a SYN one that
    acknowledges the SYN (RFC 9293, 3.10.7.3).

    Args:
        stream: of the direction that the RST is in; `peer`: of the other one.
    """
    if not stream.started:
        return bool(reset.flags & ACK) and peer.begins_at(reset.acknowledgment - 1), False
    behind = reset.sequence + len(reset.payload) + reset.missing
    return stream.awaits(behind), 0 < stream.ahead(behind) <= MAX_HELD_BYTES
