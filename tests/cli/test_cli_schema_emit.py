"""`kafkawire schema emit`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.runner import Run


@pytest.mark.slow
def test_emits_a_plugin_of_kafkas_messages(run: Run, tmp_path: Path) -> None:
    plugin = tmp_path / "kafkawire.lua"
    done = run("schema", "emit", "wireshark", "-o", str(plugin))
    assert done.code == 0, done.err
    assert done.text == f"{plugin}: 288 messages\n"
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


@pytest.mark.slow
def test_rejects_invalid_options(run: Run, tmp_path: Path) -> None:
    assert run("schema", "emit", "perl").code == 2
    done = run("schema", "emit", "wireshark", "-o", str(tmp_path / "no" / "folder.lua"))
    assert done.code == 1
    assert len(done.err.splitlines()) == 1
    (tmp_path / "Bad.json").write_text("{")
    assert run("schema", "emit", "wireshark", "--schemas", str(tmp_path)).code == 1
