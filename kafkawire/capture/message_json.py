"""Bodies of messages as JSON, without secrets and with the decoded content of byte fields; and error codes in
responses.

`SECRETS` lists the secret fields, `CONFIGS` the fields with configurations. `records.secrets` decides which
configurations are secret.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any
from uuid import UUID

import msgspec

from kafkawire import records, rows
from kafkawire.capture.kafka_fields import kafka_name, kafka_name_of, released_name
from kafkawire.errors import RecordError
from kafkawire.kafka_errors import error_name
from kafkawire.records.inside_bytes import ASSIGNOR_KEYS, CONTENTS, TYPE_KEY, add_decoded, shown_inside
from kafkawire.records.internal_topics import CLUSTER_METADATA, decode_value
from kafkawire.records.secrets import REDACTED, UNKNOWN_TYPE, is_secret_config
from kafkawire.wire.json_form import to_json, uuid_text

if TYPE_CHECKING:
    from kafkawire.wire.message import Message, Struct
    from kafkawire.wire.spec import Field, StructSpec

#: message -> JSON paths of fields with credentials, or with whole messages that may contain some (Envelope)
SECRETS = {
    "AlterUserScramCredentialsRequest": ("upsertions.salt", "upsertions.saltedPassword"),
    "CreateDelegationTokenResponse": ("hmac",),
    "DescribeDelegationTokenResponse": ("tokens.hmac",),
    "EnvelopeRequest": ("requestData",),
    "EnvelopeResponse": ("responseData",),
    "ExpireDelegationTokenRequest": ("hmac",),
    "RenewDelegationTokenRequest": ("hmac",),
    "SaslAuthenticateRequest": ("authBytes",),
    "SaslAuthenticateResponse": ("authBytes",),
}
#: message -> JSON paths of its configurations, objects with a `name` and a `value`
CONFIGS = {
    "AlterConfigsRequest": ("resources.configs",),
    "CreateTopicsRequest": ("topics.configs",),
    "CreateTopicsResponse": ("topics.configs",),
    "DescribeConfigsResponse": ("results.configs", "results.configs.synonyms"),
    "IncrementalAlterConfigsRequest": ("resources.configs",),
}


#: Responses with record batches of `__cluster_metadata`: of snapshots always, of fetches where they name the topic.
_SNAPSHOT, _FETCH = "FetchSnapshotResponse", "FetchResponse"
_OF_METADATA = (_SNAPSHOT, _FETCH)
#: Characters of bytes as base64 up to which what is inside of them is kept as text.
_MOST_KEPT = 4096
#: Fields of rows that batches in messages have not.
_OF_FILE = ("file", "topic", "partition")
#: What a field is for what is inside of bytes (`native/src/json/inside.rs`): bytes have their content's number added.
_PROTOCOL_TYPE, _ASSIGNOR, _BYTES = 1, 2, 3
_CONTENTS = sorted({content for fields in CONTENTS.values() for content in fields.values()})
_METADATA_ID = UUID(int=1)  # `Uuid.METADATA_TOPIC_ID`


def may_contain_secrets(api_key: int | None, kind: str) -> bool:
    """Whether messages of an api key may contain values that `body_json` redacts, whatever the message.

    Args:
        api_key: of the request.
        kind: `request` or `response`.
    """
    name = released_name(api_key, kind)
    return name in SECRETS or name in CONFIGS or name == _SNAPSHOT


def frame_may_contain_secrets(api_key: int | None, kind: str, frame: bytes) -> bool:
    """Whether a frame may contain secrets.

    Args:
        api_key: of the request; None for a response without its request, which may be any.
        kind: `request` or `response`.
    """
    if api_key is None or may_contain_secrets(api_key, kind):
        return True
    return released_name(api_key, kind) == _FETCH and names_metadata(frame)


def names_metadata(frame: bytes) -> bool:
    """Whether the frame of a Fetch response may contain records of `__cluster_metadata`."""
    return CLUSTER_METADATA.encode() in frame or _METADATA_ID.bytes in frame


def inside_roles(cls: type[Message]) -> list[bytes]:
    """The roles of a message's fields in decoding the content of bytes, for the native engine: for each class of its
    codec one byte per field. Empty for a message whose bytes have no known content."""
    name = kafka_name_of(cls)
    if name not in CONTENTS:
        return []
    keys = {TYPE_KEY: _PROTOCOL_TYPE, ASSIGNOR_KEYS.get(name): _ASSIGNOR}
    roles: dict[type[Struct], dict[str, int]] = {}
    for path, content in CONTENTS[name].items():
        struct: type[Struct] = cls
        for part in path.split("."):
            fields = {field.json_name: field for field in struct.spec.fields}
            of_struct = roles.setdefault(struct, {})
            of_struct |= {key: role for key, role in keys.items() if key in fields}
            nested = fields[part].struct
            if nested is None:
                of_struct[part] = _BYTES + _CONTENTS.index(content)
            else:
                struct = nested
    of_classes = ((roles.get(each, {}), each.spec.fields) for each in cls.codec.classes)
    return [bytes(found.get(field.json_name, 0) for field in fields) for found, fields in of_classes]


def inside_json(role: int, data: bytes, protocol_type: bytes | None, assignor: bytes | None) -> bytes:
    """The JSON of what is inside of bytes, as `body_json` puts it beside them.

    Args:
        role: of `inside_roles`, of a field with bytes.
        data: the bytes.
        protocol_type, assignor: UTF-8; see `inside_bytes.inside`.
    """
    names = (None if name is None else name.decode() for name in (protocol_type, assignor))
    return msgspec.json.encode(shown_inside(_CONTENTS[role - _BYTES], b64encode(data).decode("ascii"), *names))


def record_rows() -> Any:
    """The native writer of record batches, as `decoded_records` gives them."""
    from kafkawire.rows.native_lines import log_rows

    batch, record = rows.BatchRow.fields(), rows.RecordRow.fields(payload=True)
    return log_rows(
        [name for name in batch if name not in _OF_FILE],
        [name for name in record if name not in _OF_FILE],
        {},
        encode=msgspec.json.encode,
    )


def _shown_object(content: str, text: str, protocol_type: str | None, assignor: str | None) -> rows.Json:
    show = _kept_text if len(text) <= _MOST_KEPT else _kept_text.__wrapped__
    shown: rows.Json = msgspec.json.decode(show(content, text, protocol_type, assignor))
    return shown


@lru_cache(maxsize=256)
def _kept_text(content: str, text: str, protocol_type: str | None, assignor: str | None) -> bytes:
    """The JSON of some bytes, kept because the members of a group send the same ones repeatedly."""
    return msgspec.json.encode(shown_inside(content, text, protocol_type, assignor))


def body_json(
    message: Message,
    version: int,
    *,
    show_secrets: bool = False,
    decode_records: bool = False,
    payloads: bool = True,
    faults: list[str] | None = None,
) -> rows.Json:
    """The message as `to_json` gives it, with its secrets replaced by `[redacted]`. What is inside of bytes is beside
    them, at the field's name and `Decoded` (`records.inside_bytes`).

    If a message has the api key of a message of Kafka's with secrets, but lacks some of its fields, every text and all
    bytes in it are `[redacted]`.

    Args:
        version: the message's version.
        show_secrets: leave secrets as they are.
        decode_records: record batches as lists of batch rows, each with its `records`, instead of base64.
        payloads: False replaces record batches by null.
        faults: gets a sentence for each place of decoded record batches that cannot be read.
    """
    body = to_json(message, version, unknown_tags=True)
    spec = message.spec
    name = released_name(spec.api_key, spec.kind) if spec.family == "rpc" else None
    known = name is None or kafka_name(message) == name
    if not show_secrets:
        if not known and may_contain_secrets(spec.api_key, spec.kind):
            return {key: _redacted(value) for key, value in body.items()}
        for path in SECRETS.get(name or "", ()):
            *parents, field = path.split(".")
            for place in _objects(body, parents):
                if place.get(field) not in (None, ""):
                    place[field] = REDACTED
        paths = CONFIGS.get(name or "", ())
        for path in paths:
            if path.rpartition(".")[0] not in paths:  # synonyms are hidden with their configuration
                for config in _objects(body, path.split(".")):
                    _hide_config(config)
    if decode_records or not payloads or name in _OF_METADATA:
        for first, *parents, field in _records_paths(message.spec):
            for top in _objects(body, [first]):
                hidden = not show_secrets and name in _OF_METADATA and (not known or _is_metadata(name, top))
                for place in _objects(top, parents):
                    if place.get(field) is not None:
                        shown = _shown_records(place[field], decode_records, payloads, hidden=hidden)
                        place[field] = shown
                        if faults is not None and isinstance(shown, list):
                            faults += _faults(shown, may_end=spec.kind == "response")
    if known and name is not None:
        add_decoded(name, body, shown=_shown_object)
    return body


def _faults(batches: list[rows.Json], *, may_end: bool) -> Iterator[str]:
    """What of decoded batches cannot be read. `may_end`: brokers cut the last batch of a response at their limit."""
    for batch in batches:
        for row in (batch, *batch.get("records", ())):
            if row["kind"] != "damage" or (may_end and row["reason"] == "truncated" and row is batches[-1]):
                continue
            yield f"records: at byte {row['position']}: {row['reason']}: {row['detail']}"


def _redacted(value: Any) -> Any:
    """JSON with all of its texts redacted."""
    if isinstance(value, dict):
        return {key: _redacted(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_redacted(each) for each in value]
    return REDACTED if isinstance(value, str) and value else value


def _hide_config(config: rows.Json) -> None:
    """Redacts a configuration that is secret, and its synonyms, which have its type."""
    kind = config.get("configType", UNKNOWN_TYPE)
    for each in (config, *config.get("synonyms", ())):
        name, value = each.get("name", ""), each.get("value")
        if value and (config.get("isSensitive") or is_secret_config(name, value, kind)):
            each["value"] = REDACTED


def _is_metadata(name: str | None, topic: rows.Json) -> bool:
    """Whether a topic of one of the responses `_OF_METADATA` is `__cluster_metadata`."""
    named = topic.get("topic") == CLUSTER_METADATA or topic.get("topicId") == uuid_text(_METADATA_ID)
    return name == _SNAPSHOT or named


def _shown_records(text: str, decode: bool, payloads: bool, *, hidden: bool) -> Any:
    """Record batches in the form that the options choose. `hidden`: without secrets."""
    if not payloads:
        return None
    if decode:
        return decoded_records(b64decode(text), hidden=hidden)
    return REDACTED if hidden and text else text


def decoded_records(data: bytes, *, hidden: bool = False) -> list[rows.Json]:
    """Record batches as the rows of `kafkawire dump`, each batch with its `records`. Damage is a row in its place.

    Args:
        hidden: they are of `__cluster_metadata`; values with secrets are `[redacted]`.
    """
    shown = []
    for item in records.read(data, check_offsets=False):
        if isinstance(item, records.Damage):
            shown.append(_without_file(rows.DamageRow.of(item)))
            continue
        listed = []
        control = None
        try:
            control = item.control
            for record in item.records:
                row = _without_file(rows.RecordRow.of(record, item, control, payload=True))
                found = decode_value(CLUSTER_METADATA, record.key, record.value) if hidden and control is None else None
                listed.append(row if found is None or not found.secret else row | {"value": REDACTED})
        except RecordError as error:
            listed.append(
                _without_file(rows.DamageRow(reason="bad_records", detail=str(error), position=item.position))
            )
        shown.append(_without_file(rows.BatchRow.of(item, control)) | {"records": listed})
    return shown


def _without_file(row: rows.Row) -> rows.Json:
    return {name: value for name, value in rows.to_dict(row).items() if name not in _OF_FILE}


def errors(message: Message) -> dict[str, int]:
    """How often each error code but NONE occurs in a response, by name."""
    found: Counter[int] = Counter()
    _count_errors(message, found)
    return {error_name(code): found[code] for code in sorted(found)}


def _count_errors(struct: Struct, found: Counter[int]) -> None:
    codes, nested = _plan(type(struct))
    for attribute in codes:
        if code := getattr(struct, attribute):
            found[code] += 1
    for attribute in nested:
        value = getattr(struct, attribute)
        for element in value if isinstance(value, tuple) else (value,):
            if element is not None:
                _count_errors(element, found)


def is_error_code(field: Field) -> bool:
    """Whether `errors` counts the field."""
    return field.name.endswith("ErrorCode") and field.type == "int16"


@cache
def _plan(cls: type[Struct]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The attributes of a struct that are error codes, and those of nested structs that contain some."""
    codes = tuple(f.attribute for f in cls.spec.fields if is_error_code(f))
    return codes, tuple(f.attribute for f in cls.spec.fields if f.struct is not None and any(_plan(f.struct)))


def _objects(value: Any, path: list[str]) -> Iterator[dict[str, Any]]:
    """The objects at a path, through all elements of lists on the way."""
    if isinstance(value, list):
        for element in value:
            yield from _objects(element, path)
    elif isinstance(value, dict):
        if not path:
            yield value
        elif path[0] in value:
            yield from _objects(value[path[0]], path[1:])


def _records_paths(spec: StructSpec) -> Iterator[list[str]]:
    for field in spec.fields:
        if field.type == "records":
            yield [field.json_name]
        elif field.struct is not None:
            for path in _records_paths(field.struct.spec):
                yield [field.json_name, *path]
