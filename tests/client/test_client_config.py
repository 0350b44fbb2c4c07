"""Java-style client properties: what is understood, and what is refused with a sentence that helps."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkawire.client import Config, ConfigError, read_properties
from kafkawire.client.transport.config import parse_addresses
from kafkawire.client.transport.sasl import Credentials, TokenSource

PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="me" password="a\\"b;c";'
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required username=me password='s p';"
BEARER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required {};"


def test_reads_a_file(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_bytes("client.id=é".encode("latin-1"))
    assert read_properties(str(path)) == {"client.id": "é"}
    with pytest.raises(FileNotFoundError):
        read_properties(str(tmp_path / "nowhere"))


# Config ---------------------------------------------------------------------------------------------------------------


def sasl(mechanism: str, jaas: str | None = None, **more: str) -> Config:
    given = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism}
    given |= {"sasl.jaas.config": jaas} if jaas is not None else {}
    return Config.of("a:1", given | {key.replace("_", "."): value for key, value in more.items()})


def test_defaults_are_kafka_s() -> None:
    config = Config.of("a:1, [::1]:2,PLAINTEXT://c:3", {})
    assert config.bootstrap == (("a", 1), ("::1", 2), ("c", 3))
    assert (config.credentials, config.tokens, config.tls) == (None, None, None)
    assert (config.connect_timeout_s, config.request_timeout_s, config.api_timeout_s) == (10, 30, 60)


@pytest.mark.parametrize(
    "text", ["", ",", "host", "host:", ":1", "host:0", "host:65536", "host:x", "host:+1", "host:-1", "a:1,b"]
)
def test_refuses_malformed_addresses(text: str) -> None:
    with pytest.raises(ConfigError, match="bootstrap server"):
        parse_addresses(text)


@pytest.mark.parametrize("digits", ["9" * 30, "9" * 5000])
def test_refuses_numbers_with_too_many_digits(digits: str) -> None:
    with pytest.raises(ConfigError, match="bootstrap server"):
        parse_addresses(f"a:{digits}")
    with pytest.raises(ConfigError, match="is no number of milliseconds"):
        Config.of("a:1", {"request.timeout.ms": digits})


def test_reads_the_login_of_each_mechanism() -> None:
    assert sasl("PLAIN", PLAIN).credentials == Credentials(mechanism="PLAIN", username="me", password='a"b;c')
    assert sasl("SCRAM-SHA-512", SCRAM).credentials == Credentials(
        mechanism="SCRAM-SHA-512", username="me", password="s p"
    )
    token = sasl(
        "OAUTHBEARER",
        BEARER.format('clientId="i" clientSecret="s" scope="x"'),
        sasl_oauthbearer_token_endpoint_url="https://h/token",
    ).tokens
    assert token == TokenSource(url="https://h/token", client_id="i", client_secret="s", scope="x")
    assert "'s'" not in repr(token)


@pytest.mark.parametrize(
    ("mechanism", "jaas", "more", "sentence"),
    [
        ("GSSAPI", PLAIN, {}, "Kerberos"),
        ("AWS_MSK_IAM", None, {}, "AWS_MSK_IAM: a names no AWS region: set AWS_REGION"),
        ("BOGUS", PLAIN, {}, "'BOGUS' is none of PLAIN, SCRAM"),
        ("PLAIN", None, {}, "sasl.jaas.config is missing"),
        ("PLAIN", SCRAM, {}, "PLAIN needs PlainLoginModule, and it names ScramLoginModule"),
        ("PLAIN", "a.PlainLoginModule required username=x;", {}, "password is missing"),
        ("SCRAM-SHA-256", SCRAM.replace(";", " tokenauth=true;"), {}, "delegation tokens"),
        ("OAUTHBEARER", PLAIN, {}, "needs OAuthBearerLoginModule"),
        ("OAUTHBEARER", BEARER.format(""), {}, "token.endpoint.url"),
        ("OAUTHBEARER", BEARER.format(""), {"sasl_oauthbearer_token_endpoint_url": "https://h"}, "needs clientId"),
        ("OAUTHBEARER", BEARER.format(""), {"sasl_login_callback_handler_class": "com.x.Y"}, "a Java class"),
        ("PLAIN", PLAIN, {"request_timeout_ms": "soon"}, "'soon' is no number of milliseconds"),
    ],
)  # fmt: skip
def test_logins_that_are_refused(mechanism: str, jaas: str | None, more: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        sasl(mechanism, jaas, **more)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_sasl_without_a_mechanism_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"the default where sasl\.mechanism is not given"):
        Config.of("a:1", {"security.protocol": "SASL_SSL"})


def test_unknown_protocol_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"security\.protocol: 'TLS' is none of"):
        Config.of("a:1", {"security.protocol": "tls"})


def test_properties_without_an_end_are_refused() -> None:
    with pytest.raises(ConfigError, match="/dev/zero is no file of client properties: it has more than 1048576 bytes"):
        read_properties("/dev/zero")
