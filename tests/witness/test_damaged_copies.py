"""A bit of a log is wrong: nothing is called lost, changed or elsewhere that is not; the counts stay exact."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from kafkawire import capture, logdir
from kafkawire.rows import DeliveryAnomaly, FateTotal, WitnessSummary
from kafkawire.witness import Witness
from tools.recordings.archive import ROOT

pytestmark = pytest.mark.slow

EXAMPLE = ROOT / "docs" / "witness"


def starts(data: bytes) -> list[int]:
    """Where batches begin."""
    found = [0]
    while found[-1] + 12 < len(data):
        found.append(found[-1] + 12 + int.from_bytes(data[found[-1] + 8 : found[-1] + 12]))
    return found[:-1]


@pytest.mark.parametrize("seed", range(30))
def test_a_wrong_bit_breaks_no_promise(tmp_path: Path, seed: int) -> None:
    random_ = random.Random(seed)
    logs = shutil.copytree(EXAMPLE / "broker-1", tmp_path / "logs")
    path = random_.choice(sorted(logs.glob("[a-z]*/*.log")))
    data = bytearray(path.read_bytes())
    # Every second time in a batch's base offset, which no checksum covers.
    place = random_.choice(starts(data)) + random_.randrange(4, 8) if seed % 2 else random_.randrange(len(data))
    data[place] ^= 1 << random_.randrange(8)
    path.write_bytes(data)
    witness = Witness(logdir.open(logs))
    for exchange in capture.read(EXAMPLE / "clients.pcap", keep=True).matched():
        witness.add(exchange)
    summary, *others = witness.rows()
    assert isinstance(summary, WitnessSummary)
    found = [(row.name, row.topic) for row in others if isinstance(row, DeliveryAnomaly)]
    assert found in ([], [("held_twice", "metrics")])
    assert summary.batches == 36 == sum(row.batches for row in others if isinstance(row, FateTotal))
