"""Exchanges as Arrow columns: the values, types and order of rows."""

from __future__ import annotations

import random
import subprocess
import sys
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")

import pyarrow as pa

import kafkawire
from kafkawire import capture, rows
from kafkawire.capture import CapturedExchange, ColumnsOfExchanges
from kafkawire.capture.exchange import ReadOptions
from kafkawire.capture.reader import read_with
from kafkawire.cli.formatting import json_bytes
from kafkawire.messages import MetadataRequest, MetadataResponse, SaslAuthenticateRequest
from kafkawire.rows import arrow
from tests.capture.test_capture_native_tracker import CLIENTS, faults, in_python, talkative
from tests.capture.wiretap import Conversation, answer, ask, ethernet, pcap, question

pytestmark = pytest.mark.skipif(kafkawire.backend == "python", reason="the native engine is not in use")

EXAMPLE = Path(__file__).parents[2] / "examples" / "capture" / "transactions.pcap"


def tables(data: bytes, encode: Any = arrow.json_text, **options: Any) -> tuple[Any, list[Any]]:
    """All exchanges as one table, and the lengths of its pieces."""
    found = read_with(BytesIO(data), columns=encode, **options)
    schema = arrow.schema([rows.Exchange], () if options.get("body") else ("request", "response"))
    batches: list[Any] = []
    for each in found.found():
        if isinstance(each, CapturedExchange):
            batches += arrow.batches([each.row], schema, encode)
        else:
            assert isinstance(each, ColumnsOfExchanges)
            batches.append(pa.RecordBatch.from_arrays([each.arrays[name] for name in schema.names], schema=schema))
    table = pa.Table.from_batches(batches, schema)
    table.validate(full=True)
    return (table, found.summary), [len(batch) for batch in batches]


def alike(data: bytes, **options: Any) -> Any:
    """Asserts that columns are the rows of Python's tracker; returns them."""
    table = None
    for encode in (arrow.json_text, json_bytes):
        (table, summary), _ = tables(data, encode, text=True, **options)
        expected = in_python(data, ReadOptions(**options))
        batches = list(arrow.batches(expected, table.schema, encode))
        assert table.equals(pa.Table.from_batches(batches, table.schema))
        assert summary == expected.summary
    return table


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"body": True}, {"body": True, "records": True}], ids=str)
@pytest.mark.parametrize("packets", [talkative(), CLIENTS], ids=["talkative", "clients"])
def test_columns_are_the_rows(packets: list[bytes], options: dict[str, Any]) -> None:
    assert len(alike(pcap(packets), **options)) > 30
    alike(pcap(packets[::-1]), **options)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_columns_of_faulty_captures_are_the_rows(seed: int) -> None:
    numbers = random.Random(seed)
    packets = talkative() if seed % 2 else CLIENTS
    begin = numbers.randrange(len(packets) // 2)
    data = pcap(list(faults(packets[begin : begin + 350], numbers)))
    damaged = bytearray(data)
    for _ in range(seed % 3):
        at = numbers.randrange(24, len(data))
        damaged[at : at + 40] = numbers.randbytes(40)
    alike(bytes(damaged), body=True)


def test_text_beyond_ascii_and_secrets_are_as_in_rows() -> None:
    talk = Conversation()
    question(talk, 1)
    answer(talk, 1)
    talk.request(SaslAuthenticateRequest(auth_bytes=b"\0me\0hunter2"), version=2, correlation_id=2, client_id="é\x7f")
    talk.request(MetadataRequest(topics=None), version=12, correlation_id=3, client_id="\u202eclient")
    talk.response(MetadataResponse(cluster_id="ü\x7f\u202e"), version=12, correlation_id=3)
    table = alike(pcap(map(ethernet, talk.packets)), body=True)
    assert "hunter2" not in str(table.to_pylist())
    assert "ü" in table["response"][2].as_py()


def test_batches_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow, "BATCH_ROWS", 10)
    talk = Conversation()
    for number in range(95):
        ask(talk, number)
    data = pcap(map(ethernet, talk.packets))
    (table, _), lengths = tables(data)
    assert len(table) == 95
    assert lengths == [10] * 9 + [5]
    monkeypatch.setattr(arrow, "BATCH_ROWS", 1000)
    monkeypatch.setattr(arrow, "BATCH_BYTES", 4000)
    _, lengths = tables(data, body=True)
    assert 1 < max(lengths) <= 40


def test_an_exchange_that_python_decodes_does_not_split_a_batch() -> None:
    """ApiVersions 99 is one, which a client tries first."""
    (_, summary), lengths = tables(pcap(CLIENTS), body=True)
    assert lengths == [summary.exchanges]


def test_columns_of_a_selection_hold_what_is_selected() -> None:
    path = Path(__file__).parents[2] / "examples" / "capture" / "transactions.pcap"
    for chosen in (capture.ExchangeSelection(apis=("Produce",)), capture.ExchangeSelection(topics=("orders",))):
        wanted = capture.read(path, selection=chosen)
        numbers = [row.packet for row in wanted]
        read = read_with(path, columns=arrow.json_text, selection=chosen)
        (found,) = read.found()
        assert isinstance(found, ColumnsOfExchanges)
        assert found.arrays["packet"].to_pylist() == numbers != []
        assert read.summary == wanted.summary


def test_parquet_of_a_capture_imports_no_pandas(tmp_path: Path) -> None:
    # Where pandas is installed, pyarrow imports it for the first scalar: a third of a second.
    words = ["capture", str(EXAMPLE), "-o", str(tmp_path / "rows.parquet")]
    script = f"import sys; from kafkawire.cli import main; main({words!r}); sys.exit('pandas' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], stderr=subprocess.DEVNULL, check=False).returncode == 0
