"""Names of client properties: the known ones stay quiet, misspelt ones are reported, those of security refused."""

from __future__ import annotations

import os

import pytest

from kafkawire.client import Config, ConfigError
from kafkawire.client.transport.property_names import KNOWN, nearest
from tools.oracle import Oracle, OracleUnavailableError

CLASSES = ("admin.AdminClientConfig", "consumer.ConsumerConfig", "producer.ProducerConfig")


def unapplied(**given: str) -> tuple[str, ...]:
    return Config.of("a:1", {key.replace("_", "."): value for key, value in given.items()}).unapplied


def test_properties_of_producers_and_consumers_stay_quiet() -> None:
    given = dict.fromkeys(("group.id", "acks", "interceptor.classes", "sasl.kerberos.service.name"), "x")
    assert Config.of("a:1", given | {"config.providers.file.class": "x"}).unapplied == ()


def test_a_misspelt_name_is_reported_with_the_nearest_one() -> None:
    assert unapplied(reqest_timeout_ms="1") == ("reqest.timeout.ms: no such client property; request.timeout.ms?",)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("security.protocl", "security.protocol"),
        ("security_protocol", "security.protocol"),
        ("Security.Protocol", "security.protocol"),
        ("\ufeffsecurity.protocol", "security.protocol"),
        ("ssl.trustore.location", "ssl.truststore.location"),
        ("ssl.ca.location", "ssl.truststore.location"),
        ("sasl.mechansim", "sasl.mechanism"),
        ("sasl.username", "sasl.jaas.config"),
    ],
)
def test_a_misspelt_name_of_security_is_refused(name: str, meant: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Config.of("a:1", {name: "SSL"})
    assert str(caught.value).endswith(f": no such client property; {meant}?")
    assert str(caught.value).isprintable()


def test_a_secret_of_a_config_provider_is_refused() -> None:
    """A Java client reads it from the file; as it is, it would be sent as the password."""
    given = {"config.providers": "env, file", "ssl.key.password": "${file:/run/secrets:password}"}
    with pytest.raises(ConfigError, match=r"^ssl\.key\.password: no value is read from config\.providers here: give"):
        Config.of("a:1", given)
    # These are values as they are: no provider has the name, no such providers are given, and producers have the other.
    Config.of("a:1", given | {"config.providers": "vault"})
    Config.of("a:1", {"ssl.key.password": given["ssl.key.password"]})
    Config.of("a:1", {"config.providers": "env", "group.id": "${env:GROUP}"})


def test_a_misspelt_name_is_only_reported_where_the_right_one_is_given_too() -> None:
    given = {"security.protocol": "PLAINTEXT", "security.protocl": "SSL"}
    (sentence,) = Config.of("a:1", given).unapplied
    assert sentence == "security.protocl: no such client property; security.protocol?"


def test_names_of_other_clients_are_reported_together_and_refuse_nothing() -> None:
    given = {"producer.security.protocol": "SSL", "schema.registry.url": "u", "x\x1b[2J": "y"}
    (sentence,) = Config.of("a:1", given).unapplied
    assert sentence == (
        "no Java client knows these properties, and they are not applied: producer.security.protocol, "
        "schema.registry.url, x\\x1b[2J"
    )


def test_the_report_is_short_whatever_the_file_holds() -> None:
    given = {f"{number}." + "n" * 10_000: "x" for number in range(2000)}
    (sentence,) = Config.of("a:1", given).unapplied
    assert len(sentence) < 1500
    assert sentence.endswith(", 1990 more")
    assert nearest("security.protocol" * 1000) is None


def test_properties_of_protection_that_are_not_applied_are_reported() -> None:
    (sentence,) = unapplied(ssl_cipher_suites="TLS_AES_256_GCM_SHA384")
    assert sentence.startswith("ssl.cipher.suites is not applied by this client")


@pytest.mark.slow
@pytest.mark.parametrize("release", ["4.4.0", "3.9.1"])
def test_every_name_of_a_release_is_known(release: str) -> None:
    try:
        with Oracle(release) as java:
            names = {name for one in CLASSES for name in java.one(op="configs", **{"class": one})["names"]}
    except OracleUnavailableError as error:
        if os.environ.get("KAFKAWIRE_REQUIRE_BROKER"):
            raise
        pytest.skip(str(error))
    assert "security.protocol" in names
    assert names <= KNOWN
