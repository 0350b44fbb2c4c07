"""`--schemas`: commands with messages of one's own, from a folder of schemas or from a generated package."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import kafkawire
from kafkawire import frames
from kafkawire.codegen import generate
from tests.cli.runner import Run
from tests.cli.test_cli_capture import pcap
from tests.own_schemas import API_KEY, write


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write(tmp_path / "my")


@pytest.fixture
def trace(tmp_path: Path, folder: Path) -> Path:
    mine = kafkawire.load_schemas(folder)
    ping, pong = mine.PingRequest(text="a"), mine.PingResponse(text="b")
    request = frames.encode_request(ping, version=1, correlation_id=1)
    talk = [(request, frames.encode_response(pong, version=1, correlation_id=1))]
    path = tmp_path / "trace.pcap"
    path.write_bytes(pcap(talk))
    return path


def rows(run: Run, *arguments: object) -> list[dict[str, Any]]:
    result = run("capture", *arguments)
    assert result.code == 0, result.err
    return [json.loads(line) for line in result.out.splitlines()]


def test_capture_decodes_messages_of_a_folder(run: Run, folder: Path, trace: Path) -> None:
    (row,) = rows(run, trace, "--body", "--schemas", folder)
    assert (row["api"], row["api_key"], row["request"], row["response"]) == (
        "Ping", API_KEY, {"text": "a"}, {"text": "b"},
    )  # fmt: skip
    assert run("capture", trace).code == 1  # no Kafka is recognised


def test_capture_chooses_apis_of_the_folder(run: Run, folder: Path, trace: Path) -> None:
    assert len(rows(run, trace, "--api", "ping", "--schemas", folder)) == 1
    assert rows(run, trace, "--api", "Produce", "--schemas", folder) == []
    refused = run("capture", trace, "--api", "Pint", "--schemas", folder)
    assert (refused.code, "near: Ping" in refused.err) == (2, True)


def test_capture_writes_frames_that_decode_reads(run: Run, folder: Path, trace: Path, tmp_path: Path) -> None:
    rows(run, trace, "--schemas", folder, "--frames-out", tmp_path / "frames")
    shown = run("decode", "--frame", "--schemas", folder, tmp_path / "frames" / "000001-Ping-v1.req.bin")
    assert json.loads(shown.out)["body"] == {"text": "a"}


@pytest.mark.parametrize("named", ["folder", "name"])
def test_takes_a_generated_package(
    run: Run, folder: Path, trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    package = f"codecs_by_{named}"
    generate.write(generate.package_files(generate.load(folder), "Mine."), tmp_path / package)
    monkeypatch.chdir(tmp_path)
    (row,) = rows(run, trace, "--body", "--schemas", package if named == "name" else tmp_path / package)
    assert row["response"] == {"text": "b"}


@pytest.mark.parametrize(
    ("schemas", "problem"),
    [
        ("no.package", "neither a folder of schemas nor a package that can be imported: No module named 'no'"),
        ("json", "json is no package of messages"),
        ("raises", "raises is neither a folder of schemas nor a package that can be imported: a\\x1bb"),
        ("no/folder", "the folder does not exist"),
    ],
)
def test_refuses_other_packages(
    run: Run, trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, schemas: str, problem: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("raises.py").write_text("raise RuntimeError('a\\x1bb')")
    result = run("capture", trace, "--schemas", schemas)
    assert result.code in (1, 2)
    assert problem in " ".join(result.err.split())


def test_decode_of_an_unknown_api_key_names_the_option(run: Run, folder: Path) -> None:
    frame = frames.encode_request(kafkawire.load_schemas(folder).PingRequest(), version=0, correlation_id=1).hex()
    hinted = run("decode", "--frame", frame)
    assert (hinted.code, hinted.err) == (
        1,
        f"error: no request is known with api key {API_KEY}; for a message of your own, give its schemas with "
        "--schemas\n",
    )
    known = run("decode", "--frame", "0000000000000001")
    assert known.code == 1
    assert "--schemas" not in known.err
