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
