"""Records of `__cluster_metadata` whose values hold secrets (SCRAM keys, tokens, passwords), as `kafkawire dump` shows
them: their whole value is `[redacted]`."""

from __future__ import annotations

import msgspec
import numpy as np

from kafkawire.logdir import LogFile
from kafkawire.records import Record
from kafkawire.records.columns import Records
from kafkawire.records.internal_topics import CLUSTER_METADATA, decode_value
from kafkawire.records.secrets import REDACTED

_REDACTED = REDACTED.encode()


def has_secrets(file: LogFile) -> bool:
    """Whether the records of a file may hold secrets."""
    return file.topic == CLUSTER_METADATA or file.kind == "kraft-snapshot"


def without_secret(record: Record) -> Record:
    """The record, redacted where it holds a secret."""
    return msgspec.structs.replace(record, value=_REDACTED) if _secret(record.value) else record


def without_secrets(found: Records) -> Records:
    """Many records, redacted where they hold secrets."""
    secret = np.array([_secret(value) for value in found.arrow_values().to_pylist()], bool)
    if not secret.any():
        return found
    return msgspec.structs.replace(
        found,
        data=np.concatenate((found.data, np.frombuffer(_REDACTED, np.uint8))),
        value_start=np.where(secret, len(found.data), found.value_start),
        value_length=np.where(secret, np.int32(len(_REDACTED)), found.value_length),
    )


def _secret(value: bytes | None) -> bool:
    found = decode_value(CLUSTER_METADATA, None, value)
    return found is not None and found.secret
