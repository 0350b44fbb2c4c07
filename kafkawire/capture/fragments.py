"""`Fragments`: IP datagrams put together from their fragments (RFC 791, RFC 8200), in bounded memory."""

from __future__ import annotations

import msgspec

#: Datagrams that are put together at the same time; beyond it the one that began first is given up.
MOST_DATAGRAMS = 256
#: Most bytes that an IP datagram can have, and parts that one is believed to come in.
_MOST_BYTES = 65_535
_MOST_PARTS = 512


class Fragment(msgspec.Struct, frozen=True, gc=False):
    """A part of a datagram.

    Attributes:
        source, destination: addresses, 4 or 16 bytes. `protocol`: what the whole holds (6 is TCP).
        identification: what the fragments of one datagram have in common.
        offset: of the part in the whole, in bytes; `more`: it is not the last.
    """

    source: bytes
    destination: bytes
    protocol: int
    identification: int
    offset: int
    more: bool
    data: bytes


_Key = tuple[bytes, bytes, int, int]


class _Datagram:
    """What has arrived of one datagram: parts by offset."""

    __slots__ = ("parts", "size")

    def __init__(self) -> None:
        self.parts: dict[int, bytes] = {}
        self.size: int | None = None  # known once the last fragment is there

    def whole(self) -> bytes | None:
        """All of it; of bytes that came twice, the first copy counts."""
        if self.size is None:
            return None
        whole = bytearray()
        for offset in sorted(self.parts):
            if offset > len(whole):
                return None
            whole += self.parts[offset][len(whole) - offset :]
        return bytes(whole[: self.size]) if len(whole) >= self.size else None


class Fragments:
    """Fragments in, datagrams out.

    Attributes:
        lost: fragments of datagrams that were given up.
    """

    def __init__(self) -> None:
        self.lost = 0
        self._datagrams: dict[_Key, _Datagram] = {}

    def add(self, fragment: Fragment) -> bytes | None:
        """What the datagram holds, behind its IP headers, once the last part that lacked is there."""
        if fragment.offset + len(fragment.data) > _MOST_BYTES:
            self.lost += 1
            return None
        key = (fragment.source, fragment.destination, fragment.protocol, fragment.identification)
        datagram = self._datagrams.get(key)
        if datagram is not None and len(datagram.parts) >= _MOST_PARTS:
            self._give_up(key)
            datagram = None
        if datagram is None:
            if len(self._datagrams) >= MOST_DATAGRAMS:
                self._give_up(next(iter(self._datagrams)))
            datagram = self._datagrams[key] = _Datagram()
        datagram.parts.setdefault(fragment.offset, fragment.data)
        if not fragment.more:
            datagram.size = fragment.offset + len(fragment.data)
        whole = datagram.whole()
        if whole is not None:
            del self._datagrams[key]
        return whole

    def finish(self) -> None:
        """Nothing more comes."""
        for key in list(self._datagrams):
            self._give_up(key)

    def _give_up(self, key: _Key) -> None:
        self.lost += len(self._datagrams.pop(key).parts)
