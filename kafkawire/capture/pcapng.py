"""pcapng files: sections of blocks. A block consists of its type, its length, a body and its length again.

A packet's block with a damaged type may look like a block to skip, and the packet would be lost. So a block is accepted
only if the lengths in its body add up to the whole body. A block of unknown content is accepted only if its body is not
that of a packet.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from kafkawire.capture.files import Lookahead
from kafkawire.capture.packet import Packet, PacketRun, cut_off
from kafkawire.errors import CaptureError

SECTION, _BYTE_ORDER_MAGIC = b"\x0a\x0d\x0d\x0a", b"\x1a\x2b\x3c\x4d"
_INTERFACE, _OLD_PACKET, _SIMPLE_PACKET, _NAMES, _STATISTICS, _ENHANCED_PACKET, _JOURNAL, _SECRETS = *range(1, 7), 9, 10
#: All types with a published layout, and the first type reserved for local use.
_CUSTOM = (0x0BAD, 0x40000BAD)
_DEFINED = frozenset((*range(1, 7), _JOURNAL, _SECRETS, int.from_bytes(SECTION), *_CUSTOM))
_LOCAL = 1 << 31
#: Type of secrets: `TLSK`.
_TLS_KEY_LOG = 0x544C534B
#: Larger blocks are taken for damage: a packet with its options, or a list of names, is smaller.
_MAX_BLOCK_BYTES = 16 << 20
#: The native engine gets a section's interfaces with each run of packets. In a section that has more, packets are taken
#: one by one, so that the time does not grow with the number of interfaces times that of runs.
_MOST_INTERFACES = 1000

_OPTION_END, _OPTION_RESOLUTION, _OPTION_TIME_OFFSET = 0, 9, 14
#: Option codes: the last one that a later release of the format may define, the custom ones, the first local one.
_LAST_OPTION, _CUSTOM_OPTIONS, _LOCAL_OPTION = 255, (2988, 2989, 19372, 19373), 1 << 15


class _Interface(msgspec.Struct):
    """An interface block: how the packets of the interface are read."""

    link_type: int
    snap_length: int
    units_per_second: int = 1_000_000
    offset_s: int = 0

    @property
    def as_numbers(self) -> tuple[int, int, int] | None:
        """The numbers of the interface for the native engine; None for resolutions that it does not know."""
        return (self.link_type, self.units_per_second, self.offset_s) if self.units_per_second < 1 << 63 else None

    def time_ns(self, high: int, low: int) -> int:
        units = (high << 32) | low
        time_ns = self.offset_s * 1_000_000_000 + units * 1_000_000_000 // self.units_per_second
        return time_ns if abs(time_ns) < 1 << 63 else 0


class PcapNg:
    """Reads a pcapng. Each section has its own byte order and interfaces.

    An incomplete or damaged block is not consumed from the file.

    Args:
        doubting: blocks of undefined types are damage; otherwise they are skipped.
        keys: called with each TLS key log in the file (Decryption Secrets Blocks).
        engine: the native tracker, which takes consecutive packets, or None.
        before: number of packets before those of the file.
    """

    def __init__(
        self,
        file: Lookahead,
        *,
        doubting: bool,
        keys: Callable[[bytes], None] | None = None,
        engine: Any = None,
        before: int = 0,
    ) -> None:
        self.file = file
        self._engine = engine
        self._before = before
        self._doubting = doubting
        self._keys = keys
        self.number = 0  # of the last packet in the file
        self.headers = BlockHeaders()
        self._interfaces: list[_Interface] = []
        self._numbers: list[tuple[int, int, int] | None] = []  # of the interfaces, for the engine

    def packets(self) -> Iterator[Packet | PacketRun]:
        begun = False  # damage is reported before the first packet after it
        while head := self.file.at(0, 12):
            kind, body = self._block(head)
            if self._doubting and kind not in _DEFINED and kind < _LOCAL:
                raise CaptureError(expected="a type of block", found=str(kind), offset=self.file.position)
            if (kind >= _LOCAL or kind in _CUSTOM) and _is_packet(body, self.headers.order, self._interfaces):
                raise CaptureError(expected="a packet's type of block", found=str(kind), offset=self.file.position)
            packet = None
            try:
                # No packet precedes the first interface block: that is no damaged packet, and is not checked.
                if kind in _PARTS_END and (kind != _INTERFACE or self._interfaces):
                    _check(kind, body, self.headers.order)
                if kind == _INTERFACE:
                    self._interfaces.append(_interface(body, self.headers.order))
                    self._numbers.append(self._interfaces[-1].as_numbers)
                elif kind in (_ENHANCED_PACKET, _OLD_PACKET, _SIMPLE_PACKET):
                    packet = _packet(kind, body, self.headers.order, self._interfaces, self._before + self.number + 1)
                elif kind == _SECRETS and self._keys is not None:
                    secrets_type, length = struct.unpack_from(self.headers.order + "II", body)
                    if secrets_type == _TLS_KEY_LOG:
                        self._keys(body[8 : 8 + length])
            except (struct.error, IndexError) as error:
                raise CaptureError(
                    expected=f"a block of type {kind}",
                    found=f"one that cannot be read: {error}",
                    offset=self.file.position,
                ) from None
            self.file.read(12 + len(body))
            if packet is not None:
                self.number += 1
                yield packet
                begun = self._engine is not None
            if begun and len(self._numbers) <= _MOST_INTERFACES and (run := self._run()).packets:
                yield run

    def _run(self) -> PacketRun:
        """Passes to the native tracker what is available, up to the first block that is no plain packet."""
        window, start = self.file.ready()
        number = self._before + self.number
        end, count = self._engine.run_blocks(window, start, self.headers.order == "<", self._numbers, number)
        self.file.pass_over(end)
        self.number += count
        return PacketRun(count)

    def _block(self, head: bytes) -> tuple[int, bytes]:
        """The type and body of the block that begins with `head`. A section header block sets the byte order."""
        position = self.file.position
        if len(head) < 8:
            raise cut_off("a block's header", position, len(head))
        section = head[:4] == SECTION
        order = section_order(head) if section else self.headers.order
        if order is None:
            found = head[8:].hex(" ") or "the end"
            raise CaptureError(expected="a section's byte order magic", found=found, offset=position + 8)
        kind, length = struct.unpack_from(order + "II", head)
        if not (16 if section else 12) <= length <= _MAX_BLOCK_BYTES or length % 4:
            raise CaptureError(expected="a block's length", found=str(length), offset=position + 4)
        block = self.file.at(0, length)
        if len(block) < length:
            raise cut_off("a block", position, len(block))
        if block[-4:] != head[4:8]:
            raise CaptureError(
                expected=f"the block's length, {length}, again at its end",
                found=str(struct.unpack(order + "I", block[-4:])[0]),
                offset=position + length - 4,
            )
        if section:
            self.headers.order, self._interfaces, self._numbers = order, [], []
        return kind, block[8:-4]


def _interface(body: bytes, order: str) -> _Interface:
    link_type, snap_length = struct.unpack_from(order + "H2xI", body)
    interface = _Interface(link_type, snap_length)
    position = 8
    while position + 4 <= len(body):
        code, length = struct.unpack_from(order + "HH", body, position)
        value = body[position + 4 : position + 4 + length]
        if code == _OPTION_END:
            break
        if code == _OPTION_RESOLUTION and length == 1:
            # The top bit selects the base of the exponent: 2 if set, else 10.
            exponent = value[0] & 0x7F
            interface.units_per_second = 2**exponent if value[0] & 0x80 else 10**exponent
        if code == _OPTION_TIME_OFFSET and length == 8:
            (interface.offset_s,) = struct.unpack(order + "q", value)
        position += 4 + _padded(length)
    return interface


def _packet(kind: int, body: bytes, order: str, interfaces: list[_Interface], number: int) -> Packet:
    """The packet of a block that `_check` has accepted. Simple packet blocks are checked here, by their interface."""
    if kind == _SIMPLE_PACKET:
        (original,) = struct.unpack_from(order + "I", body)
        interface, start, time_ns = interfaces[0], 4, 0
        kept = min(original, interface.snap_length or original)
        if len(body) != start + _padded(kept):
            raise IndexError(f"{len(body) - start} bytes for packet {number}'s {kept}")
    else:
        # In the old packet block the interface number has 16 bits; a count of drops follows it.
        which, high, low, kept, _ = struct.unpack_from(
            order + ("IIIII" if kind == _ENHANCED_PACKET else "H2xIIII"), body
        )
        interface, start = interfaces[which], 20
        time_ns = interface.time_ns(high, low)
    return Packet(number, time_ns, interface.link_type, body[start : start + kept])


# The parts of a block -----------------------------------------------------------------------------------------------


def _padded(length: int) -> int:
    return length + -length % 4


def _interface_end(body: bytes, order: str) -> int:
    (reserved,) = struct.unpack_from(order + "2xH", body)
    return 8 if not reserved else -1


def _packet_end(body: bytes, order: str) -> int:
    return 20 + _padded(int(struct.unpack_from(order + "12xI", body)[0]))


def _secrets_end(body: bytes, order: str) -> int:
    return 8 + _padded(int(struct.unpack_from(order + "4xI", body)[0]))


def _names_end(body: bytes, order: str) -> int:
    """The end of the records, each of type, length and content. The last one has type and length 0."""
    position = 0
    while True:
        kind, length = struct.unpack_from(order + "HH", body, position)
        position += 4 + _padded(length)
        if not kind:
            return position if not length else -1


#: type of block -> function that returns the offset of its options; -1 for a body that a block of this type cannot have
_PARTS_END: dict[int, Callable[[bytes, str], int]] = {
    _INTERFACE: _interface_end,
    _OLD_PACKET: _packet_end,
    _NAMES: _names_end,
    _STATISTICS: lambda body, order: 12,
    _ENHANCED_PACKET: _packet_end,
    _JOURNAL: lambda body, order: len(body) if b"__REALTIME_TIMESTAMP=" in body else -1,
    _SECRETS: _secrets_end,
}


def _check(kind: int, body: bytes, order: str) -> None:
    """Checks that the parts of a block, options included, add up to its body. Wireshark stops reading if they do not.

    Raises:
        IndexError, struct.error: they do not.
    """
    position = _PARTS_END[kind](body, order)
    while 0 <= position < len(body):
        code, length = struct.unpack_from(order + "HH", body, position)
        position += 4 + _padded(length)
        if code > _LAST_OPTION and code not in _CUSTOM_OPTIONS and code < _LOCAL_OPTION:
            raise IndexError(f"no option has the code {code}")
        if code == _OPTION_END:
            break
    if position != len(body):
        raise IndexError(f"its {len(body)} bytes are not what its parts come to")


def _is_packet(body: bytes, order: str, interfaces: list[_Interface]) -> bool:
    """Whether the body of a block of unknown content has the parts of a packet block."""
    try:
        which, kept, original = struct.unpack_from(order + "I8xII", body)
        _check(_ENHANCED_PACKET, body, order)
    except (struct.error, IndexError):
        return False
    return bool(which < len(interfaces) and 0 < kept <= original)


# Where blocks begin --------------------------------------------------------------------------------------------------


class BlockHeaders:
    """Recognizes blocks, in the byte order of the last section.

    Attributes:
        order: `<` or `>`.
    """

    #: Consecutive blocks that have to be plausible.
    _CHAIN = 2
    #: Sections, interfaces, packets of all kinds, names, statistics, secrets, custom blocks; in either byte order.
    _CANDIDATE = re.compile(rb"(?=\x0a\x0d\x0d\x0a|[\x01-\x0a]\x00\x00\x00|\x00\x00\x00[\x01-\x0a])", re.DOTALL)

    def __init__(self) -> None:
        self.order = ">"

    def may_begin(self, window: bytes) -> Iterator[int]:
        return (found.start() for found in self._CANDIDATE.finditer(window))

    def begins(self, file: Lookahead, offset: int) -> bool:
        order = self.order
        for _ in range(self._CHAIN):
            head = file.at(offset, 12)
            if not head:
                return True  # the block before ended with its length, so it was complete
            order = section_order(head) or order
            if len(head) < 12:
                return False
            (length,) = struct.unpack_from(order + "I", head, 4)
            if not 12 <= length <= _MAX_BLOCK_BYTES or length % 4 or file.at(offset + length - 4, 4) != head[4:8]:
                return False
            offset += length
        return True


def section_order(head: bytes) -> str | None:
    """The byte order of the section that begins with these 12 bytes; None if none begins, or its order is unknown."""
    if head[:4] != SECTION:
        return None
    return {_BYTE_ORDER_MAGIC: ">", _BYTE_ORDER_MAGIC[::-1]: "<"}.get(head[8:12])
