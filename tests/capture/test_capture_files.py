"""Compressed, truncated and growing capture files: the exchanges do not depend on the container."""

from __future__ import annotations

import errno
import gzip
import os
import struct
import sys
import threading
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from random import Random

import cramjam
import pytest

from kafkawire import capture
from kafkawire.capture import files
from kafkawire.capture.reader import read_with
from kafkawire.errors import CaptureError, MissingExtraError
from kafkawire.rows import Exchange
from tests.capture.wiretap import Conversation, ask, asked, brief, ethernet, pcap, pcapng

LINKS: dict[str, tuple[int, Callable[[bytes], bytes]]] = {
    "ethernet": (1, ethernet),
    "vlan": (1, lambda ip: bytes(12) + b"\x81\0\0\5" + ethernet(ip)[12:]),
    "qinq": (1, lambda ip: bytes(12) + b"\x88\xa8\0\5\x81\0\0\5" + ethernet(ip)[12:]),
    "cooked": (113, lambda ip: bytes(2) + ethernet(ip)),
    "cooked2": (276, lambda ip: ethernet(ip)[12:14] + bytes(18) + ip),
    "null": (0, lambda ip: b"\2\0\0\0" + ip),
    "loop": (108, lambda ip: b"\0\0\0\2" + ip),
    "raw": (101, bytes),
    "vxlan": (1, lambda ip: ethernet(_udp_4789(bytes([8, 0, 0, 0, 0, 0, 1, 0]) + ethernet(ip)))),
}
FORMATS: dict[str, Callable[[list[bytes], int], bytes]] = {
    "pcap": lambda packets, link: pcap(packets, link_type=link),
    "pcap, big endian": lambda packets, link: pcap(packets, link_type=link, order=">"),
    "pcap, nanoseconds": lambda packets, link: pcap(packets, link_type=link, nanoseconds=True),
    "pcapng": lambda packets, link: pcapng(packets, link_type=link),
    "pcapng, big endian": lambda packets, link: pcapng(packets, link_type=link, order=">", exponent=None),
    "pcapng, sections": lambda packets, link: b"".join(
        pcapng(part, link_type=link) for part in (packets[:7], packets[7:])
    ),
}
COMPRESSIONS: dict[str, Callable[[bytes], bytes]] = {
    "none": bytes,
    "gzip": gzip.compress,
    "zstd": lambda data: bytes(cramjam.zstd.compress(data)),
}


def _udp_4789(data: bytes) -> bytes:
    datagram = struct.pack(">HHHH", 50000, 4789, 8 + len(data), 0) + data
    return struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(datagram), 1, 0, 64, 17, 0) + bytes(8) + datagram


def conversation() -> list[bytes]:
    talk = Conversation(mss=300)
    for number in range(6):
        ask(talk, number)
    return talk.close().packets


def content(found: Exchange) -> tuple[object, ...]:
    return (found.api, found.correlation_id, found.packet, found.response_packet, found.client, found.broker)


@pytest.mark.slow
@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("link", LINKS)
def test_reads_plain_and_compressed_files(link: str, form: str, compression: str) -> None:
    if compression == "zstd" and sys.version_info < (3, 14):
        pytest.importorskip("pyarrow")
    plain = list(capture.read(BytesIO(pcap(map(ethernet, conversation())))))
    number, wrap = LINKS[link]
    data = COMPRESSIONS[compression](FORMATS[form](list(map(wrap, conversation())), number))
    found = list(capture.read(BytesIO(data)))
    assert brief(found) == asked(*range(6))
    assert [content(e) for e in found] == [content(e) for e in plain]


# --- compressed files


@pytest.mark.parametrize("compression", ["gzip", "zstd"])
def test_reads_a_truncated_compressed_file_up_to_its_end(compression: str) -> None:
    if compression == "zstd" and sys.version_info < (3, 14):
        pytest.importorskip("pyarrow")
    packets = list(map(ethernet, conversation()))
    data = COMPRESSIONS[compression](pcap([*packets, *(ethernet(Random(i).randbytes(1000)) for i in range(200))]))
    assert damage(data) is None
    for end in (40, len(data) // 2, len(data) - 20):
        assert f"a file that {compression} can decompress" in str(damage(data[:end]))


def damage(data: bytes) -> str | None:
    """The problem of a file that cannot be read to its end."""
    reading = capture.read(BytesIO(data))
    try:
        rows = list(reading)
    except CaptureError as error:
        return str(error)
    if reading.summary.damage is not None:
        assert (
            rows[-1].problem == f"the file is damaged after packet {reading.summary.packets}: {reading.summary.damage}"
        )
    return reading.summary.damage


def test_names_the_extra_for_zstd_without_a_library(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("pyarrow", "compression.zstd"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=r"zstd.*arrow"):
        list(capture.read(BytesIO(COMPRESSIONS["zstd"](pcap([])))))


@pytest.mark.slow
def test_reads_a_highly_compressed_file_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is searched to its end for a packet after the damage."""
    read = files._Decompressed.read
    pieces = []

    def counted(self: files._Decompressed, size: int) -> bytes:
        pieces.append(size)
        return read(self, size)

    monkeypatch.setattr(files._Decompressed, "read", counted)
    bomb = gzip.compress(pcap([]) + struct.pack("<IIII", 0, 0, 262_145, 262_145) + bytes(5_000_000), 1)
    with pytest.raises(CaptureError, match="at most 262144 bytes in packet 1"):
        list(capture.read(BytesIO(bomb)))
    assert sum(pieces) >= 5_000_000
    assert max(pieces) <= 64 << 10


# --- growing files


def test_follows_a_growing_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "POLL_S", 0.001)
    path = tmp_path / "growing.pcap"
    data = pcap(map(ethernet, conversation()))
    path.write_bytes(b"")
    written = threading.Event()

    def write() -> None:
        with path.open("ab", buffering=0) as file:
            for start in range(0, len(data), 57):
                file.write(data[start : start + 57])
        written.set()

    found: list[Exchange] = []
    writer = threading.Thread(target=write)
    writer.start()
    for exchange in capture.read(path, follow=True):
        found.append(exchange)
        if len(found) == 6:
            break
    writer.join()
    assert written.is_set()
    assert brief(found) == asked(*range(6))


@pytest.mark.parametrize("opened", [False, True])
def test_follows_a_file_while_the_callback_returns_true(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opened: bool
) -> None:
    monkeypatch.setattr(files, "POLL_S", 0)
    path = tmp_path / "growing.pcap"
    data = pcap(map(ethernet, conversation()))
    path.write_bytes(data[:500])
    asked_for = 0

    def grow() -> bool:
        nonlocal asked_for
        asked_for += 1
        with path.open("ab") as file:
            file.write(data[500 * asked_for : 500 * (asked_for + 1)])
        return 500 * asked_for < len(data)

    with path.open("rb") as file:
        found = list(capture.read(file if opened else path, follow=grow))
    assert brief(found) == asked(*range(6))
    assert asked_for > 2


# --- what files are read with


def test_raises_errors_of_the_file_itself() -> None:
    class Broken(BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            if self.tell():
                raise OSError(errno.EIO, "the disk is gone")
            return super().read(size)

    with pytest.raises(OSError, match="the disk is gone"):
        list(capture.read(Broken(gzip.compress(Random(1).randbytes(100_000)))))


def test_recognizes_compressed_files_by_their_first_bytes() -> None:
    for name, compress in COMPRESSIONS.items():
        assert files.is_compressed(compress(pcap([]))[:4]) == (name != "none")


def test_accepts_short_reads_of_a_decompressor() -> None:
    class Drop:
        data = iter([b"ab", b"c", b""])

        def read(self, size: int, /) -> bytes:
            return next(self.data)

    assert files.ArrowStream(Drop()).read(5) == b"abc"


# Files that become shorter -------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("compression", "torn"), [*((name, 0) for name in COMPRESSIONS), ("none", 5)])
@pytest.mark.parametrize("form", FORMATS)
def test_reports_a_capture_that_ended_before_its_size(form: str, compression: str, torn: int) -> None:
    """Also at the end of a packet or of compressed data, where the content itself looks complete."""
    if compression == "zstd" and sys.version_info < (3, 14):
        pytest.importorskip("pyarrow")
    packets = [*map(ethernet, conversation())]
    whole, half = (
        COMPRESSIONS[compression](FORMATS[form](part, 1)) for part in (packets, packets[: len(packets) // 2])
    )
    data = half[: len(half) - torn]
    expected = list(capture.read(BytesIO(data)))
    *found, damage = read_with(BytesIO(data), size=len(whole))
    ended = f"ended at {len(data)}, was {len(whole)} when opened"
    assert damage.problem is not None
    assert damage.problem.startswith("the file is damaged after packet ")
    assert any(str(one.problem).endswith(ended) for one in (*found, damage))
    if not torn:
        assert [*map(content, found)] == [*map(content, expected)]
    assert list(read_with(BytesIO(whole), size=len(whole))) == list(capture.read(BytesIO(whole)))


@pytest.mark.slow
def test_reports_a_capture_that_is_truncated_while_it_is_read(tmp_path: Path) -> None:
    packets = [*map(ethernet, conversation())] * 2500
    path = tmp_path / "trace.pcap"
    path.write_bytes(pcap(packets))
    size, cut = path.stat().st_size, len(pcap(packets[: len(packets) // 2]))
    assert cut > 1 << 20, "more than is read at once"
    found = iter(capture.read(path))
    next(found)
    os.truncate(path, cut)
    *_, damage = found
    assert damage.problem is not None
    assert damage.problem.endswith(f"ended at {cut}, was {size} when opened")
