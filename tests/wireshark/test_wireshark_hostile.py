"""Damaged captures: expert infos, and never an error of the script's (`tshark.run` looks for them)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kafkawire.messages import MetadataRequest
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
