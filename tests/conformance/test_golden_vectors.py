"""The committed vectors, which Kafka's own classes made: they hold where there is no Java."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafkawire import frames, lookup, to_json
from kafkawire.errors import DecodeError, EncodeError
from kafkawire.messages import REGISTRY
from tools.conformance.comparing import difference
from tools.conformance.json_form import as_kafka, today

pytestmark = pytest.mark.slow

GOLDEN = Path(__file__).parents[1] / "golden" / "vectors"
NEWEST = "4.4.0"
RELEASES = (NEWEST, "3.9.1")

Line = dict[str, Any]


def lines(release: str, name: str) -> Iterator[Line]:
    for line in (GOLDEN / release / f"{name}.jsonl").read_text(encoding="utf-8").split("\n"):
        if line:
            yield json.loads(line)


@pytest.mark.parametrize("release", RELEASES)
def test_what_java_wrote_is_read_and_written_again(release: str) -> None:
    older = release != NEWEST
    for line in lines(release, "messages"):
        cls, version, data = lookup(line["message"]), line["version"], bytes.fromhex(line["bytes"])
        value = cls.decode(data, version, strict=True)
        assert difference(value, line["value"], version, older=older) is None, line
        assert value.encode(version) == data, line
        form = as_kafka(value, to_json(value, version))
        assert form == (today(value, line["json"], form, version) if older else line["json"]), line


@pytest.mark.parametrize("release", RELEASES)
def test_what_java_refuses_is_refused_and_the_rest_read_alike(release: str) -> None:
    for line in lines(release, "inputs"):
        cls, version, data = lookup(line["message"]), line["version"], bytes.fromhex(line["bytes"])
        if not line["accepted"]:
            with pytest.raises(DecodeError):
                cls.decode_from(data, version)
            continue
        value, end = cls.decode_from(data, version)
        assert end == line["consumed"], line
        if line["written"] is None:
            assert difference(value, line["value"], version, older=release != NEWEST) is None, line
            with pytest.raises(EncodeError):
                value.encode(version)
        elif "efbfbd" not in line["written"]:
            assert value.encode(version).hex() == line["written"], line
        if end < len(data):
            with pytest.raises(DecodeError):
                cls.decode(data, version)


@pytest.mark.parametrize("release", RELEASES)
def test_header_versions(release: str) -> None:
    found = list(lines(release, "headers"))
    for line in found:
        for kind, rule in (("request", frames.request_header_version), ("response", frames.response_header_version)):
            message = lookup(api_key=line["apiKey"], kind=kind, family="rpc")
            assert rule(message, line["version"]) == line[kind], (message.spec.name, line)
    assert found


def test_the_set_covers_every_message_and_version_of_ours() -> None:
    covered = {
        (lookup(line["message"]).spec.name, line["version"])
        for release in ("4.4.0", "3.9.1")
        for line in lines(release, "messages")
    }
    ours = {(entry.name, version) for entry in REGISTRY for version in entry.valid_versions}
    assert ours == covered


def test_the_index_counts_the_lines() -> None:
    index = json.loads((GOLDEN / "index.json").read_text(encoding="utf-8"))
    for name, count in index["lines"].items():
        release, file = name.split("/")
        assert sum(1 for _ in lines(release, file.removesuffix(".jsonl"))) == count


def test_no_message_of_kafka_needs_the_allocation_guard() -> None:
    """docs/conformance.md says so: a layout that could allocate much from few bytes has no generated decoder."""
    guarded = [
        (entry.name, version)
        for entry in REGISTRY
        for version, decoder in REGISTRY.load(entry).codec.decoders.items()
        if decoder is None
    ]
    assert guarded == []
