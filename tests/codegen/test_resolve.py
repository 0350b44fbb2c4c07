"""Raw schemas -> the model: what a schema means. (What is wrong with one is in `test_resolve_mistakes`.)"""

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kafkawire.codegen
from kafkawire.codegen.load import RawSchema, load_folder, load_text
from kafkawire.codegen.model import EMPTY_STRUCT, FieldModel, FieldType, MessageModel, StructModel
from kafkawire.codegen.resolve import KINDS, MESSAGE_KEYS, resolve
from kafkawire.codegen.rules import FIELD_KEYS
from kafkawire.codegen.versions import NO_VERSIONS, VersionRange
from kafkawire.errors import SchemaError
from kafkawire.wire.layout import BOOL, INT32, INT64, RECORDS, STRING, STRUCT
from tests.codegen.schema_builders import Schema, common, field, message, raw

SCHEMAS = Path(kafkawire.codegen.__file__).parent.parent / "schemas"


def model(schema: Schema) -> MessageModel:
    (resolved,) = resolve([raw(schema)])
    return resolved


def only_field(**keys: Any) -> FieldModel:
    (resolved,) = model(message(field(**keys))).root.fields
    return resolved


# --- what a schema means


def test_a_whole_message() -> None:
    schema = """{
      // a comment
      "name": "FooRequest", "aliases": ["OldFooRequest"], "type": "request", "apiKey": "7", "listeners": ["broker"],
      "validVersions": "1-4", "flexibleVersions": "3+", "latestVersionUnstable": true, "deprecatedVersions": "1",
      "about": "What it is.",
      "fields": [
        {"name": "Topics", "type": "[]Topic", "versions": "0+", "about": "All of them.", "fields": [
          {"name": "name", "aliases": ["topic"], "type": "string", "versions": "0+", "mapKey": true,
           "entityType": "topicName", "nullableVersions": "0-2", "ignorable": "true"},
          {"name": "Kind", "type": "Kind", "versions": "2+"},
          {"name": "Gone", "type": "int32", "versions": "0"}
        ]},
        {"name": "Reason", "type": "string", "versions": "2+", "nullableVersions": "2+", "default": "null",
         "taggedVersions": "3+", "tag": "0"},
        {"name": "Kinds", "type": "[]Kind", "versions": "4+", "nullableVersions": "4+"},
        {"name": "Limit", "type": "int64", "taggedVersions": "4+", "tag": 1, "default": -1},
        {"name": "Data", "type": "bytes", "versions": "0+", "zeroCopy": true, "flexibleVersions": "none"}
      ],
      "commonStructs": [
        {"name": "Unused", "versions": "0+", "fields": [{"name": "x", "type": "bool", "versions": "0+"}]},
        {"name": "Kind", "versions": "2+", "about": "A kind.", "fields": [
          {"name": "Code", "type": "int32", "versions": "0+"},
          {"name": "Later", "type": "int32", "versions": "4+", "default": "0x7fffffff"}
        ]}
      ]
    }"""
    (resolved,) = resolve([load_text(schema, file="rpc/FooRequest.json", family="rpc")])
    kind = StructModel(
        name="Kind",
        versions=VersionRange(2, 4),
        about="A kind.",
        fields=(
            FieldModel(
                name="Code", type=FieldType(INT32), versions=VersionRange(2, 4), default=0, flexible=VersionRange(3, 4)
            ),
            FieldModel(
                name="Later",
                type=FieldType(INT32),
                versions=VersionRange(4, 4),
                default=2**31 - 1,
                flexible=VersionRange(4, 4),
            ),
        ),
    )
    topic = StructModel(
        name="Topic",
        versions=VersionRange(1, 4),
        fields=(
            FieldModel(
                name="name",
                aliases=("topic",),
                type=FieldType(STRING),
                versions=VersionRange(1, 4),
                nullable=VersionRange(1, 2),
                default="",
                ignorable=True,
                map_key=True,
                entity_type="topicName",
                flexible=VersionRange(3, 4),
            ),
            FieldModel(
                name="Kind",
                type=FieldType(STRUCT, struct="Kind"),
                versions=VersionRange(2, 4),
                default=EMPTY_STRUCT,
                flexible=VersionRange(3, 4),
            ),
        ),
    )
    fields = resolved.root.fields
    assert resolved == MessageModel(
        name="FooRequest",
        aliases=("OldFooRequest",),
        kind="request",
        family="rpc",
        valid=VersionRange(1, 4),
        flexible=VersionRange(3, 4),
        api_key=7,
        listeners=("broker",),
        latest_version_unstable=True,
        about="What it is.",
        source="rpc/FooRequest.json",
        structs=(kind, topic),
        root=StructModel(name="FooRequest", fields=fields, versions=VersionRange(1, 4)),
    )
    assert resolved.source == "rpc/FooRequest.json"
    assert [(f.name, str(f.type), str(f.versions), f.default) for f in fields] == [
        ("Topics", "[]Topic", "1-4", ()),
        ("Reason", "string", "2-4", None),
        ("Kinds", "[]Kind", "4", ()),
        ("Limit", "int64", "4", -1),
        ("Data", "bytes", "1-4", b""),
    ]
    assert [(f.tag, str(f.tagged), str(f.nullable)) for f in fields] == [
        (None, "none", "none"),
        (0, "3-4", "2-4"),
        (None, "none", "4"),
        (1, "4", "none"),
        (None, "none", "none"),
    ]
    assert [str(f.flexible) for f in fields] == ["3-4", "3-4", "4", "4", "none"]
    assert [f.zero_copy for f in fields] == [False, False, False, False, True]
    assert fields[0].about == "All of them."


def test_structs_stand_before_those_that_use_them() -> None:
    resolved = model(
        message(
            field(
                name="A",
                type="[]Outer",
                fields=[field(name="B", type="Shared"), field(name="C", type="[]Inner", fields=[field()])],
            ),
            field(name="D", type="Shared", versions="3+"),
            commonStructs=[common("Shared", field(type="Deepest")), common("Deepest", field())],
        )
    )
    assert [struct.name for struct in resolved.structs] == ["Deepest", "Shared", "Inner", "Outer"]


def test_versions_of_a_common_struct_are_those_of_its_uses() -> None:
    resolved = model(
        message(
            field(name="A", type="[]Shared", versions="0-1"),
            field(name="B", type="Shared", versions="3+"),
            commonStructs=[
                common("Shared", field(name="X", versions="2"), field(name="Z")),
                common("Future", field()),
            ],
        )
    )
    assert [struct.name for struct in resolved.structs] == ["Shared"]
    assert resolved.struct("Shared").versions == VersionRange(0, 3)
    assert [f.name for f in resolved.struct("Shared").fields] == ["X", "Z"]
    with pytest.raises(KeyError):
        resolved.struct("Future")


@pytest.mark.parametrize(
    ("type_", "keys", "default"),
    [
        ("bool", {}, False),
        ("bool", {"default": "true"}, True),
        ("bool", {"default": True}, True),
        ("int8", {"default": "-128"}, -128),
        ("int8", {"default": "0x7f"}, 127),
        ("int16", {"default": 0}, 0),
        ("int32", {"default": "-0"}, 0),
        ("int32", {"default": None}, 0),
        ("int32", {"default": ""}, 0),
        ("uint16", {"default": "65535"}, 65535),
        ("uint32", {"default": "0xffffffff"}, 2**32 - 1),
        ("int64", {"default": "-9223372036854775808"}, -(2**63)),
        ("float64", {}, 0.0),
        ("float64", {"default": -1}, -1.0),
        ("float64", {"default": "1.5e3"}, 1500.0),
        ("uuid", {}, "00000000-0000-0000-0000-000000000000"),
        ("uuid", {"default": "AAAAAAAAAAAAAAAAAAAAAQ"}, "00000000-0000-0000-0000-000000000001"),
        ("uuid", {"default": "_-AAAAAAAAAAAAAAAAAAAQ=="}, "ffe00000-0000-0000-0000-000000000001"),
        ("string", {}, ""),
        ("string", {"nullableVersions": "0+"}, ""),
        ("string", {"default": "NULL"}, "NULL"),
        ("string", {"default": 5}, "5"),
        ("string", {"default": "null", "nullableVersions": "0+"}, None),
        ("string", {"default": "null", "nullableVersions": "1+", "versions": "2+"}, None),
        ("string", {"default": None, "nullableVersions": "0+"}, ""),
        ("bytes", {"nullableVersions": "0+"}, b""),
        ("bytes", {"default": "null", "nullableVersions": "0+"}, None),
        ("records", {}, b""),
        ("records", {"nullableVersions": "0+"}, None),
        ("records", {"nullableVersions": "0"}, None),
        ("records", {"nullableVersions": "4+"}, b""),
        ("records", {"nullableVersions": "0+", "default": "null"}, None),
        ("[]int32", {}, ()),
        ("[]int32", {"default": "null", "nullableVersions": "0+"}, None),
        ("Bar", {"fields": [field()]}, EMPTY_STRUCT),
        ("Bar", {"fields": [field()], "nullableVersions": "0+", "default": None}, EMPTY_STRUCT),
        ("Bar", {"fields": [field()], "nullableVersions": "0+", "default": "null"}, None),
        ("[]Bar", {"fields": [field()], "nullableVersions": "0+", "default": "null"}, None),
    ],
)
def test_defaults(type_: str, keys: Schema, default: object) -> None:
    value = only_field(type=type_, **keys).default
    assert value == default
    assert type(value) is type(default)


def test_types() -> None:
    assert only_field(type=" []uuid ").type == FieldType(8, array=True)
    assert only_field(type="bool").type == FieldType(BOOL)
    assert only_field(type="records").type == FieldType(RECORDS)
    assert only_field(type="[]Bar", fields=[field()]).type == FieldType(STRUCT, True, "Bar")
    assert str(only_field(type="[]Bar", fields=[field()]).type) == "[]Bar"


def test_scalars_are_read_as_kafka_reads_them() -> None:
    schema = message(
        {"name": "A", "type": "int32", "versions": 1, "ignorable": "false", "tag": None},
        {"name": "B", "type": "int32", "taggedVersions": "2+", "tag": "0", "about": 5, "default": None},
        type="request",
        name="FooRequest",
        apiKey="3",
        listeners="broker",
        commonStructs=None,
        fields=...,
    ) | {"fields": {"name": "A", "type": "int32", "versions": 1, "ignorable": "false"}}
    resolved = model(schema)
    assert (resolved.api_key, resolved.listeners) == (3, ("broker",))
    assert [(f.name, f.versions, f.ignorable) for f in resolved.root.fields] == [("A", VersionRange(1, 1), False)]


def test_removed_messages_are_left_out() -> None:
    gone = {"name": "GoneRequest", "type": "request", "apiKey": 4, "validVersions": "none"}
    kept = message(name="Kept")
    assert [m.name for m in resolve([raw(gone, "Gone.json"), raw(kept, "Kept.json")])] == ["Kept"]


def test_messages_are_sorted_by_name_and_may_share_a_key_over_families() -> None:
    one = message(name="B", type="coordinator-value", apiKey=1)
    two = message(name="A", type="coordinator-value", apiKey=1)
    three = message(name="C", type="coordinator-key", apiKey=1)
    resolved = resolve([raw(one, "1.json", "x"), raw(two, "2.json", "y"), raw(three, "3.json", "x")])
    assert [(m.name, m.family) for m in resolved] == [("A", "y"), ("B", "x"), ("C", "x")]


def test_fields_of_dropped_versions_are_dropped() -> None:
    fields = field(name="A", versions="0-1"), field(name="B", versions="1-3"), field(name="C")
    resolved = model(message(*fields, validVersions="3"))
    assert [(f.name, str(f.versions)) for f in resolved.root.fields] == [("B", "3"), ("C", "3")]


def test_an_older_name_may_be_that_of_a_field_of_other_versions() -> None:
    schema = message(field(name="LagLegacy", aliases=["Lag"], versions="0"), field(name="Lag", versions="1+"))
    assert [f.aliases for f in model(schema).root.fields] == [("Lag",), ()]


def test_message_without_flexible_versions() -> None:
    resolved = model(message(field(type="string"), flexibleVersions="none"))
    assert resolved.flexible == NO_VERSIONS
    assert resolved.root.fields[0].flexible == NO_VERSIONS
    assert model(message(flexibleVersions="9+")).flexible == NO_VERSIONS


def test_a_draft_may_do_without_an_api_key() -> None:
    draft = raw(message(name="FooRequest", type="request"))
    assert resolve([draft], drafts=True)[0].api_key is None
    with pytest.raises(SchemaError, match=r"^Foo\.json: line 1, column 1: a request needs an apiKey$"):
        resolve([draft])


@pytest.mark.parametrize("type_", KINDS)
def test_kinds_of_messages(type_: str) -> None:
    name = {"request": "FooRequest", "response": "FooResponse"}.get(type_, "Foo")
    assert model(message(name=name, type=type_, apiKey=0)).kind == type_


# --- schemas at random: never anything but a model or a SchemaError

SCALARS = st.none() | st.booleans() | st.integers(-3, 70000) | st.floats() | st.text(max_size=5)
RANGE_TEXTS = st.sampled_from(["0+", "1+", "2", "0-2", "1-3", "none", "5-2", "32767", ""])
TYPES = st.sampled_from(["int32", "string", "bytes", "records", "[]uuid", "A", "[]B", "Foo", "[]", "struct", "float64"])
LIKELY = {
    "name": st.sampled_from(["Foo", "a", "A", "B", "C", "", "FooRequest"]),
    "type": TYPES | st.sampled_from(KINDS),
    "versions": RANGE_TEXTS,
    "validVersions": st.sampled_from(["0", "0-3", "none"]) | RANGE_TEXTS,
    "flexibleVersions": st.sampled_from(["0+", "none"]) | RANGE_TEXTS,
    "nullableVersions": RANGE_TEXTS,
    "taggedVersions": RANGE_TEXTS,
    "tag": st.integers(0, 2),
    "default": st.sampled_from(["null", "1", "010", "true", ""]) | SCALARS,
    "aliases": st.lists(st.sampled_from(["A", "b", "Foo"]), max_size=2),
}
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(FIELD_KEYS), inner, max_size=6),
    max_leaves=20,
)


def objects(keys: tuple[str, ...], fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Schema]:
    values = {key: LIKELY.get(key, SCALARS) | JSON for key in keys}
    values |= {"fields": st.lists(fields, max_size=4) | JSON}
    if "commonStructs" in keys:
        common_struct = st.fixed_dictionaries(
            {"name": LIKELY["name"], "versions": RANGE_TEXTS, "fields": values["fields"]}
        )
        values |= {"commonStructs": st.lists(common_struct, max_size=3) | JSON}
    required = ("name", "type", "versions") if "versions" in keys else ("name", "type", "validVersions")
    return st.fixed_dictionaries(
        {key: LIKELY[key] for key in required}, optional={key: values[key] for key in keys if key not in required}
    )


FIELDS = st.deferred(lambda: objects(FIELD_KEYS, FIELDS | SCALARS))


@pytest.mark.slow
@given(st.lists(objects(MESSAGE_KEYS, FIELDS) | st.dictionaries(st.text(max_size=5), JSON, max_size=5), max_size=2))
def test_any_json_resolves_or_is_a_schema_error(schemas: list[Schema]) -> None:
    with suppress(SchemaError):
        resolve([RawSchema(f"{i}.json", "x", schema) for i, schema in enumerate(schemas)])


RIGHT_DEFAULTS = {
    "bool": "true",
    "int8": "-1",
    "int32": 7,
    "int64": "0x10",
    "float64": 0.5,
    "string": "x",
    "Shared": "",
}


RIGHT_TYPES = ("Own", *RIGHT_DEFAULTS, "uint16", "uint32", "uuid", "bytes", "records")


@st.composite
def right_fields(draw: st.DrawFn, types: tuple[str, ...] = RIGHT_TYPES, within: str = "") -> list[Schema]:
    """Fields that follow all rules, for a message that is flexible from version 2 on and has a common struct.

    `within` is the name of the struct whose fields they are.
    """
    fields: list[Schema] = []
    tags = 0
    for index in range(draw(st.integers(1, 4))):
        type_ = draw(st.sampled_from(types))
        array = draw(st.booleans()) and type_ != "records"
        low, high = draw(st.sampled_from([(0, ""), (1, ""), (2, ""), (0, 1), (2, 5)] if not within else [(0, "")]))
        one = {"name": f"F{index}", "versions": f"{low}-{high}" if high else f"{low}+"}
        own = f"{within or 'Own'}{index}"
        one["type"] = "[]" * array + (own if type_ == "Own" else type_)
        if type_ == "Own":
            one["fields"] = draw(right_fields(types if len(own) < 6 else types[1:], own))
        nullable = (array or type_ in ("string", "bytes", "records", "Own", "Shared")) and draw(st.booleans())
        if nullable:
            one["nullableVersions"] = one["versions"]
            if draw(st.booleans()):
                one["default"] = "null"
        elif not array and type_ in RIGHT_DEFAULTS and draw(st.booleans()):
            one["default"] = RIGHT_DEFAULTS[type_]
        if not high and type_ != "records" and draw(st.booleans()):
            one |= {"tag": tags, "taggedVersions": "2+"} | ({"nullableVersions": "0+"} if nullable else {})
            tags += 1
        fields.append(one)
    return fields


@given(
    right_fields(),
    right_fields(tuple(type_ for type_ in RIGHT_TYPES if type_ not in ("Own", "Shared")), "Shared"),
    st.sampled_from(["0", "1", "0-3", "2-9"]),
    st.sampled_from(["1+", "2+"]),
)
def test_what_follows_the_rules_resolves(fields: list[Schema], shared: list[Schema], valid: str, flexible: str) -> None:
    keys = {"validVersions": valid, "flexibleVersions": flexible, "commonStructs": [common("Shared", *shared)]}
    sent = VersionRange.parse(valid)
    if any(VersionRange.parse(one["versions"]).low > sent.high or is_dropped(one, sent) for one in fields):
        with pytest.raises(SchemaError, match="has no version in common"):
            model(message(*fields, **keys))
    else:
        check(model(message(*fields, **keys)))


def is_dropped(field: Schema, sent: VersionRange) -> bool:
    """Whether it defines a struct, itself or within, that only dropped versions have."""
    inner = field.get("fields", ())
    return bool(inner) and (
        VersionRange.parse(field["versions"]).high < sent.low or any(is_dropped(one, sent) for one in inner)
    )


# --- the real ones


def check(resolved: MessageModel) -> None:
    """What the rest of the compiler relies on."""
    assert resolved.valid
    assert resolved.valid.covers(resolved.flexible)
    known: set[str] = set()
    for struct in (*resolved.structs, resolved.root):
        assert struct.versions
        assert resolved.valid.covers(struct.versions)
        for one in struct.fields:
            assert one.versions
            assert struct.versions.covers(one.versions)
            assert one.versions.covers(one.nullable)
            assert one.versions.covers(one.tagged)
            assert one.versions.covers(one.flexible)
            assert one.flexible.covers(one.tagged)
            assert (one.type.struct in known) == (one.type.kind == STRUCT)
            assert one.nullable or one.default is not None
        known.add(struct.name)


@pytest.mark.slow
@pytest.mark.parametrize("folder", sorted(path.name for path in SCHEMAS.iterdir() if path.is_dir()))
def test_real_schemas_resolve(folder: str) -> None:
    resolved = resolve(load_folder(SCHEMAS / folder), drafts=folder != "kafka")
    assert len(resolved) == len(list((SCHEMAS / folder).rglob("*.json")))
    for one in resolved:
        check(one)


@pytest.mark.slow
def test_kafkas_messages() -> None:
    resolved = {one.name: one for one in resolve(load_folder(SCHEMAS / "kafka"))}
    assert {one.family for one in resolved.values()} >= {"rpc", "metadata", "group", "share", "transaction"}
    assert resolved["DescribeProducersResponse"].api_key == 61
    header = resolved["RequestHeader"]
    client_id = next(one for one in header.root.fields if one.name == "ClientId")
    assert client_id.flexible == NO_VERSIONS
    assert header.flexible == VersionRange(2, 2)
    value = resolved["TransactionLogValue"]
    assert {one.name: (one.tag, one.default) for one in value.root.fields if one.tag is not None} == {
        "PreviousProducerId": (0, -1),
        "NextProducerId": (1, -1),
        "ClientTransactionVersion": (2, 0),
        "NextProducerEpoch": (3, -1),
    }
    classic = resolved["ConsumerGroupMemberMetadataValue"].root.fields[-1]
    assert (classic.name, classic.default, classic.tagged) == (
        "ClassicMemberMetadata",
        EMPTY_STRUCT,
        VersionRange(0, 0),
    )
    throttle = resolved["DescribeProducersResponse"].root.fields[0]
    assert throttle.type == FieldType(INT32)
    assert only_field(type="int64").type == FieldType(INT64)
