"""The secret fields in the records of `__cluster_metadata`, as tables, and their redaction."""

from __future__ import annotations

import re
from typing import Any

REDACTED = "[redacted]"

#: message -> fields, by their JSON names, that are credentials (Kafka's `RecordRedactor` and
#: `MetadataNodeRedactionCriteria` hide the same)
SECRETS = {
    "DelegationTokenRecord": ("tokenId",),
    "RemoveDelegationTokenRecord": ("tokenId",),
    "UserScramCredentialRecord": ("salt", "storedKey", "serverKey"),
}
#: A configuration: a `name` and a `value`.
CONFIG = "ConfigRecord"
#: A configuration is secret if its name contains one of these: Kafka's of type password, and common names of users'.
SECRET_CONFIG_WORDS = (
    "password",
    "secret",
    "credential",
    "token",
    "jaas",
    "keystore.key",
    "keystore.certificate",
    "truststore.certificates",
)
SECRET_CONFIGS = re.compile("|".join(map(re.escape, SECRET_CONFIG_WORDS)))


def is_secret_config(name: str) -> bool:
    return SECRET_CONFIGS.search(name.lower()) is not None


def hides_secrets(name: str | None, message: Any) -> bool:
    """Whether a record of that name holds secrets. One that could not be decoded (`message` is None) may."""
    if name == CONFIG:
        return message is None or is_secret_config(message.name)
    return name in SECRETS


def redact(name: str | None, data: dict[str, Any]) -> None:
    """Replaces the secrets in the JSON form of a record for which `hides_secrets` holds."""
    for field in ("value",) if name == CONFIG else SECRETS[name or ""]:
        if data.get(field) not in (None, ""):
            data[field] = REDACTED
