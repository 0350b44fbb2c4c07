"""`kafkawire encode`: the JSON of a message as bytes, in hex or raw."""

from __future__ import annotations

import json
import sys
from collections import Counter
from typing import Annotated, Any, NoReturn

import typer

from kafkawire.cli import arguments
from kafkawire.cli.arguments import InputError
from kafkawire.cli.option_groups import exclusive, needs, refusing


def register(app: typer.Typer) -> None:
    app.command("encode")(encode)


@refusing(
    exclusive("--prefixed and --frame do not go together", "prefixed", "frame"),
    needs("--correlation-id needs --frame", "correlation_id", "frame"),
    needs("--client-id needs --frame", "client_id", "frame"),
)
def encode(
    name: Annotated[str, typer.Argument(metavar="NAME", help=arguments.NAME_HELP)],
    text: Annotated[
        str | None, typer.Argument(metavar="JSON|FILE|-", help="What `decode` prints; - is standard input.")
    ] = None,
    version: Annotated[int | None, typer.Option("--version", help="The version to write.")] = None,
    raw: Annotated[bool, typer.Option("--raw", help="Write the bytes themselves.")] = False,
    prefixed: Annotated[
        bool, typer.Option("--prefixed", help="Write an int16 with the version before the message.")
    ] = False,
    frame: Annotated[
        bool, typer.Option("--frame", help="A whole frame: size, header (--correlation-id, --client-id), message.")
    ] = False,
    correlation_id: Annotated[int, typer.Option("--correlation-id", help="With --frame.")] = 0,
    client_id: Annotated[str | None, typer.Option("--client-id", help="With --frame, of a request.")] = None,
    schemas: arguments.SchemasOption = None,
    max_message_size: arguments.MaxMessageSizeOption = arguments.MOST_BYTES,
) -> None:
    """Print the bytes of a message that is given as JSON, in hex.

    \b
    A message in hex, and a whole request as a file:
      kafkawire encode DescribeTransactionsRequest --version 0 '{"transactionalIds": ["a"]}'
      kafkawire encode ApiVersionsRequest --version 0 --frame --raw '{}' > request.bin
    """
    from kafkawire.wire.json_form import from_json

    cls = arguments.message_class(name, schemas)
    version = arguments.message_version(cls, version)
    message = from_json(cls, _object(arguments.read_text(text, most=max_message_size), text), version)
    if frame:
        data = _frame(message, version, correlation_id, client_id)
    else:
        data = message.encode_prefixed(version) if prefixed else message.encode(version)
    if not raw:
        sys.stdout.buffer.write(data.hex().encode() + b"\n")
    elif sys.stdout.isatty():
        raise typer.BadParameter("raw bytes are not for a terminal: redirect the output")
    else:
        sys.stdout.buffer.write(data)


def _frame(message: Any, version: int, correlation_id: int, client_id: str | None) -> bytes:
    from kafkawire import frames

    if message.spec.kind == "response":
        if client_id is not None:
            raise typer.BadParameter("a response has no client id")
        return frames.encode_response(message, version=version, correlation_id=correlation_id)
    return frames.encode_request(message, version=version, correlation_id=correlation_id, client_id=client_id)


def _object(text: str, argument: str | None) -> Any:
    """The JSON value of `text`, strictly JSON. `argument`: what it was given as."""
    try:
        return json.loads(text, parse_constant=_no_constant, object_pairs_hook=_no_repeated_key)
    except json.JSONDecodeError as error:
        if text != argument:
            what = f"{argument or '-'}: not JSON"
        else:
            what = "not JSON" if error.pos else f"{arguments.abbreviated(text)} is neither a file nor JSON"
        raise InputError(f"{what}: line {error.lineno}, column {error.colno}: {error.msg}") from None
    except RecursionError:
        raise InputError("not the JSON of a message: nested too deeply") from None
    except ValueError as error:  # an integer of thousands of digits
        raise InputError(f"not the JSON of a message: {error}") from None


def _no_constant(name: str) -> NoReturn:
    raise InputError(f'not JSON: {name} (write "{name}" as a string)')


def _no_repeated_key(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        counts = Counter(key for key, _ in pairs)
        repeated = next(key for key, count in counts.items() if count > 1)
        raise InputError(f"not the JSON of a message: the key {repeated!r} is given twice")
    return value
