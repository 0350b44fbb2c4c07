"""Kafka's wire and log formats: typed codecs compiled from schemas, readers of captures and log directories.

Importing the package imports no message. Every name below is loaded on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kafkawire import capture, drafts, errors, frames, logdir, messages, records, transactions, versions, visit
    from kafkawire._loading import load_schemas
    from kafkawire._lookup import lookup
    from kafkawire.kafka_errors import ErrorCode
    from kafkawire.scanning import scan
    from kafkawire.wire import columns
    from kafkawire.wire.backend import backend
    from kafkawire.wire.json_form import from_json, to_json
    from kafkawire.wire.registry import Registry

__version__ = "0.2.0"

_PACKAGES = (
    "capture",
    "drafts",
    "errors",
    "frames",
    "logdir",
    "messages",
    "records",
    "transactions",
    "versions",
    "visit",
)
_NAMES = {
    "ErrorCode": "kafkawire.kafka_errors",
    "Registry": "kafkawire.wire.registry",
    "backend": "kafkawire.wire.backend",
    "from_json": "kafkawire.wire.json_form",
    "load_schemas": "kafkawire._loading",
    "lookup": "kafkawire._lookup",
    "scan": "kafkawire.scanning",
    "to_json": "kafkawire.wire.json_form",
}

__all__ = [
    "ErrorCode",
    "Registry",
    "backend",
    "capture",
    "columns",
    "drafts",
    "errors",
    "frames",
    "from_json",
    "load_schemas",
    "logdir",
    "lookup",
    "messages",
    "records",
    "scan",
    "to_json",
    "transactions",
    "versions",
    "visit",
]


if not TYPE_CHECKING:  # checkers report names that are not there

    def __getattr__(name: str) -> Any:
        if name in _PACKAGES:
            return import_module(f"kafkawire.{name}")
        if name == "columns":
            return import_module("kafkawire.wire.columns")
        if name in _NAMES:
            value = getattr(import_module(_NAMES[name]), name)
            globals()[name] = value
            return value
        raise AttributeError(f"module 'kafkawire' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
