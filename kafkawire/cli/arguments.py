"""Arguments that commands share: a message's name and version, and bytes or text as HEX, JSON, FILE or `-`."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from kafkawire.cli.notes import print_note
from kafkawire.errors import KafkaWireError
from kafkawire.printable import printable

if TYPE_CHECKING:
    from kafkawire.wire.message import Message
    from kafkawire.wire.registry import Registry

NAME_HELP = "A message's name, DescribeProducersResponse; kip-664-draft:NAME for a layout that was only proposed."

SchemasOption = Annotated[
    str | None,
    typer.Option(
        "--schemas",
        metavar="DIR|PACKAGE",
        help="Message schemas of your own, or a package generated from them, instead of Kafka's.",
    ),
]
MoreSchemasOption = Annotated[
    str | None,
    typer.Option(
        "--schemas",
        metavar="DIR|PACKAGE",
        help="Message schemas of your own, or a package generated from them, over Kafka's: of messages with one name "
        "or api key, yours counts.",
    ),
]

#: Bytes of an input that is read as a whole: as many as a request has at most (socket.request.max.bytes).
MOST_BYTES = 100 << 20
_CHUNK = 1 << 20

MaxMessageSizeOption = Annotated[
    int, typer.Option("--max-message-size", min=1, metavar="N", help="Most bytes of FILE or standard input.")
]

JobsOption = Annotated[
    int | None,
    typer.Option(
        "--jobs", min=1, metavar="N", help="How many work side by side; by default one a core (dump: at most 4)."
    ),
]

MINUTE_MS = 60_000
#: The longest setting that brokers keep as an int32 of milliseconds, in minutes.
LONGEST_MINUTES = (2**31 - 1) // MINUTE_MS
#: Epoch milliseconds, earlier than any broker; as seconds it is a time in the far future.
LEAST_CLOCK_MS = 10**11

_HEX_NOISE = re.compile(r"[\s:]|(?<![0-9a-fA-F])0[xX]")
#: Characters of an argument that a sentence repeats.
_SHOWN = 60
_NO_HEX = re.compile(r"[^0-9a-fA-F\s:]")


class InputError(KafkaWireError):
    """Input that is not of the form that its option names."""


# Messages ------------------------------------------------------------------------------------------------------------


def namespaces() -> list[str]:
    """The namespaces of the package: Kafka's own first, what is inside of its bytes, then those of the KIP texts."""
    from pkgutil import iter_modules

    from kafkawire import drafts

    return ["kafka", "embedded", *sorted(module.name.replace("_", "-") for module in iter_modules(drafts.__path__))]


def registry_of(namespace: str) -> Registry:
    """The messages of a namespace; a usage error for an unknown namespace."""
    from importlib import import_module

    if namespace not in namespaces():
        raise typer.BadParameter(f"no namespace {namespace!r}; there are {', '.join(namespaces())}")
    packages = {"kafka": "messages", "embedded": "embedded"}
    package = packages.get(namespace, f"drafts.{namespace.replace('-', '_')}")
    registry: Registry = import_module(f"kafkawire.{package}").REGISTRY
    return registry


def shipped_schemas(namespace: str) -> Path:
    """The folder of the schemas that the package's codecs of a namespace come from."""
    import kafkawire

    return Path(kafkawire.__file__).parent / "schemas" / namespace


def split_name(name: str) -> tuple[str, str]:
    """Namespace and message name of `[namespace:]name`."""
    namespace, _, bare = name.rpartition(":")
    return namespace or "kafka", bare


def message_class(name: str, schemas: str | None = None) -> type[Message]:
    """The class of `[namespace:]name`, or of a message of `schemas`; a usage error where there is none."""
    if schemas is not None:
        from difflib import get_close_matches

        registry = own_registry(schemas)
        names = sorted(registry.entries)
        if name not in registry.entries:
            near = get_close_matches(name, names, n=3) or names[:3]
            raise typer.BadParameter(f"no message of {schemas} is named {name!r}; near: {', '.join(near)}")
        return registry.load(registry.entries[name])
    namespace, bare = split_name(name)
    return message_of(registry_of(namespace), bare)


def registry_with(schemas: str | None) -> Registry:
    """The messages of Kafka, with those of `schemas` on top."""
    from kafkawire.messages import REGISTRY

    return REGISTRY if schemas is None else own_registry(schemas).over(REGISTRY)


def own_registry(schemas: str) -> Registry:
    """The messages of a folder of schemas, or of a generated package: its folder or its name.

    Keys of schemas that have no effect are reported on standard error.
    """
    import warnings

    import kafkawire

    if os.path.isfile(os.path.join(schemas, "__init__.py")):
        parent, name = os.path.split(os.path.abspath(schemas))
        return _package_registry(parent, name)
    if not os.path.exists(schemas) and all(map(str.isidentifier, schemas.split("."))):
        return _package_registry(os.getcwd(), schemas)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        loaded = kafkawire.load_schemas(schemas)
    for warning in found:
        print_note("warning", printable(str(warning.message)))
    return loaded.registry


def _package_registry(parent: str, name: str) -> Registry:
    """The registry of a generated package, which may lie in the folder `parent`; a usage error for other names."""
    from importlib import import_module

    from kafkawire.wire.registry import Registry

    sys.path.append(parent)  # last: it hides no other module
    try:
        registry = getattr(import_module(name), "REGISTRY", None)
    except Exception as error:  # the package's own code runs
        text = f"{name} is neither a folder of schemas nor a package that can be imported: {error}"
        raise typer.BadParameter(printable(text), param_hint="--schemas") from None
    finally:
        sys.path.remove(parent)
    if not isinstance(registry, Registry):
        raise typer.BadParameter(f"{name} is no package of messages (schema generate makes one)")
    return registry


def message_of(registry: Registry, bare: str, option: str | None = None) -> type[Message]:
    """The class of a message of a registry; a usage error where it has none of the name. `bare`: the name, without a
    namespace. `option`: the option that gave the name, for the error; None: an argument gave it."""
    try:
        return registry.load(registry.entry(bare))
    except LookupError as error:
        text = str(error.args[0])
        text = text if "; near:" in text else f"{text}; `kafkawire schema list` names all"
        raise typer.BadParameter(text, param_hint=option) from None


def message_version(message: type[Message], version: int | None) -> int:
    """`version`, or the only one that the message has; a usage error where that is none."""
    valid = message.spec.valid_versions
    if version is None and len(valid) == 1:
        return valid[0]
    if version is None or version not in valid:
        wrong = "needs --version" if version is None else f"has no version {version}"
        raise typer.BadParameter(f"{message.spec.name} {wrong}; it has {version_text(valid)}", param_hint="--version")
    return version


def version_text(versions: range) -> str:
    """A range of versions as Kafka writes it: `3`, `0-4`; empty where there is none."""
    if not versions:
        return ""
    return str(versions[0]) if len(versions) == 1 else f"{versions[0]}-{versions[-1]}"


# Times ---------------------------------------------------------------------------------------------------------------


def check_minutes(value: int | None) -> int | None:
    """A setting of brokers in minutes; a usage error where no broker can have it: they keep int32 of milliseconds."""
    if value is not None and value > LONGEST_MINUTES:
        raise typer.BadParameter(
            f"{value} minutes are more than a broker can have ({LONGEST_MINUTES}; an int32 of milliseconds); "
            f"{value} milliseconds are {min(value, 1 << 63) / MINUTE_MS:.4g} minutes"
        )
    return value


def check_clock(value: int | None) -> int | None:
    """Epoch milliseconds of a clock; a usage error for a time before 1973, which is most likely given in seconds."""
    if value is not None and value >= 1 << 63:
        raise typer.BadParameter("too many digits for a time in epoch milliseconds")
    if value is not None and value < LEAST_CLOCK_MS:
        raise typer.BadParameter(f"{value} is no time of a broker in epoch milliseconds; of seconds, multiply by 1000")
    return value


# Addresses -----------------------------------------------------------------------------------------------------------


def parse_address(text: str) -> tuple[str, int]:
    """Host and port of `9100`, `0.0.0.0:9100`, `[::1]:9100`; a usage error where it is none of these."""
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host or (colon and not host):
        port = ""
    if not (port.isascii() and port.isdigit() and len(port) < 10 and int(port) < 1 << 16):
        raise typer.BadParameter(f"{text!r} is not of the form [HOST:]PORT", param_hint="--listen")
    return host or "127.0.0.1", int(port)


# Input ---------------------------------------------------------------------------------------------------------------


def read_bytes(argument: str | None, *, as_hex: bool, most: int = MOST_BYTES) -> bytes:
    """The bytes of HEX, FILE or `-`: files and standard input are raw, unless `as_hex` is set.

    Args:
        argument: HEX, FILE or `-`; None for standard input.
        as_hex: whether files and standard input contain hex.
        most: limit of bytes of a file or of standard input.

    Raises:
        InputError: more than `most` bytes of a file or of standard input; or no hex.
    """
    raw = _file_or_stdin(argument, most)
    if raw is not None:
        return hex_bytes(raw.decode("latin-1"), argument or "-") if as_hex else raw
    assert argument is not None
    return hex_bytes(argument, None)


def read_text(argument: str | None, *, most: int = MOST_BYTES) -> str:
    """The text of an argument, FILE or `-`. Raises InputError: more than `most` bytes of a file or of standard input;
    or no UTF-8."""
    raw = _file_or_stdin(argument, most)
    if raw is None:
        assert argument is not None
        return argument
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{argument or '-'}: not UTF-8 at byte {error.start}") from None


def hex_bytes(text: str, source: str | None) -> bytes:
    """The bytes that hex digits name; blanks, colons and 0x between them are no part of it. `source`: the file that the
    digits come from; None where they are the argument itself, which is then no file's name either."""
    what = f"{source}: not hex" if source is not None else f"{abbreviated(text)} is neither a file nor hex"
    digits = _HEX_NOISE.sub("", text)
    bad = _NO_HEX.search(digits)
    if bad is not None:
        raise InputError(f"{what}: character {_place(text, bad.start()) + 1} is {bad[0]!r}")
    if len(digits) % 2:
        raise InputError(f"{what}: an odd number of digits, {len(digits)}")
    return bytes.fromhex(digits)


def abbreviated(text: str) -> str:
    """An argument as it is quoted in a sentence: a long one is cut to its beginning."""
    return repr(text) if len(text) <= _SHOWN else f"{text[:_SHOWN]!r}..."


def _place(text: str, digit: int) -> int:
    """The index in `text` of the hexadecimal digit number `digit`, not counting noise."""
    for noise in _HEX_NOISE.finditer(text):
        if noise.start() > digit:
            break
        digit += len(noise[0])
    return digit


def _file_or_stdin(argument: str | None, most: int) -> bytes | None:
    """The bytes of a file or, for `-` and for nothing, of standard input; None where the argument is no file."""
    if argument is None or argument == "-":
        if argument is None and sys.stdin.isatty():
            raise typer.BadParameter("give the input as an argument, a file, or - for standard input")
        return _whole(sys.stdin.buffer, "standard input", most)
    if not os.path.exists(argument):
        return None
    with open(argument, "rb") as file:
        return _whole(file, argument, most)


def _whole(stream: BinaryIO, name: str, most: int) -> bytes:
    """All bytes of a stream, which may have no end (`/dev/zero`)."""
    parts: list[bytes] = []
    left = most + 1
    while left:
        wanted = min(left, _CHUNK)
        parts.append(stream.read(wanted))
        left -= len(parts[-1])
        if len(parts[-1]) < wanted:  # the end; a terminal would ask for more
            return b"".join(parts)
    raise InputError(f"{name}: more than {most} bytes (--max-message-size)")


def cores() -> int:
    """The number of processors that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS and Windows
        return os.cpu_count() or 1
