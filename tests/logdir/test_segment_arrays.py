"""Segments as columns, which the native engine makes: value for value equal to their rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire import logdir, rows
from kafkawire.cli.formatting import json_bytes
from kafkawire.records import CODECS, Header, Record, build, build_marker
from kafkawire.wire.backend import native
from tests.logdir.test_logdir_jsonl import (
    EXAMPLES,
    WAYS,
    controls_in_a_snapshot,
    mutated_examples,
    mutated_segments,
    segment,
    segments,
)

pa = pytest.importorskip("pyarrow")
pytestmark = pytest.mark.skipif(native is None, reason="the native engine is not installed")

from kafkawire.logdir import segment_arrays  # noqa: E402 (needs pyarrow)


def as_json(row: rows.Row) -> dict[str, Any]:
    """A row as columns have it: U+FFFD where text holds what is no UTF-8; what has no type as JSON."""
    found = {name: value for name, value in rows.to_dict(row).items() if value is not None}
    if "decoded" in found:
        found["decoded"] = json_bytes(found["decoded"]).decode()
    held: dict[str, Any] = _held(found)
    return held


def _held(value: Any) -> Any:
    if isinstance(value, str):
        return "".join("\ufffd" if "\ud800" <= char <= "\udfff" else char for char in value)
    if isinstance(value, dict):
        return {name: _held(inner) for name, inner in value.items()}
    return [_held(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def of_columns(item: rows.Columns) -> Iterator[dict[str, Any]]:
    table = pa.table(item.arrays)
    assert len(table) == item.length
    table.validate(full=True)
    for row in table.to_pylist():
        yield {name: value for name, value in row.items() if value is not None}


def both(file: Any, options: logdir.Options) -> tuple[list[dict[str, Any]], int]:
    """The rows of a file's columns, after a look at that they are its rows, and how many came as columns."""
    found, many = [], 0
    for item in segment_arrays.columns_of(file, options, encode=json_bytes):
        if isinstance(item, rows.Columns):
            many += item.length
            found += of_columns(item)
        else:
            found.append(as_json(item))
    assert found == list(map(as_json, logdir.rows_of(file, options)))
    return found, many


@pytest.mark.slow
@pytest.mark.parametrize("options", WAYS)
def test_columns_equal_rows_for_examples(options: logdir.Options) -> None:
    total = 0
    for file in logdir.open(EXAMPLES).files:
        total += both(file, options)[1]
    assert total > 40


def test_every_field_of_the_rows_is_known(tmp_path: Path) -> None:
    """Otherwise everything would quietly go the slow way."""
    for options in WAYS:
        assert both(segment(tmp_path, build([Record(b"k")])), options)[1] == 1 + options.deep


@pytest.mark.slow
@given(segments(), st.sampled_from(WAYS))
def test_columns_equal_rows_for_built_segments(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, options: logdir.Options
) -> None:
    both(segment(tmp_path_factory.mktemp("log"), data), options)


@pytest.mark.slow
@given(mutated_segments(), st.sampled_from(WAYS))
def test_columns_equal_rows_for_mutated_segments(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, options: logdir.Options
) -> None:
    both(segment(tmp_path_factory.mktemp("log"), data), options)


@pytest.mark.slow
@pytest.mark.parametrize("options", WAYS)
def test_columns_equal_rows_for_mutated_examples(tmp_path: Path, options: logdir.Options) -> None:
    for name, data in mutated_examples():
        both(segment(tmp_path, data, name), options)


def test_markers_are_in_columns(tmp_path: Path) -> None:
    ids: dict[str, Any] = {"producer_id": 7, "producer_epoch": 1}
    data = b"".join(
        build([Record(b"k", b"v")] * 2, base_offset=3 * i, transactional=True, base_sequence=2 * i, **ids)
        + build_marker("COMMIT" if i % 2 else "ABORT", offset=3 * i + 2, timestamp=5, coordinator_epoch=i, **ids)
        for i in range(100)
    )
    found, many = both(segment(tmp_path, data), WAYS[-1])
    assert many == len(found) == 500
    assert [row["control"] for row in found if "control" in row][::2] == ["ABORT", "COMMIT"] * 50


def test_unreadable_batches_are_rows_between_columns(tmp_path: Path) -> None:
    data = [build([Record(b"k", b"v")] * 3, base_offset=10 * i, codec=codec) for i, codec in enumerate(CODECS)]
    broken = bytearray(build([Record(b"k", b"v" * 99)] * 3, base_offset=90, codec="lz4"))
    broken[61] ^= 1
    after = build([Record(b"\xff", b"\xfe", (Header("\udcff", b"\xfd"),))], base_offset=100)
    items = list(
        segment_arrays.columns_of(
            segment(tmp_path, b"".join(data) + bytes(broken) + after),
            logdir.Options(deep=True, payloads=True, check_crc=False),
            encode=json_bytes,
        )
    )
    assert [type(item).__name__ for item in items] == ["Columns", "BatchRow", "DamageRow", "Columns"]
    assert isinstance(items[-1], rows.Columns)
    assert items[-1].position == len(b"".join(data) + broken)
    (record,) = [row for row in of_columns(items[-1]) if row["kind"] == "record"]
    assert (record["key_base64"], record["value_base64"]) == ("/w==", "/g==")
    assert record["headers"] == [{"key": "\ufffd", "value": None, "value_base64": "/Q=="}]


@pytest.mark.slow
def test_large_batches_are_rows(tmp_path: Path) -> None:
    """They are better not held several times."""
    for codec in ("zstd", "none"):
        large = build([Record(value=bytes(1 << 20))] * 20, codec=codec)
        found = segment_arrays.columns_of(segment(tmp_path, large), WAYS[-1], encode=json_bytes)
        assert {type(item).__name__ for item in found} == {"BatchRow", "RecordRow"}


@pytest.mark.parametrize(
    ("topic", "options"),
    [
        ("__transaction_state-0", logdir.Options(deep=True, payloads=True)),
        ("orders-0", logdir.Options(deep=True, payloads=True, decode_as="__consumer_offsets")),
        ("orders-0", logdir.Options(max_bytes=100)),
        ("orders-0", logdir.Options(deep=True, metadata=False)),
        ("orders-0", logdir.Options(selection=logdir.Selection(key=b"k"))),
    ],
)
def test_selected_or_decoded_batches_are_rows(tmp_path: Path, topic: str, options: logdir.Options) -> None:
    file = segment(tmp_path, build([Record(b"k", b"v")]), topic)
    assert both(file, options)[1] == 0


def test_whole_batches_of_a_selection_are_columns(tmp_path: Path) -> None:
    data = b"".join(build([Record(b"k", b"v", timestamp=place)] * 3, base_offset=3 * place) for place in range(9))
    file = segment(tmp_path, data)
    for selection in (
        logdir.Selection(offsets=(4, 20)),
        logdir.Selection(times=(2, 7)),
        logdir.Selection(control=False),
    ):
        assert both(file, logdir.Options(deep=True, payloads=True, selection=selection))[1] > 0


def test_pieces_are_of_bounded_size(tmp_path: Path) -> None:
    data = b"".join(build([Record(value=bytes(1000))] * 500, base_offset=500 * i, codec="zstd") for i in range(40))
    sizes = [
        sum(array.nbytes for array in item.arrays.values())
        for item in segment_arrays.columns_of(segment(tmp_path, data), WAYS[-1], encode=json_bytes)
        if isinstance(item, rows.Columns)
    ]
    assert sum(sizes) > 20 << 20
    assert max(sizes) < 8 << 20


def test_unknown_field_falls_back_to_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_arrays, "KNOWN", segment_arrays.KNOWN - {"codec"})
    assert both(segment(tmp_path, build([Record(b"k", b"v")])), WAYS[-1])[1] == 0


def test_each_record_of_a_control_batch_has_its_own_name(tmp_path: Path) -> None:
    options = logdir.Options(deep=True)
    file, named = controls_in_a_snapshot(tmp_path, options)
    assert [row["control"] for row in both(file, options)[0] if row["kind"] == "record"] == named
