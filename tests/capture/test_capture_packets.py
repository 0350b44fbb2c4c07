"""Capture files of both formats: truncated and damaged files, and files that are no capture."""

from __future__ import annotations

from contextlib import suppress
from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.capture import Packet, read_packets
from kafkawire.errors import CaptureError
from tests.capture.wiretap import START_NS, packets_in, pcap, pcapng, up_to_damage

DATA = [b"first", b"", b"third packet"]
WANTED = [Packet(i + 1, START_NS + i * 1_000_000, 1, data) for i, data in enumerate(DATA)]


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"", "an empty file"),
        (b"\x7fELF", "a file that begins with 7f 45 4c 46"),
        (b"\x1f\x9d\x90", "a file that begins with 1f 9d 90"),
        (pcap([])[:20], "the end of the file after 20 bytes"),
    ],
)
def test_rejects_a_file_that_is_no_capture(data: bytes, found: str) -> None:
    packets, error = up_to_damage(data)
    assert packets == []
    assert (error.found, error.offset) == (found, 0)


@pytest.mark.parametrize("make", [pcap, pcapng])
def test_a_truncated_file_yields_the_packets_before_its_end(make: object) -> None:
    whole = make(DATA)  # type: ignore[operator]
    for cut in range(len(whole)):
        iterator = read_packets(BytesIO(whole[:cut]))
        packets: list[Packet] = []
        with suppress(CaptureError):
            packets.extend(iterator)
        assert packets == WANTED[: len(packets)]


@given(st.data())
def test_mutated_files_raise_capture_errors_only(data: st.DataObject) -> None:
    whole = bytearray(data.draw(st.sampled_from([pcap(DATA), pcapng(DATA), pcapng(DATA, order=">")])))
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(4, len(whole) - 1))] = data.draw(st.integers(0, 255))
    try:
        packets = packets_in(bytes(whole))
    except CaptureError:
        return
    assert all(-(1 << 63) < packet.time_ns < 1 << 63 for packet in packets)
