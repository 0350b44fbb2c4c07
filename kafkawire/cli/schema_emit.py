"""`kafkawire schema emit`: other output of the compiler: Wireshark, Kaitai Struct, JSON Schema, a reference."""

from __future__ import annotations

from enum import Enum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kafkawire.cli import arguments
from kafkawire.cli.formatting import counted, printable
from kafkawire.cli.output_file import check_output, open_output, save

if TYPE_CHECKING:
    from kafkawire.codegen.model import MessageModel
    from kafkawire.codegen.reference import Example
    from kafkawire.codegen.wireshark import DisplayRules


class EmitTarget(Enum):
    """What the compiler can emit: one file, or (the others) a folder."""

    wireshark = "wireshark"
    kaitai = "kaitai"
    jsonschema = "jsonschema"
    docs = "docs"
    vectors = "vectors"


def emit(
    target: Annotated[
        EmitTarget,
        typer.Argument(
            metavar="TARGET",
            help="wireshark: a plugin in Lua. kaitai: Kaitai Struct files. jsonschema: JSON Schemas of the JSON form. "
            "docs: a reference in Markdown. vectors: test vectors for other implementations.",
        ),
    ],
    schemas: Annotated[
        Path | None, typer.Option("--schemas", metavar="DIR", help="Message schemas of your own, instead of Kafka's.")
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(
            "--output", "-o", metavar="PATH", help="The plugin's file, else printed; of other targets a folder."
        ),
    ] = None,
) -> None:
    """Write the layouts in another form: a Wireshark plugin, Kaitai Struct files, JSON Schemas, a reference.

    wireshark: a plugin of one file that shows every message. It belongs into Wireshark's folder of personal Lua plugins
    (Help > About Wireshark > Folders); tshark takes it with -X lua_script:FILE, too.

    kaitai: a .ksy file a message, with the version as a parameter; requests, responses and record batches have files
    of their own. kaitai-struct-compiler makes readers of them in a dozen languages.

    jsonschema: a schema of the JSON form of each message and version, for editors and validators, and one of message
    schemas.

    docs: a page of Markdown a message: fields, versions, error codes, an example with its bytes.

    vectors: bytes and JSON of every message and version, bytes that must be refused, and record batches, as lines of
    JSON with a README.

    Files in the folder that were not generated are never touched.

    \b
    For example:
      kafkawire schema emit wireshark -o kafkawire.lua
      kafkawire schema emit kaitai -o ksy/
      kafkawire schema emit jsonschema --schemas my/ -o json-schemas/
      kafkawire schema emit docs --schemas my/ -o reference/
      kafkawire schema emit vectors -o vectors/
    """
    if target is EmitTarget.wireshark:
        from kafkawire.codegen.wireshark import render_wireshark

        check_output(to, [None if schemas is None else str(schemas)])
        messages = wireshark_messages(schemas)
        text = render_wireshark(messages, display_rules())
        with open_output(to) as file:
            file.write(text.encode())
        if to not in (None, "-"):
            typer.echo(f"{printable(to)}: {counted(len(messages), 'message')}")
    elif to is None or to == "-":
        raise typer.BadParameter(f"{target.value} needs a folder", param_hint="--output")
    elif target is EmitTarget.vectors:
        from kafkawire.vectors.vector_files import write

        registry = arguments.registry_of("kafka") if schemas is None else arguments.own_registry(str(schemas))
        for name, count in write(registry, Path(to)).items():
            typer.echo(f"{printable(to)}/{name}: {counted(count, 'line')}")
    else:
        _emit_files(target, schemas, to)


def _emit_files(target: EmitTarget, schemas: Path | None, folder: str) -> None:
    """Writes the files of a target into a folder, and prints how many are new or changed."""
    from kafkawire.codegen import generate, reference
    from kafkawire.codegen.json_schema import render_json_schemas
    from kafkawire.codegen.kaitai import render_kaitai

    if target is EmitTarget.kaitai:
        messages = with_kafkas_own(schemas, control_records=False)
        if schemas is None:
            messages += generate.load(arguments.shipped_schemas("embedded"))
        files = render_kaitai(messages, _sentences_inside())
    else:
        messages = generate.load(schemas or arguments.shipped_schemas("kafka"))
        if target is EmitTarget.docs:
            facts = reference.load_facts(arguments.shipped_schemas(""))
            files = reference.render_reference(messages, facts, default_examples(messages, schemas))
        else:
            files = render_json_schemas(messages)
    inputs = [] if schemas is None else [str(schemas)]
    changes = generate.write(files, Path(folder), save=partial(save, inputs=inputs))
    typer.echo(f"{printable(folder)}: {counted(len(messages), 'message')}, {len(files)} files, {len(changes)} changed")


def default_examples(messages: list[MessageModel], schemas: Path | None) -> dict[str, Example]:
    """Each message with every field at its default, in its newest version."""
    from kafkawire.codegen.reference import Example
    from kafkawire.wire.json_form import to_json

    registry = arguments.registry_of("kafka") if schemas is None else arguments.own_registry(str(schemas))
    found = {}
    for message in messages:
        value = registry.load(registry.entry(message.name))()
        version = message.valid.high
        json = to_json(value, version)
        found[message.name] = Example(version, value.encode(version), json, "Every field at its default.")
    return found


def with_kafkas_own(schemas: Path | None, *, control_records: bool = True) -> list[MessageModel]:
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
        if message.name not in there and (message.kind == "header" or (control_records and message.family == "common"))
    ]


def wireshark_messages(schemas: Path | None) -> list[MessageModel]:
    """The messages of the plugin: those of `with_kafkas_own`, and what is inside of their bytes."""
    from kafkawire.codegen import generate

    messages = with_kafkas_own(schemas)
    there = {message.name for message in messages}
    embedded = generate.load(arguments.shipped_schemas("embedded"))
    return messages + [message for message in embedded if message.name not in there]


def display_rules() -> DisplayRules:
    """The rules for what the plugin shows beyond the schemas: names of numbers, and secret fields."""
    from kafkawire.capture import message_json
    from kafkawire.codegen.wireshark import DisplayRules
    from kafkawire.kafka_api_keys import NAMES as api_keys
    from kafkawire.kafka_errors import NAMES as errors
    from kafkawire.records import inside_bytes, secrets
    from kafkawire.records.control import CONTROL_MESSAGES, CONTROL_TYPES
    from kafkawire.transactions.coordinator.coordinator_rules import STATES

    return DisplayRules(
        numbers={"error": errors, "api_key": api_keys, "transaction_state": STATES, "control_type": CONTROL_TYPES},
        control_messages=CONTROL_MESSAGES,
        secrets={**message_json.SECRETS, **secrets.SECRETS},
        configs={**message_json.CONFIGS, secrets.CONFIG: ("",)},
        secret_words=secrets.SECRET_CONFIG_WORDS,
        inside=inside_bytes.CONTENTS,
        formats=_formats_inside(),
        protocol_type=inside_bytes.TYPE_KEY,
        assignors=inside_bytes.ASSIGNOR_KEYS,
    )


def _sentences_inside() -> dict[str, dict[str, str]]:
    """Message -> JSON paths of fields with bytes -> a sentence about what is in them."""
    from kafkawire.records import inside_bytes

    ways = {
        "int16": "{} behind its int16 version", "int32": "{}, whose first field is its version",
        "version": "{} of version {}", "text": "a text", "address": "an IP address", "none": "{}",
    }  # fmt: skip

    def text(format: inside_bytes.Format) -> str:
        if format.how == "first":
            return " or ".join(map(text, format.formats))
        return ways[format.how].format(format.name, format.version)

    def sentence(content: str) -> str:
        if content in inside_bytes.FORMATS:
            return f"Inside: {text(inside_bytes.FORMATS[content])}."
        by, table = ("protocol type", inside_bytes.BY_TYPE) if content in inside_bytes.BY_TYPE else (
            "assignor", inside_bytes.BY_ASSIGNOR
        )  # fmt: skip
        return "Inside: " + "; ".join(f"with {by} {name} {text(each)}" for name, each in table[content].items()) + "."

    return {
        name: {path: sentence(content) for path, content in fields.items()}
        for name, fields in inside_bytes.CONTENTS.items()
    }


def _formats_inside() -> dict[str, dict[str, object]]:
    """Content of bytes -> its format, or its formats by protocol type or assignor, as plain data."""
    from kafkawire.records import inside_bytes

    def plain(format: inside_bytes.Format) -> dict[str, object]:
        found: dict[str, object] = {"how": format.how, "name": format.name, "version": format.version}
        more = {"newer": format.newer, "formats": [plain(each) for each in format.formats], "why": format.why}
        return found | {key: value for key, value in more.items() if value}

    formats = {content: plain(format) for content, format in inside_bytes.FORMATS.items()}
    for by, table in (("protocol type", inside_bytes.BY_TYPE), ("assignor", inside_bytes.BY_ASSIGNOR)):
        for content, named in table.items():
            formats[content] = {"by": by, "of": {name: plain(format) for name, format in named.items()}}
    return formats
