"""`LatePackets`: the packets of a connection that were captured after the acknowledgments of their bytes.

A response to a request in such a packet may have been captured before the request. One to any other request was not: a
broker acknowledges a request no later than it answers it.
"""

from __future__ import annotations

from collections import deque

from kafkawire.capture.network import ACK, RST, TcpSegment

#: Packets that are remembered.
_MOST = 1000


class LatePackets:
    """Directions have the index of the end that sends."""

    def __init__(self) -> None:
        self._acknowledged: list[int | None] = [None, None]  # the newest number that the other end has sent
        self._late: deque[int] = deque(maxlen=_MOST)

    def __contains__(self, packet: int) -> bool:
        return packet in self._late

    def segment(self, sender: int, segment: TcpSegment, following: int, packet: int) -> None:
        """Takes a segment.

        Args:
            sender: the end that sends it.
            following: sequence number of the first byte of its direction that was not captured before.
            packet: number of its packet.
        """
        if segment.flags & ACK and not segment.flags & RST:
            self._acknowledged[1 - sender] = segment.acknowledgment
        acknowledged = self._acknowledged[sender]
        if segment.payload and (acknowledged is None or 0 < (acknowledged - following) & 0xFFFFFFFF < 1 << 31):
            self._late.append(packet)
