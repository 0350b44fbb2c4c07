"""codegen/importing: each rule and each trap, on small inputs."""

import json
from typing import Any

import pytest

from kafkawire.codegen import shape
from kafkawire.codegen.importing import annotate, catalogue, decisions, facts, merge, render
from kafkawire.codegen.importing.facts import Schema
from kafkawire.codegen.importing.sources import Release
from kafkawire.codegen.load import RawSchema, load_text
from kafkawire.codegen.model import MessageModel
from kafkawire.codegen.resolve import resolve
from kafkawire.errors import SchemaError


def field(name: str, at: str = "0+", kind: str = "int32", **more: Any) -> Schema:
    return {"name": name, "type": kind, "versions": at, **more}


def schema(valid: str, *fields: Schema, name: str = "M", kind: str = "data", **more: Any) -> Schema:
    return {"name": name, "type": kind, "validVersions": valid, "flexibleVersions": "none", "fields": [*fields], **more}


def names(fields: list[Schema]) -> list[str]:
    return [entry["name"] for entry in fields]


# facts


def test_comments_and_text_after_the_first_value_are_skipped() -> None:
    text = """
    // a licence with "quotes" and { braces
    { /* "type": "request",
         "apiKey": 1, */ "name": "A", // after a value
      "fields": [ { "name": "F", "default": "http://x /* kept */" } ] } // the end
    ] }
    """
    assert load_text(text, lenient=True).data == {
        "name": "A",
        "fields": [{"name": "F", "default": "http://x /* kept */"}],
    }


def test_an_escaped_quote_does_not_end_a_string() -> None:
    assert load_text(r'{"name": "a\"// no comment"} // comment').data == {"name": 'a"// no comment'}


@pytest.mark.parametrize("text", ["", "// nothing", "[1]", '{"name": ', '{"name": 1 /* open'])
def test_what_is_no_schema_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        load_text(text, lenient=True)


def test_only_facts_come_along() -> None:
    inner = {"name": "F", "about": "prose", "ignorable": False, "mapKey": True, "tag": "0"}
    given = {
        "about": "prose",
        "latestVersionUnstable": False,
        "fields": [inner],
        "commonStructs": [{"fields": [inner]}],
    }
    kept = {"name": "F", "mapKey": True, "tag": 0}
    assert facts.facts(given) == {"fields": [kept], "commonStructs": [{"fields": [kept]}]}


@pytest.mark.parametrize("default", ["null", None, False, "false", 0, "-1", "0x7fffffff", ""])
def test_a_default_stays_as_kafka_spells_it(default: object) -> None:
    kept = facts.facts({"name": "F", "default": default})["default"]
    assert kept == default
    assert type(kept) is type(default)


def test_lists_of_one_and_versions_that_are_numbers() -> None:
    assert facts.facts({"aliases": "Old", "listeners": "broker", "validVersions": 0, "tag": "x"}) == {
        "aliases": ["Old"], "listeners": ["broker"], "validVersions": "0", "tag": "x",
    }  # fmt: skip


# merge


def test_the_newest_decides_and_the_valid_versions_unite() -> None:
    newest = schema("2-4", field("A", "0+", ignorable=True), apiKey=3, listeners=["broker"])
    older = schema("0-3", field("A", "0+"), apiKey=3, listeners=["zkBroker"], deprecatedVersions="0-1")
    assert merge.union(newest, older) == newest | {"validVersions": "0-4"}


def test_a_coordinator_key_is_taken_from_the_newest_alone() -> None:
    newest = schema("0", field("A", "0"), kind="coordinator-key", apiKey=8)
    assert merge.union(newest, schema("8", field("A", "8"))) == newest


def test_a_message_without_versions_is_taken_from_the_older_release_whole() -> None:
    older = schema("0-3", field("A"), listeners=["zkBroker"])
    assert merge.union({"name": "M", "type": "request", "validVersions": "none"}, older) == older


def test_a_dropped_field_comes_back_cut_to_the_dropped_versions_at_its_place() -> None:
    newest = schema("2-5", field("B"), field("C", "6+"))
    older = schema("0-4", field("A"), field("B"), field("X", "1-3", nullableVersions="1+"), field("Y", "0"), field("Z"))
    merged = merge.union(newest, older)["fields"]
    assert names(merged) == ["A", "B", "X", "Y", "Z", "C"]
    assert [entry["versions"] for entry in merged] == ["0-1", "0+", "1", "0", "0-1", "6+"]
    assert merged[2]["nullableVersions"] == "1"


def test_nullable_versions_that_the_cut_empties_are_left_out() -> None:
    older = schema("0-1", field("X", "0+", "string", nullableVersions="1+"))
    (merged,) = merge.union(schema("1"), older)["fields"]
    assert merged == field("X", "0", "string")


def test_a_renamed_field_does_not_come_back() -> None:
    newest, older = schema("0-2", field("New", "1+")), schema("0-1", field("Old", "1+"))
    assert names(merge.union(newest, older)["fields"]) == ["New"]


@pytest.mark.parametrize(
    ("versions", "newest", "older", "merged"),
    [
        ("1+", None, True, True),  # only the older release has version 0, which lacks the field
        ("1+", True, None, None),
        ("0-3", None, True, None),  # the newest has version 4, which lacks it too
        ("0+", None, True, None),  # no version lacks it
    ],
)
def test_ignorable_is_that_of_the_older_release_where_it_alone_lacks_the_field(
    versions: str, newest: bool | None, older: bool | None, merged: bool | None
) -> None:
    def flagged(ignorable: bool | None) -> Schema:
        return field("A", versions) | ({} if ignorable is None else {"ignorable": ignorable})

    (out,) = merge.union(schema("1-4", flagged(newest)), schema("0-2", flagged(older)))["fields"]
    assert out.get("ignorable") == merged


def test_the_first_letters_case_makes_no_other_field() -> None:
    newest, older = schema("1", field("GroupId")), schema("0-1", field("groupId"))
    assert names(merge.union(newest, older)["fields"]) == ["GroupId"]


def test_structs_are_merged_within() -> None:
    newest = schema("1", field("A", "0+", "[]T", fields=[field("K")]))
    older = schema("0", field("A", "0+", "[]OldName", fields=[field("Gone", "0"), field("K")]))
    (merged,) = merge.union(newest, older)["fields"]
    assert merged["type"] == "[]T"
    assert names(merged["fields"]) == ["Gone", "K"]


def test_common_structs_are_merged_by_name() -> None:
    newest = schema("1", field("A", "0+", "T"), commonStructs=[{"name": "T", "versions": "0+", "fields": [field("K")]}])
    older = schema("0", field("A", "0+", "T"), commonStructs=[{"name": "T", "versions": "0+", "fields": [field("X")]}])
    (struct,) = merge.union(newest, older)["commonStructs"]
    assert names(struct["fields"]) == ["X", "K"]


def test_a_common_struct_that_became_inline_is_merged() -> None:
    newest = schema("1", field("A", "0+", "T", fields=[field("K")]))
    older = schema("0", field("A", "0+", "T"), commonStructs=[{"name": "T", "versions": "0+", "fields": [field("X")]}])
    (merged,) = merge.union(newest, older)["fields"]
    assert names(merged["fields"]) == ["X", "K"]


def test_an_inline_struct_that_became_common_is_not_guessed_at() -> None:
    newest = schema("1", field("A", "0+", "T"), commonStructs=[{"name": "T", "versions": "0+", "fields": []}])
    with pytest.raises(ValueError, match="A: an inline struct"):
        merge.union(newest, schema("0", field("A", "0+", "T", fields=[field("X")])))


def test_a_gap_between_releases_is_refused() -> None:
    with pytest.raises(ValueError, match="no input has version 4"):
        merge.union(schema("5"), schema("0-3"))


def test_earlier_names_of_an_older_union_stay() -> None:
    newest = schema("0-1", field("A"), field("B", "1+"))
    older = schema("0", field("A", aliases=["Z"]), aliases=["Old"])
    merged = merge.union(newest, older)
    assert merged["aliases"] == ["Old"]
    assert [entry.get("aliases") for entry in merged["fields"]] == [["Z"], None]


# shape


def model(given: Schema) -> MessageModel:
    (message,) = resolve([RawSchema("M.json", "", given)], drafts=True)
    return message


def conflicts(united: Schema, older: Schema) -> list[int]:
    return shape.conflicts(model(united), model(older))


def test_another_layout_of_a_version_is_a_conflict() -> None:
    old = schema("0-1", field("A"), field("B", "1+"))
    assert conflicts(old, old) == []
    assert conflicts(schema("0-1", field("A", kind="int64"), field("B", "1+")), old) == [0, 1]
    assert conflicts(schema("0-1", field("A")), old) == [1]
    text = schema("0-1", field("A", kind="string"))
    assert conflicts(schema("0-1", field("A", kind="string", nullableVersions="1+")), text) == [1]
    assert conflicts(text | {"flexibleVersions": "1+"}, text) == [1]
    assert conflicts(schema("0-1", field("A"), field("B", "1+"), flexibleVersions="1+"), old) == [1]
    assert conflicts(schema("0-1", field("A"), field("B", "1+", "[]int32")), old) == [1]


def test_names_and_records_make_no_conflict() -> None:
    old = schema("0", field("A", kind="bytes"), field("B", kind="[]T", fields=[field("K")]))
    new = schema("0", field("X", kind="records"), field("Y", kind="[]U"))
    new["commonStructs"] = [{"name": "U", "versions": "0+", "fields": [field("Z")]}]
    assert conflicts(new, old) == []


def flexible(*fields: Schema) -> Schema:
    return schema("0", *fields) | {"flexibleVersions": "0+"}


def test_a_new_tag_is_no_conflict_and_a_lost_or_changed_one_is() -> None:
    tagged = field("T", "0+", taggedVersions="0+", tag=0)
    old, new = flexible(field("A")), flexible(field("A"), tagged)
    assert conflicts(new, old) == []
    assert conflicts(old, new) == [0]
    assert conflicts(flexible(field("A"), tagged | {"type": "int64"}), new) == [0]


def test_a_key_whose_version_became_its_api_key_is_compared_there() -> None:
    key = schema("0", field("A", "0"), kind="coordinator-key", apiKey=8)
    assert conflicts(key, schema("8", field("A", "8"))) == []
    assert conflicts(key, schema("8", field("A", "8", "int64"))) == [8]


# annotate


def test_aliases_go_to_nested_and_common_fields() -> None:
    struct = {"name": "T", "versions": "0+", "fields": [field("K")]}
    given = schema("0", field("A", kind="[]T"), field("B", kind="U", fields=[field("C")]), commonStructs=[struct])
    out = annotate.aliased(given, ["Old"], {"A": ["Z"], "A.K": ["Y"], "B.C": ["X", "W"]})
    assert out["aliases"] == ["Old"]
    assert out["fields"][0]["aliases"] == ["Z"]
    assert out["commonStructs"][0]["fields"][0]["aliases"] == ["Y"]
    assert out["fields"][1]["fields"][0]["aliases"] == ["X", "W"]
    assert "aliases" not in given["fields"][0]


@pytest.mark.parametrize("path", ["B", "A.B", "A.K.L"])
def test_a_path_that_leads_nowhere_is_refused(path: str) -> None:
    given = schema("0", field("A", kind="T", fields=[field("K")]))
    with pytest.raises(ValueError, match=r"M\..*: there is no field"):
        annotate.aliased(given, [], {path: ["X"]})


def test_a_shared_field_is_described_once() -> None:
    struct = {"name": "T", "versions": "0+", "fields": [field("K")]}
    given = schema("0", field("A", kind="T"), field("B", kind="T"), commonStructs=[struct])
    assert annotate.described(given, "M.", {"A.K": "K."})["commonStructs"][0]["fields"][0]["about"] == "K."
    with pytest.raises(ValueError, match="described twice"):
        annotate.described(given, "", {"A.K": "K.", "B.K": "Other."})


# catalogue


@pytest.fixture
def nothing_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    for table in ("RENAMED_MESSAGES", "RENAMED_FIELDS", "CONFLICTS"):
        monkeypatch.setattr(decisions, table, {})


def release(label: str, **messages: tuple[str, Schema]) -> Release:
    return Release(label, messages)


@pytest.mark.usefixtures("nothing_decided")
class TestCatalogue:
    def test_a_name_belongs_to_the_family_of_the_newest_release(self) -> None:
        out = catalogue.build([release("2", M=("share", schema("0"))), release("1", M=("group", schema("0")))])
        assert out.messages["M"].family == out.models[0].family == "share"

    def test_an_old_name_becomes_the_new_ones_alias(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(decisions, "RENAMED_MESSAGES", {"MRequest": ["OldRequest"]})
        new = schema("0-1", name="MRequest", kind="request", apiKey=1)
        old = schema("0", name="OldRequest", kind="request", apiKey=1)
        for given in ([release("2", MRequest=("rpc", new)), release("1", OldRequest=("rpc", old))],
                      [release("1", OldRequest=("rpc", old))]):  # fmt: skip
            out = catalogue.build(given).messages
            assert list(out) == ["MRequest"]
            assert out["MRequest"].schema["aliases"] == ["OldRequest"]

    def test_two_names_for_one_message_are_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(decisions, "RENAMED_MESSAGES", {"M": ["Old"]})
        with pytest.raises(ValueError, match="1 has M under two names"):
            catalogue.build([release("1", M=("rpc", schema("0")), Old=("rpc", schema("0", name="Old")))])

    def test_an_older_release_may_lack_the_field_that_was_renamed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(decisions, "RENAMED_FIELDS", {"M": {"New": ["Old"], "A.B": ["C"]}})
        (given,) = catalogue.build([release("1", M=("rpc", schema("0", field("Old"))))]).messages.values()
        assert given.schema["fields"] == [field("Old")]
        (given,) = catalogue.build([release("2", M=("rpc", schema("0", field("New"))))]).messages.values()
        assert given.schema["fields"] == [field("New", aliases=["Old"])]

    def test_an_undecided_conflict_is_reported(self, monkeypatch: pytest.MonkeyPatch) -> None:
        given = [
            release("2", M=("rpc", schema("0", field("A")))),
            release("1", M=("rpc", schema("0", field("A", kind="int64")))),
        ]
        out = catalogue.build(given)
        assert [str(conflict) for conflict in out.undecided] == ["M 0 of 1"]
        assert out.messages["M"].schema["fields"] == [field("A")]
        monkeypatch.setattr(decisions, "CONFLICTS", {("M", 0): "the newest"})
        assert catalogue.build(given).undecided == []

    def test_an_api_key_belongs_to_one_message_of_a_family_and_type(self) -> None:
        one = schema("0", name="ARequest", kind="request", apiKey=1)
        two = schema("0", name="BRequest", kind="request", apiKey=1)
        with pytest.raises(SchemaError, match=r"rpc/BRequest\.json: apiKey: 1 is the key .* rpc/ARequest\.json"):
            catalogue.build([release("1", ARequest=("rpc", one), BRequest=("rpc", two))])
        keys = [schema("0", name=name, kind="coordinator-key", apiKey=1) for name in ("A", "B")]
        both = release("1", A=("group", keys[0]), B=("transaction", keys[1]))
        assert len(catalogue.build([both]).messages) == 2

    def test_a_message_that_no_release_lays_out_is_left_out(self) -> None:
        gone = {"name": "MRequest", "type": "request", "apiKey": 1, "validVersions": "none"}
        out = catalogue.build([release("2", MRequest=("rpc", gone), A=("rpc", schema("0", name="A")))])
        assert out.left_out == ["MRequest"]
        assert list(out.messages) == ["A"]

    def test_versions_that_leave_a_gap_name_the_message(self) -> None:
        with pytest.raises(ValueError, match=r"^M: no input has versions 2 to 4$"):
            catalogue.build([release("2", M=("rpc", schema("5"))), release("1", M=("rpc", schema("0-1")))])


# render


def test_the_text_of_a_file() -> None:
    inner = field("K", kind="string", mapKey=True, about="Größe.")
    given = schema(
        "0-1",
        field("A", "1+", "[]T", fields=[inner, field("L")], default=None, aliases=["B"]),
        field("C", about="C."),
        kind="request",
        apiKey=7,
        about="What it is.",
        commonStructs=[{"name": "S", "versions": "0+", "fields": [field("K")]}],
    )
    assert (
        render.message(given)
        == """\
{
  "name": "M",
  "type": "request",
  "apiKey": 7,
  "validVersions": "0-1",
  "flexibleVersions": "none",
  "about": "What it is.",
  "fields": [
    {"name": "A", "aliases": ["B"], "type": "[]T", "versions": "1+", "default": null, "fields": [
      {"name": "K", "type": "string", "versions": "0+", "mapKey": true,
        "about": "Größe."},
      {"name": "L", "type": "int32", "versions": "0+"}
    ]},
    {"name": "C", "type": "int32", "versions": "0+",
      "about": "C."}
  ],
  "commonStructs": [
    {"name": "S", "versions": "0+", "fields": [
      {"name": "K", "type": "int32", "versions": "0+"}
    ]}
  ]
}
"""
    )
    assert json.loads(render.message(given)) == given


def test_a_key_that_the_language_does_not_have_is_refused() -> None:
    with pytest.raises(ValueError, match="A: unknown keys colour"):
        render.message(schema("0", field("A", colour="red")))
