"""The Kaitai Struct files, as the compiler's readers of Python and JavaScript execute them, against our own codecs."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafkawire import frames, from_json, load_schemas, lookup, records, to_json
from kafkawire.codegen import generate, kaitai, names
from kafkawire.wire.json_form import UNKNOWN_TAGS as UNKNOWN
from kafkawire.wire.layout import ARRAY, BOOL, BYTES, KIND_MASK, RECORDS, STRING, STRUCT, UUID, Layout
from kafkawire.wire.message import Message
from tests import golden
from tests.codegen.kaitai_readers import (
    Question,
    Tree,
    compiled,
    read_with_javascript,
    read_with_python,
    run_javascript,
)
from tests.codegen.test_generate import EVERYTHING, FIXED
from tests.docs.guide import blocks

SCHEMAS = Path(kaitai.__file__).parents[1] / "schemas"
VECTORS = Path(__file__).parents[1] / "golden" / "vectors"
EXAMPLES = Path(__file__).parents[2] / "examples" / "kafka-logs" / "one-node"

pytestmark = pytest.mark.slow

Read = Callable[[list[Question]], list[Tree]]


@pytest.fixture(scope="module")
def files() -> dict[str, str]:
    return kaitai.render_kaitai(generate.load(SCHEMAS / "kafka"))


@pytest.fixture(scope="module", params=[read_with_python, read_with_javascript], ids=["python", "javascript"])
def read(request: pytest.FixtureRequest, files: dict[str, str]) -> Read:
    folder = compiled(files)
    return lambda questions: request.param(folder, questions)


def vectors(name: str) -> list[dict[str, Any]]:
    paths = (VECTORS / release / f"{name}.jsonl" for release in ("4.4.0", "3.9.1"))
    return [json.loads(line) for path in paths for line in path.read_text("utf-8").split("\n") if line]


def as_json(cls: type[Message], version: int, tree: Tree) -> dict[str, Any]:
    """The JSON form of what a reader made of a message."""
    return _Form(cls).struct(cls.codec.layout(version), tree)


class _Form:
    def __init__(self, cls: type[Message]) -> None:
        self.codec = cls.codec

    def struct(self, layout: Layout, tree: Tree) -> dict[str, Any]:
        cls = self.codec.classes[layout.struct]
        ids = {slot: _key(field.name) for slot, field in enumerate(cls.spec.fields)}
        out = {op.slot: self.value(op.code, op.arg, tree, ids[op.slot]) for op in layout.ops}
        unknown = []
        ends = tree.get("taggedfields", [])
        for item in ends if isinstance(ends, list) else ends["fields"]:
            tag = item["tag"]["value"]
            known = next((one for one in layout.tags if one.tag == tag), None)
            if known is None:
                unknown.append([tag, _base64(item["data"]["hex"])])
            else:
                out[known.slot] = self.value(known.code, known.arg, item, ids[known.slot])
        form = {cls.spec.fields[slot].json_name: out[slot] for slot in sorted(out)}
        return form | ({UNKNOWN: unknown} if unknown else {})

    def value(self, code: int, arg: int, tree: Tree, key: str) -> Any:
        if key not in tree:
            return None
        value = tree[key]
        if code & ARRAY:
            return [self.one(code & KIND_MASK, arg, item) for item in value]
        return self.one(code & KIND_MASK, arg, value)

    def one(self, kind: int, arg: int, value: Any) -> Any:
        if kind == STRUCT:
            return self.struct(self.codec.table.layouts[arg], value)
        if kind == BOOL:
            return value != 0
        if kind == UUID:
            return base64.urlsafe_b64encode(bytes.fromhex(value["hex"])).rstrip(b"=").decode()
        if kind == STRING:
            return value.get("value")
        if kind == BYTES:
            return _base64(value["value"]["hex"]) if "value" in value else None
        if kind == RECORDS:
            return _base64(value["value"]["raw"]["hex"]) if "value" in value else None
        return value


def _key(name: str) -> str:
    id = names.snake_case(name)
    return (f"{id}_field" if id in ("match", "type", "version") else id).replace("_", "")


def _base64(digits: str) -> str:
    return base64.b64encode(bytes.fromhex(digits)).decode()


def reread(cls: type[Message], version: int, tree: Tree) -> dict[str, Any]:
    """As `as_json`, but without tagged fields that are there at their default."""
    return to_json(from_json(cls, as_json(cls, version, tree), version), version, unknown_tags=True)


def question(line: dict[str, Any]) -> Question:
    id = names.snake_case(lookup(line["message"]).spec.name)
    return id, (line["version"],), bytes.fromhex(line["bytes"])


def test_every_message_and_version_is_read_as_we_read_it(read: Read) -> None:
    lines = vectors("messages")
    for line, answer in zip(lines, read([question(line) for line in lines]), strict=True):
        cls, version, data = lookup(line["message"]), line["version"], bytes.fromhex(line["bytes"])
        assert "error" not in answer, (line, answer)
        assert answer["consumed"] == len(data)
        ours = to_json(cls.decode(data, version), version, unknown_tags=True)
        assert as_json(cls, version, answer["tree"]) == ours, line


def test_refuses_what_kafka_refuses(read: Read) -> None:
    """But for text that is no UTF-8: Kafka replaces it, and readers of these languages raise an error."""
    lines = vectors("inputs")
    count = Counter[str]()
    for line, answer in zip(lines, read([question(line) for line in lines]), strict=True):
        if not line["accepted"]:
            assert "error" in answer, line
            continue
        cls, version = lookup(line["message"]), line["version"]
        value, end = cls.decode_from(bytes.fromhex(line["bytes"]), version)
        ours = to_json(value, version, unknown_tags=True)
        if any("\ud800" <= char <= "\udfff" for char in json.dumps(ours, ensure_ascii=False)):
            assert "error" in answer, line
            count["no UTF-8"] += 1
        else:
            assert reread(cls, version, answer["tree"]) == ours, line
            assert answer["consumed"] == end, line
            count["alike"] += 1
    assert count == {"alike": 547, "no UTF-8": 251}


def test_the_page_reads_in_javascript(files: dict[str, str]) -> None:
    (block,) = (block for block in blocks("docs/emitters.md") if block.language == "js")
    assert run_javascript(compiled(files), block.text) == "[ 'a', 'b' ]\n"


# Schemas of one's own ------------------------------------------------------------------------------------------------

#: Names that members or types cannot have in some language; texts that end comments and docstrings.
HOSTILE = {
    "name": "Error",
    "type": "data",
    "validVersions": "0-1",
    "flexibleVersions": "none",
    "about": 'Ends */ a """ comment, \\u002a/ and /* opens -- one: \\',
    "fields": [
        {"name": name, "type": "int8", "versions": "0+", "about": "*/ }; \\"}
        for name in ("Version", "Class", "From", "Default", "Type", "Self", "Tag", "Flexible", "Aa", "AaCount")
    ]
    + [
        {"name": "S4", "type": "S4", "versions": "0+", "fields": [{"name": "End", "type": "int8", "versions": "1+"}]},
        {"name": "Objects", "type": "[]Object", "versions": "0+", "about": "null: [x] # y",
         "fields": [{"name": "Io", "type": "[]string", "versions": "0+"}]},
    ],
}  # fmt: skip

ALL_LANGUAGES = ("cpp_stl", "csharp", "go", "java", "javascript", "lua", "perl", "php", "python", "ruby", "rust")


def own(folder: Path, *schemas: dict[str, Any]) -> dict[str, str]:
    """The files of schemas of one's own, with Kafka's headers."""
    for schema in schemas:
        (folder / f"{schema['name']}.json").write_text(json.dumps(schema), "utf-8")
    for kind in ("Request", "Response"):
        text = (SCHEMAS / "kafka" / "rpc" / f"{kind}Header.json").read_text("utf-8")
        (folder / f"{kind}Header.json").write_text(text, "utf-8")
    return kaitai.render_kaitai(generate.load(folder))


def test_file_of_a_message_with_everything(tmp_path: Path) -> None:
    golden.check("codegen/kitchen_sink.ksy", own(tmp_path, EVERYTHING)["kitchen_sink.ksy"])


def test_files_of_requests_and_responses(tmp_path: Path) -> None:
    golden.check("codegen/kafka_request.ksy", own(tmp_path, FIXED)["kafka_request.ksy"])


@pytest.mark.parametrize("read_with", [read_with_python, read_with_javascript])
def test_schemas_of_ones_own(tmp_path: Path, read_with: Callable[[Path, list[Question]], list[Tree]]) -> None:
    """What Kafka's schemas do not have: names that languages reserve, texts that end comments."""
    folder = compiled(own(tmp_path, FIXED, EVERYTHING, HOSTILE), ALL_LANGUAGES)
    messages = load_schemas(tmp_path)
    sink = messages["KitchenSink"]
    point = {"x": 1, "y": -2}
    form = {"id": "A" * 22, "title": "t", "points": [point], "blob": "AAE="}
    forms = [
        (0, form | {"weight": -0.5, "old": -1}),
        (1, form | {"title": None, "weight": "NaN", "numbers": None, "home": point}),
        (2, form | {"numbers": [3], "home": None, "tags": ["a", ""]}),
        (2, form | {"numbers": None, "home": point, UNKNOWN: [[7, "AA=="]]}),
        (3, form | {"title": None, "numbers": [], "home": point, "note": "n", "far": point, UNKNOWN: [[9, ""]]}),
    ]
    questions = [
        ("kitchen_sink", (version,), from_json(sink, form, version).encode(version)) for version, form in forms
    ]
    for (version, form), answer in zip(forms, read_with(folder, questions), strict=True):
        assert "error" not in answer, answer
        assert as_json(sink, version, answer["tree"]) == form
    asked = [("error_message", (1,), bytes(range(1, 11)) + bytes.fromhex("0b 00000001 00000001 0001 78"))]
    (answer,) = read_with(folder, asked)
    tree = answer["tree"]
    assert [tree[f"{name}field"] for name in ("version", "class", "from", "default", "type")] == [1, 2, 3, 4, 5]
    assert (tree["aa"], tree["aacount"], tree["s4"]["endfield"]) == (9, 10, 11)
    assert tree["objects"][0]["io"][0]["value"] == "x"


# Frames --------------------------------------------------------------------------------------------------------------


def test_frames_have_the_header_of_their_version(read: Read) -> None:
    questions: list[Question] = []
    expected: list[tuple[Message, int]] = []
    for line in vectors("messages"):
        cls, version = lookup(line["message"]), line["version"]
        if cls.spec.kind not in ("request", "response"):
            continue
        value = cls.decode(bytes.fromhex(line["bytes"]), version)
        if cls.spec.kind == "request":
            frame = frames.encode_request(value, version=version, correlation_id=-7, client_id="é")
            questions.append(("kafka_request", (), frame))
        else:
            frame = frames.encode_response(value, version=version, correlation_id=-7)
            questions.append(("kafka_response", (cls.spec.api_key, version), frame))
        expected.append((value, version))
    for (value, version), (_, _, frame), answer in zip(expected, questions, read(questions), strict=True):
        assert "error" not in answer, (value.spec.name, version, answer)
        assert answer["consumed"] == len(frame)
        message = answer["tree"]["frame"]["message"]
        assert message["header"]["correlationid"] == -7
        if value.spec.kind == "request":
            assert message["header"]["requestapiversion"] == version
            has_no_client = value.spec.api_key == 7 and version == 0
            assert message["header"].get("clientid", {}).get("value") == (None if has_no_client else "é")
        ours = to_json(value, version, unknown_tags=True)
        assert as_json(type(value), version, message["body"]) == ours


def test_frames_of_unknown_keys_and_versions_are_not_misread(read: Read) -> None:
    of_no_version = bytes.fromhex("0000000f 0000 7000 00000001 0004 61626364 00".replace(" ", ""))
    of_no_key = bytes.fromhex("0000000a 7fff 0000 00000001 ffff".replace(" ", ""))
    asked = [("kafka_request", (), of_no_version), ("kafka_request", (), of_no_key)]
    version, key, response = read([*asked, ("kafka_response", (0, 0x7000), of_no_key)])
    message = version["tree"]["frame"]["message"]
    assert message["header"]["requestapiversion"] == 0x7000
    assert "body" not in message
    assert key["tree"]["frame"]["message"] == {"hex": of_no_key[4:].hex()}
    assert "body" not in response["tree"]["frame"]["message"]


# Records -------------------------------------------------------------------------------------------------------------

RECORDS_OF_ALL_KINDS = [
    records.Record(None, None, timestamp=1_700_000_000_000),
    records.Record(b"", b"v" * 300, (records.Header("é", None), records.Header("", b"h")), timestamp=1),
    records.Record(b"k", None, timestamp=-1),
    records.Record(b"k", b"v", timestamp=1 << 45),
]


def segments() -> list[bytes]:
    """Those of brokers, and batches of every magic and codec that we write."""
    found = [path.read_bytes() for path in sorted(EXAMPLES.rglob("*.log")) if "__consumer" not in path.parent.name]
    found += [
        records.build(RECORDS_OF_ALL_KINDS, base_offset=1 << 40, codec=codec, producer_id=5, producer_epoch=6)
        for codec in records.CODECS
    ]
    for magic in (0, 1):
        plain = [records.Record(b"k", b"v", timestamp=magic - 1), records.Record(None, None, timestamp=-1)]
        found += [records.build(plain, magic=magic, codec=codec) for codec in ("none", "gzip")]
    return found


def test_batches_are_read_as_we_read_them(read: Read) -> None:
    asked = segments()
    seen = Counter[str]()
    for data, answer in zip(asked, read([("kafka_records", (), data) for data in asked]), strict=True):
        assert "error" not in answer, answer
        ours = [item for item in records.read(data) if isinstance(item, records.Batch)]
        assert len(ours) == len(answer["tree"]["batches"])
        for batch, tree in zip(ours, answer["tree"]["batches"], strict=True):
            body = tree["batch"]
            assert (tree["len"], body["magic"], body["attributes"]) == (
                batch.batch_length,
                batch.magic,
                batch.attributes,
            )
            seen[f"{batch.magic} {batch.codec}"] += 1
            if batch.magic < 2:
                if batch.codec == "none":
                    (record,) = batch.records
                    assert (body["key"].get("value"), body["value"].get("value")) == (
                        _hex(record.key),
                        _hex(record.value),
                    )
                    assert body.get("timestamp", -1) == record.timestamp
                continue
            assert tree["baseoffset"] == batch.base_offset
            assert (body["crc"], body["partitionleaderepoch"]) == (batch.crc, batch.partition_leader_epoch)
            assert (body["producerid"], body["producerepoch"]) == (batch.producer_id, batch.producer_epoch)
            assert (body["basesequence"], body["recordscount"]) == (batch.base_sequence, batch.record_count)
            assert (body["basetimestamp"], body["maxtimestamp"]) == (batch.base_timestamp, batch.max_timestamp)
            assert ("body" in body, "records" in body) == (batch.codec != "none", batch.codec == "none")
            for record, its in zip(batch.records, body.get("records", ()), strict="records" in body):
                its = its["record"]
                assert batch.base_offset + its["offsetdelta"]["value"] == record.offset
                if batch.timestamp_type == "CreateTime" and not batch.delete_horizon:
                    assert batch.base_timestamp + its["timestampdelta"]["value"] == record.timestamp
                assert (its["key"].get("value"), its["value"].get("value")) == (_hex(record.key), _hex(record.value))
                headers = [(header["key"], header["value"].get("value")) for header in its["headers"]]
                assert headers == [(header.key, _hex(header.value)) for header in record.headers]
    assert {"2 none", "2 gzip", "2 snappy", "2 lz4", "2 zstd", "1 none", "1 gzip", "0 none", "0 gzip"} <= set(seen)


def _hex(data: bytes | None) -> Any:
    return None if data is None else {"hex": data.hex()}


def test_a_batch_that_is_cut_is_partial(read: Read) -> None:
    whole = records.build([records.Record(b"k", b"v")])
    cuts = [5, 12, 16, 17, 61, len(whole) - 1]
    for cut, answer in zip(cuts, read([("kafka_records", (), whole + whole[:cut]) for cut in cuts]), strict=True):
        first, last = answer["tree"]["batches"]
        assert first["batch"]["recordscount"] == 1
        assert last["partial"] == {"hex": whole[:cut].hex()}
        assert "batch" not in last
