"""The arguments of column functions: a message's name, its version, options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from kafkawire._loading import load_schemas
from kafkawire._lookup import lookup
from kafkawire.errors import UnsupportedVersionError

if TYPE_CHECKING:
    from kafkawire.wire.message import Message

#: The version of each value is the int16 in front of it, as in coordinator keys and values.
PREFIX = "prefix"

FAILFAST, PERMISSIVE = "FAILFAST", "PERMISSIVE"


class FunctionOptions(NamedTuple):
    """The options of a call, read and checked."""

    mode: str = FAILFAST
    errors: bool = False
    schema_directory: str | None = None


def read_options(options: Mapping[str, str] | None) -> FunctionOptions:
    """The options of a call.

    Raises:
        ValueError: an unknown option, or a value that the option does not accept.
    """
    known: dict[str, Callable[[str], Any]] = {"mode": str.upper, "errors": _boolean, "schemadirectory": str}
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


def message_named(name: str, schema_directory: str | None) -> type[Message]:
    """The message of that name: Kafka's, or one of the schemas in a directory.

    Raises:
        LookupError: no message has the name.
    """
    if schema_directory is None:
        return lookup(name)
    loaded = _loaded(schema_directory)
    if name not in loaded.__all__:
        raise LookupError(f"no message is named {name!r} in {schema_directory}; there are {', '.join(loaded)}")
    return loaded[name]


_loaded = cache(load_schemas)
