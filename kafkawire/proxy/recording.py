"""`Recording`: a pcapng file of the traffic through a proxy, without TLS, that every reader of captures can read."""

from __future__ import annotations

import ipaddress
import os
import struct
import time
from contextlib import suppress
from typing import BinaryIO

_RAW_IP = 101
_MOST = 60_000  # bytes of a packet's payload: IP has 16 bits for its length
_SYN, _ACK, _FIN, _PUSH = 2, 16, 1, 8

Peer = tuple[str, int]


def _block(kind: int, body: bytes) -> bytes:
    padded = body + bytes(-len(body) % 4)
    size = struct.pack("<I", 12 + len(padded))
    return struct.pack("<I", kind) + size + padded + size


class Recording:
    """Writes packets as they pass. The connections of clients are TCP connections in it, each with its handshake.

    Args:
        target: a file's path, which is written anew; or where bytes are written to, which stays open.

    Attributes:
        failed: the error that ended the recording; None: it has not ended.
    """

    def __init__(self, target: str | os.PathLike[str] | BinaryIO) -> None:
        self._own = isinstance(target, (str, os.PathLike))
        self._file: BinaryIO = open(target, "wb") if isinstance(target, (str, os.PathLike)) else target  # noqa: SIM115  # `close`
        self._name = os.fspath(target) if isinstance(target, (str, os.PathLike)) else "standard output"
        self.failed: OSError | None = None
        self._write(_block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)))
        self._write(_block(1, struct.pack("<HHI", _RAW_IP, 0, 0)))
        self.flush()

    def _write(self, data: bytes) -> None:
        try:
            self._file.write(data)
        except OSError as error:
            raise self._ended(error) from None

    def _ended(self, error: OSError) -> OSError:
        error.filename = self._name
        self.failed = error
        return error

    def connection(self, client: Peer, broker: Peer) -> RecordedConnection:
        """Begins a connection of a client to a broker."""
        return RecordedConnection(self, client, broker)

    def packet(self, data: bytes) -> None:
        """Writes an IP packet with the present time."""
        now = time.time_ns() // 1000
        head = struct.pack("<IIIII", 0, now >> 32, now & 0xFFFFFFFF, len(data), len(data))
        self._write(_block(6, head + data))

    def flush(self) -> None:
        """Flushes the written packets to the file. Raises OSError, as writing does."""
        try:
            self._file.flush()
        except OSError as error:
            raise self._ended(error) from None

    def close(self) -> None:
        """Ends the recording. Raises OSError where the last bytes do not reach the file."""
        try:
            self.flush()
        finally:
            if self._own:
                with suppress(OSError):
                    self._file.close()


class RecordedConnection:
    """One connection in a recording: sequence numbers of both directions."""

    def __init__(self, recording: Recording, client: Peer, broker: Peer) -> None:
        self._recording = recording
        self._ends = _end(client), _end(broker)
        self._next = [0, 0]
        for direction, flags in ((0, _SYN), (1, _SYN | _ACK), (0, _ACK)):
            self._write(direction, flags, b"")
            if flags & _SYN:
                self._next[direction] += 1

    def data(self, *, from_client: bool, data: bytes | memoryview) -> None:
        """Bytes of a direction."""
        direction = 0 if from_client else 1
        for at in range(0, len(data), _MOST):
            piece = bytes(data[at : at + _MOST])
            self._write(direction, _ACK | _PUSH, piece)
            self._next[direction] = (self._next[direction] + len(piece)) & 0xFFFFFFFF
        self._recording.flush()

    def end(self) -> None:
        for direction in (0, 1):
            self._write(direction, _FIN | _ACK, b"")
            self._next[direction] += 1
        self._recording.flush()

    def _write(self, direction: int, flags: int, payload: bytes) -> None:
        (source, source_port), (target, target_port) = self._ends[direction], self._ends[1 - direction]
        sequence, acknowledged = self._next[direction], self._next[1 - direction] if flags & _ACK else 0
        tcp = struct.pack(">HHIIBBHHH", source_port, target_port, sequence, acknowledged, 5 << 4, flags, 65535, 0, 0)
        if len(source) == len(target) == 4:
            size = 40 + len(payload)
            head = struct.pack(">BBHHHBBH", 0x45, 0, size, 0, 0, 64, 6, 0) + source + target
        else:
            head = struct.pack(">IHBB", 6 << 28, 20 + len(payload), 6, 64) + _long(source) + _long(target)
        self._recording.packet(head + tcp + payload)


def _end(peer: Peer) -> tuple[bytes, int]:
    """Address and port in bytes; a name that is no address is 0.0.0.0."""
    try:
        return ipaddress.ip_address(peer[0].partition("%")[0]).packed, peer[1]
    except ValueError:
        return bytes(4), peer[1]


def _long(address: bytes) -> bytes:
    return address if len(address) == 16 else bytes(10) + b"\xff\xff" + address
