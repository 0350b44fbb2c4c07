"""`kafkawire schema emit`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from kafkawire.records.inside_bytes import CONTENTS
from tests.cli.runner import Run


@pytest.mark.slow
def test_emits_a_plugin_of_kafkas_messages(run: Run, tmp_path: Path) -> None:
    plugin = tmp_path / "kafkawire.lua"
    done = run("schema", "emit", "wireshark", "-o", str(plugin))
    assert done.code == 0, done.err
    assert done.text == f"{plugin}: 298 messages\n"
    text = plugin.read_text("utf-8")
    assert '"describe_producers.producer_id"' in text
    printed = run("schema", "emit", "wireshark")
    assert printed.text == text


@pytest.mark.slow
def test_emits_a_plugin_of_schemas_of_a_folder(run: Run, tmp_path: Path) -> None:
    (tmp_path / "rpc").mkdir()
    schema = {"name": "PingRequest", "type": "request", "apiKey": 200, "validVersions": "0", "flexibleVersions": "0+"}
    (tmp_path / "rpc" / "PingRequest.json").write_text(json.dumps(schema | {"fields": []}))
    text = run("schema", "emit", "wireshark", "--schemas", str(tmp_path)).text
    assert 'name = "PingRequest"' in text
    assert 'name = "RequestHeader"' in text, "frames need it"
    assert 'name = "EndTxnMarker"' in text, "control records need it"
    assert "FetchRequest" not in text


PING = {"name": "PingRequest", "type": "request", "apiKey": 200, "validVersions": "0-1", "flexibleVersions": "1+"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "file", "count", "shipped", "own"),
    [
        ("kaitai", "fetch_request.ksy", 298, 302, {"ping_request.ksy", "kafka_request.ksy", "request_header.ksy"}),
        (
            "jsonschema",
            "FetchRequest.v12.schema.json",
            288,
            866,
            {"PingRequest.v0.schema.json", "PingRequest.v1.schema.json"},
        ),
    ],
)
def test_emits_a_folder_of_files(
    run: Run, tmp_path: Path, target: str, file: str, count: int, shipped: int, own: set[str]
) -> None:
    out, mine = tmp_path / "out", tmp_path / "mine"
    done = run("schema", "emit", target, "-o", str(out))
    assert done.text == f"{out}: {count} messages, {shipped} files, {shipped} changed\n", done.err
    assert (out / file).is_file()
    if target == "kaitai":
        shown = " ".join((out / "join_group_request.ksy").read_text("utf-8").split())
        assert "with protocol type connect ConnectWorkerState behind its int16 version" in shown
        assert (out / "connect_worker_state.ksy").is_file()
    assert run("schema", "emit", target, "-o", str(out)).text.endswith(" 0 changed\n")
    mine.mkdir()
    (mine / "PingRequest.json").write_text(json.dumps(PING | {"fields": []}))
    (out / "notes.txt").write_text("mine")
    assert run("schema", "emit", target, "--schemas", str(mine), "-o", str(out)).code == 0
    names = {path.name for path in out.iterdir()}
    assert own <= names, "files of messages that are there no more are removed"
    assert file not in names
    assert "notes.txt" in names
    assert not any("Marker" in name or "marker" in name for name in names), "no control records"


@pytest.mark.slow
@pytest.mark.parametrize("target", ["kaitai", "jsonschema"])
def test_rejects_folders_that_would_lose_files(run: Run, tmp_path: Path, target: str) -> None:
    (tmp_path / "PingRequest.json").write_text(json.dumps(PING | {"fields": []}))
    emit = ("schema", "emit", target, "--schemas", str(tmp_path))
    for out in ((), ("-o", "-"), ("-o", str(tmp_path)), ("-o", str(tmp_path / "inside"))):
        assert run(*emit, *out).code == 2, out
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["PingRequest.json"]


@pytest.mark.slow
def test_rejects_invalid_options(run: Run, tmp_path: Path) -> None:
    assert run("schema", "emit", "perl").code == 2
    done = run("schema", "emit", "wireshark", "-o", str(tmp_path / "no" / "folder.lua"))
    assert done.code == 1
    assert len(done.err.splitlines()) == 1
    (tmp_path / "Bad.json").write_text("{")
    assert run("schema", "emit", "wireshark", "--schemas", str(tmp_path)).code == 1


@pytest.mark.slow
def test_emits_pages_of_schemas_of_a_folder(run: Run, tmp_path: Path) -> None:
    schemas, pages = tmp_path / "my", tmp_path / "pages"
    (schemas / "rpc").mkdir(parents=True)
    schema = {"name": "PingRequest", "type": "request", "apiKey": 200, "validVersions": "0", "flexibleVersions": "0+"}
    fields = [{"name": "Note", "type": "string", "versions": "0+", "about": "What the sender says."}]
    (schemas / "rpc" / "PingRequest.json").write_text(json.dumps(schema | {"fields": fields}))
    arguments = ("schema", "emit", "docs", "--schemas", schemas, "-o", pages)
    assert run(*arguments).text == f"{pages}: 1 message, 5 files, 5 changed\n"
    text = (pages / "PingRequest.md").read_text("utf-8")
    assert "| `Note` | string | 0 | What the sender says. |" in text
    assert '"note": ""' in text, "an example"
    assert "[PingRequest](PingRequest.md)" in (pages / "index.md").read_text("utf-8")

    (pages / "PingRequest.md").rename(pages / "OldRequest.md")
    (pages / "mine.md").write_text("# Mine")
    assert run(*arguments).text.endswith("5 files, 2 changed\n")
    assert not (pages / "OldRequest.md").exists()
    assert (pages / "mine.md").read_text() == "# Mine"
    (pages / "index.md").write_text("# Mine")
    refused = run(*arguments)
    assert refused.code == 1
    assert "index.md" in refused.err


def test_pages_need_a_folder(run: Run) -> None:
    done = run("schema", "emit", "docs")
    assert done.code == 2
    assert "docs needs a folder" in done.err


@pytest.mark.slow
def test_every_field_whose_bytes_hold_a_message_says_so_in_kaitai(run: Run, tmp_path: Path) -> None:
    """By the table that captures read: a sentence for each of its fields, and for no other."""
    assert run("schema", "emit", "kaitai", "-o", str(tmp_path)).code == 0
    found = {path.stem: len(re.findall(r"\bInside:\s", path.read_text("utf-8"))) for path in tmp_path.glob("*.ksy")}
    named = {re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower(): len(fields) for name, fields in CONTENTS.items()}
    assert {name: count for name, count in found.items() if count} == named
    text = " ".join((tmp_path / "join_group_request.ksy").read_text("utf-8").split())
    assert "with protocol type consumer ConsumerProtocolSubscription behind its int16 version" in text
