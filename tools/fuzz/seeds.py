"""Starting inputs: of each message a few values that Hypothesis makes, and record batches of every codec."""

from __future__ import annotations

import random
from collections.abc import Iterator

from hypothesis import HealthCheck, Phase, given, seed, settings

from kafkawire import records
from kafkawire.messages import REGISTRY
from kafkawire.records import CODECS, Header, Record
from tools.fuzz import inputs, targets

#: Longest seed in bytes: the corpus is read by people, too.
_LONGEST = 100


def _values(name: str, version: int, count: int) -> list[bytes]:
    from strategies import messages

    found: list[bytes] = []

    @seed(1)
    @settings(max_examples=8 * count, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(messages(inputs.message_of(name), version))
    def collect(value: object) -> None:
        data = value.encode(version)  # type: ignore[attr-defined]
        if len(data) <= _LONGEST:
            found.append(data)

    collect()
    return sorted(set(found), key=len)[-count:]


def codecs() -> Iterator[str]:
    for entry in REGISTRY:
        for version in {entry.valid_versions[0], entry.valid_versions[-1]}:
            for data in _values(entry.name, version, 1):
                yield f"{entry.name} {version} {data.hex()}"


def columns() -> Iterator[str]:
    for entry in list(REGISTRY)[::3]:
        version = entry.valid_versions[-1]
        values = _values(entry.name, version, 2)
        if values:
            yield f"{entry.name} {version} {' '.join(data.hex() for data in values)}"


def record_batches() -> Iterator[str]:
    rng = random.Random(1)
    listed = [Record(b"key", b"value" * 3, (Header("h", b"x"),), timestamp=1), Record(None, None)]
    for codec in CODECS:
        yield records.build(listed, codec=codec).hex()
        yield (records.build(listed, codec=codec) + records.build(listed[1:], base_offset=2, codec=codec)).hex()
    yield records.build_marker(
        "ABORT", offset=1, timestamp=2, producer_id=3, producer_epoch=4, coordinator_epoch=5
    ).hex()
    yield records.build([Record(rng.randbytes(70), rng.randbytes(200))]).hex()
    yield bytes(100).hex()


def write() -> None:
    """The corpus files anew: seeds, and what the files hold besides."""
    for name, make in (("codecs", codecs), ("columns", columns), ("records", record_batches)):
        target = targets.TARGETS[name]
        target.write({*make(), *target.corpus()})
