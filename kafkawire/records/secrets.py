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
#: Names of durations and sizes: `delegation.token.max.lifetime.ms`, `password.encoder.iterations`.
_QUANTITIES = re.compile(r"\.(?:ms|seconds|minutes|hours|bytes|iterations|length)\Z")
_PLAIN = re.compile(r"-?[0-9]{1,19}(?:\.[0-9]{1,19})?|true|false", re.IGNORECASE)
#: `ConfigDef.Type` in DescribeConfigs responses.
UNKNOWN_TYPE, PASSWORD_TYPE = 0, 9
_PLAIN_TYPES = (1, 3, 4, 5, 6)  # BOOLEAN, INT, SHORT, LONG, DOUBLE


def is_secret_config(name: str, value: str | None = None, kind: int = UNKNOWN_TYPE) -> bool:
    """Whether a configuration is secret: by its type if the broker states one that decides it, otherwise by its name.

    Args:
        value: a number or boolean is no secret where the type, or the end of the name, announces one.
        kind: its `ConfigDef.Type`, 0 for unknown.
    """
    name = name.lower()
    if kind == PASSWORD_TYPE:
        return True
    if SECRET_CONFIGS.search(name) is None:
        return False
    announced = kind in _PLAIN_TYPES or (kind == UNKNOWN_TYPE and _QUANTITIES.search(name) is not None)
    return not (announced and value is not None and _PLAIN.fullmatch(value) is not None)


def hides_secrets(name: str | None, message: Any) -> bool:
    """Whether a record of that name holds secrets. One that could not be decoded (`message` is None) may."""
    if name == CONFIG:
        return message is None or is_secret_config(message.name, message.value)
    return name in SECRETS


def redact(name: str | None, data: dict[str, Any]) -> None:
    """Replaces the secrets in the JSON form of a record for which `hides_secrets` holds."""
    for field in ("value",) if name == CONFIG else SECRETS[name or ""]:
        if data.get(field) not in (None, ""):
            data[field] = REDACTED
