"""codegen/diff: each rule of Kafka's checker and each one beyond it, on the smallest schemas that show it."""

from __future__ import annotations

from typing import Any

import pytest

from kafkawire.codegen.diff import SchemaChange, compare
from kafkawire.codegen.load import RawSchema
from kafkawire.codegen.resolve import resolve

Schema = dict[str, Any]


def field(name: str, at: str = "0+", kind: str = "int32", **more: Any) -> Schema:
    return {"name": name, "type": kind, "versions": at, **more}


def schema(valid: str, *fields: Schema, name: str = "M", kind: str = "data", **more: Any) -> Schema:
    given = {"name": name, "type": kind, "validVersions": valid, "flexibleVersions": "none", "fields": [*fields]}
    return given | more


def tagged(name: str, tag: int, at: str = "0+", kind: str = "int32", **more: Any) -> Schema:
    return field(name, at, kind, taggedVersions=at, tag=tag, **more)


def flexible(valid: str, *fields: Schema, **more: Any) -> Schema:
    return schema(valid, *fields, flexibleVersions="0+", **more)


def changes(old: Schema | list[Schema], new: Schema | list[Schema]) -> list[SchemaChange]:
    sides = [
        resolve([RawSchema(f"{one['name']}.json", "", one) for one in (side if isinstance(side, list) else [side])],
                drafts=True)
        for side in (old, new)
    ]  # fmt: skip
    return list(compare(*sides))


def described(old: Schema | list[Schema], new: Schema | list[Schema]) -> list[str]:
    """Each change on a line: `! what versions field: old -> new`, the mark where it is not compatible."""
    out = []
    for change in changes(old, new):
        mark = "" if change.compatible else "! "
        place = " ".join(part for part in (change.what, change.versions, change.field) if part)
        values = f": {change.old} -> {change.new}" if change.old or change.new else ""
        out.append(mark + place + values)
    return out


A = field("A")


def test_nothing_changed() -> None:
    given = flexible("0-3", A, field("B", "1+", "[]T", fields=[field("K", "2+", "string", nullableVersions="3+")]))
    assert described(given, given) == []
    assert described([], []) == []


# messages


def test_messages_come_and_go() -> None:
    assert described([schema("0")], [schema("0"), schema("0-1", name="N")]) == ["message added 0-1"]
    assert described([schema("0"), schema("0-1", name="N")], [schema("0")]) == ["! message removed 0-1"]


def test_a_message_that_has_the_name_as_an_alias_is_the_same() -> None:
    assert described(schema("0", A, name="Old"), schema("0", A, aliases=["Old"])) == ["message renamed: Old -> M"]
    both = [schema("0", A, name="Old"), schema("0", A)]
    assert described(both, schema("0", A, aliases=["Old"])) == ["! message removed 0"]


def test_api_key_and_type_stay() -> None:
    request = schema("0", name="MRequest", kind="request", apiKey=1)
    assert described(request, request | {"apiKey": 2}) == ["! api key: 1 -> 2"]
    assert described(schema("0"), schema("0", apiKey=2)) == ["api key:  -> 2"]
    assert described(schema("0", kind="metadata", apiKey=1), schema("0", apiKey=1)) == ["! type: metadata -> data"]
    assert described(schema("0", apiKey=1), schema("0", kind="coordinator-value", apiKey=1)) == [
        "type: data -> coordinator-value"
    ]


def test_a_key_whose_version_became_its_api_key() -> None:
    old, new = schema("8", field("A", "8")), schema("0", field("A", "0"), kind="coordinator-key", apiKey=8)
    assert described(old, new) == ["version became api key: 8 -> 8"]
    assert described(old, new | {"fields": [field("A", "0", "int64")]}) == [
        "version became api key: 8 -> 8",
        "! field retyped 0 A: int32 -> int64",
    ]


def test_what_no_byte_shows_is_compatible() -> None:
    old = schema("0-1", A, name="MRequest", kind="request", apiKey=1, listeners=["broker"])
    new = old | {"listeners": ["broker", "controller"], "latestVersionUnstable": True}
    new["fields"] = [field("A", ignorable=True, entityType="brokerId")]
    assert described(old, new) == [
        "listeners: broker -> broker, controller",
        "latest version unstable: no -> yes",
        "ignorable A: no -> yes",
        "entity type A:  -> brokerId",
    ]


# versions


def test_low_versions_may_go_where_peers_agree_on_others() -> None:
    old = schema("0-3", name="MRequest", kind="request", apiKey=1)
    assert described(old, old | {"validVersions": "2-3"}) == ["versions removed 0-1"]
    assert described(old, old | {"validVersions": "0-2"}) == ["! versions removed 3"]
    assert described(old | {"validVersions": "0"}, old | {"validVersions": "1"})[0] == "! versions removed 0"
    assert described(schema("0-3"), schema("2-3")) == ["! versions removed 0-1"]


def test_an_added_version_lists_its_changes() -> None:
    old = schema("0", A, field("B", "0", "[]T", fields=[field("K")]))
    new = flexible("0-3", A, field("B", "0", "[]T", fields=[field("K")]), field("C", "2+")) | {"flexibleVersions": "3+"}
    assert described(old, new) == [
        "version added 1",
        "field removed 1 B: []T -> ",
        "version added 2",
        "field added 2 C:  -> int32",
        "version added 3:  -> the first flexible one",
    ]
    assert described(schema("0", A), schema("0-1", A)) == ["version added 1:  -> the bytes of 0"]


def test_versions_below_the_old_ones_are_listed_as_compatible() -> None:
    assert described(schema("2", A), schema("0-2", A)) == ["versions added 0-1"]


def test_a_version_that_is_out_does_not_become_flexible() -> None:
    assert described(
        flexible("0-3", A) | {"flexibleVersions": "2+"}, flexible("0-3", A) | {"flexibleVersions": "1+"}
    ) == ["! flexible versions 1: 2-3 -> 1-3"]


# fields


def test_a_field_in_a_version_that_is_out() -> None:
    assert described(schema("0-1", A), schema("0-1", A, field("B", "1+"))) == ["! field added 1 B:  -> int32"]
    assert described(schema("0-1", A, field("B", "1+")), schema("0-1", A)) == ["! field removed 1 B: int32 -> "]
    assert described(schema("0-2", field("A", "1+")), schema("0-2", field("A", "0-1"))) == [
        "! field added 0 A:  -> int32",
        "! field removed 2 A: int32 -> ",
    ]


def test_a_tag_may_come_and_not_go() -> None:
    old, new = flexible("0-1", A), flexible("0-1", A, tagged("T", 0, "1+"))
    assert described(old, new) == ["field added 1 T:  -> int32, tag 0"]
    assert described(new, old) == ["! field removed 1 T: int32, tag 0 -> "]


def test_a_field_does_not_become_a_tag_nor_change_it() -> None:
    plain, tag = flexible("0", A), flexible("0", tagged("A", 0))
    assert described(plain, tag) == ["! tag 0 A: none -> 0"]
    assert described(flexible("0", tagged("A", 0), tagged("B", 1)), flexible("0", tagged("A", 1), tagged("B", 0))) == [
        "! tag 0 A: 0 -> 1",
        "! tag 0 B: 1 -> 0",
    ]


@pytest.mark.parametrize("kind", ["int64", "[]int32", "string"])
def test_a_type_stays(kind: str) -> None:
    assert described(schema("0-1", A), schema("0-1", field("A", kind=kind))) == [
        f"! field retyped 0-1 A: int32 -> {kind}"
    ]


def test_types_with_the_same_bytes() -> None:
    assert described(schema("0", field("A", kind="bytes")), schema("0", field("A", kind="records"))) == [
        "field retyped 0 A: bytes -> records"
    ]
    old = schema("0", field("A", kind="[]T", fields=[A]))
    assert described(old, schema("0", field("A", kind="[]U", fields=[A]))) == ["field retyped 0 A: []T -> []U"]


def test_null() -> None:
    old, new = (schema("0-2", field("A", kind="string", nullableVersions=at)) for at in ("2+", "1+"))
    assert described(old, new) == ["! nullable 1 A: no -> yes"]
    assert described(new, old) == ["! nullable 1 A: yes -> no"]


def test_a_default_stays() -> None:
    assert described(schema("0-1", A), schema("0-1", field("A", default="-1"))) == ["! default 0-1 A: 0 -> -1"]
    null = field("A", kind="string", nullableVersions="0+", default="null")
    assert described(schema("0", field("A", kind="string", nullableVersions="0+")), schema("0", null)) == [
        "! default 0 A:  -> null"
    ]


def test_a_field_with_its_own_flexible_versions() -> None:
    old = flexible("0", field("A", kind="string"))
    assert described(old, flexible("0", field("A", kind="string", flexibleVersions="none"))) == [
        "! flexible versions 0 A: 0 -> none"
    ]


def test_another_order_is_seen_in_the_bytes_alone() -> None:
    one, two = field("A"), field("B", "1+", "int64")
    assert described(schema("0-2", one, two), schema("0-2", two, one)) == ["! layout 1-2"]


def test_structs_are_compared_within() -> None:
    old = schema("0-1", field("A", "1+", "[]T", fields=[field("K")]))
    new = schema("0-1", field("A", "1+", "[]T", fields=[field("K", kind="int16")]))
    assert described(old, new) == ["! field retyped 1 A.K: int32 -> int16"]
    common = schema("0-1", field("A", "1+", "[]T"), commonStructs=[{"name": "T", "versions": "0+", "fields": [A]}])
    assert described(schema("0-1", field("A", "1+", "[]T", fields=[A])), common) == []


# names


def test_a_field_of_another_name_at_the_same_place() -> None:
    assert described(schema("0-1", A, field("B")), schema("0-1", A, field("C"))) == ["field renamed 0-1 C: B -> C"]
    assert described(schema("0", A), schema("0", field("a"))) == []
    assert described(flexible("0", tagged("A", 0)), flexible("0", tagged("B", 0))) == ["field renamed 0 B: A -> B"]


def test_what_differs_in_more_than_the_name_is_another_field() -> None:
    assert described(schema("0", A), schema("0", field("B", kind="int64"))) == [
        "! field added 0 B:  -> int64",
        "! field removed 0 A: int32 -> ",
    ]


def test_a_name_may_have_gone_to_another_field() -> None:
    old = schema("0", field("Lag"))
    new = schema("0-1", field("LagLegacy", "0"), field("Lag", "1+", "int64"))
    assert described(old, new) == [
        "version added 1",
        "field removed 1 LagLegacy: int32 -> ",
        "field added 1 Lag:  -> int64",
        "field renamed 0 LagLegacy: Lag -> LagLegacy",
    ]


def test_an_alias_names_the_old_message_whatever_else_changed() -> None:
    assert described(schema("0", A), schema("0", field("B", kind="int64", aliases=["A"]))) == [
        "field renamed 0 B: A -> B",
        "! field retyped 0 B: int32 -> int64",
    ]


def test_every_incompatible_change_has_a_reason() -> None:
    old = schema("0-2", A, field("B", kind="string"), field("C", "1+"))
    new = schema("1-2", field("A", kind="int64"), field("B", kind="string", nullableVersions="2+", default=""))
    found = changes(old, new)
    assert len(found) == 4
    assert all(change.why for change in found if not change.compatible)


def test_structs_that_share_others_are_not_compared_again_and_again() -> None:
    twice = [
        {"name": f"S{i}", "versions": "0+", "fields": [field("A", kind=f"S{i + 1}"), field("B", kind=f"S{i + 1}")]}
        for i in range(25)
    ]
    structs = [*twice, {"name": "S25", "versions": "0+", "fields": [A]}]
    given = schema("0-1", field("R", kind="S0"), commonStructs=structs)
    assert described(given, given) == []
    other = [*twice, {"name": "S25", "versions": "0+", "fields": [field("A", kind="int64")]}]
    assert len(described(given, given | {"commonStructs": other})) == 1
