"""TLS in the native engine: the rows and counts of Python's sessions, whatever happens to the packets."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("cryptography")

import kafkawire
from kafkawire.capture import Exchanges, ExchangeSelection, read_packets
from kafkawire.capture.exchange import ReadOptions
from kafkawire.capture.reader import read_with
from kafkawire.capture.tls import KeyLogFile, Secrets, TlsSession
from kafkawire.cli.formatting import json_bytes
from tests.capture.test_capture_native_tracker import lines
from tests.capture.test_capture_tls import MESSAGES, packets
from tests.capture.tls_traffic import Endpoints
from tests.capture.wiretap import pcap

pytestmark = pytest.mark.skipif(kafkawire.backend == "python", reason="the native engine is not in use")

#: Version and suites; the last two stay in Python.
SUITES: dict[str, tuple[ssl.TLSVersion, str | None]] = {
    "1.3": (ssl.TLSVersion.TLSv1_3, None),
    "AES-128-GCM": (ssl.TLSVersion.TLSv1_2, "ECDHE-RSA-AES128-GCM-SHA256"),
    "AES-256-GCM": (ssl.TLSVersion.TLSv1_2, "ECDHE-RSA-AES256-GCM-SHA384"),
    "ChaCha20": (ssl.TLSVersion.TLSv1_2, "ECDHE-RSA-CHACHA20-POLY1305"),
    "CBC": (ssl.TLSVersion.TLSv1_2, "ECDHE-RSA-AES128-SHA256"),
    "CCM": (ssl.TLSVersion.TLSv1_2, "ECDHE-ECDSA-AES128-CCM"),
}


@pytest.fixture(params=SUITES)
def talk(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, list[bytes], Path]:
    """Name of the suite, the packets of a connection, and its key log."""
    version, ciphers = SUITES[request.param]
    key = "ec" if ciphers is not None and "ECDSA" in ciphers else "rsa"
    ends = Endpoints(tmp_path, version, ciphers=ciphers, key=key)
    return request.param, packets(ends.connect(MESSAGES).sent), ends.key_log


@pytest.fixture
def received(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Sizes of the pieces that Python's sessions get."""
    sizes: list[int] = []
    receive = TlsSession.receive

    def counted(session: TlsSession, index: int, chunk: Any) -> Any:
        sizes.append(len(chunk.data))
        return receive(session, index, chunk)

    monkeypatch.setattr(TlsSession, "receive", counted)
    return sizes


def alike(data: bytes, key_log: Path) -> list[bytes]:
    """Asserts that the engine gives what Python's tracker gives; returns its lines."""
    written = read_with(BytesIO(data), body=True, text=True, lines=True, keylog=key_log)
    secrets = Secrets([KeyLogFile(key_log)], grows=False)
    decoded = Exchanges(
        lambda unread, _: read_packets(BytesIO(data), unread),
        "-",
        ReadOptions(body=True),
        ExchangeSelection(),
        secrets=secrets,
    )
    found = lines(written)
    assert found == list(map(json_bytes, decoded))
    assert written.summary == decoded.summary
    return found


def test_records_of_data_are_the_engine_s(talk: tuple[str, list[bytes], Path], received: list[int]) -> None:
    suite, sent, key_log = talk
    found = list(read_with(BytesIO(pcap(sent)), body=True, keylog=key_log))
    assert len(found) == 39
    assert all(row.problem is None for row in found)
    if suite in ("CBC", "CCM"):
        assert len(received) > 80
    else:
        assert len(received) < 20
    assert len(alike(pcap(sent), key_log)) == len(found)


def _flipped(sent: list[bytes], place: int) -> list[bytes]:
    """One byte of the payload is another."""
    packet = bytearray(sent[place])
    if len(packet) > 70:
        packet[-9] ^= 1
    return [*sent[:place], bytes(packet), *sent[place + 1 :]]


def _lost(sent: list[bytes], place: int) -> list[bytes]:
    return sent[:place] + sent[place + 1 :]


def _swapped(sent: list[bytes], place: int) -> list[bytes]:
    return [*sent[:place], *reversed(sent[place : place + 2]), *sent[place + 2 :]]


def _cut(sent: list[bytes], place: int) -> list[bytes]:
    return sent[:place]


@pytest.mark.slow
@pytest.mark.parametrize("fault", [_flipped, _lost, _swapped, _cut])
@pytest.mark.parametrize("talk", ["1.3", "AES-128-GCM", "ChaCha20"], indirect=True)
def test_faults_of_packets(
    talk: tuple[str, list[bytes], Path], fault: Callable[[list[bytes], int], list[bytes]]
) -> None:
    _, sent, key_log = talk
    for place in range(1, len(sent), 5):
        alike(pcap(fault(sent, place)), key_log)


def test_a_direction_may_be_handed_over_between_any_two_pieces(
    talk: tuple[str, list[bytes], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python's session alone: what it hands over and takes back at once changes nothing."""
    _, sent, key_log = talk
    handed: list[bool] = []
    receive = TlsSession.receive

    def interrupted(session: TlsSession, index: int, chunk: Any) -> Any:
        for each in (0, 1):
            found = session.hand_over(each)
            handed.append(found is not None)
            if found is not None:
                session.take_back(each, found[4], 0, found[5])
        return receive(session, index, chunk)

    def rows() -> list[bytes]:
        read = Exchanges(
            lambda unread, _: read_packets(BytesIO(pcap(sent)), unread),
            "-",
            ReadOptions(body=True),
            ExchangeSelection(),
            secrets=Secrets([KeyLogFile(key_log)], grows=False),
        )
        return list(map(json_bytes, read))

    plain = rows()
    monkeypatch.setattr(TlsSession, "receive", interrupted)
    assert rows() == plain
    assert any(handed) == (talk[0] not in ("CBC", "CCM"))
