"""`kafkawire decode`: the bytes of a message, or of a whole frame, as JSON."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kafkawire.cli import arguments, output

if TYPE_CHECKING:
    from kafkawire.wire.message import Message
    from kafkawire.wire.spec import MessageSpec


def register(app: typer.Typer) -> None:
    app.command("decode")(decode)


def decode(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help=arguments.NAME_HELP)] = None,
    data: Annotated[
        str | None,
        typer.Argument(
            metavar="HEX|FILE|-", help="An existing file is raw bytes, anything else hex; - is standard input, raw."
        ),
    ] = None,
    version: Annotated[int | None, typer.Option("--version", help="The version that the bytes are in.")] = None,
    as_hex: Annotated[bool, typer.Option("--hex", help="The file or standard input holds hex.")] = False,
    prefixed: Annotated[
        bool, typer.Option("--prefixed", help="The message follows an int16 with its version.")
    ] = False,
    frame: Annotated[
        bool,
        typer.Option(
            "--frame",
            help="A whole frame, with or without its int32 size: a request, which names itself (leave NAME out), or a "
            "response, with NAME or --api-key and --version.",
        ),
    ] = False,
    api_key: Annotated[int | None, typer.Option("--api-key", help="With --frame: the response to this api.")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Only the bytes that encoding would give.")] = False,
    schemas: arguments.SchemasOption = None,
    max_message_size: arguments.MaxMessageSizeOption = arguments.MOST_BYTES,
    compact: Annotated[bool, typer.Option("--compact", help="JSON on one line.")] = False,
) -> None:
    """Print a message as JSON, in the form of Kafka's *JsonConverter classes.

    Bytes are base64; unknown tagged fields appear as "_unknownTaggedFields".

    \b
    A request's bytes in hex, a coordinator's record, a whole frame from a capture, one of your own messages:
      kafkawire decode DescribeTransactionsRequest --version 0 02026100
      kafkawire decode TransactionLogValue --prefixed value.bin
      kafkawire decode --frame frames/000001-WriteTxnMarkers-v1.req.bin
      kafkawire decode --frame --schemas my/ ping.bin
    """
    if name is None:
        raise typer.BadParameter("give a message's NAME; or with --frame, a frame")
    read = partial(arguments.read_bytes, as_hex=as_hex, most=max_message_size)
    if frame:
        if prefixed or strict:
            raise typer.BadParameter("--frame goes without --prefixed and --strict")
        result = _frame(name, data, version, api_key, read, schemas)
    else:
        if api_key is not None:
            raise typer.BadParameter("--api-key goes with --frame only")
        message = arguments.message_class(name, schemas)
        if prefixed:
            if version is not None:
                raise typer.BadParameter("--prefixed reads the version from the bytes: leave --version out")
            decoded, version = message.decode_prefixed(read(data), strict=strict)
        else:
            version = arguments.message_version(message, version)
            decoded = message.decode(read(data), version, strict=strict)
        result = _json(decoded, version)
    output.print_json(result, compact=compact)


def _frame(
    name: str,
    data: str | None,
    version: int | None,
    api_key: int | None,
    read: Callable[[str], bytes],
    schemas: str | None,
) -> dict[str, Any]:
    """What a frame holds. With one argument, that is the frame; with two, the first is the response's name."""
    from kafkawire import frames

    registry = arguments.registry_with(schemas)

    if data is None:
        data = name
    else:
        named = arguments.message_class(name) if schemas is None else arguments.message_of(registry, name)
        api_key = _response_key(name, api_key, named.spec)
    if (api_key is None) != (version is None):
        raise typer.BadParameter("a response needs --version, and its NAME or --api-key; a request neither")
    raw = read(data)
    if len(raw) >= 4 and int.from_bytes(raw[:4], "big", signed=True) == len(raw) - 4:
        raw = raw[4:]
    if api_key is None or version is None:
        request = frames.decode_request(raw, registry=registry)
        if isinstance(request, frames.UndecodedRequest):
            unknown = request.api_key is not None and registry.rpc(request.api_key, "request") is None
            hint = "; for a message of your own, give its schemas with --schemas" if unknown and not schemas else ""
            raise arguments.InputError(request.reason + hint)
        header_version = frames.request_header_version(type(request.body), request.version)
        return _framed(request.header, header_version, request.body, request.version)
    response = frames.decode_response(raw, api_key=api_key, version=version, registry=registry)
    if isinstance(response, frames.UndecodedResponse):
        raise arguments.InputError(response.reason)
    header_version = frames.response_header_version(type(response.body), response.version)
    return _framed(response.header, header_version, response.body, response.version)


def _response_key(name: str, api_key: int | None, spec: MessageSpec) -> int:
    if spec.kind != "response" or spec.api_key is None or spec.family != "rpc":
        raise typer.BadParameter(f"{name} is no response that comes in frames; a request names itself")
    if api_key not in (None, spec.api_key):
        raise typer.BadParameter(f"{name} has the api key {spec.api_key}, not {api_key}")
    return spec.api_key


def _framed(header: Message, header_version: int, body: Message, version: int) -> dict[str, Any]:
    return {
        "name": body.spec.name,
        "version": version,
        "header": _json(header, header_version),
        "body": _json(body, version),
    }


def _json(message: Message, version: int) -> dict[str, Any]:
    from kafkawire.wire.json_form import to_json

    return to_json(message, version, unknown_tags=True)
