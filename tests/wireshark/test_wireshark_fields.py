"""What tshark shows through the plugin, field by field, beside our own JSON form of the same message."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import kafkawire
from kafkawire import capture
from kafkawire.capture.message_json import body_json
from tests.wireshark import conversations, tshark

pytestmark = [tshark.needs_tshark, pytest.mark.slow]

#: `make dissector-test` looks at every version; by default only some are.
FULL = bool(os.environ.get("DISSECTOR_FULL"))


def test_every_field_of_the_shipped_capture(tmp_path: Path) -> None:
    plugin = tshark.write_plugin(tmp_path)
    shown = {(body.ports, body.correlation_id): body for body in tshark.bodies(plugin, tshark.PCAP)}
    checked = 0
    for exchange in capture.read(tshark.PCAP, body=True):
        client, broker = (int(str(end).rpartition(":")[2]) for end in (exchange.client, exchange.broker))
        for kind, ends, body in (
            ("Request", (client, broker), exchange.request),
            ("Response", (broker, client), exchange.response),
        ):
            if body is None:
                continue
            found = shown.pop((ends, exchange.correlation_id))
            assert found.name == f"{exchange.api}{kind}"
            fields = kafkawire.lookup(found.name).spec.fields
            assert found.json() == tshark.comparable(body, fields), (exchange.packet, found.name)
            checked += 1
    assert checked > 600
    assert not shown, "tshark decodes what we do not"
    # Nothing is malformed; the one thing unknown is the ApiVersions request of version 99.
    assert tshark.run(plugin, tshark.PCAP, "-Y", "kafkawire.malformed || _ws.malformed || kafkawire.lost") == ""
    assert len(tshark.run(plugin, tshark.PCAP, "-Y", "kafkawire.unknown").splitlines()) == 1


@pytest.mark.parametrize("share", [1] if FULL else [7])
def test_every_field_of_every_version(tmp_path: Path, share: int) -> None:
    plugin = tshark.write_plugin(tmp_path)
    path = tmp_path / "talk.pcap"
    sent = conversations.write_conversation(path, 3 if FULL else 1, share)
    shown = list(tshark.bodies(plugin, path))
    assert len(shown) == len(sent)
    for message, found in zip(sent, shown, strict=True):
        spec = message.body.spec
        wanted = (spec.name, message.version, message.correlation_id)
        assert (found.name, found.version, found.correlation_id) == wanted
        assert found.json() == tshark.comparable(body_json(message.body, message.version), spec.fields), wanted
    assert tshark.run(plugin, path, "-Y", "_ws.malformed || kafkawire.lost || kafkawire.unmatched") == ""
