"""`Packet`, and what readers of capture files have in common."""

from __future__ import annotations

from typing import Any

import msgspec

from kafkawire.errors import CaptureError

#: Larger packets are not believed (libpcap's MAXIMUM_SNAPLEN; Wireshark's limit too).
MAX_PACKET_BYTES = 262_144


class Packet(msgspec.Struct, frozen=True, gc=False):
    """A captured packet.

    Attributes:
        number: from 1, in the order of the file.
        time_ns: when it was captured, epoch nanoseconds; 0 where the file does not say.
        link_type: what its first header is (LINKTYPE_..., 1 is Ethernet).
        data: its bytes, from the link layer's header on; fewer than the packet had where the capture cut them.
    """

    number: int
    time_ns: int
    link_type: int
    data: bytes


class PacketRun(msgspec.Struct, frozen=True, gc=False):
    """Packets in a row that have been dealt with: how many, in how many bytes, what came of them, and the time of the
    last one (to the second)."""

    packets: int
    bytes: int
    taken: list[Any]
    time_ns: int


def cut_off(what: str, position: int, there: int) -> CaptureError:
    """The file ends too early."""
    return CaptureError(expected=f"all of {what}", found=f"the end of the file after {there} bytes", offset=position)
