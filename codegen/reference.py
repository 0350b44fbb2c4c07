"""The reference emitter: messages -> pages in Markdown: what a message and its fields mean, versions, errors, bytes.

The pages link to one another only, and read well without a site; `make docs` renders them. Text of schemas is escaped:
nothing in it is markup.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment

from kafkawire.codegen import annotated_bytes, names, tables, version_changes
from kafkawire.codegen.model import EMPTY_STRUCT, FieldModel, MessageModel, StructModel
from kafkawire.codegen.render import environment
from kafkawire.codegen.versions import VersionRange
from kafkawire.printable import printable
from kafkawire.wire.layout import INT16

#: Lines of JSON that an example shows.
JSON_LINES = 60

#: The families of records, and the topic or file that each is in; what precedes them there is in the template.
STORES = {
    "group": "__consumer_offsets",
    "transaction": "__transaction_state",
    "share": "__share_group_state",
    "metadata": "__cluster_metadata",
    "storage": "__remote_log_metadata",
    "raft": "quorum-state",
    "common": "Any partition",
}


@dataclass(frozen=True, slots=True)
class Example:
    """A value of a message: its version, its bytes, its JSON form, and where it comes from, as a sentence."""

    version: int
    data: bytes
    json: Any
    origin: str


@dataclass(frozen=True, slots=True)
class ReferenceFacts:
    """The facts that the pages state beyond the schemas.

    Attributes:
        errors: entries of `errors.json`. `advice`: name -> cause, what to do.
        api_keys: entries of `api_keys.json`.
        releases: message -> [release, versions of it] from the oldest release on, as in `release_versions.json`.
        first_release: the oldest one that was looked at; a version that it has may be older.
    """

    errors: Sequence[Mapping[str, Any]] = ()
    advice: Mapping[str, Sequence[str]] = field(default_factory=dict)
    api_keys: Sequence[Mapping[str, Any]] = ()
    releases: Mapping[str, Sequence[Sequence[str]]] = field(default_factory=dict)
    first_release: str = ""


def load_facts(schemas: Path) -> ReferenceFacts:
    """The facts of the folder that has the package's schemas."""
    advice, versions = (
        json.loads((schemas / f"{name}.json").read_bytes()) for name in ("error_advice", "release_versions")
    )
    errors, keys = (tables.load(schemas / file, key) for file, key, _ in tables.TABLES.values())
    return ReferenceFacts(errors, advice, keys, versions["messages"], versions["releases"][0])


def render_reference(
    messages: Iterable[MessageModel], facts: ReferenceFacts, examples: Mapping[str, Example]
) -> dict[str, str]:
    """The pages, name -> text: one a message, and `index.md`, `api-keys.md`, `error-codes.md`, `internal-topics.md`.

    Args:
        messages: of a namespace.
        facts: what the pages state beyond the schemas.
        examples: by the names of messages; not all need one.
    """
    pages = _Pages(sorted(messages, key=lambda message: message.name), facts)
    return {
        **{f"{message.name}.md": pages.message(message, examples.get(message.name)) for message in pages.messages},
        **{name: pages.overview(name) for name in ("index.md", "api-keys.md", "error-codes.md", "internal-topics.md")},
    }


# Text ----------------------------------------------------------------------------------------------------------------

_MARKUP = re.compile(r"[\\`*_\[\]{}#!]|(?<=^\d)[.)]|^[-+=:]")
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "|": "&#124;", "~": "&#126;", "@": "&#64;"}
_KIP = re.compile(r"KIP-(\d{1,5})")
_KIPS = "https://cwiki.apache.org/confluence/dosearchsite.action?queryString=KIP-"


def escape(text: str) -> str:
    """Text as Markdown of one line in which nothing is markup."""
    text = _MARKUP.sub(lambda match: "\\" + match[0], printable(" ".join(text.split())))
    return "".join(_ENTITIES.get(char, char) for char in text).replace("://", ":&#47;/")


def sentences(text: str) -> str:
    """Our sentences as Markdown, with links to the KIPs that they name."""
    return _KIP.sub(lambda match: f"[{match[0]}]({_KIPS}{match[1]})", escape(text))


@cache
def _templates() -> Environment:
    templates = environment().overlay()
    templates.filters = {**templates.filters, "text": escape, "sentences": sentences}
    return templates


def _joined(paths: list[str], most: int = 12) -> str:
    shown = ", ".join(f"`{path}`" for path in paths[:most])
    return f"{shown} and {len(paths) - most} more" if len(paths) > most else shown


# Error codes ---------------------------------------------------------------------------------------------------------

_NO_CODE = re.compile(
    r"""KIP-\d+ | [Vv]ersions?\s\d+ (?: (?:\s(?:to|and|or)\s|-) \d+ )? | \d+\.\d+\S* | -\d+
    | \b[A-Z][a-z]+[A-Z]\w*\s-?\d+ | \b(?:partition|is|at|over|below|above)\s\d+ | \b\d{4,}\b""",
    re.VERBOSE,
)


def error_codes(text: str) -> list[int]:
    """The error codes that a sentence about a field of them explains, without 0; numbers of other things are none."""
    return sorted({int(number) for number in re.findall(r"(?<![\w.])\d{1,3}(?![\w.]\w)", _NO_CODE.sub("", text))} - {0})


def _is_error_code(one: FieldModel) -> bool:
    return one.type.kind == INT16 and not one.type.array and one.name.endswith("ErrorCode")


# Pages ---------------------------------------------------------------------------------------------------------------


class _Pages:
    def __init__(self, messages: list[MessageModel], facts: ReferenceFacts) -> None:
        self.messages = messages
        self.facts = facts
        self.errors = {entry["code"]: entry for entry in facts.errors}
        self.explaining: dict[int, list[str]] = {}
        for message in messages:
            for code in self.codes(message):
                self.explaining.setdefault(code, []).append(message.name)

    def render(self, template: str, **values: Any) -> str:
        return _templates().get_template(f"reference_{template}.md.jinja").render(**values)

    def codes(self, message: MessageModel) -> list[int]:
        """The error codes that the sentences of a message explain."""
        fields = (one for struct in (message.root, *message.structs) for one in struct.fields if _is_error_code(one))
        found = {code for one in fields for code in error_codes(one.about)}
        return sorted(found & self.errors.keys())

    def message(self, message: MessageModel, example: Example | None) -> str:
        texts = [message.about, *(one.about for struct in message.structs for one in struct.fields)]
        texts += [one.about for one in message.root.fields]
        kips = sorted({int(number) for text in texts for number in _KIP.findall(text)})
        return self.render(
            "message",
            message=message,
            pair=self.pair(message),
            module=names.module_name(message.name),
            class_name=names.class_name(message.name),
            changes=self.changes(message),
            structs=[self.struct(message, *place) for place in _places(message)],
            errors=[self.errors[code] for code in self.codes(message)],
            kips=[(number, f"{_KIPS}{number}") for number in kips],
            example=example,
            example_json=_json_text(example.json) if example else "",
            example_lines=_lines(message, example) if example else [],
        )

    def pair(self, message: MessageModel) -> MessageModel | None:
        """The response of a request, the value of a key; and the other way round."""
        other = {
            "request": "response",
            "response": "request",
            "coordinator-key": "coordinator-value",
            "coordinator-value": "coordinator-key",
        }.get(message.kind)
        if other is None or message.api_key is None:
            return None
        same = (message.api_key, message.family, other)
        return next((one for one in self.messages if (one.api_key, one.family, one.kind) == same), None)

    def changes(self, message: MessageModel) -> list[tuple[int, str, str]]:
        """Version, first release, what it changed."""
        found = version_changes.changes(message)
        rows = [
            (message.valid.low, self.release(message, message.valid.low), "The oldest version that is described here.")
        ]
        for version, changed in found.items():
            texts = [
                what if not paths
                else f"{what} {_joined(paths)}" if what in (version_changes.ADDED, version_changes.DROPPED)
                else f"{_joined(paths)} {what}"
                for what, paths in changed
            ]  # fmt: skip
            rows.append(
                (version, self.release(message, version), "; ".join(texts) or "The layout of the version before.")
            )
        return rows

    def release(self, message: MessageModel, version: int) -> str:
        for release, *versions in self.facts.releases.get(message.name, ()):
            if version in VersionRange.parse(versions[-1]):
                return f"{release} or before" if release == self.facts.first_release else release
        return ""

    def struct(self, message: MessageModel, struct: StructModel, paths: list[str]) -> dict[str, Any]:
        about = "" if struct is message.root else struct.about
        fields = [(one, _notes(one, message, struct), _python_name(one)) for one in struct.fields]
        return {"name": struct.name, "paths": _joined(paths, 4), "about": about, "fields": fields}

    def overview(self, name: str) -> str:
        stores = [
            (family, title, found)
            for family, title in STORES.items()
            if (found := [message for message in self.messages if message.family == family])
        ]
        by_key = {(message.api_key, message.kind): message for message in self.messages if message.family == "rpc"}
        return self.render(
            name.removesuffix(".md").replace("-", "_"),
            families=sorted({message.family for message in self.messages}),
            messages=self.messages,
            stores=stores,
            requests=by_key,
            api_keys=self.facts.api_keys,
            errors=self.facts.errors,
            advice=self.facts.advice,
            explaining=self.explaining,
        )


def _places(message: MessageModel) -> list[tuple[StructModel, list[str]]]:
    """The message's own fields, then each struct with the paths at which it is, in the order of its first use."""
    found: dict[str, list[str]] = {}
    seen: set[str] = set()

    def walk(struct: StructModel, above: str) -> None:
        for one in struct.fields:
            if one.type.struct:
                path = f"{above}{one.name}{'[]' if one.type.array else ''}"
                found.setdefault(one.type.struct, []).append(path)
                if one.type.struct not in seen:
                    seen.add(one.type.struct)
                    walk(message.struct(one.type.struct), f"{path}.")

    walk(message.root, "")
    return [(message.root, []), *((message.struct(name), paths) for name, paths in found.items())]


def _notes(one: FieldModel, message: MessageModel, struct: StructModel) -> list[str]:
    """Notes on the properties that a field's type does not state: null, tag, default, key."""
    notes = []
    if one.nullable:
        everywhere = one.nullable.covers(one.versions)
        notes.append("may be null" if everywhere else f"may be null in {one.nullable}")
    if one.tag is not None:
        notes.append(f"tag {one.tag}" + ("" if one.tagged.covers(one.versions) else f" in {one.tagged}"))
    default = one.default
    zero = default is EMPTY_STRUCT or default in ((), False, 0, "", b"", "00000000-0000-0000-0000-000000000000")
    if default is None:
        notes.append("default null")
    elif not zero:
        notes.append(f"default {escape(str(default))}")
    if one.map_key:
        notes.append("key of the list")
    return notes


def _python_name(one: FieldModel) -> str:
    """The attribute, where it is not just the name in small letters."""
    attribute = names.attribute(one.name)
    return "" if attribute == one.name.lower() else attribute


def _json_text(value: Any) -> str:
    lines = json.dumps(value, indent=2, ensure_ascii=False).splitlines()
    more = [f"... {len(lines) - JSON_LINES} more lines"] if len(lines) > JSON_LINES else []
    return "\n".join([printable(line) for line in lines[:JSON_LINES]] + more)


def _lines(message: MessageModel, example: Example) -> list[str]:
    return list(annotated_bytes.lines(annotated_bytes.parts(message, example.version, example.data)))
