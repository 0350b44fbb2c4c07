"""The JSON Schemas, as a validator executes them, against `to_json`, `from_json` and the compiler."""

from __future__ import annotations

import copy
import json
import random
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema_rs import Draft202012Validator, meta

from kafkawire import from_json, load_schemas, lookup, to_json
from kafkawire.codegen import generate, json_schema
from kafkawire.codegen.load import load_folder
from kafkawire.codegen.resolve import MESSAGE_KEYS, resolve
from kafkawire.codegen.rules import FIELD_KEYS
from kafkawire.errors import JsonError, SchemaError
from kafkawire.messages import REGISTRY
from kafkawire.wire.message import Message
from tests import golden
from tests.codegen.schema_builders import field, message, raw
from tests.codegen.test_generate import EVERYTHING, folder_of
from tests.codegen.test_resolve_mistakes import FIELDS, MESSAGES, TOGETHER

SCHEMAS = Path(json_schema.__file__).parents[1] / "schemas"
VECTORS = Path(__file__).parents[1] / "golden" / "vectors"
NAMESPACES = ("kafka", "kip-664-draft", "kip-664-adopted", "kip-360")

#: What takes a key's or an element's place: of every type of JSON, at the edges of ranges, nearly right texts.
VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 128, -129, 1 << 15, 1 << 16, 1 << 31, 1 << 32, 1 << 63, 1 << 64, -(1 << 63) - 1, 1.5,
    "", "x", "null", "NaN", "Infinity", "A" * 22, "A" * 22 + "==", "A" * 21 + "+", "AA==", "AAA", "AA=A", [], [None],
    [0], [""], [[1, "AA=="]], [[1, "AA"]], [[1]], [[1, "", 2]], {}, {"x": 1}, [{}],
)  # fmt: skip

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def files() -> dict[str, str]:
    return json_schema.render_json_schemas(generate.load(SCHEMAS / "kafka"))


class Validators(dict[tuple[str, int], Draft202012Validator]):
    def __init__(self, files: dict[str, str]) -> None:
        self.files = files

    def __missing__(self, key: tuple[str, int]) -> Draft202012Validator:
        made = self[key] = Draft202012Validator(json.loads(self.files[json_schema.file_name(*key)]))
        return made


@pytest.fixture(scope="module")
def validators(files: dict[str, str]) -> Validators:
    return Validators(files)


@pytest.fixture(scope="module")
def language(files: dict[str, str]) -> Draft202012Validator:
    return Draft202012Validator(json.loads(files[json_schema.LANGUAGE]))


def vectors() -> Iterator[tuple[type[Message], int, dict[str, Any]]]:
    """Every message and version of Kafka, with the JSON form of values that Kafka's classes made."""
    for release in ("4.4.0", "3.9.1"):
        for line in (VECTORS / release / "messages.jsonl").read_text("utf-8").split("\n"):
            if line:
                one = json.loads(line)
                cls, version = lookup(one["message"]), one["version"]
                value = cls.decode(bytes.fromhex(one["bytes"]), version)
                yield cls, version, to_json(value, version, unknown_tags=True)


# Messages ------------------------------------------------------------------------------------------------------------


def test_files_are_schemas_with_the_sentences_of_their_message(files: dict[str, str]) -> None:
    for name, text in files.items():
        assert meta.is_valid(json.loads(text)), name
    fetch = json.loads(files["FetchRequest.v12.schema.json"])
    fields = {one.json_name: one.about for one in lookup("FetchRequest").spec.fields}
    assert fetch["description"].startswith("Asks for records")
    assert fetch["properties"]["minBytes"]["description"] == fields["minBytes"] != ""
    assert "replicaState" not in fetch["properties"]


def test_file_of_a_message_with_everything(tmp_path: Path) -> None:
    (one,) = generate.load(folder_of(tmp_path, EVERYTHING))
    golden.check(
        "codegen/kitchen_sink.schema.json", json_schema.render_json_schemas([one])["KitchenSink.v3.schema.json"]
    )


def test_control_characters_of_a_sentence_are_escaped(tmp_path: Path) -> None:
    schema = message(field(about="Before\x7f and\x1b after."), flexibleVersions="none")
    (one,) = generate.load(folder_of(tmp_path, schema))
    text = json_schema.render_json_schemas([one])["Foo.v0.schema.json"]
    assert r"Before\u007f and\u001b after." in text
    assert json.loads(text)["properties"]["one"]["description"] == "Before\x7f and\x1b after."


def test_what_to_json_gives_is_valid_in_every_version(validators: Validators) -> None:
    for cls, version, form in vectors():
        validators[cls.spec.name, version].validate(form)
    for entry in REGISTRY:
        for version in entry.valid_versions:
            if (entry.name, version) not in validators:  # newer than the vectors
                validators[entry.name, version].validate(to_json(lookup(entry.name)(), version))
    assert len(validators) == len(validators.files) - 1


def test_a_document_is_valid_where_from_json_takes_it(validators: Validators) -> None:
    """Of documents that differ from sound ones in one place; the place and the difference are drawn by seed."""
    chance = random.Random(23)
    count = Counter[bool]()
    for cls, version, form in vectors():
        for _ in range(6):
            mutant = mutated(form, chance)
            count[agree(validators[cls.spec.name, version], cls, version, mutant)] += 1
    assert min(count.values()) > 1000, count


def test_aliases_take_the_place_of_names(tmp_path: Path) -> None:
    (one,) = generate.load(folder_of(tmp_path, ALIASES))
    validators = Validators(json_schema.render_json_schemas([one]))
    cls = load_schemas(tmp_path / "tiny")["Renamed"]
    documents: list[tuple[dict[str, Any], bool]] = [
        ({"now": 1}, True),
        ({"once": 1}, True),
        ({"before": 1, "last": 2}, True),
        ({"now": 1, "later": 2}, True),
        ({}, False),
        ({"now": 1, "once": 1}, False),
        ({"now": 1, "last": 2, "later": 2}, False),
        ({"now": 1, "once": 1, "before": 1}, False),
    ]
    for document, valid in documents:
        assert agree(validators["Renamed", 0], cls, 0, document) == valid, document


ALIASES = {
    "name": "Renamed",
    "type": "data",
    "validVersions": "0",
    "flexibleVersions": "0+",
    "fields": [
        {"name": "Now", "type": "int8", "versions": "0+", "aliases": ["Once", "Before"]},
        {"name": "Last", "type": "int8", "taggedVersions": "0+", "tag": 0, "aliases": ["Later"]},
    ],
}


def agree(validator: Draft202012Validator, cls: type[Message], version: int, document: Any) -> bool:
    """Whether both take the document, after making sure that they are of one mind."""
    try:
        from_json(cls, document, version)
        taken = True
    except JsonError:
        taken = False
    assert validator.is_valid(document) == taken, (cls.spec.name, version, document)
    return taken


def mutated(form: dict[str, Any], chance: random.Random) -> Any:
    """A copy with one place changed: a key removed, added, or renamed; a value replaced."""
    root = {"": copy.deepcopy(form)}
    places: list[tuple[Any, Any]] = [(root, "")]
    for holder, key in places:
        item = holder[key]
        places += (
            [(item, one) for one in (item if isinstance(item, dict) else range(len(item)))]
            if item and isinstance(item, dict | list)
            else []
        )
    holder, key = chance.choice(places)
    value = holder[key]
    what = chance.randrange(4)
    if what == 0 and holder is not root:
        del holder[key]
    elif what == 1 and isinstance(value, dict):
        value[chance.choice(("x", "_unknownTaggedFields", "name", "topics"))] = chance.choice(VALUES)
    elif what == 2 and isinstance(value, list) and value:
        value.append(chance.choice((*VALUES, value[0])))
    else:
        holder[key] = chance.choice(VALUES)
    return root[""]


# The schema language -------------------------------------------------------------------------------------------------

#: Reasons of the compiler that one object does not show: versions compared, defaults that a text puts out of range,
#: fields or structs compared, the namespace.
RULES = re.compile(
    r"has no version in common|is not within|ends before it begins|must be nullable, or none|not every version|"
    r"count from 0 without gaps|is the tag of|is the name of|defined nowhere|there is a struct|used twice|hold itself|"
    r"the struct \w+ has versions|needs an apiKey|not in the range of|is no finite number|longer than|leading zero|"
    r"surrogate pair|0\+ must have an end|: the struct Bar has no fields|'1\.0' is no whole"
)


def test_every_schema_of_the_project_is_valid(language: Draft202012Validator) -> None:
    for namespace in NAMESPACES:
        for one in load_folder(SCHEMAS / namespace):
            language.validate(one.data)


def test_mistakes_of_form_are_refused(language: Draft202012Validator) -> None:
    rows = [(row[0], row[1:]) for row in MESSAGES + TOGETHER]
    rows += [(message(field(**keys)), (expected,)) for keys, expected in FIELDS]
    form = 0
    for schema, reasons in rows:
        if not all(map(RULES.search, reasons)):
            assert not language.is_valid(schema), (schema, reasons)
            form += 1
    assert form > len(rows) * 0.6


def test_what_the_compiler_takes_is_valid(language: Draft202012Validator) -> None:
    """Of schemas that differ from shipped ones in one place, drawn by seed."""
    chance = random.Random(23)
    schemas = [one.data for one in load_folder(SCHEMAS / "kafka")]
    count = Counter[tuple[bool, bool]]()
    for _ in range(800):
        mutant = changed(chance.choice(schemas), chance)
        try:
            resolve([raw(mutant)], drafts=True)
            compiled = True
        except SchemaError:
            compiled = False
        valid = language.is_valid(mutant)
        assert valid or not compiled, mutant
        count[compiled, valid] += 1
    assert min(count[True, True], count[False, False]) > 100, count


TEXTS: tuple[Any, ...] = (
    None, True, "true", "yes", 0, 3, 70000, "3", "007", "0-1", "0+", "2-1", "none", " 1 ", "1..2", "", "null", "x", "X",
    "[]X", "int8", "[]int32", "[] int64", "string", "bytes", "records", "uuid", "bool", "float64", "0x1f", "1.5",
    "request", "data", "broker", ["broker"], ["X"], ["x y"], [], {}, [{}], "topicName", "brokerId", "unknown",
)  # fmt: skip
KEYS = ("Name", *MESSAGE_KEYS, *FIELD_KEYS)


def changed(schema: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    """A copy in which one object has lost, gained or changed a key."""
    root = copy.deepcopy(schema)
    objects = [root]
    for one in objects:
        for key in ("fields", "commonStructs"):
            objects += [item for item in one.get(key) or () if isinstance(item, dict)]
    one = chance.choice(objects)
    key = chance.choice((*one, *KEYS) if chance.random() < 0.5 else tuple(one))
    if chance.random() < 0.15:
        one.pop(key, None)
    else:
        one[key] = chance.choice(TEXTS)
    return root
