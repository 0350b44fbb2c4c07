"""What a client is configured with, and how it logs in: properties, stores, SASL, token endpoints."""

from __future__ import annotations

import base64
import http.client
import string
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from io import BytesIO
from typing import Any
from unittest import mock

import bcrypt

from kafkawire.cli.web_config import read_web_config
from kafkawire.client.errors import AuthenticationError, ConfigError
from kafkawire.client.transport.config import Config
from kafkawire.client.transport.java_properties import parse_properties
from kafkawire.client.transport.oauth import get_token
from kafkawire.client.transport.sasl import MECHANISMS, Credentials, SaslError, TokenSource
from kafkawire.client.transport.tls import Tls
from tools.fuzz import input_files, inputs
from tools.fuzz.target import FuzzTarget

# Properties -----------------------------------------------------------------------------------------------------------


def check_properties(data: bytes) -> None:
    """A file of properties; it names no file that is there."""
    try:
        given = parse_properties(data.decode("utf-8", "replace"), "client.properties")
        given = {key: value for key, value in given.items() if not key.endswith(".location") or "\0" in value}
        config = Config.of(given.get("bootstrap.servers", "b:9092"), given)
    except ConfigError:
        return
    repr(config)
    if config.credentials is not None:
        with suppress(SaslError):
            next(config.credentials.exchange())


def _properties() -> Iterator[bytes]:
    plain = 'PlainLoginModule required username="me" password="secret";'
    for protocol in ("PLAINTEXT", "SASL_PLAINTEXT"):
        for mechanism, jaas in (
            ("PLAIN", plain),
            ("SCRAM-SHA-256", plain.replace("Plain", "Scram")),
            ("OAUTHBEARER", "OAuthBearerLoginModule required token='abc';"),
            ("OAUTHBEARER", 'OAuthBearerLoginModule required clientId="a" clientSecret="b" scope="c";'),
            ("OAUTHBEARER", 'OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="a";'),
        ):
            yield (
                f"bootstrap.servers=a:1,[::1]:9092\nsecurity.protocol={protocol}\nsasl.mechanism : {mechanism}\n"
                f"sasl.jaas.config=org.apache.kafka.common.security.{jaas}\nrequest.timeout.ms=5000\n"
                "sasl.oauthbearer.token.endpoint.url=https://a/b\n"
            ).encode()
    yield b"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n" + (
        b"sasl.jaas.config = PlainLoginModule required \\\n  username=\\u00e9 \\\n"
        b"  password='\\ud83d\\ude00' ;\nclient.id: \\t\\\\\n"
    )
    yield b"security.protocol=SSL\nssl.truststore.location=a\\u0000\n"
    yield b"request.timeout.ms=" + b"9" * 4301
    yield b"bootstrap.servers=a:" + b"9" * 4301
    yield b"security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.jaas.config=" + plain.encode()


@cache
def _identity() -> Any:
    from tests.client.certificates import make_identity

    return make_identity()


def check_stores(data: bytes) -> None:
    """A store of certificates: as the one that is trusted, as our own, and as properties' texts."""
    path = input_files.folder("stores") / "store"
    path.write_bytes(data)
    text = data.decode("latin-1")
    for given in (
        {"ssl.truststore.location": str(path), "ssl.truststore.password": "p"},
        {"ssl.truststore.location": str(path)},
        {"ssl.truststore.certificates": text},
        {"ssl.keystore.location": str(path), "ssl.keystore.password": "p", **_trusted()},
        {"ssl.keystore.certificate.chain": text, "ssl.keystore.key": text, **_trusted()},
    ):
        with suppress(ConfigError):
            Tls.of(given)


@cache
def _trusted() -> dict[str, str]:
    """So that no system's certificates are read."""
    return {"ssl.truststore.certificates": _identity().certificate}


def _stores() -> Iterator[bytes]:
    identity = _identity()
    chain = f"{identity.certificate}{identity.key}".encode()
    yield chain
    yield "# é\n".encode() + chain
    yield identity.keystore("p")
    yield identity.truststore("p")
    yield b"\xfe\xed\xfe\xed" + bytes(20)
    yield b""


# Web configuration ----------------------------------------------------------------------------------------------------


def check_web_config(data: bytes) -> None:
    """Parts: the file, and an Authorization header; `c.pem` beside the file is a certificate with its key."""
    parts = [*inputs.parts_of(data, 2), b"", b""]
    identity = _identity()
    root = input_files.folder("web")
    (root / "c.pem").write_text(f"{identity.certificate}{identity.key}")
    (root / "web.yml").write_bytes(parts[0])
    refused = None
    try:
        web = read_web_config(str(root / "web.yml"))
    except ConfigError as error:
        refused = str(error)
    if refused is not None:
        assert refused.startswith(f"{root}/web.yml: "), refused
        assert "\n" not in refused, refused
        return
    with mock.patch.object(bcrypt, "checkpw", lambda password, hashed: bool(hashed) and password == b"secret"):
        web.admits(parts[1].decode("latin-1"))
    for _, value in web.headers:
        assert set(value) <= set(string.printable[:-5]), value


def _web_configs() -> Iterator[bytes]:
    hashed = "$2y$10$CwTycUXWue0Thq9StjUM0uJ8i0E9rj4l3mYkqkqDSMdnRzqXbWEiG"
    for text in (
        f"basic_auth_users:\n  zoe: {hashed}\n  'me': \"{hashed}\"\n",
        "tls_server_config: {cert_file: c.pem, key_file: c.pem, min_version: TLS13}\n",
        "tls_server_config:\n  cert_file: c.pem\n  key_file: c.pem\n  client_ca_file: c.pem\n"
        "  client_auth_type: RequireAndVerifyClientCert\n",
        "http_server_config:\n  http2: false\n  headers:\n    X-Frame-Options: deny\n",
        "a: &b [*b, 2001-12-14, !!binary YQ==, 1.5, 0x1f, ~]\n",
    ):
        for login in (b"Basic em9lOnNlY3JldA==", b"basic em9l", b"Bearer x", b""):
            yield inputs.joined([text.encode(), login])


# SASL and tokens ------------------------------------------------------------------------------------------------------


def check_sasl(data: bytes) -> None:
    """Parts: the mechanism (by the first byte), then the broker's messages; `$` in them is our nonce."""
    parts = inputs.parts_of(data)
    mechanism = inputs.pick(MECHANISMS, parts[0] if parts else b"")
    exchange = Credentials(mechanism=mechanism, username="ü,=", password="p", token="t").exchange()
    nonce = next(exchange).rpartition(b"r=")[2]
    with suppress(SaslError, StopIteration):
        for part in parts[1:]:
            assert exchange.send(part.replace(b"$", nonce))


def _sasl() -> Iterator[bytes]:
    salt = base64.b64encode(b"salt" * 4)
    for mechanism in range(len(MECHANISMS)):
        yield inputs.joined([bytes([mechanism]), b"r=$more,s=" + salt + b",i=4096", b"v=" + salt])
        yield inputs.joined([bytes([mechanism]), b"r=$more,s=" + salt + b",i=4096", b"e=other-error"])
        yield inputs.joined([bytes([mechanism]), b"e=invalid-proof"])
        yield inputs.joined([bytes([mechanism]), b'{"status":"invalid_token"}', b""])
        yield inputs.joined([bytes([mechanism]), b"r=$more,s=" + salt + b",i=2000000000"])


class _AnsweredSocket:
    """A socket whose peer has sent all of its data already."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def sendall(self, data: bytes) -> None:
        """Discards the data."""

    def settimeout(self, seconds: float | None) -> None:
        """All data is there."""

    def recv_into(self, buffer: memoryview) -> int:
        taken = self._data[: len(buffer)]
        buffer[: len(taken)], self._data = taken, self._data[len(taken) :]
        return len(taken)

    def makefile(self, mode: str, *_: Any) -> BytesIO:
        return BytesIO(self._data)

    def close(self) -> None:
        """There is nothing to close."""


def check_tokens(data: bytes) -> None:
    """A token endpoint's response, from the first byte of its HTTP on; or, after `url `, its URL."""
    url = "http://127.0.0.1:1/token"
    if data.startswith(b"url "):
        url, data = data[4:].decode("latin-1"), b"HTTP/1.1 200 OK\r\n\r\n{}"

    def connect(connection: Any) -> None:
        connection.sock = _AnsweredSocket(data)

    source = TokenSource(url=url, client_id="a", client_secret="b")
    with (
        mock.patch.object(http.client.HTTPConnection, "connect", connect),
        mock.patch.object(http.client.HTTPSConnection, "connect", connect),
        suppress(AuthenticationError, ConfigError),
    ):
        assert get_token(source, 1.0)


def _tokens() -> Iterator[bytes]:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
    yield head + b'\r\n{"access_token":"abc","expires_in":3600}'
    yield head + b'Content-Length: 90\r\n\r\n{"access_token":"abc"}'
    yield head + b'Transfer-Encoding: chunked\r\n\r\n5\r\n{"a":\r\n2\r\n1}\r\n0\r\n\r\n'
    yield b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/b\r\n\r\n"
    yield b"HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic\r\n\r\n"
    yield b"HTTP/1.1 100 Continue\r\n\r\n" + head + b"\r\n[]"
    yield b"SSH-2.0-OpenSSH\r\n"
    yield head + b"\r\n" + b"[" * 5000
    for url in ("http://localhost:abc/", "http://127.0.0.1/\x01", "http://[::1/", "ftp://localhost/", "https://a b/"):
        yield f"url {url}".encode()


# ----------------------------------------------------------------------------------------------------------------------

_PROPERTY_WORDS = (
    *(b"security.protocol=", b"sasl.mechanism=", b"sasl.jaas.config=", b"bootstrap.servers=", b"SASL_PLAINTEXT"),
    *(b"PLAIN", b"SCRAM-SHA-512", b"OAUTHBEARER", b"required", b"username=", b"password=", b"\\u", b"\\\n", b";", b"'"),
    *(b"ssl.endpoint.identification.algorithm=", b"sasl.oauthbearer.token.endpoint.url=", b"default.api.timeout.ms="),
)

TARGETS = (
    FuzzTarget(
        name="properties",
        reads="client properties and the JAAS line in them",
        holds="`ConfigError`, or a configuration that can begin to log in",
        check=check_properties,
        seeds=_properties,
        form=inputs.TEXT,
        longest=5000,
        words=_PROPERTY_WORDS,
    ),
    FuzzTarget(
        name="stores",
        reads="PEM and PKCS#12 stores of certificates and keys",
        holds="`ConfigError`, or a TLS context",
        check=check_stores,
        seeds=_stores,
        longest=8192,
        words=(b"-----BEGIN CERTIFICATE-----\n", b"-----END CERTIFICATE-----\n", b"-----BEGIN PRIVATE KEY-----\n"),
    ),
    FuzzTarget(
        name="web-config",
        reads="the file of `--web-config`, and an Authorization header",
        holds="`ConfigError` of one line, or a configuration whose headers can be sent; the header is judged",
        check=check_web_config,
        seeds=_web_configs,
        form=inputs.PARTS,
        words=(
            *(b"tls_server_config:", b"cert_file: c.pem", b"basic_auth_users:", b"headers:", b"client_ca_file: "),
            *(
                b"!!int ",
                b"!!timestamp ",
                b"!!binary ",
                b'"\\ud800"',
                b'"\\r\\n"',
                b"2001-99-14",
                b"&a ",
                b"*a",
                b"<<: ",
            ),
        ),
    ),
    FuzzTarget(
        name="sasl",
        reads="the broker's messages of SCRAM, OAUTHBEARER and PLAIN",
        holds="`SaslError`, or an end; no work without end",
        check=check_sasl,
        seeds=_sasl,
        form=inputs.PARTS,
        words=(b"r=$", b",s=", b",i=", b"v=", b"e=", b"=="),
    ),
    FuzzTarget(
        name="tokens",
        reads="the HTTP of a token endpoint, and its URL",
        holds="`AuthenticationError` or `ConfigError`, or a token",
        check=check_tokens,
        seeds=_tokens,
        form=inputs.TEXT,
        words=(
            b"HTTP/1.1 ",
            b"\r\n\r\n",
            b"Content-Length: ",
            b"Transfer-Encoding: chunked",
            b"Location: ",
            b"access_token",
        ),
    ),
)
