"""Rows as Arrow: column types, batches of bounded size, and text that is no UTF-8."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from kafkawire import rows

pa = pytest.importorskip("pyarrow")
from kafkawire.rows import arrow  # noqa: E402


class Inner(msgspec.Struct):
    name: str
    numbers: tuple[int, ...] = ()


class Everything(msgspec.Struct):
    """A field of each type that rows have."""

    number: int = 0
    ratio: float | None = None
    flag: bool | msgspec.UnsetType | None = msgspec.UNSET
    text: str | None = None
    anything: Any = None
    either: int | str | None = None
    names: tuple[str, ...] = ()
    counts: dict[str, int] = msgspec.field(default_factory=dict)
    json: dict[str, Any] | msgspec.UnsetType | None = msgspec.UNSET
    inner: Inner | None = None
    inners: tuple[Inner, ...] = ()


def table(listed: list[Any], *kinds: Any) -> Any:
    return pa.Table.from_batches(list(arrow.batches(listed, arrow.schema(kinds or [Everything]))))


def test_column_types_follow_annotations() -> None:
    inner = pa.struct([("name", pa.string()), ("numbers", pa.list_(pa.int64()))])
    assert dict(zip(*(lambda s: (s.names, s.types))(arrow.schema([Everything])), strict=True)) == {
        "number": pa.int64(),
        "ratio": pa.float64(),
        "flag": pa.bool_(),
        "text": pa.string(),
        "anything": pa.string(),
        "either": pa.string(),
        "names": pa.list_(pa.string()),
        "counts": pa.map_(pa.string(), pa.int64()),
        "json": pa.string(),
        "inner": inner,
        "inners": pa.list_(inner),
    }


def test_values_convert_to_arrow() -> None:
    row = Everything(
        number=1,
        ratio=0.5,
        flag=False,
        text="x",
        anything=[1, None],
        either=7,
        names=("a", "b"),
        counts={"NONE": 2},
        json={"a": 1},
        inner=Inner("i", (1, 2)),
        inners=(Inner("j"),),
    )
    assert table([row, Everything()]).to_pylist() == [
        {
            "number": 1,
            "ratio": 0.5,
            "flag": False,
            "text": "x",
            "anything": "[1,null]",
            "either": "7",
            "names": ["a", "b"],
            "counts": [("NONE", 2)],
            "json": '{"a":1}',
            "inner": {"name": "i", "numbers": [1, 2]},
            "inners": [{"name": "j", "numbers": []}],
        },
        {name: [] if name in ("names", "counts", "inners") else None for name in Everything.__struct_fields__}
        | {"number": 0},
    ]


def test_columns_of_the_same_name_are_shared_between_kinds() -> None:
    schema = arrow.schema([rows.Index, rows.DamageRow], unset=["topic", "reason"])
    assert schema.names == [
        "kind",
        "file",
        "partition",
        "position",
        "offset",
        "log_position",
        "detail",
        "resumed_at",
        "harmless",
    ]
    index, damage = rows.Index(position=8, offset=5, log_position=99), rows.DamageRow(position=3, reason="zeros")
    found = table([index, damage], rows.Index, rows.DamageRow)
    assert found.column("position").to_pylist() == [8, 3]
    assert found.column("offset").to_pylist() == [5, None]
    assert found.column("reason").to_pylist() == [None, "zeros"]


@pytest.mark.parametrize("kind", [*rows.LOG_ROWS.values(), rows.Exchange, rows.Finding, rows.Violation, rows.Poll])
def test_every_kind_of_row_has_an_arrow_schema(kind: type[rows.Row]) -> None:
    schema = arrow.schema([kind])
    assert tuple(schema.names) == rows.field_names(kind)
    assert not any(pa.types.is_null(found) for found in schema.types)


def test_batches_are_bounded_in_rows_and_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = arrow.schema([Everything])

    def sizes(listed: list[Any]) -> list[int]:
        return [batch.num_rows for batch in arrow.batches(listed, schema)]

    monkeypatch.setattr(arrow, "BATCH_ROWS", 10)
    assert sizes([Everything()] * 25) == [10, 10, 5]
    assert sizes([Everything()] * 10) == [10]
    assert sizes([]) == []
    monkeypatch.setattr(arrow, "BATCH_BYTES", 100)
    assert sizes([Everything(text="x" * 50)] * 5) == [2, 2, 1]
    assert sizes([Everything(text="x" * 49)] * 5) == [3, 2]
    assert sizes([Everything(text="x" * 500)] * 2) == [1, 1]
    assert sizes([Everything(anything=msgspec.Raw(b'"' + b"x" * 98 + b'"'))] * 2) == [1, 1]
    assert sizes([Everything(text="x" * 99), Everything(), Everything(text="x")]) == [3]


def test_batches_without_columns_keep_the_row_count() -> None:
    found = list(arrow.batches([Everything()] * 3, pa.schema([])))
    assert [(batch.num_rows, batch.num_columns) for batch in found] == [(3, 0)]


def test_surrogate_escapes_become_replacement_characters_in_text_and_escapes_in_json() -> None:
    """Also where the text is nested."""
    bad = "a\udcff"
    row = Everything(text=bad, names=(bad,), counts={bad: 1}, inner=Inner(bad), json={"k": bad})
    (found,) = table([row]).to_pylist()
    clean = "a\ufffd"
    assert (found["text"], found["names"], found["counts"]) == (clean, [clean], [(clean, 1)])
    assert found["inner"] == {"name": clean, "numbers": []}
    assert json.loads(found["json"]) == {"k": bad}
    assert arrow.json_text({"k": bad}) == b'{"k":"a\\udcff"}'
    assert json.loads(arrow.json_text(Everything(text=bad)))["text"] == bad


@pytest.mark.parametrize(("text", "clean"), [("", ""), ("aé😀", "aé😀"), ("\ud800x\udfff", "\ufffdx\ufffd")])
def test_arrow_text_replaces_lone_surrogates(text: str, clean: str) -> None:
    assert arrow.arrow_text(text) == clean


def test_batches_use_the_given_json_encoder() -> None:
    schema = arrow.schema([Everything])
    (batch,) = arrow.batches([Everything(anything={"a": 1})], schema, lambda value: b"<%d>" % len(value))
    assert batch.column("anything").to_pylist() == ["<1>"]
