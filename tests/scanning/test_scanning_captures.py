"""Captures as Arrow streams: the exchanges of `capture.read`, with bodies as structs."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")

import kafkawire
from kafkawire import capture
from kafkawire.errors import ScanError
from kafkawire.messages import REGISTRY
from kafkawire.scanning.captures import COLUMNS, is_capture
from kafkawire.wire.columns import objects, shape
from kafkawire.wire.columns.schema import ARROW
from tests.docs.guide import ROOT

EXAMPLE = ROOT / "examples" / "capture" / "transactions.pcap"
EXCHANGES = [each.row for each in capture.read(EXAMPLE).matched()]
APIS = sorted({str(row.api) for row in EXCHANGES})


def read(*source: Any, **options: Any) -> list[dict[str, Any]]:
    table = kafkawire.scan(*source, **options).reader().read_all()
    table.validate(full=True)
    found: list[dict[str, Any]] = table.to_pylist()
    return found


def as_scanned(row: Any) -> dict[str, Any]:
    found = {name: getattr(row, field or name) for name, (_, field) in COLUMNS.items()}
    return found | {"errors": list(row.errors.items())}


def plain(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Times as nanoseconds."""
    times = ("time", "response_time")
    return [row | {name: None if row[name] is None else row[name].value for name in times} for row in rows]


def test_exchanges_are_those_of_capture() -> None:
    assert plain(read(EXAMPLE)) == [as_scanned(row) for row in EXCHANGES]
    assert {row["file"] for row in read(EXAMPLE, columns=["file"])} == {str(EXAMPLE)}


def test_a_selection_gives_the_same_rows() -> None:
    found = plain(read(EXAMPLE, apis=["Produce", "endtxn"]))
    assert found == [as_scanned(row) for row in EXCHANGES if row.api in ("Produce", "EndTxn")]
    middle = sorted(row.time_ns or 0 for row in EXCHANGES)[len(EXCHANGES) // 2] // 1_000_000
    found = plain(read(EXAMPLE, times=(middle, None)))
    assert found == [as_scanned(row) for row in EXCHANGES if (row.time_ns or 0) >= middle * 1_000_000]
    orders = read(EXAMPLE, topics="orders")
    assert 0 < len(orders) < len(EXCHANGES)


def bodies(api: str) -> Iterator[tuple[Any, Any]]:
    """The bodies of an api, made object by object."""
    for each in capture.read(EXAMPLE, keep=True, selection=capture.ExchangeSelection(apis=(api,))).matched():
        made = []
        for message in (each.request, each.response):
            cls = type(message)
            made.append(None if message is None else objects.row_maker(shape(cls), ARROW)(message))  # type: ignore[arg-type]
        yield made[0], made[1]


@pytest.mark.slow
@pytest.mark.parametrize("api", APIS)
def test_bodies_are_structs(api: str) -> None:
    found = read(EXAMPLE, apis=api, show_secrets=True)
    assert [(row["request"], row["response"]) for row in found] == [
        (listed(request), listed(response)) for request, response in bodies(api)
    ]
    assert any(row["request"] for row in found)


def listed(value: Any) -> Any:
    """As Arrow gives it: lists for tuples."""
    if isinstance(value, dict):
        return {name: listed(one) for name, one in value.items()}
    return [listed(one) for one in value] if isinstance(value, (list, tuple)) else value


def test_bodies_with_secrets_are_hidden_and_a_note_says_so() -> None:
    (row,) = read(EXAMPLE, apis="CreateTopics")[:1]
    assert (row["request"], row["response"]) == (None, None)
    assert row["note"].startswith("request: may contain secrets, shown with show_secrets; response: may contain")
    (shown,) = read(EXAMPLE, apis="CreateTopics", show_secrets=True)[:1]
    assert shown["request"]["topics"]


def test_what_is_not_for_captures_is_refused() -> None:
    with pytest.raises(ValueError, match="isolation_level is not for captures"):
        kafkawire.scan(EXAMPLE, isolation_level="read_committed")
    with pytest.raises(ValueError, match="offsets is not for captures"):
        kafkawire.scan(EXAMPLE, offsets=(0, 1))
    with pytest.raises(LookupError, match="there is no api 'Produse'"):
        kafkawire.scan(EXAMPLE, apis="Produse")
    with pytest.raises(LookupError, match="the column request needs apis with one name"):
        kafkawire.scan(EXAMPLE, columns=["request"])
    with pytest.raises(LookupError, match="no column 'offset'; the columns are time, response_time"):
        kafkawire.scan(EXAMPLE, columns=["offset"])
    with pytest.raises(ValueError, match="apis is not for records"):
        kafkawire.scan(ROOT / "examples" / "kafka-logs" / "one-node" / "broker-1", apis="Produce")
    with pytest.raises(ValueError, match=r"transactions\.pcap is a capture, .* is none"):
        kafkawire.scan(EXAMPLE, ROOT / "examples" / "kafka-logs")


def test_files_patterns_and_directories_are_captures(tmp_path: Path) -> None:
    shutil.copy(EXAMPLE, tmp_path / "a.pcap")
    assert len(read(tmp_path / "*.pcap")) == len(read(tmp_path)) == len(EXCHANGES)
    assert not is_capture(str(ROOT / "examples" / "kafka-logs"))


def test_damage_is_an_error_behind_the_last_row(tmp_path: Path) -> None:
    data = EXAMPLE.read_bytes()
    (tmp_path / "cut.pcap").write_bytes(data[: len(data) // 2])
    stream = kafkawire.scan(tmp_path / "cut.pcap")
    seen: list[int] = []
    with pytest.raises(ScanError, match="rows were read"):
        seen.extend(batch.num_rows for batch in stream)
    assert sum(seen) > 50
    for options in ({}, {"apis": "Produce"}, {"topics": "orders"}):
        collected = kafkawire.scan(tmp_path / "cut.pcap", errors="collect", **options)  # type: ignore[arg-type]
        list(collected)
        assert {problem.reason for problem in collected.problems} >= {"damaged"}
    (tmp_path / "empty.pcap").write_bytes(data[:24])
    assert read(tmp_path / "empty.pcap") == []
    (tmp_path / "other.pcap").write_bytes(b"\xd4\xc3\xb2\xa1")
    with pytest.raises(ScanError, match="unreadable"):
        read(tmp_path / "other.pcap")


def test_queries_of_polars_read_what_they_need() -> None:
    pl = pytest.importorskip("polars")
    from datetime import UTC, datetime

    stream = kafkawire.scan(EXAMPLE)
    frame: Any = pl.DataFrame(stream)
    at = datetime.fromtimestamp(EXCHANGES[100].time_ns / 1e9, UTC)  # type: ignore[operator]
    for wanted in (
        pl.col("api") == "Produce",
        pl.col("api").is_in(["Fetch", "EndTxn"]) & (pl.col("connection") > 2),
        pl.col("connection") == 3,
        (pl.col("time") >= at) & (pl.col("latency_ms") > 1),
        pl.col("time") < at,
        pl.col("time") == frame["time"][5],
    ):
        found = stream.lazy().filter(wanted).select("api", "time", "packet").collect()
        assert found.equals(frame.filter(wanted).select("api", "time", "packet"))


def test_every_api_has_a_name_in_the_dictionary() -> None:
    (batch,) = kafkawire.scan(EXAMPLE, columns=["api"])
    known = set(batch["api"].dictionary.to_pylist())
    assert {one.name.removesuffix("Request") for one in REGISTRY.entries.values() if one.kind == "request"} <= known


def test_a_key_log_decrypts(tmp_path: Path) -> None:
    pytest.importorskip("cryptography")
    import ssl

    from tests.capture.test_capture_tls import MESSAGES, packets
    from tests.capture.tls_traffic import Endpoints
    from tests.capture.wiretap import pcap

    ends = Endpoints(tmp_path, ssl.TLSVersion.TLSv1_3)
    path = tmp_path / "trace.pcap"
    path.write_bytes(pcap(packets(ends.connect(MESSAGES).sent)))
    assert {row["api"] for row in read(path, keylog=ends.key_log)} == {"ApiVersions", "Metadata", "EndTxn"}
    with pytest.raises(ScanError, match="no Kafka was recognised"):
        read(path)
    with pytest.raises(FileNotFoundError):
        kafkawire.scan(path, keylog=tmp_path / "nowhere")
