"""`Packet`, and definitions that the readers of pcap and pcapng share."""

from __future__ import annotations

import msgspec

from kafkawire.errors import CaptureError

#: Larger packets are taken for damage (libpcap's MAXIMUM_SNAPLEN; Wireshark has the same limit).
MAX_PACKET_BYTES = 262_144


class Packet(msgspec.Struct, frozen=True, gc=False):
    """A captured packet.

    Attributes:
        number: from 1, in the order of the file.
        time_ns: when it was captured, epoch nanoseconds; 0 where the file has no time.
        link_type: type of its first header (LINKTYPE_..., 1 is Ethernet).
        data: its bytes from the link-layer header on; fewer than the packet had if the capture truncated it.
    """

    number: int
    time_ns: int
    link_type: int
    data: bytes


class PacketRun(msgspec.Struct, frozen=True, gc=False):
    """Consecutive packets that the native engine has processed.

    Attributes:
        packets: their number.
    """

    packets: int


def cut_off(what: str, position: int, there: int) -> CaptureError:
    """The error for a file that ends within `what`.

    Args:
        position: offset of `what` in the file.
        there: bytes of it that exist.
    """
    return CaptureError(expected=f"all of {what}", found=f"the end of the file after {there} bytes", offset=position)
