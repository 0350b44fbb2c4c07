"""TLS of captures: key logs, and connections whose secrets are known, from bytes of both directions that are cut at any
place."""

from __future__ import annotations

import hmac
import re
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path

from kafkawire.capture import Chunk
from kafkawire.capture.tls import KeyLogFile, Secrets, TlsSession, key_schedule
from tools.fuzz import inputs
from tools.fuzz.target import FuzzTarget

# Key logs -------------------------------------------------------------------------------------------------------------

_RANDOM, _MASTER, _TRAFFIC = bytes([1]) * 32, bytes([2]) * 48, bytes([3]) * 32
_LABELS = tuple(
    f"{side}_{stage}" for side in ("CLIENT", "SERVER") for stage in ("HANDSHAKE_TRAFFIC_SECRET", "TRAFFIC_SECRET_0")
)
_KEY_LOG = "".join(
    [
        f"CLIENT_RANDOM {_RANDOM.hex()} {_MASTER.hex()}\n",
        *(f"{label} {_RANDOM.hex()} {_TRAFFIC.hex()}\n" for label in _LABELS),
    ]
).encode()
_DIGITS = re.compile(rb"[0-9a-fA-F]{16,}")


def check_key_log(data: bytes) -> None:
    """A file read at once gives what it gives while it grows, and no problem repeats a secret."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "keys.log"
        path.write_bytes(data)
        whole = Secrets([KeyLogFile(path)])
        whole.read()
        path.write_bytes(b"")
        grown = Secrets([KeyLogFile(path)], grows=True)
        with path.open("ab") as file:
            for start in range(0, len(data), 50):
                file.write(data[start : start + 50])
                file.flush()
                grown.read()
            file.write(b"\n")
        grown.read()
    assert (whole.count, whole.malformed, whole.problems) == (grown.count, grown.malformed, grown.problems)
    problems = " ".join(whole.problems).encode()
    assert not any(digits[0] in problems for digits in _DIGITS.finditer(data))


def _key_logs() -> Iterator[bytes]:
    yield _KEY_LOG
    yield _KEY_LOG[:-3]
    yield b"RSA " + bytes(8).hex().encode() + b" " + _MASTER.hex().encode() + b"\r\n# comment\n\n"
    yield b"RSA Session-ID:00ff Master-Key:" + _MASTER.hex().encode() + b"\nA 00 00\n"


# Connections ----------------------------------------------------------------------------------------------------------

_SUITES = (0x1301, 0x1303, 0x009C, 0xCCA8, 0x002F)


def _message(kind: int, body: bytes) -> bytes:
    return bytes([kind]) + len(body).to_bytes(3, "big") + body


def _record(kind: int, content: bytes) -> bytes:
    return struct.pack(">BHH", kind, 0x303, len(content)) + content


def _hello(server: bool, suite: int) -> bytes:
    """A ClientHello or ServerHello."""
    version = b"\x00\x2b\x00\x02\x03\x04" if suite >> 8 == 0x13 and server else b""
    chosen = struct.pack(">HB", suite, 0) if server else struct.pack(">HHBB", 2, suite, 1, 0)
    body = b"\x03\x03" + _RANDOM + b"\x00" + chosen + struct.pack(">H", len(version)) + version
    return _record(22, _message(2 if server else 1, body))


class _RecordWriter:
    """Writes the protected records of one direction."""

    def __init__(self, suite: int, side: int) -> None:
        from kafkawire.capture.tls.cipher_suites import cipher_suite

        found = cipher_suite(suite)
        assert found is not None
        self._suite, self._modern, self.sequence = found, suite >> 8 == 0x13, 0
        if self._modern:
            self._keys = key_schedule.traffic_keys(found.hash, _TRAFFIC, found.key_bytes)
        else:
            sizes = (20 if found.mode == "CBC" else 0, found.key_bytes, {"CBC": 0, "POLY1305": 12}.get(found.mode, 4))
            self._keys = key_schedule.key_block(found.hash, _MASTER, _RANDOM + _RANDOM, sizes)[side]

    def record(self, kind: int, content: bytes) -> bytes:
        from cryptography.hazmat.primitives.ciphers import Cipher, aead, algorithms, modes

        sequence, self.sequence = self.sequence, self.sequence + 1
        masked = (int.from_bytes(self._keys.iv, "big") ^ sequence).to_bytes(12, "big")
        cipher = aead.ChaCha20Poly1305 if self._suite.mode == "POLY1305" else aead.AESGCM
        if self._modern:
            content += bytes([kind])
            header = struct.pack(">BHH", 23, 0x303, len(content) + 16)
            return header + cipher(self._keys.key).encrypt(masked, content, header)
        header = struct.pack(">QBHH", sequence, kind, 0x303, len(content))
        if self._suite.mode == "POLY1305":
            return _record(kind, cipher(self._keys.key).encrypt(masked, content, header))
        if self._suite.mode == "GCM":
            nonce = sequence.to_bytes(8, "big")
            return _record(kind, nonce + cipher(self._keys.key).encrypt(self._keys.iv + nonce, content, header))
        content += hmac.digest(self._keys.mac_key, header + content, "sha1")
        padding = 15 - len(content) % 16
        content += bytes([padding]) * (padding + 1)
        encryptor = Cipher(algorithms.AES(self._keys.key), modes.CBC(bytes(16))).encryptor()
        return _record(kind, bytes(16) + encryptor.update(content) + encryptor.finalize())


def check_tls(data: bytes) -> None:
    """Parts, two a step: the side by the first byte (its bit 1 makes a hole before it), and bytes of the connection."""
    steps = [
        (head[0] & 1 if head else 0, head[0] >> 1 & 1 if head else 0, piece)
        for head, piece in zip(*[iter(inputs.parts_of(data))] * 2, strict=False)
    ]
    whole, cut = _run(steps, 1 << 16), _run(steps, 7)
    assert whole == cut


def _run(steps: list[tuple[int, int, bytes]], most: int) -> tuple[list[bytes], list[int], str | None]:
    """What a session gives of each side, the bytes lost, and why it failed; fed with `most` bytes at a time."""
    secrets = Secrets()
    secrets.add(_KEY_LOG, "keys.log")
    session = TlsSession(secrets)
    found, lost, given = [b"", b""], [0, 0], [0, 0]

    def take(events: Iterator[tuple[int, object]]) -> None:
        for side, event in events:
            if isinstance(event, Chunk):
                found[side] += event.data
            else:
                assert event.captured <= event.bytes  # type: ignore[attr-defined]
                lost[side] += event.captured  # type: ignore[attr-defined]

    for side, hole, piece in steps:
        if hole:
            take(session.lose(side, 100, 1, 1))
        for start in range(0, len(piece), most):
            take(session.receive(side, Chunk(piece[start : start + most], 1, 1)))
        given[side] += len(piece)
        assert session.held <= sum(given)
    take(session.finish())
    assert session.held == 0
    for side in (0, 1):
        assert len(found[side]) + lost[side] <= given[side]
    return found, lost, session.failure


def _connections() -> Iterator[bytes]:
    for suite in _SUITES:
        client, server = _RecordWriter(suite, 0), _RecordWriter(suite, 1)
        steps = [(0, _hello(False, suite)), (1, _hello(True, suite))]
        if suite >> 8 == 0x13:
            steps.append((1, _record(20, b"\1") + server.record(22, _message(8, b"\0\0") + _message(20, bytes(32)))))
            steps.append((0, client.record(22, _message(20, bytes(32)))))
            client, server = _RecordWriter(suite, 0), _RecordWriter(suite, 1)
        else:
            steps.append((0, _record(20, b"\1") + client.record(22, _message(20, bytes(12)))))
            steps.append((1, _record(20, b"\1") + server.record(22, _message(20, bytes(12)))))
        steps += [(0, client.record(23, b"a request")), (1, server.record(23, b"a response" * 9))]
        steps += [(2, client.record(23, b"behind a hole")), (1, server.record(21, b"\1\0"))]
        yield inputs.joined(part for side, piece in steps for part in (bytes([side]), piece))


# ----------------------------------------------------------------------------------------------------------------------

TARGETS = (
    FuzzTarget(
        name="keylog",
        reads="a TLS key log, whole and growing",
        holds="the same secrets and the same problems with their lines; no problem repeats a secret",
        check=check_key_log,
        seeds=_key_logs,
        longest=2048,
    ),
    FuzzTarget(
        name="tls",
        reads="both directions of a TLS connection whose secrets are known, with holes: five suites, in any pieces",
        holds="the same data however it is cut, or a reason; bytes decrypted and lost are at most those captured",
        check=check_tls,
        seeds=_connections,
        form=inputs.PARTS,
        longest=4096,
    ),
)
