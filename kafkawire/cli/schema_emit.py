"""`kafkawire schema emit`: other output of the compiler: a plugin for Wireshark."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kafkawire.cli import arguments
from kafkawire.cli.formatting import counted, printable
from kafkawire.cli.output_file import check_output, open_output

if TYPE_CHECKING:
    from kafkawire.codegen.model import MessageModel
    from kafkawire.codegen.wireshark import Words


class EmitTarget(Enum):
    """What the compiler can emit."""

    wireshark = "wireshark"


def emit(
    target: Annotated[EmitTarget, typer.Argument(metavar="TARGET", help="wireshark: a plugin in Lua, of one file.")],
    schemas: Annotated[
        Path | None,
        typer.Option("--schemas", metavar="DIR", help="Message schemas of your own, instead of Kafka's."),
    ] = None,
    to: Annotated[
        str | None, typer.Option("--output", "-o", metavar="FILE", help="Where to write; without it, it is printed.")
    ] = None,
) -> None:
    """Make something else than codecs of the schemas: a plugin that shows every message of theirs in Wireshark.

    It belongs into Wireshark's folder of personal Lua plugins (Help > About Wireshark > Folders); tshark takes it with
    -X lua_script:FILE, too.

    \b
    For example:
      kafkawire schema emit wireshark -o kafkawire.lua
    """
    from kafkawire.codegen.wireshark import render_wireshark

    check_output(to, [None if schemas is None else str(schemas)])
    messages = with_kafkas_own(schemas)
    text = render_wireshark(messages, words())
    with open_output(to) as file:
        file.write(text.encode())
    if to not in (None, "-"):
        typer.echo(f"{printable(to)}: {counted(len(messages), 'message')}")


def with_kafkas_own(schemas: Path | None) -> list[MessageModel]:
    """The messages of a folder, with Kafka's own for frames and control records where the folder has none."""
    from kafkawire.codegen import generate

    shipped = generate.load(arguments.shipped_schemas("kafka"))
    if schemas is None:
        return shipped
    messages = generate.load(schemas)
    there = {message.name for message in messages}
    return messages + [
        message
        for message in shipped
        if message.name not in there and (message.kind == "header" or message.family == "common")
    ]


def words() -> Words:
    """What the plugin shows beyond the schemas: names of numbers, and which fields are secret."""
    from kafkawire.capture import message_json
    from kafkawire.codegen.wireshark import Words
    from kafkawire.kafka_api_keys import NAMES as api_keys
    from kafkawire.kafka_errors import NAMES as errors
    from kafkawire.records import secrets
    from kafkawire.records.control import CONTROL_MESSAGES, CONTROL_TYPES
    from kafkawire.transactions.coordinator_rules import STATES

    return Words(
        numbers={"error": errors, "api_key": api_keys, "transaction_state": STATES, "control_type": CONTROL_TYPES},
        control_messages=CONTROL_MESSAGES,
        secrets={**message_json.SECRETS, **secrets.SECRETS},
        configs={**message_json.CONFIGS, secrets.CONFIG: ("",)},
        secret_words=secrets.SECRET_CONFIG_WORDS,
    )
