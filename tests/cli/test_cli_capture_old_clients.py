"""Which clients of a capture break at a release (KIP-896): client id, software, address, request and versions."""

from __future__ import annotations

import json
from pathlib import Path

from kafkawire import versions
from kafkawire.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FetchRequest,
    FetchResponse,
    MetadataRequest,
    MetadataResponse,
)
from tests.capture.wiretap import Conversation, ethernet, pcap
from tests.cli.runner import Run
from tests.golden import check

OLD, NEW = "2.8", "4.0"


def capture_of(path: Path, *, fetch: int, software: bool = True) -> str:
    """A client that names its software and fetches in a version."""
    talk = Conversation()
    if software:
        named = ApiVersionsRequest(client_software_name="apache-kafka-java", client_software_version="1.0.0")
        talk.request(named, version=3, correlation_id=1)
        talk.response(ApiVersionsResponse(), version=3, correlation_id=1)
    for number in (2, 3):
        talk.request(FetchRequest(), version=fetch, correlation_id=number)
        talk.response(FetchResponse(), version=fetch, correlation_id=number)
    talk.request(MetadataRequest(), version=12, correlation_id=4)
    talk.response(MetadataResponse(), version=12, correlation_id=4)
    path.write_bytes(pcap(map(ethernet, talk.packets)))
    return str(path)


def test_versions_that_go_are_named_with_their_client(run: Run, tmp_path: Path) -> None:
    """The reference is the table of releases itself: the lowest version of Fetch that 4.0 speaks."""
    lowest = versions.of(NEW)[1].start
    assert lowest > versions.of(OLD)[1].start
    result = run("capture", capture_of(tmp_path / "a.pcap", fetch=lowest - 1), "--breaks-at", NEW)
    assert result.code == 3
    (row,) = [json.loads(line) for line in result.text.splitlines()]
    assert (row["api"], row["version"], row["speaks"], row["count"]) == (
        "Fetch", lowest - 1, f"{lowest}-{versions.of(NEW)[1].stop - 1}", 2,
    )  # fmt: skip
    assert (row["software_name"], row["software_version"], row["release"]) == ("apache-kafka-java", "1.0.0", NEW)
    assert ":" not in row["host"]
    same = run("capture", capture_of(tmp_path / "a.pcap", fetch=lowest - 1), "--breaks-at", OLD)
    assert (same.code, same.out) == (0, b"")
    fine = run("capture", capture_of(tmp_path / "b.pcap", fetch=lowest), "--breaks-at", NEW)
    assert (fine.code, fine.out) == (0, b"")


def test_client_without_software_is_a_client_all_the_same(run: Run, tmp_path: Path) -> None:
    lowest = versions.of(NEW)[1].start
    path = capture_of(tmp_path / "a.pcap", fetch=lowest - 1, software=False)
    table = run("capture", path, "--breaks-at", NEW, "--format", "table")
    assert table.code == 3
    check("capture/old_clients.txt", table.text)
    assert json.loads(run("capture", path, "--breaks-at", NEW).text)["software_name"] is None


def test_options_that_do_not_fit_are_refused(run: Run, tmp_path: Path) -> None:
    path = capture_of(tmp_path / "a.pcap", fetch=4)
    for wrong in (("--stats",), ("--timeline", "x"), ("--body",), ("--follow",), ("--format", "otlp-json")):
        assert run("capture", path, "--breaks-at", NEW, *wrong).code == 2, wrong
    assert run("capture", path, "--breaks-at", "99").code == 2
