"""`Fragments`: reassembly of IP datagrams (RFC 791, RFC 8200), in bounded memory."""

from __future__ import annotations

import msgspec

#: Incomplete datagrams at the same time; beyond that the oldest one is dropped.
MOST_DATAGRAMS = 256
#: Complete datagrams that are remembered: copies of their fragments (a mirror's, in a tunnel) may follow.
_MOST_COMPLETE = 64
#: Most bytes of an IP datagram, and most fragments that one may have.
_MOST_BYTES = 65_535
_MOST_PARTS = 512


class Fragment(msgspec.Struct, frozen=True, gc=False):
    """A fragment of an IP datagram.

    Attributes:
        source, destination: addresses, 4 or 16 bytes. `protocol`: IP protocol of the datagram (6 is TCP).
        identification: the number that the fragments of one datagram share.
        offset: of the fragment in the datagram, in bytes; `more`: it is not the last.
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
    """An incomplete datagram: its fragments by offset."""

    __slots__ = ("parts", "size")

    def __init__(self) -> None:
        self.parts: dict[int, bytes] = {}
        self.size: int | None = None  # known once the last fragment has arrived

    def whole(self) -> bytes | None:
        """The datagram; None while fragments are missing. Where fragments overlap, the first bytes count."""
        if self.size is None:
            return None
        whole = bytearray()
        for offset in sorted(self.parts):
            if offset > len(whole):
                return None
            whole += self.parts[offset][len(whole) - offset :]
        return bytes(whole[: self.size]) if len(whole) >= self.size else None


class Fragments:
    """Reassembles datagrams.

    Attributes:
        lost: fragments of datagrams that were dropped.
    """

    def __init__(self) -> None:
        self.lost = 0
        self._datagrams: dict[_Key, _Datagram] = {}
        self._complete: dict[_Key, bytes] = {}

    def add(self, fragment: Fragment) -> bytes | None:
        """Takes a fragment; returns the datagram without IP headers if this fragment completes it."""
        if fragment.offset + len(fragment.data) > _MOST_BYTES:
            self.lost += 1
            return None
        key = (fragment.source, fragment.destination, fragment.protocol, fragment.identification)
        datagram = self._datagrams.get(key)
        if datagram is None and (complete := self._complete.get(key)) is not None:
            if complete.startswith(fragment.data, fragment.offset):
                return None  # a copy
            del self._complete[key]  # the identification is used again
        if datagram is not None and len(datagram.parts) >= _MOST_PARTS:
            self._drop(key)
            datagram = None
        if datagram is None:
            if len(self._datagrams) >= MOST_DATAGRAMS:
                self._drop(next(iter(self._datagrams)))
            datagram = self._datagrams[key] = _Datagram()
        datagram.parts.setdefault(fragment.offset, fragment.data)
        if not fragment.more:
            datagram.size = fragment.offset + len(fragment.data)
        whole = datagram.whole()
        if whole is not None:
            del self._datagrams[key]
            self._complete[key] = whole
            if len(self._complete) > _MOST_COMPLETE:
                del self._complete[next(iter(self._complete))]
        return whole

    def finish(self) -> None:
        """Drops the incomplete datagrams."""
        for key in list(self._datagrams):
            self._drop(key)

    def _drop(self, key: _Key) -> None:
        self.lost += len(self._datagrams.pop(key).parts)
