"""What is secret in `__cluster_metadata`, and that it is hidden, whole or not at all."""

from __future__ import annotations

import pytest

from kafkawire import lookup
from kafkawire.messages import ConfigRecord, DelegationTokenRecord, UserScramCredentialRecord
from kafkawire.records.secrets import CONFIG, SECRETS, hides_secrets, is_secret_config, redact
from kafkawire.wire.json_form import to_json


@pytest.mark.parametrize(
    "name",
    [
        "ssl.keystore.password",
        "SSL.KEY.PASSWORD",
        "sasl.jaas.config",
        "listener.name.internal.ssl.keystore.key",
        "ssl.keystore.certificate.chain",
        "ssl.truststore.certificates",
        "my.client.secret",
        "oauth.token.endpoint",
        "aws.credentials",
    ],
)
def test_configs_that_hide_something(name: str) -> None:
    assert is_secret_config(name)
    assert hides_secrets(CONFIG, ConfigRecord(name=name, value="x"))


@pytest.mark.parametrize("name", ["retention.ms", "ssl.keystore.location", "ssl-keystore-key", "cleanup.policy", ""])
def test_configs_that_hide_nothing(name: str) -> None:
    assert not is_secret_config(name)
    assert not hides_secrets(CONFIG, ConfigRecord(name=name, value="x"))


@pytest.mark.parametrize(
    ("name", "value", "kind", "secret"),
    [
        ("delegation.token.max.lifetime.ms", "604800000", 0, False),
        ("delegation.token.max.lifetime.ms", "604800000", 5, False),
        ("delegation.token.max.lifetime.ms", "hunter2", 5, True),
        ("delegation.token.max.lifetime.ms", "604800000", 2, True),
        ("delegation.token.max.lifetime.ms", None, 0, True),
        ("password.encoder.iterations", "4096", 3, False),
        ("listener.name.x.use.token", "TRUE", 1, False),
        ("listener.name.x.use.token", "true", 0, True),
        ("pin.password", "1234", 0, True),
        ("pin.password", "1234", 9, True),
        ("password.ms", "1234 hunter2", 0, True),
        ("password.ms", "1234\n", 0, True),
        ("unremarkable", "hunter2", 9, True),
        ("unremarkable", "hunter2", 2, False),
    ],
)
def test_type_or_unit_of_a_config_decides_before_its_name(
    name: str, value: str | None, kind: int, secret: bool
) -> None:
    assert is_secret_config(name, value, kind) is secret
    if kind == 0:
        assert hides_secrets(CONFIG, ConfigRecord(name=name, value=value)) is secret


def test_what_could_not_be_decoded_may_hold_a_secret() -> None:
    assert hides_secrets(CONFIG, None)
    assert hides_secrets("UserScramCredentialRecord", None)
    assert not hides_secrets("TopicRecord", None)
    assert not hides_secrets(None, None)


def test_the_table_names_fields_that_are_there() -> None:
    for name, fields in SECRETS.items():
        assert set(fields) <= to_json(lookup(name)(), 0).keys()


def test_redacting() -> None:
    config = to_json(ConfigRecord(name="ssl.key.password", value="hunter2"), 0)
    name = "".join(("Config", "Record"))  # an equal name, and not the table's own
    assert hides_secrets(name, ConfigRecord(name="ssl.key.password"))
    assert not hides_secrets(name, ConfigRecord(name="retention.ms"))
    redact(name, config)
    assert (config["name"], config["value"]) == ("ssl.key.password", "[redacted]")

    scram = UserScramCredentialRecord(name="u", salt=b"s", stored_key=b"k", server_key=b"v", iterations=4096)
    shown = to_json(scram, 0)
    redact("UserScramCredentialRecord", shown)
    assert [shown[field] for field in ("salt", "storedKey", "serverKey")] == ["[redacted]"] * 3
    assert (shown["name"], shown["iterations"]) == ("u", 4096)

    token = to_json(DelegationTokenRecord(owner="User:a", token_id="t"), 0)
    redact("DelegationTokenRecord", token)
    assert (token["owner"], token["tokenId"]) == ("User:a", "[redacted]")


@pytest.mark.parametrize("value", [None, ""])
def test_what_is_not_there_is_not_hidden(value: str | None) -> None:
    config = {"name": "ssl.key.password", "value": value}
    redact(CONFIG, config)
    assert config["value"] == value
