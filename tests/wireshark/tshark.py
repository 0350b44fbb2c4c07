"""tshark with the plugin: what it says of a capture, read back from its JSON and compared with our own JSON form."""

from __future__ import annotations

import base64
import json
import math
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import kafkawire
from kafkawire.cli.schema_emit import display_rules, wireshark_messages
from kafkawire.codegen.names import snake_case
from kafkawire.codegen.wireshark import render_wireshark
from kafkawire.wire.spec import Field

#: Another tshark than the one on the path: `TSHARK=/opt/wireshark/bin/tshark`.
TSHARK = os.environ.get("TSHARK") or shutil.which("tshark")
PCAP = Path(__file__).parents[2] / "examples" / "capture" / "transactions.pcap"

needs_tshark = pytest.mark.skipif(TSHARK is None, reason="tshark is not installed (Debian: apt install tshark)")

#: One level of tshark's JSON: names may repeat, so it is pairs.
Pairs = list[tuple[str, Any]]


@cache
def version() -> str:
    """The version that tshark prints."""
    assert TSHARK is not None
    return subprocess.run([TSHARK, "--version"], capture_output=True, text=True, timeout=60, check=True).stdout


@cache
def plugin_text(schemas: Path | None = None) -> str:
    return render_wireshark(wireshark_messages(schemas), display_rules())


def write_plugin(folder: Path, schemas: Path | None = None) -> Path:
    path = folder / "kafkawire.lua"
    path.write_text(plugin_text(schemas), "utf-8")
    return path


def run(plugin: Path, capture: Path, *arguments: str) -> str:
    """What tshark prints. An error of the plugin's, wherever it shows, ends the test."""
    assert TSHARK is not None
    # Wireshark's own settings, and other plugins, are no part of it.
    home = plugin.parent / "home"
    home.mkdir(exist_ok=True)
    command = [TSHARK, "-X", f"lua_script:{plugin}", "-r", str(capture), *arguments]
    environment = {**os.environ, "HOME": str(home), "XDG_CONFIG_HOME": str(home), "TZ": "UTC"}
    done = subprocess.run(command, capture_output=True, env=environment, timeout=300, check=False)
    text = done.stdout.decode("utf-8", "replace")
    errors = done.stderr.decode("utf-8", "replace")
    for output in (text, errors):
        trouble = re.search(r"(Lua Error|Lua: |Dissector bug|_ws\.lua\.error).*", output)
        assert trouble is None, trouble and trouble[0]
    assert done.returncode == 0, errors
    return text


@dataclass
class Body:
    """A message in the tree: its packet, ports, correlation id, name, version and fields."""

    packet: int
    ports: tuple[int, int]
    correlation_id: int
    name: str
    version: int
    pairs: Pairs

    def json(self) -> Any:
        """In our JSON form; see `comparable`."""
        return _struct(self.pairs, kafkawire.lookup(self.name).spec.fields, self.version)


def bodies(plugin: Path, capture: Path, *arguments: str) -> Iterator[Body]:
    """The bodies of all requests and responses, in the order of the capture."""
    text = run(plugin, capture, "-T", "json", "-J", "kafkawire frame tcp", "-Y", "kafkawire", *arguments)
    for packet in json.loads(text, object_pairs_hook=list):
        layers = dict(dict(packet)["_source"])["layers"]
        number = int(dict(dict(layers)["frame"])["frame.number"])
        tcp = dict(dict(layers)["tcp"])
        ports = int(tcp["tcp.srcport"]), int(tcp["tcp.dstport"])
        for layer, fields in layers:
            if layer == "kafkawire":
                there = dict(fields)
                if "kafkawire.message" in there:
                    pairs = there.get("kafkawire.message_tree") or []
                    name, version = there["kafkawire.message"], int(there["kafkawire.version"])
                    yield Body(number, ports, int(there["kafkawire.correlation_id"]), name, version, pairs)


def fields_of(pairs: Pairs, fields: tuple[Field, ...], version: int) -> Any:
    """The fields of a struct in tshark's JSON, in our JSON form; see `comparable`."""
    return _struct(pairs, fields, version)


# Their fields in our form --------------------------------------------------------------------------------------------


def _struct(pairs: Pairs, fields: tuple[Field, ...], version: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    counts = [f"{snake_case(field.name)}.count" for field in fields if field.is_array]
    scalars = [(key, value) for key, value in pairs if not any(_is(key, count) for count in counts)]
    for field in fields:
        if version not in field.versions:
            continue
        name = snake_case(field.name)
        if field.is_array:
            count = [value for key, value in pairs if _is(key, f"{name}.count")]
            if not count:
                continue
            elements = next((value for key, value in pairs if _is(key, f"{name}.count_tree")), [])
            values = [_value(value, field, version) for key, value in elements if _is(key, name)]
            assert len(values) == int(count[0]), (field.name, count, elements)
            found[field.json_name] = values
        else:
            there = [value for key, value in scalars if _is(key, name)]
            if there:
                assert len(there) == 1, (field.name, there)
                found[field.json_name] = _value(there[0], field, version)
    tags = [int(value) for key, value in pairs if key == "kafkawire.unknown_tag"]
    if tags:
        data = iter([dict(value)["kafkawire.unknown_tag.data"] for key, value in pairs if key == _TAG_TREE])
        found["_unknownTaggedFields"] = [[tag, next(data) if size else ""] for tag, size in _tag_sizes(pairs, tags)]
    return found


_TAG_TREE = "kafkawire.unknown_tag_tree"


def _tag_sizes(pairs: Pairs, tags: list[int]) -> list[tuple[int, bool]]:
    """The unknown tags, and whether each has data: only then a tree follows it."""
    places = [place for place, (key, _) in enumerate(pairs) if key == "kafkawire.unknown_tag"]
    follows = [place + 1 < len(pairs) and pairs[place + 1][0] == _TAG_TREE for place in places]
    return list(zip(tags, follows, strict=True))


def _is(key: str, name: str) -> bool:
    """Whether a filter is that of a field: `kafkawire.fetch.topics`, or with the struct's name in between."""
    return re.fullmatch(rf"kafkawire\.(\w+\.){{0,2}}{re.escape(name)}(_\d+)?", key) is not None


def _value(value: Any, field: Field, version: int) -> Any:
    kind = field.type.removeprefix("[]")
    if field.struct is not None:
        return _struct(value or [], field.struct.spec.fields, version)
    if kind == "bool":
        return value in ("1", "True")
    if kind in ("string", "uuid", "bytes"):
        return value
    if kind == "float64":
        return _number(float(value))
    return int(value)


# Our JSON form, as far as Wireshark can show it ----------------------------------------------------------------------


def comparable(body: Any, fields: tuple[Field, ...]) -> Any:
    """Our JSON form of a message as Wireshark shows it: null is a field that is not there, bytes are hex, records their
    size; what is secret is not there."""
    shown: dict[str, Any] = {}
    for field in fields:
        value = body.get(field.json_name)
        if value is None:
            continue
        if field.is_array:
            shown[field.json_name] = [_comparable(element, field) for element in value]
        elif value != "[redacted]":
            shown[field.json_name] = _comparable(value, field)
    tags = body.get("_unknownTaggedFields")
    if tags:
        shown["_unknownTaggedFields"] = [[tag, _hex(data)] for tag, data in tags]
    return shown


def _comparable(value: Any, field: Field) -> Any:
    kind = field.type.removeprefix("[]")
    if field.struct is not None:
        return comparable(value, field.struct.spec.fields)
    if kind == "string":
        return text(value)
    if kind == "bytes":
        return _hex(value)
    if kind == "records":
        return len(base64.b64decode(value))
    return _number(float(value)) if kind == "float64" else value


def _hex(data: str) -> str:
    return base64.b64decode(data).hex(":")


def _number(value: float) -> str:
    return "nan" if math.isnan(value) else f"{value:.15g}"


def text(value: str) -> str:
    """A string as the plugin shows it: what is no UTF-8 becomes U+FFFD; where NUL is in it, escapes."""
    if "\0" in value:
        return re.sub(
            rb"[^ -~]", lambda found: b"\\x%02x" % found[0][0], value.encode("utf-8", "surrogateescape")
        ).decode()
    return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
