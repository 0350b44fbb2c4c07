"""The tests that SECURITY.md names exist, and its limits are those of the code."""

from __future__ import annotations

import re

import pytest

import kafkawire
from kafkawire.capture import memory_limits, packet, tcp_stream
from kafkawire.frames import MAX_FRAME_BYTES
from kafkawire.logdir import located_file
from kafkawire.records import MAX_BATCH_BYTES
from kafkawire.wire.interpreter import allocation_limit
from kafkawire.wire.limits import MAX_DEPTH
from tests.docs.guide import ROOT

PAGE = (ROOT / "SECURITY.md").read_text("utf-8")
NAMED = sorted(set(re.findall(r"`((?:tests|tools)/[\w/.]+)`", PAGE)))


@pytest.mark.parametrize("path", NAMED)
def test_named_paths_exist(path: str) -> None:
    assert (ROOT / path).exists()


def test_policy_supports_the_current_version() -> None:
    supported = re.findall(r"^\| (\d+\.\d+), the newest \| yes \|$", PAGE, re.MULTILINE)
    assert supported == [".".join(kafkawire.__version__.split(".")[:2])]


def test_limits_equal_those_of_the_code() -> None:
    kib, mib = 1 << 10, 1 << 20
    for limit, text in [
        (MAX_BATCH_BYTES, f"`max_batch_bytes` ({MAX_BATCH_BYTES // mib} MiB)"),
        (MAX_FRAME_BYTES, f"at most {MAX_FRAME_BYTES // mib} MiB a frame"),
        (tcp_stream.MAX_HELD_BYTES, f"{tcp_stream.MAX_HELD_BYTES // mib} MiB for each direction"),
        (memory_limits.MOST_HELD, f"{memory_limits.MOST_HELD // mib} MiB for all"),
        (memory_limits.MOST_OPEN, f"{memory_limits.MOST_OPEN:,} connections"),
        (packet.MAX_PACKET_BYTES, f"packets of at most {packet.MAX_PACKET_BYTES // kib} KiB"),
        (located_file.MAX_BYTES, f"up to {located_file.MAX_BYTES // mib} MiB each"),
        (MAX_DEPTH, f"nested deeper than {MAX_DEPTH}"),
    ]:
        assert text in PAGE, limit
    assert allocation_limit(1000) == 64 * 1000 + 64 * kib
    assert "64 times its input plus 64 KiB" in PAGE
