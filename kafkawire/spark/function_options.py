"""The arguments of column functions: a message's name, its version, options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from kafkawire._loading import SchemaTexts, load_texts, schema_texts
from kafkawire._lookup import lookup
from kafkawire.errors import UnsupportedVersionError
from kafkawire.messages import REGISTRY

if TYPE_CHECKING:
    from kafkawire._loading import Namespace
    from kafkawire.wire.message import Message
    from kafkawire.wire.registry import Registry

#: The version of each value is the int16 in front of it, as in coordinator keys and values.
PREFIX = "prefix"

FAILFAST, PERMISSIVE = "FAILFAST", "PERMISSIVE"


class FunctionOptions(NamedTuple):
    """The options of a call, read and checked. `schemas`: those of `schemaDirectory`; workers get them too."""

    mode: str = FAILFAST
    errors: bool = False
    schemas: SchemaTexts | None = None


def read_options(options: Mapping[str, str] | None) -> FunctionOptions:
    """The options of a call.

    Raises:
        ValueError: an unknown option, or a value that the option does not accept.
        SchemaError: the directory of `schemaDirectory` does not exist, or holds files that are no schemas.
    """
    known: dict[str, Callable[[str], Any]] = {"mode": str.upper, "errors": _boolean, "schemadirectory": schema_texts}
    given = {name.lower(): value for name, value in (options or {}).items()}
    if unknown := sorted(set(given) - set(known)):
        raise ValueError(f"unknown options: {', '.join(unknown)}; known are mode, errors, schemaDirectory")
    read = {name: known[name](value) for name, value in given.items()}
    mode = read.get("mode", FAILFAST)
    if mode not in (FAILFAST, PERMISSIVE):
        raise ValueError(f"mode is FAILFAST or PERMISSIVE, not {mode}")
    return FunctionOptions(mode, read.get("errors", False), read.get("schemadirectory"))


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(f"errors is true or false, not {text}")
    return text.lower() == "true"


def check_version(message: type[Message], version: object) -> None:
    """Check that the message has a version, as far as that is known before any value is read.

    Raises:
        ValueError: it is text other than "prefix".
        UnsupportedVersionError: the message does not have the version.
    """
    if isinstance(version, str) and version != PREFIX:
        raise ValueError(f'version is a number, a column or "{PREFIX}", not {version!r}')
    if isinstance(version, int) and version not in message.spec.valid_versions:
        raise UnsupportedVersionError(message.spec.name, version, message.spec.valid_versions)


def message_named(name: str, schemas: SchemaTexts | None) -> type[Message]:
    """The message of that name: Kafka's, or one of the schemas.

    Raises:
        LookupError: no message has the name.
    """
    if schemas is None:
        return lookup(name)
    loaded = _loaded(schemas)
    if name not in loaded.__all__:
        raise LookupError(f"no message is named {name!r} in the schemaDirectory; there are {', '.join(loaded)}")
    return loaded[name]


def registry_with(schemas: SchemaTexts | None) -> Registry:
    """The messages of Kafka, with those of the schemas on top."""
    return REGISTRY if schemas is None else _loaded(schemas).registry.over(REGISTRY)


@lru_cache(maxsize=16)
def _loaded(schemas: SchemaTexts) -> Namespace:
    return load_texts(schemas)
