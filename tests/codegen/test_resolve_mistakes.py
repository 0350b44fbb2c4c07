"""`resolve`, `rules`, `structs`: every mistake in a schema, with the exact place and reason that the compiler gives."""

from typing import Any

import pytest

from kafkawire.codegen.load import RawSchema
from kafkawire.codegen.resolve import resolve
from kafkawire.errors import Problem, SchemaError
from kafkawire.wire.limits import MAX_DEPTH
from tests.codegen.schema_builders import Schema, common, field, message, raw, request, tagged

FIELD_NAME = "will not do as a name: a letter, then letters and digits"
CLASS_NAME = "will not do as a name: a capital, then letters and digits"
RANGE = "is no range of versions (as in '3', '0-2', '3+', 'none')"
NO_INT = "is no whole number (such as '-1' or '0x7fff')"
NO_UUID = "is no uuid in Kafka's form (16 bytes in base64url, 22 characters)"
NOT_NULL = "null cannot be the default: not every version of the field is nullable"
STRUCT_VERSIONS = "the key 'versions' is missing: a field that defines a struct needs it, tagged or not"
BAR = {"name": "Bar", "type": "[]Bar", "fields": [field()]}

# A schema and its problems, "place: reason"; a problem of the whole message has no place.
MESSAGES: list[tuple[Any, ...]] = [
    (message(feilds=[]), "there is no key 'feilds'; did you mean 'fields'?"),
    (message(colour="red"), "there is no key 'colour'"),
    (message(**{"a\nb": 1}), "there is no key 'a\\nb'"),
    (message(name=...), "the key 'name' is missing"),
    (message(name=None), "the key 'name' is missing"),
    (message(name="foo"), f"name: 'foo' {CLASS_NAME}"),
    (message(name="F_o"), f"name: 'F_o' {CLASS_NAME}"),
    (message(name="é" * 99), f"name: '{'é' * 60}...' {CLASS_NAME}"),
    (message(name={}), "name: must be a string, not an object"),
    (message(name="\ud800"), "name: holds half of a surrogate pair"),
    (message(type=...), "the key 'type' is missing"),
    (message(type="reqest"), "type: there is no type of message 'reqest'; did you mean 'request'?"),
    (request(name="Foo"), "name: the name of a request ends in Request"),
    (request(type="response"), "name: the name of a response ends in Response"),
    (message(validVersions=...), "the key 'validVersions' is missing"),
    (message(validVersions="0+"), "validVersions: 0+ must have an end"),
    (message(validVersions="0-32767"), "validVersions: 0+ must have an end"),
    (message(validVersions="5-2"), "validVersions: '5-2' ends before it begins"),
    (message(validVersions="all"), f"validVersions: 'all' {RANGE}"),
    (message(flexibleVersions=...), "the key 'flexibleVersions' is missing ('none' where there are none)"),
    (message(flexibleVersions="0-2"), "flexibleVersions: 0-2 must be 'none' or have an open end, as in '0+'"),
    (message(deprecatedVersions="x"), f"deprecatedVersions: 'x' {RANGE}"),
    (request(apiKey=...), "a request needs an apiKey"),
    (message(type="coordinator-key"), "a coordinator-key needs an apiKey"),
    (request(apiKey=-1), "apiKey: must be from 0 to 32767, not -1"),
    (request(apiKey="32768"), "apiKey: must be from 0 to 32767, not 32768"),
    (request(apiKey="NN"), "apiKey: must be a whole number, not 'NN'"),
    (request(apiKey=1.5), "apiKey: must be a whole number, not 1.5"),
    (request(apiKey=True), "apiKey: must be a whole number, not true"),
    (request(listeners=["brokr", "controller"]), "listeners: there is no listener 'brokr'; did you mean 'broker'?"),
    (request(listeners=[1]), "listeners: must be an array of strings"),
    (message(listeners=["broker"]), "listeners: only requests have listeners, not a data"),
    (message(latestVersionUnstable=True), "latestVersionUnstable: is for requests only, not for a data"),
    (request(latestVersionUnstable="yes"), "latestVersionUnstable: must be true or false, not 'yes'"),
    (message(aliases=["foo"]), f"aliases: 'foo' {CLASS_NAME}"),
    (message(about=[]), "about: must be a string, not an array"),
    (message(fields=5), "fields: must be an array of objects, not 5"),
    (message(5, field(), []), "fields[0]: must be an object, not 5", "fields[2]: must be an object, not an array"),
    (
        message(field(type="int23"), validVersions="none", flexibleVersions=...),
        "fields[0].type: there is no type 'int23'; did you mean 'int32'?",
    ),
    (
        {},
        "the key 'name' is missing",
        "the key 'type' is missing",
        "the key 'validVersions' is missing",
        "the key 'flexibleVersions' is missing ('none' where there are none)",
    ),
]

# The keys of one field, and its problem, "key: reason"; a problem of the whole field has no key.
FIELDS: list[tuple[Schema, str]] = [
    ({"nullableversions": "0+"}, "there is no key 'nullableversions'; did you mean 'nullableVersions'?"),
    ({"name": ...}, "the key 'name' is missing"),
    ({"name": "_one"}, f"name: '_one' {FIELD_NAME}"),
    ({"name": "1"}, f"name: '1' {FIELD_NAME}"),
    ({"type": ...}, "the key 'type' is missing"),
    ({"type": "int23"}, "type: there is no type 'int23'; did you mean 'int32'?"),
    ({"type": "[]"}, "type: there is no type '[]'"),
    ({"type": "struct"}, "type: there is no type 'struct'"),
    ({"type": "[]records"}, "type: there are no arrays of records"),
    ({"type": "[][]int8"}, "type: there are no arrays of arrays: take an array of structs with an array in them"),
    ({"versions": ...}, "the key 'versions' is missing"),
    ({"versions": "0..2"}, f"versions: '0..2' {RANGE}"),
    ({"versions": " "}, f"versions: '' {RANGE}"),
    ({"versions": [0]}, "versions: must be a string, not an array"),
    ({"versions": "none"}, "versions: a field has at least one version"),
    ({"nullableVersions": "0+"}, "nullableVersions: int32 cannot be null"),
    (
        {"type": "string", "versions": "2+", "nullableVersions": "0-1"},
        "nullableVersions: 0-1 has no version in common with the field's versions, 2+",
    ),
    ({"flexibleVersions": "none"}, "flexibleVersions: only string and bytes can have their own, not int32"),
    (
        {"type": "[]string", "flexibleVersions": "none"},
        "flexibleVersions: only string and bytes can have their own, not []string",
    ),
    ({"type": "string", "flexibleVersions": "1+"}, "flexibleVersions: 1+ is not within the message's, 2+"),
    ({"type": "string", "zeroCopy": True}, "zeroCopy: is for bytes only, not for string"),
    ({"ignorable": 1}, "ignorable: must be true or false, not 1"),
    ({"entityType": "TopicName"}, "entityType: there is no entity type 'TopicName'; did you mean 'topicName'?"),
    ({"type": "[]int64", "entityType": "brokerId"}, "entityType: brokerId is for int32, not for []int64"),
    ({"mapKey": True}, "mapKey: a field of the message itself cannot be a key: only those of structs in an array"),
    ({"fields": [field()]}, "fields: only structs have fields, not int32"),
    ({"type": "[]int32", "fields": []}, "fields: only structs have fields, not []int32"),
    ({"aliases": ["a b", "ok"]}, f"aliases: 'a b' {FIELD_NAME}"),
    ({"aliases": ["one"]}, "aliases: 'one' is the name of fields[0] already"),
    # tags
    ({"tag": 0}, "a tag needs taggedVersions"),
    ({"tag": 0, "taggedVersions": "none"}, "a tag needs taggedVersions"),
    ({"taggedVersions": "2+"}, "taggedVersions needs a tag"),
    (tagged(tag=-1), "tag: must be from 0 to 2147483647, not -1"),
    (tagged(taggedVersions="2-3"), "taggedVersions: 2-3 must have an open end, as in '2+'"),
    (tagged(versions="2-3"), "taggedVersions: 2+ is not within the field's versions, 2-3"),
    (
        tagged(versions="1+", taggedVersions="1+"),
        "taggedVersions: 1+ is not within the flexible versions, 2+",
    ),
    (
        tagged(type="string", flexibleVersions="3+"),
        "taggedVersions: 2+ is not within the flexible versions, 3+",
    ),
    (
        tagged(type="string", nullableVersions="3+"),
        "nullableVersions: all tagged versions (2+) must be nullable, or none",
    ),
    (tagged(type="records"), "tag: records cannot be tagged"),
    (tagged(tag=1), "tag: tags count from 0 without gaps: 1 is used, 0 is not"),
    # defaults
    ({"type": "bool", "default": "TRUE"}, "default: must be true or false, not 'TRUE'"),
    ({"type": "bool", "default": 1}, "default: must be true or false, not '1'"),
    ({"default": "one"}, f"default: 'one' {NO_INT}"),
    ({"default": 1.0}, f"default: '1.0' {NO_INT}"),
    ({"default": "+1"}, f"default: '+1' {NO_INT}"),
    ({"default": "٣"}, f"default: '٣' {NO_INT}"),
    ({"default": "1_0"}, f"default: '1_0' {NO_INT}"),
    ({"default": "0x"}, f"default: '0x' {NO_INT}"),
    ({"default": "010"}, "default: '010' has a leading zero, which makes it octal in Java"),
    ({"default": "-010"}, "default: '-010' has a leading zero, which makes it octal in Java"),
    ({"default": "null"}, "default: int32 cannot be null"),
    ({"type": "uuid", "default": "null"}, "default: uuid cannot be null"),
    ({"type": "int8", "default": "128"}, "default: 128 is not in the range of int8, -128 to 127"),
    ({"type": "int16", "default": "0xffff"}, "default: 0xffff is not in the range of int16, -32768 to 32767"),
    ({"default": 2**31}, f"default: 2147483648 is not in the range of int32, {-(2**31)} to {2**31 - 1}"),
    ({"type": "uint16", "default": "-1"}, "default: -1 is not in the range of uint16, 0 to 65535"),
    ({"type": "uint32", "default": 2**32}, "default: 4294967296 is not in the range of uint32, 0 to 4294967295"),
    (
        {"type": "int64", "default": "-9223372036854775809"},
        f"default: -9223372036854775809 is not in the range of int64, {-(2**63)} to {2**63 - 1}",
    ),
    ({"type": "float64", "default": "1,5"}, "default: '1,5' is no finite number"),
    ({"type": "float64", "default": "NaN"}, "default: 'NaN' is no finite number"),
    ({"type": "float64", "default": "-1e999"}, "default: '-1e999' is no finite number"),
    ({"type": "uuid", "default": "A" * 21}, f"default: '{'A' * 21}' {NO_UUID}"),
    ({"type": "uuid", "default": "A" * 36}, f"default: '{'A' * 36}' {NO_UUID}"),
    ({"type": "string", "default": "null"}, f"default: {NOT_NULL}"),
    ({"type": "string", "default": "null", "nullableVersions": "1+"}, f"default: {NOT_NULL}"),
    (
        {"type": "string", "default": "é" * 16384},
        "default: is longer than the 32767 bytes that a string can have",
    ),
    ({"type": "bytes", "default": "abc"}, "default: the only default that bytes can be given is null"),
    ({"type": "records", "default": "abc"}, "default: the only default that records can be given is null"),
    ({"type": "records", "default": "null"}, f"default: {NOT_NULL}"),
    ({"type": "[]int32", "default": "[]"}, "default: the only default that an array can be given is null"),
    ({"type": "[]int32", "default": []}, "default: must be a string, not an array"),
    (BAR | {"type": "Bar", "default": "{}"}, "default: the only default that a struct can be given is null"),
    (BAR | {"type": "Bar", "default": "null"}, f"default: {NOT_NULL}"),
    # structs
    ({"type": "[]Bar"}, "type: the struct Bar is defined nowhere"),
    ({"type": "String"}, "type: the struct String is defined nowhere; did you mean 'string'?"),
    ({"type": "Bar", "fields": []}, "fields: the struct Bar has no fields"),
    ({"type": "Bar", "fields": 5}, "fields: must be an array of objects, not 5"),
    ({"type": "Foo", "fields": [field()]}, "type: there is a struct Foo already: the message itself"),
    ({"type": "[]Foo"}, "type: a struct cannot hold itself: Foo > Foo"),
]

# As MESSAGES, of what several fields and structs do together.
TOGETHER: list[tuple[Any, ...]] = [
    (message(field(), field()), "fields[1].name: 'One' is the name of fields[0] already"),
    (message(field(), field(name="one")), "fields[1].name: 'one' is the name of fields[0] already"),
    (message(field(), field(name="ONE")), "fields[1].name: 'ONE' is the name of fields[0] already"),
    (
        message(field(aliases=["two"]), field(name="Two")),
        "fields[0].aliases: 'two' is the name of fields[1] already",
    ),
    (
        message(field(aliases=["X"]), field(name="Two", aliases=["X"])),
        "fields[1].aliases: 'X' is the name of fields[0] already",
    ),
    (message(tagged(), tagged(name="Two")), "fields[1].tag: 0 is the tag of fields[0] already"),
    (
        message(tagged(tag=3), tagged(name="Two", tag=2), tagged(name="Three")),
        "fields[1].tag: tags count from 0 without gaps: 2 is used, 1 is not",
    ),
    (
        message(tagged(), flexibleVersions="none"),
        "fields[0].taggedVersions: 2+ is not within the flexible versions, none",
    ),
    (
        message(field(**BAR | {"fields": [tagged(mapKey=True)]})),
        "fields[0].fields[0].mapKey: a tagged field cannot be a key",
    ),
    (
        message(field(**BAR | {"versions": "2+", "fields": [field(versions="0-1")]})),
        "fields[0].fields[0].versions: 0-1 has no version in common with those of its struct, 2-3",
    ),
    (
        message(field(**BAR), field(**BAR | {"name": "Baz"})),
        "fields[1].type: there is a struct Bar already: fields[0]",
    ),
    (
        message(field(**BAR), field(name="Baz", type="Bar")),
        "fields[1].type: the struct Bar is used twice: move it from fields[0] to commonStructs",
    ),
    (
        message(field(**BAR), commonStructs=[common("Bar", field())]),
        "fields[0].type: there is a struct Bar already: commonStructs[0]",
    ),
    (
        message(field(type="Shard"), commonStructs=[common("Shared", field())]),
        "fields[0].type: the struct Shard is defined nowhere; did you mean 'Shared'?",
    ),
    (
        message(commonStructs=[common("Bar", field()), common("Bar", field())]),
        "commonStructs[1].name: there is a struct Bar already: commonStructs[0]",
    ),
    (
        message(commonStructs=[common("Foo", field())]),
        "commonStructs[0].name: there is a struct Foo already: the message itself",
    ),
    (message(commonStructs=[common("bar", field())]), f"commonStructs[0].name: 'bar' {CLASS_NAME}"),
    (
        message(commonStructs=[common("Bar", field(), version="0+")]),
        "commonStructs[0]: there is no key 'version'; did you mean 'versions'?",
    ),
    (
        message(commonStructs=[{"name": "Bar", "fields": [field()]}]),
        "commonStructs[0]: the key 'versions' is missing",
    ),
    (message(commonStructs=[common("Bar")]), "commonStructs[0]: the struct Bar has no fields"),
    # Structs of versions that the message does not have, used or not
    (
        message(commonStructs=[common("Bar", field(), versions="5+")]),
        "commonStructs[0].versions: 5+ has no version in common with those of the message, 0-3",
    ),
    (
        message(commonStructs=[common("Bar", field(versions="0-1"), versions="0-1")], validVersions="2-3"),
        "commonStructs[0].versions: 0-1 has no version in common with those of the message, 2-3",
    ),
    (
        message(field(**BAR | {"versions": "0-1"}), validVersions="2-3"),
        "fields[0].versions: 0-1 has no version in common with those of its struct, 2-3",
    ),
    # Tagged versions stand for the versions of a field, but not for those of a struct
    (message(tagged(**BAR | {"versions": ...})), f"fields[0]: {STRUCT_VERSIONS}"),
    (message(field(**BAR | {"versions": ...})), f"fields[0]: {STRUCT_VERSIONS}"),
    (
        message(commonStructs=[common("Baz", field(**BAR))]),
        "commonStructs[0].fields[0].fields: "
        "a common struct cannot define another one in place: move it to commonStructs",
    ),
    (
        message(commonStructs=[common("Bar", field(versions="0-1"), versions="2+")]),
        "commonStructs[0].fields[0].versions: 0-1 has no version in common with those of its struct, 2-3",
    ),
    (
        message(field(type="Bar"), commonStructs=[common("Bar", field(), versions="2+")]),
        "fields[0].type: the struct Bar has versions 2+, and is used in 0-3 here",
    ),
    (
        message(field(type="Bar"), commonStructs=[common("Bar", field(type="[]Bar", nullableVersions="0+"))]),
        "commonStructs[0].fields[0].type: a struct cannot hold itself: Bar > Bar",
    ),
    (
        message(commonStructs=[common("Bar", field(type="Baz")), common("Baz", field(type="Bar"))]),
        "commonStructs[1].fields[0].type: a struct cannot hold itself: Bar > Baz > Bar",
    ),
    (
        message(
            field(name="1", type="int23", nullableVersions="5-2", default={}),
            field(
                name="Bar",
                type="[]Bar",
                fields=[
                    field(name="Baz", type="Baz", fields=[field(default="x", tag="y")]),
                    field(name="baz", ignorable="no"),
                ],
            ),
            name="foo",
            validVersions="1+",
            extra=0,
            commonStructs=[common("Quux", field(type="Quuux"))],
        ),
        "there is no key 'extra'",
        f"name: 'foo' {CLASS_NAME}",
        "validVersions: 1+ must have an end",
        f"fields[0].name: '1' {FIELD_NAME}",
        "fields[0].type: there is no type 'int23'; did you mean 'int32'?",
        "fields[0].nullableVersions: '5-2' ends before it begins",
        "fields[0].default: must be a string, not an object",
        "fields[1].fields[0].fields[0].tag: must be a whole number, not 'y'",
        f"fields[1].fields[0].fields[0].default: 'x' {NO_INT}",
        "fields[1].fields[1].ignorable: must be true or false, not 'no'",
        "fields[1].fields[1].name: 'baz' is the name of fields[1].fields[0] already",
        "commonStructs[0].fields[0].type: the struct Quuux is defined nowhere; did you mean 'Quux'?",
    ),
]


def problems_of(*raws: RawSchema) -> list[Problem]:
    with pytest.raises(SchemaError) as caught:
        resolve(raws)
    return caught.value.problems


def name_of(value: Any) -> str:
    """A test's name: the problem that it expects."""
    text = value[0] if isinstance(value, tuple) else value if isinstance(value, str) else ""
    return text[:60].encode("ascii", "backslashreplace").decode()


@pytest.mark.parametrize(("schema", "expected"), [(row[0], row[1:]) for row in MESSAGES + TOGETHER], ids=name_of)
def test_mistakes_of_messages(schema: Schema, expected: tuple[str, ...]) -> None:
    found = [": ".join(filter(None, (one.path, one.reason))) for one in problems_of(raw(schema))]
    assert found == list(expected)


@pytest.mark.slow
@pytest.mark.parametrize(("keys", "expected"), FIELDS, ids=name_of)
def test_mistakes_of_fields(keys: Schema, expected: str) -> None:
    key, colon, reason = expected.partition(": ")
    place = f"fields[0].{key}" if colon and key.isalpha() else "fields[0]"
    assert problems_of(raw(message(field(**keys)))) == [
        Problem("Foo.json", place, reason if place != "fields[0]" else expected)
    ]


def nested(depth: int) -> Schema:
    """A message with `depth` levels of structs, itself included, each defined in the one above."""
    inner = field()
    for level in range(depth - 1, 0, -1):
        inner = field(type=f"S{level}", fields=[inner])
    return message(inner)


def chained(depth: int) -> Schema:
    """As `nested`, but with common structs."""
    structs = [common(f"S{level}", field(type=f"S{level + 1}")) for level in range(1, depth - 1)]
    return message(field(type="S1"), commonStructs=[*structs, common(f"S{depth - 1}", field())])


@pytest.mark.parametrize("build", [nested, chained])
def test_nesting_has_an_end(build: Any) -> None:
    (resolved,) = resolve([raw(build(MAX_DEPTH))])
    assert len(resolved.structs) == MAX_DEPTH - 1
    for depth in (MAX_DEPTH + 1, MAX_DEPTH + 2, 150):
        (problem,) = problems_of(raw(build(depth)))
        assert problem.reason == f"structs are nested more than {MAX_DEPTH} deep"


def test_nesting_through_a_struct_that_was_seen_before() -> None:
    structs = [common(f"S{level}", field(type=f"S{level + 1}")) for level in range(1, 20)]
    above = field(type="S1")
    for level in range(15):
        above = field(type=f"T{level}", fields=[above])
    schema = message(field(name="A", type="S1"), above, commonStructs=[*structs, common("S20", field())])
    assert [problem.reason for problem in problems_of(raw(schema))] == [
        f"structs are nested more than {MAX_DEPTH} deep"
    ]


def test_wide_structs_take_no_time() -> None:
    structs = [
        common(f"S{level}", field(type=f"S{level + 1}"), field(name="Two", type=f"S{level + 1}")) for level in range(25)
    ]
    (resolved,) = resolve([raw(message(field(type="S0"), commonStructs=[*structs, common("S25", field())]))])
    assert len(resolved.structs) == 26


def test_one_name_one_message() -> None:
    raws = [
        raw(message(), "a/Foo.json"),
        raw(message(name="FOO", aliases=["Bar"]), "b/Foo.json"),
        raw(message(name="Baz", aliases=["BAR"]), "c.json"),
        raw(message(name="Quux", aliases=["Baz"]), "d.json"),
    ]
    assert problems_of(*raws) == [
        Problem("b/Foo.json", "name", "FOO is the name of a/Foo.json already"),
        Problem("c.json", "aliases", "BAR is the name of b/Foo.json already"),
        Problem("d.json", "aliases", "Baz is the name of c.json already"),
    ]


def test_one_key_one_message_of_a_kind() -> None:
    raws = [
        raw(request(), "1.json"),
        raw(request(name="FooResponse", type="response"), "2.json"),
        raw(request(name="BarRequest"), "3.json"),
        raw(request(name="BarRequest"), "4.json", "else"),
    ]
    assert problems_of(*raws) == [
        Problem("3.json", "apiKey", "1 is the key of the request in 1.json already"),
        Problem("4.json", "name", "BarRequest is the name of 3.json already"),
        Problem("4.json", "apiKey", "1 is the key of the request in 1.json already"),
    ]


def test_problems_of_all_schemas_at_once_by_file() -> None:
    raws = [
        raw(message(field(type="x"), name="A"), "A.json"),
        raw(message(), "B.json"),
        raw(message(name="a"), "C.json"),
    ]
    assert [problem.file for problem in problems_of(*raws)] == ["A.json", "C.json"]


def test_a_removed_message_takes_no_name_and_no_key() -> None:
    gone = request(validVersions="none", flexibleVersions=..., fields=...)
    assert [resolved.source for resolved in resolve([raw(gone, "1.json"), raw(request(), "2.json")])] == ["2.json"]
