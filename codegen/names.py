"""Names: the schema's names -> Python's."""

from __future__ import annotations

import keyword

#: Attributes that every message has, and names that annotations of fields use; a field with one of these names gets an
#: underscore appended.
RESERVED_ATTRIBUTES = frozenset(
    {
        "bool",
        "bytes",
        "codec",
        "decode",
        "decode_from",
        "decode_prefixed",
        "encode",
        "encode_prefixed",
        "float",
        "for_version",
        "mro",
        "replace",
        "response",
        "spec",
        "str",
        "tuple",
        "unknown_tagged_fields",
        "unsupported",
        "uuid",
    }
)

#: What generated modules import from `kafkawire.runtime` (`kafkawire.wire.codec_names`).
RUNTIME = frozenset(
    """
    BOOLS BOOL_BYTES NO_FIELDS NO_TAGS ZERO_UUID Append BrokerId Buffer Codec Elements GroupId Int8 Int16 Int32 Int64
    Message MessageSpec ProducerId Records Struct StructSpec Tag TaggedField Tags TopicName TransactionalId Uint16
    Uint32 Wire classic flexible make_uuid message pack_b pack_h pack_i pack_ih pack_ii pack_iq pack_q pack_u
    read_bool read_float64 read_int8 read_int16 read_int32 read_int64 read_nullable_struct read_one read_struct
    read_tagged_nullable_struct read_tags read_uint16 read_uint32 read_unknown_tags read_uuid run sibling strided
    struct unknown_tags unpack_b unpack_h unpack_i unpack_ih unpack_ii unpack_iq unpack_q unpack_u write_bool
    write_float64 write_int8 write_int16 write_int32 write_int64 write_nullable_struct write_one write_struct
    write_tagged_nullable_struct write_tags write_uint16 write_uint32 write_uuid
    """.split()  # noqa: SIM905
)

#: Names that a generated module may import; a struct with one of them gets an underscore appended.
RESERVED_CLASSES = RUNTIME | {"Annotated", "ClassVar", "TypeError", "ValueError", "TYPE_CHECKING"}

#: Local names of generated decoders in addition to the fields.
RESERVED_LOCALS = frozenset(
    {
        "b",
        "classic",
        "flexible",
        "make_uuid",
        "n",
        "p",
        "range",
        "tuple",
        "unknown",
        "unknown_tags",
        "uuid",
        "values",
        "version",
        "wire",
    }
)
_FUNCTIONS = ("pack_", "read_", "unpack_", "write_")


def snake_case(name: str) -> str:
    """Kafka's own rule (MessageGenerator.toSnakeCase): an underscore before each capital that follows a small letter.

    `ThrottleTimeMs` -> `throttle_time_ms`, `isKRaftController` -> `is_kraft_controller`.
    """
    text = ""
    after_capital = True
    for char in name:
        if char.isupper():
            text += ("" if after_capital else "_") + char.lower()
            after_capital = True
        else:
            text += char
            after_capital = False
    return text


def attribute(name: str) -> str:
    """The attribute of a field. Underscores at both ends would be Python's own names."""
    text = snake_case(name)
    if text.startswith("_"):
        text = "field" + text
    return text + "_" if keyword.iskeyword(text) or text in RESERVED_ATTRIBUTES else text


def local(attribute: str) -> str:
    """The local variable of a decoder that holds a field."""
    return attribute + "_" if attribute in RESERVED_LOCALS or attribute.startswith(_FUNCTIONS) else attribute


def class_name(name: str) -> str:
    """The class of a struct; schema names are camel case except for their first letter."""
    text = name[:1].upper() + name[1:]
    return text + "_" if keyword.iskeyword(text) or text in RESERVED_CLASSES else text


def module_name(name: str) -> str:
    """The module of a message."""
    text = snake_case(name)
    return text + "_" if keyword.iskeyword(text) else text


def package_name(folder: str) -> str:
    """The package of a namespace of schemas: `kip-664-draft` -> `kip_664_draft`."""
    return "".join(char if char.isalnum() else "_" for char in folder.lower())
