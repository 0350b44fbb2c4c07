"""The bytes of examples, each beside its field."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import kafkawire
from kafkawire.codegen import generate
from kafkawire.codegen.annotated_bytes import lines, parts
from kafkawire.codegen.resolve import resolve
from tests.codegen.schema_builders import raw

SCHEMAS = Path(kafkawire.__file__).parent / "schemas" / "kafka"
VECTORS = Path(__file__).parents[1] / "golden" / "vectors" / "4.4.0" / "messages.jsonl"


VALUE = {
    "name": "Foo",
    "type": "data",
    "validVersions": "0-1",
    "flexibleVersions": "1+",
    "fields": [
        {"name": "Id", "type": "uuid", "versions": "0+"},
        {"name": "Ratio", "type": "float64", "versions": "0+"},
        {"name": "Up", "type": "bool", "versions": "0+"},
        {"name": "Names", "type": "[]string", "versions": "0+"},
        {"name": "Key", "type": "bytes", "versions": "0+", "nullableVersions": "0+", "default": "null"},
        {"name": "In", "type": "In", "versions": "1+", "nullableVersions": "1+", "default": "null", "fields": [
            {"name": "X", "type": "uint16", "versions": "1+"}]},
        {"name": "Late", "type": "int16", "versions": "1+", "taggedVersions": "1+", "tag": 0},
    ],
}  # fmt: skip


def test_values_of_every_kind_have_their_bytes() -> None:
    (one,) = resolve([raw(VALUE)])
    head = "00112233445566778899aabbccddeeff" + "3ff8000000000000" + "01"
    flexible = bytes.fromhex(head + "02 03 6f6b" + "03 0102" + "01 ffff 00" + "02 00 02 0005 09 01 ff")
    assert [(part.offset, part.data.hex(), part.field, part.value) for part in parts(one, 1, flexible)] == [
        (0, head[:32], "id", "ABEiM0RVZneImaq7zN3u_w"),
        (16, "3ff8000000000000", "ratio", "1.5"),
        (24, "01", "up", "true"),
        (25, "02", "names", "1 element"),
        (26, "036f6b", "names[0]", '"ok"'),
        (29, "030102", "key", "2 bytes"),
        (32, "01", "in", "present"),
        (33, "ffff", "in.x", "65535"),
        (35, "00", "in", "0 tagged fields"),
        (36, "02", "", "2 tagged fields"),
        (37, "0002", "", "tag 0, 2 bytes"),
        (39, "0005", "late", "5"),
        (41, "0901", "", "tag 9, 1 byte"),
        (43, "ff", "", "unknown"),
    ]
    classic = bytes.fromhex(head + "00000000" + "ffffffff")
    assert list(lines(parts(one, 0, classic), most=4)) == [
        "offset  bytes                        field  value",
        "     0  00 11 22 33 44 55 66 77 ...  id     ABEiM0RVZneImaq7zN3u_w",
        "    16  3f f8 00 00 00 00 00 00      ratio  1.5",
        "    24  01                           up     true",
        "    25  00 00 00 00                  names  0 elements",
        "   ...  1 more",
    ]
    assert parts(one, 0, classic)[-1].value == "null"


@pytest.mark.slow
def test_parts_are_all_of_the_bytes_in_order() -> None:
    models = {one.name: one for one in generate.load(SCHEMAS)}
    checked = 0
    for line in VECTORS.open():
        row = json.loads(line)
        data = bytes.fromhex(row["bytes"])
        found = parts(models[row["message"]], row["version"], data)
        assert b"".join(part.data for part in found) == data, row["message"]
        assert all(part.offset == sum(len(one.data) for one in found[:at]) for at, part in enumerate(found[:50]))
        checked += 1
    assert checked > 1000
