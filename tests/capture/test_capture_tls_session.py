"""`TlsSession`: traffic that OpenSSL has encrypted, decrypted with its key log, whole and with holes."""

from __future__ import annotations

import random
import ssl
import struct
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.capture import Chunk
from kafkawire.capture.tls import KeyLogFile, LostRecords, Secrets, TlsSession, handshake, key_schedule
from tests.capture.tls_traffic import CLIENT, SERVER, Endpoints, Traffic, credentials

pytest.importorskip("cryptography")

TLS_1_2, TLS_1_3 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
MESSAGES = [(CLIENT, b"a request"), (SERVER, bytes(range(256)) * 160), (CLIENT, b"another" * 9), (SERVER, b"the end")]
PLAINTEXTS = [b"".join(data for side, data in MESSAGES if side == wanted) for wanted in (CLIENT, SERVER)]

SUITES = [
    (key, name)
    for key, names in {
        "rsa": [
            *("ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES256-GCM-SHA384", "ECDHE-RSA-CHACHA20-POLY1305"),
            *("AES128-GCM-SHA256", "AES256-GCM-SHA384", "AES128-CCM", "AES256-CCM8"),
            *("ECDHE-RSA-AES128-SHA", "ECDHE-RSA-AES256-SHA384", "AES128-SHA", "AES256-SHA256"),
            *("DHE-RSA-AES128-GCM-SHA256", "DHE-RSA-AES256-SHA"),
        ],
        "ec": ["ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES128-SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"],
    }.items()
    for name in names
]


class Decrypted:
    """What a session yields of both directions."""

    def __init__(self, secrets: Secrets) -> None:
        self.session = TlsSession(secrets)
        self.data = [b"", b""]
        self.lost: list[tuple[int, LostRecords]] = []

    def take(self, events: Iterable[tuple[int, Any]]) -> Decrypted:
        for side, event in events:
            if isinstance(event, Chunk):
                self.data[side] += event.data
            else:
                self.lost.append((side, event))
        return self

    def finish(self) -> Decrypted:
        return self.take(self.session.finish())


def decrypt(sent: Iterable[tuple[int, bytes]], secrets: Secrets) -> Decrypted:
    found = Decrypted(secrets)
    for number, (side, data) in enumerate(sent, 1):
        found.take(found.session.receive(side, Chunk(data, number, number)))
    return found.finish()


def secrets_of(*endpoints: Endpoints) -> Secrets:
    secrets = Secrets([KeyLogFile(each.key_log) for each in endpoints])
    secrets.read()
    return secrets


def assert_whole(found: Decrypted) -> None:
    assert found.session.failure is None
    assert (found.data, found.lost) == (PLAINTEXTS, [])


@pytest.mark.slow
@pytest.mark.parametrize(("key", "cipher"), SUITES)
def test_decrypts_suites_of_tls_1_2(tmp_path: Path, key: str, cipher: str) -> None:
    ends = Endpoints(tmp_path, TLS_1_2, ciphers=f"{cipher}:@SECLEVEL=0", key=key)
    if cipher.startswith("DHE"):
        ends.server.load_dh_params(dh_parameters(tmp_path))
    traffic = ends.connect(MESSAGES)
    assert traffic.suite == cipher
    found = decrypt(traffic.sent, secrets_of(ends))
    assert_whole(found)
    assert "server name broker1.example, server certificate CN=broker1.example" in found.session.description


def dh_parameters(folder: Path) -> str:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import dh

    # RFC 7919, ffdhe2048
    prime = int(
        "FFFFFFFFFFFFFFFFADF85458A2BB4A9AAFDC5620273D3CF1D8B9C583CE2D3695A9E13641146433FBCC939DCE249B3EF97D2FE363630C75D8"
        "F681B202AEC4617AD3DF1ED5D5FD65612433F51F5F066ED0856365553DED1AF3B557135E7F57C935984F0C70E0E68B77E2A689DAF3EFE872"
        "1DF158A136ADE73530ACCA4F483A797ABC0AB182B324FB61D108A94BB2C8E3FBB96ADAB760D7F4681D4F42A3DE394DF4AE56EDE76372BB19"
        "0B07A7C8EE0A6D709E02FCE1CDF7E2ECC03404CD28342F619172FE9CE98583FF8E4F1232EEF28183C3FE3B1B4C6FAD733BB5FCBC2EC22005"
        "C58EF1837D1683B2C6F34A26C1B2EFFA886B423861285C97FFFFFFFFFFFFFFFF",
        16,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it is deprecated
        numbers = dh.DHParameterNumbers(prime, 2).parameters()
    path = folder / "dh.pem"
    path.write_bytes(numbers.parameter_bytes(serialization.Encoding.PEM, serialization.ParameterFormat.PKCS3))
    return str(path)


@pytest.mark.slow
def test_decrypts_tls_1_3_with_certificates_of_both_sides(tmp_path: Path) -> None:
    ends = Endpoints(tmp_path, TLS_1_3, mutual=True)
    ends.client.set_alpn_protocols(["kafka"])
    ends.server.set_alpn_protocols(["kafka"])
    found = decrypt(ends.connect(MESSAGES).sent, secrets_of(ends))
    assert_whole(found)
    assert found.session.description == (
        "TLS 1.3 TLS_AES_256_GCM_SHA384, server name broker1.example, ALPN kafka, "
        "client certificate CN=orders-service, server certificate CN=broker1.example"
    )


def test_decrypts_after_a_hello_retry_request(tmp_path: Path) -> None:
    ends = Endpoints(tmp_path, TLS_1_3, key="ec")
    ends.server.set_ecdh_curve("secp521r1")  # the client offers a share of another group
    traffic = ends.connect(MESSAGES)
    assert sum(side == CLIENT for side, _ in traffic.sent[:4]) >= 2
    assert_whole(decrypt(traffic.sent, secrets_of(ends)))


@pytest.mark.parametrize("tickets", [True, False])
def test_decrypts_resumed_sessions_with_the_secret_of_the_first_connection(tmp_path: Path, tickets: bool) -> None:
    def configure(context: ssl.SSLContext) -> None:
        if not tickets:
            context.options |= ssl.OP_NO_TICKET

    ends = Endpoints(tmp_path, TLS_1_2, configure=configure)
    first = ends.connect(MESSAGES)
    only_first = secrets_of(ends)
    resumed = ends.connect(MESSAGES, session=first.session)
    assert len(resumed.bytes_of(SERVER)) < len(first.bytes_of(SERVER)) - 500  # no certificate: it was resumed
    assert decrypt(resumed.sent, Secrets()).session.failure is not None
    assert_whole(decrypt(first.sent, only_first))
    assert_whole(decrypt(resumed.sent, only_first))


def test_decrypts_with_lines_of_java_agents(tmp_path: Path) -> None:
    def configure(context: ssl.SSLContext) -> None:
        context.options |= ssl.OP_NO_TICKET

    ends = Endpoints(tmp_path, TLS_1_2, configure=configure)
    traffic = ends.connect(MESSAGES)
    _, _, master = ends.key_log.read_text().split("\n")[-2].split()
    assert traffic.session is not None
    secrets = Secrets()
    secrets.add(f"RSA Session-ID:{traffic.session.id.hex()} Master-Key:{master}".encode(), "agent.log")
    assert_whole(decrypt(traffic.sent, secrets))


@pytest.mark.parametrize("label", ["RSA", "PMS_CLIENT_RANDOM"])
def test_derives_the_master_secret_of_a_premaster_secret(tmp_path: Path, label: str) -> None:
    from cryptography.hazmat.primitives.asymmetric import padding
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    ends = Endpoints(tmp_path, TLS_1_2, ciphers="AES128-GCM-SHA256:@SECLEVEL=0")
    traffic = ends.connect(MESSAGES)
    messages = dict(handshake.HandshakeMessages().feed(_plain_handshake(traffic.bytes_of(CLIENT))))
    encrypted = messages[handshake.CLIENT_KEY_EXCHANGE][2:]
    key: Any = load_pem_private_key(credentials("rsa"), None)
    premaster = key.decrypt(encrypted, padding.PKCS1v15())
    client_random = messages[handshake.CLIENT_HELLO][2:34]
    name = encrypted[:8].hex() if label == "RSA" else client_random.hex()
    secrets = Secrets()
    secrets.add(f"{label} {name} {premaster.hex()}".encode(), "keys.log")
    assert_whole(decrypt(traffic.sent, secrets))


def _plain_handshake(data: bytes) -> bytes:
    """The content of handshake records before ChangeCipherSpec."""
    out = b""
    while data and data[0] == 22:
        size = int.from_bytes(data[3:5], "big")
        out += data[5 : 5 + size]
        data = data[5 + size :]
    return out


# Order and time -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=[TLS_1_2, TLS_1_3], ids=["1.2", "1.3"])
def recorded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Traffic, bytes]:
    """A connection, and its key log."""
    ends = Endpoints(tmp_path_factory.mktemp("tls"), request.param)
    return ends.connect(MESSAGES), ends.key_log.read_bytes()


def with_log(log: bytes) -> Secrets:
    secrets = Secrets()
    secrets.add(log, "keys.log")
    return secrets


@given(seed=st.integers(0, 2**32))
def test_result_does_not_depend_on_how_bytes_are_cut(recorded: tuple[Traffic, bytes], seed: int) -> None:
    traffic, log = recorded
    source = random.Random(seed)
    pieces = []
    for side, data in traffic.sent:
        while data:
            size = source.choice([1, 2, 5, 40, 1000, 20_000])
            pieces.append((side, data[:size]))
            data = data[size:]
    assert_whole(decrypt(pieces, with_log(log)))


@given(seed=st.integers(0, 2**32))
def test_result_does_not_depend_on_which_direction_comes_first(recorded: tuple[Traffic, bytes], seed: int) -> None:
    traffic, log = recorded
    source = random.Random(seed)
    waiting = [[data for side, data in traffic.sent if side == wanted] for wanted in (CLIENT, SERVER)]
    sent = []
    while any(waiting):
        side = source.choice([side for side in (CLIENT, SERVER) if waiting[side]])
        sent.append((side, waiting[side].pop(0)))
    found = decrypt(sent, with_log(log))
    assert_whole(found)


def test_records_wait_for_a_key_log_that_grows(recorded: tuple[Traffic, bytes], tmp_path: Path) -> None:
    traffic, log = recorded
    path = tmp_path / "keys.log"
    path.touch()
    found = Decrypted(Secrets([KeyLogFile(path)], grows=True))
    for side, data in traffic.sent[:-1]:
        found.take(found.session.receive(side, Chunk(data, 1, 1)))
    assert (found.data, found.session.failure) == ([b"", b""], None)
    assert found.session.held
    path.write_bytes(log)
    side, data = traffic.sent[-1]
    found.take(found.session.receive(side, Chunk(data, 2, 2)))
    assert_whole(found.finish())
    assert not found.session.held


def test_failure_names_the_client_random_that_the_key_log_lacks(recorded: tuple[Traffic, bytes]) -> None:
    traffic, _ = recorded
    client_random = traffic.sent[0][1][11:43]
    found = decrypt(traffic.sent, Secrets())
    assert found.session.failure == f"no secret for client random {client_random.hex()}"
    assert (found.data, found.lost) == ([b"", b""], [])
    assert (
        found.session.description.endswith("server name broker1.example") or "certificate" in found.session.description
    )


def test_failure_names_a_wrong_secret(recorded: tuple[Traffic, bytes]) -> None:
    traffic, log = recorded
    wrong = b"\n".join(
        line[:-8] + b"00000000" if not line.startswith(b"#") and line else line for line in log.split(b"\n")
    )
    found = decrypt(traffic.sent, with_log(wrong))
    assert found.session.failure is not None
    assert found.session.failure.endswith("is a wrong one")
    assert found.data == [b"", b""]


@pytest.mark.parametrize("wrong_last", [True, False])
def test_a_right_secret_is_found_among_wrong_ones(recorded: tuple[Traffic, bytes], wrong_last: bool) -> None:
    traffic, log = recorded
    lines = [line for line in log.split(b"\n") if line and not line.startswith(b"#")]
    wrong = [line[:-8] + end for line in lines for end in (b"00000000", b"11111111")]
    found = decrypt(traffic.sent, with_log(b"\n".join([*lines, *wrong] if wrong_last else [*wrong, *lines])))
    assert_whole(found)


def test_half_of_the_secrets_of_tls_1_3_suffice_for_data(tmp_path: Path) -> None:
    ends = Endpoints(tmp_path, TLS_1_3)
    traffic = ends.connect(MESSAGES)
    lines = [line for line in ends.key_log.read_bytes().split(b"\n") if b"HANDSHAKE" not in line]
    assert_whole(decrypt(traffic.sent, with_log(b"\n".join(lines))))


# Holes ----------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["1.3", "gcm", "chacha", "cbc"])
def long_connection(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Traffic, bytes, list[bytes]]:
    """A connection of 200 messages each way, its key log, and the plaintext of each side."""
    ciphers = {"gcm": "AES128-GCM-SHA256", "chacha": "ECDHE-RSA-CHACHA20-POLY1305", "cbc": "AES128-SHA"}
    version = TLS_1_3 if request.param == "1.3" else TLS_1_2
    cipher = ciphers.get(request.param)
    ends = Endpoints(tmp_path_factory.mktemp("tls"), version, ciphers=cipher and f"{cipher}:@SECLEVEL=0")
    source = random.Random(7)
    messages = [(i % 2, f"[{i}]".encode() * source.choice([1, 9, 100])) for i in range(400)]
    plain_streams = [b"".join(data for side, data in messages if side == wanted) for wanted in (CLIENT, SERVER)]
    return ends.connect(messages), ends.key_log.read_bytes(), plain_streams


@pytest.mark.slow
@given(side=st.integers(0, 1), start=st.integers(3000, 60_000), size=st.integers(1, 40_000))
def test_hole_costs_the_records_in_it_only(
    long_connection: tuple[Traffic, bytes, list[bytes]], side: int, start: int, size: int
) -> None:
    traffic, log, plain_streams = long_connection
    whole = traffic.bytes_of(side)
    start = min(start, len(whole) - 2)
    size = min(size, len(whole) - start - 1)
    other = traffic.bytes_of(1 - side)
    found = Decrypted(with_log(log))
    for part in (0, 4000), (4000, None):  # both hellos first
        for each, data in ((CLIENT, traffic.bytes_of(CLIENT)), (SERVER, traffic.bytes_of(SERVER))):
            if each != side:
                found.take(found.session.receive(each, Chunk(other[slice(*part)], 1, 1)))
                continue
            first, last = part[0], len(data) if part[1] is None else part[1]
            if first < min(start, last):
                found.take(found.session.receive(side, Chunk(data[first : min(start, last)], 1, 1)))
            if first <= start < last:
                found.take(found.session.lose(side, size, 2, 2))
            if max(first, start + size) < last:
                found.take(found.session.receive(side, Chunk(data[max(first, start + size) : last], 3, 3)))
    found.finish()
    assert found.session.failure is None
    assert found.data[1 - side] == plain_streams[1 - side]
    kept = found.data[side]
    before = next(i for i in range(len(kept) + 1) if i == len(kept) or kept[i] != plain_streams[side][i])
    lost = len(plain_streams[side]) - len(kept)
    assert plain_streams[side].endswith(kept[before:]) or kept in plain_streams[side]
    if lost:
        assert sum(event.bytes for _, event in found.lost) >= lost
    assert lost <= size + 2 * (1 << 14)
    assert not found.lost or {index for index, _ in found.lost} == {side}


def test_damaged_record_is_lost_alone(long_connection: tuple[Traffic, bytes, list[bytes]]) -> None:
    traffic, log, plain_streams = long_connection
    sent = list(traffic.sent)
    index = 300
    side, data = sent[index]
    sent[index] = (side, data[:-1] + bytes([data[-1] ^ 1]))
    found = decrypt(sent, with_log(log))
    assert found.session.failure is None
    assert [(index, event.bytes) for index, event in found.lost] == [(side, len(data))]
    assert found.data[1 - side] == plain_streams[1 - side]
    assert 0 < len(plain_streams[side]) - len(found.data[side]) < len(data)


@pytest.mark.slow
def test_work_of_a_search_behind_a_hole_is_bounded(tmp_path: Path) -> None:
    ends = Endpoints(tmp_path, TLS_1_3)
    traffic = ends.connect(MESSAGES)
    found = Decrypted(secrets_of(ends))
    for side, data in traffic.sent:
        found.take(found.session.receive(side, Chunk(data, 1, 1)))
    found.take(found.session.lose(CLIENT, 100, 2, 2))
    for _ in range(40):
        hostile = b"\x17\x03\x03\x00\x20" * 1000
        found.take(found.session.receive(CLIENT, Chunk(hostile, 3, 3)))
    assert found.session.failure == "too many places were tried after holes"


# What OpenSSL does not send when asked --------------------------------------------------------------------------------


class Writer:
    """Writes records of TLS 1.3 under a traffic secret."""

    def __init__(self, secret: bytes, sequence: int) -> None:
        self.secret, self.sequence = secret, sequence

    def record(self, kind: int, content: bytes, padding: int = 0) -> bytes:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        key = key_schedule.expand_label("sha384", self.secret, b"key", 32)
        iv = int.from_bytes(key_schedule.expand_label("sha384", self.secret, b"iv", 12), "big")
        plain = content + bytes([kind]) + bytes(padding)
        header = struct.pack(">BHH", 23, 0x303, len(plain) + 16)
        sealed = AESGCM(key).encrypt((iv ^ self.sequence).to_bytes(12, "big"), plain, header)
        self.sequence += 1
        return header + sealed

    def update(self) -> bytes:
        out = self.record(22, bytes([handshake.KEY_UPDATE, 0, 0, 1, 0]))
        self.secret, self.sequence = key_schedule.next_traffic_secret("sha384", self.secret), 0
        return out


@pytest.fixture
def written(tmp_path: Path) -> tuple[list[tuple[int, bytes]], Writer, Secrets]:
    """The handshake of TLS 1.3 and one record of the client, and what writes further records of the client."""
    ends = Endpoints(tmp_path, TLS_1_3)
    sent = ends.connect([(CLIENT, b"first ")]).sent[:-2]  # without its end
    secrets = secrets_of(ends)
    (secret,) = secrets.traffic_secrets("CLIENT_TRAFFIC_SECRET_0", sent[0][1][11:43])
    return sent, Writer(secret, 1), secrets


def test_follows_key_updates(written: tuple[list[tuple[int, bytes]], Writer, Secrets]) -> None:
    sent, writer, secrets = written
    sent += [(CLIENT, writer.record(23, b"second ") + writer.update()), (CLIENT, writer.record(23, b"third "))]
    sent += [(CLIENT, writer.update() + writer.record(23, b"fourth"))]
    found = decrypt(sent, secrets)
    assert (found.data[CLIENT], found.lost) == (b"first second third fourth", [])


def test_finds_records_behind_a_hole_with_a_key_update(
    written: tuple[list[tuple[int, bytes]], Writer, Secrets],
) -> None:
    sent, writer, secrets = written
    found = Decrypted(secrets)
    for side, data in sent:
        found.take(found.session.receive(side, Chunk(data, 1, 1)))
    hole = writer.record(23, b"lost") + writer.update() + writer.record(23, b"lost, too")
    found.take(found.session.lose(CLIENT, len(hole), 2, 2))
    found.take(found.session.receive(CLIENT, Chunk(writer.record(23, b"third"), 3, 3))).finish()
    assert found.data[CLIENT] == b"first third"
    assert [(event.bytes, event.captured) for _, event in found.lost] == [(len(hole), 0)]


def test_removes_padding_and_skips_empty_records(
    written: tuple[list[tuple[int, bytes]], Writer, Secrets],
) -> None:
    sent, writer, secrets = written
    sent += [(CLIENT, writer.record(23, b"", 100) + writer.record(23, b"second\x00", 300))]
    assert decrypt(sent, secrets).data[CLIENT] == b"first second\x00"


def test_early_data_is_counted_and_does_not_end_decryption(tmp_path: Path) -> None:
    ends = Endpoints(tmp_path, TLS_1_3)
    traffic = ends.connect(MESSAGES)
    (_, hello), *rest = traffic.sent
    body = hello[9:]
    at = body.rindex(b"\x00\x2b\x00")  # supported_versions, after which another extension may stand
    start = 2 + 32 + 1 + body[34]
    start += 2 + int.from_bytes(body[start : start + 2], "big")
    start += 1 + body[start]
    assert at > start
    extensions = body[start + 2 :] + b"\x00\x2a\x00\x00"
    body = body[:start] + len(extensions).to_bytes(2, "big") + extensions
    message = b"\x01" + len(body).to_bytes(3, "big") + body
    hello = b"\x16\x03\x01" + len(message).to_bytes(2, "big") + message
    early = b"\x17\x03\x03\x00\x40" + bytes(64)
    found = decrypt([(CLIENT, hello), (CLIENT, early), *rest], secrets_of(ends))
    assert found.data == PLAINTEXTS
    assert [(side, event.bytes, event.reason) for side, event in found.lost] == [
        (CLIENT, len(early), "of TLS early data (0-RTT)")
    ]


# Hostile input --------------------------------------------------------------------------------------------------------


@given(data=st.binary(max_size=300), side=st.integers(0, 1))
def test_any_bytes_end_in_a_reason(recorded: tuple[Traffic, bytes], data: bytes, side: int) -> None:
    _, log = recorded
    found = decrypt([(side, b"\x16\x03\x01" + data)], with_log(log))
    assert found.session.failure is not None


@given(index=st.integers(0, 3), at=st.floats(0, 1, exclude_max=True), mask=st.integers(1, 255))
def test_changed_byte_never_gives_other_data(recorded: tuple[Traffic, bytes], index: int, at: float, mask: int) -> None:
    traffic, log = recorded
    sent = list(traffic.sent)
    side, data = sent[index % len(sent)]
    place = int(at * len(data))
    sent[index % len(sent)] = (side, data[:place] + bytes([data[place] ^ mask]) + data[place + 1 :])
    found = decrypt(sent, with_log(log))
    for plain_streams, data in zip(PLAINTEXTS, found.data, strict=True):
        assert plain_streams.startswith(data) or data in plain_streams or found.lost


def test_waiting_bytes_are_bounded(tmp_path: Path) -> None:
    found = Decrypted(Secrets(grows=True))
    record = b"\x17\x03\x03\x40\x00" + bytes(1 << 14)
    for _ in range(100):
        found.take(found.session.receive(CLIENT, Chunk(record, 1, 1)))
        assert found.session.held < 600 << 10
    assert found.session.failure == "its ClientHello is not in the capture"
