"""Damaged captures: expert infos, and never an error of the script's (`tshark.run` looks for them)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kafkawire import capture
from kafkawire.messages import REGISTRY, FetchRequest, MetadataRequest
from tests.capture.wiretap import Conversation, ethernet, pcap
from tests.wireshark import conversations, mutants, tshark

pytestmark = [tshark.needs_tshark, pytest.mark.slow]

MUTANTS = 40 if os.environ.get("DISSECTOR_FULL") else 4


@pytest.mark.parametrize("number", range(MUTANTS))
def test_damaged_payloads(tmp_path: Path, number: int) -> None:
    plugin = tshark.write_plugin(tmp_path)
    share = (0.3, 0.8)[number // 2 % 2]
    path = mutants.write(tmp_path / "mutant.pcap", mutants.mutant(tshark.PCAP.read_bytes(), number, share))
    arguments = ["-V", "-O", "kafkawire", *(["-2"] if number % 2 else [])]
    assert "Expert Info (Error/Malformed)" in tshark.run(plugin, path, *arguments)


def test_damage_in_every_message(tmp_path: Path) -> None:
    plugin = tshark.write_plugin(tmp_path)
    conversations.write_conversation(tmp_path / "sound.pcap", 1, 1 if MUTANTS > 4 else 40)
    for number in range(MUTANTS // 4):
        damaged = mutants.mutant((tmp_path / "sound.pcap").read_bytes(), number, 0.8)
        path = mutants.write(tmp_path / "mutant.pcap", damaged)
        assert "kafkawire.malformed" in tshark.run(plugin, path, "-T", "pdml", "-J", "kafkawire")


@pytest.mark.parametrize("snap_length", [68, 90, 200])
def test_packets_cut_by_the_capture(tmp_path: Path, snap_length: int) -> None:
    plugin = tshark.write_plugin(tmp_path)
    path = mutants.write(tmp_path / "cut.pcap", mutants.truncated(tshark.PCAP.read_bytes(), snap_length))
    shown = tshark.run(plugin, path, "-V", "-O", "kafkawire")
    assert ("Expert Info (Warning/Undecoded)" in shown) == (snap_length > 80)


def test_degrees_are_those_of_captures(tmp_path: Path) -> None:
    """Whole messages, with bytes left over, up to a fault, and of apis and versions that are not known yet."""
    plugin = tshark.write_plugin(tmp_path)
    talk = Conversation()

    def send(sender: int, head: bytes, body: bytes) -> None:
        talk.send(sender, (len(head) + len(body)).to_bytes(4, "big") + head + body)

    def request(key: int, version: int, number: int, body: bytes, tags: bytes = b"") -> None:
        head = key.to_bytes(2, "big") + version.to_bytes(2, "big") + number.to_bytes(4, "big")
        send(0, head + b"\0\2me" + tags, body)

    request(18, 0, 1, b"\0\0\0\0")  # ApiVersions of old librdkafka: four bytes too many
    send(1, (1).to_bytes(4, "big"), b"\0\0" + bytes(4))
    request(36, 1, 2, b"\0\0\0\3abc")
    send(1, (2).to_bytes(4, "big"), b"\0\x3a\0\3bad\xff\xff\xff\xff" + bytes(8))  # null, where Kafka has bytes
    newer = [(1, FetchRequest.spec.valid_versions[-1] + 1), (max(REGISTRY.requests()) + 1, 0)]
    for number, (key, version) in enumerate(newer, 3):
        request(key, version, number, b"new", b"\0")
        send(1, number.to_bytes(4, "big"), b"\0new")
    path = mutants.write(tmp_path / "degrees.pcap", pcap(map(ethernet, talk.packets)))
    shown = tshark.run(
        plugin, path, "-Y", "kafkawire", "-T", "fields", "-e", "kafkawire.api", "-e", "kafkawire.degree",
        "-e", "kafkawire.client_id", "-e", "kafkawire.undecoded",
    )  # fmt: skip
    assert [line.split("\t") for line in shown.splitlines()] == [
        ["ApiVersions", "bytes left over", "me", "4"],
        ["ApiVersions", "whole", "", ""],
        ["SaslAuthenticate", "whole", "me", ""],
        ["SaslAuthenticate", "partial", "", "12"],
        ["Fetch", "header only", "me", "3"],
        ["Fetch", "header only", "", "3"],
        [f"UNKNOWN_{newer[1][0]}", "header only", "me", "4"],
        [f"UNKNOWN_{newer[1][0]}", "header only", "", "4"],
    ]
    infos = tshark.run(plugin, path, "-V", "-O", "kafkawire")
    assert "4 bytes left over behind the message" in infos
    assert "SASL_AUTHENTICATION_FAILED" in infos
    # The same frames as rows.
    rows = list(capture.read(path, body=True))
    assert [(row.note, row.problem is None) for row in rows] == [
        ("request: 4 bytes left over behind the message", True),
        (None, False),
        (None, False),
        (None, False),
    ]
    assert rows[1].errors == {"SASL_AUTHENTICATION_FAILED": 1}


def test_more_than_a_tree_can_hold(tmp_path: Path) -> None:
    """An array of half a million numbers: Wireshark itself would end with an error."""
    plugin = tshark.write_plugin(tmp_path)
    talk = Conversation(mss=60_000)
    talk.request(MetadataRequest(topics=None), version=1, correlation_id=1)
    body = (0).to_bytes(4, "big") + b"\0\0\0\1" + (500_000).to_bytes(4, "big") + bytes(9 * 500_000)
    talk.send(1, (len(body) + 4).to_bytes(4, "big") + b"\0\0\0\1" + body)
    path = mutants.write(tmp_path / "large.pcap", pcap(map(ethernet, talk.packets)))
    shown = tshark.run(plugin, path, "-V", "-O", "kafkawire", "-Y", "kafkawire.too_much")
    assert "is not shown: there is too much in this packet" in shown
    assert "Topics: 500000" in shown
