"""Replicas are compared by digests of ranges of offsets; batches are read only where these differ."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kafkawire import logdir, rows
from kafkawire.records import Damage
from kafkawire.transactions.answers import Answer
from kafkawire.transactions.auditing.replica_facts import AuditedReplica, replica_facts
from kafkawire.transactions.checks import replica_agreement
from kafkawire.transactions.checks.replica_agreement import ReplicaDigests, replicas_agree
from kafkawire.transactions.log import range_digests
from kafkawire.transactions.log.range_digests import DIGEST, RANGE_OFFSETS, digests_of, joined
from kafkawire.wire.backend import native
from tests.audit_logs import LogDirectory
from tests.random_logs import PRODUCERS, damage, fill


def digests(path: str) -> dict[str, ReplicaDigests]:
    """By topic."""
    found = {}
    for partition in logdir.open(path).partitions:
        facts = replica_facts(AuditedReplica(partition))
        found[partition.topic] = ReplicaDigests(partition, facts.digests, facts.partition.damage)
    return found


def write(root: Path, seed: int, high: int, *, damaged: bool = False) -> dict[str, ReplicaDigests]:
    """Equal arguments give equal logs, but for damage."""
    random_ = random.Random(seed)
    logs = LogDirectory(root, ids=0)
    for number, start in enumerate((0, 0, RANGE_OFFSETS - 20)):
        fill(random_, logs.partition(f"topic{number}", start=start), range(PRODUCERS))
        logs.high_watermark(f"topic{number}", 0, start + high)
    path = logs.write()
    if damaged:
        damage(random.Random(seed), root)
    return digests(path)


def answers(one: dict[str, ReplicaDigests], other: dict[str, ReplicaDigests]) -> list[Answer]:
    return [placed.answer for placed in replicas_agree([[one[topic], other[topic]] for topic in one if topic in other])]


def blind(found: dict[str, ReplicaDigests]) -> dict[str, ReplicaDigests]:
    """With digests that equal no other's."""
    blinded = {}
    for topic, one in found.items():
        changed = np.frombuffer(one.digests, DIGEST).copy()
        changed["digest"] += 1
        blinded[topic] = one._replace(digests=changed.tobytes())
    return blinded


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_digests_give_the_answer_of_all_batches(tmp_path: Path, seed: int) -> None:
    one = write(tmp_path / "one", seed, 10_000)
    high = (10_000, 40)[seed % 2]
    for name, other in (
        ("same", write(tmp_path / "same", seed, high)),
        ("damaged", write(tmp_path / "damaged", seed, high, damaged=True)),
        ("another", write(tmp_path / "another", seed + 100, high)),
    ):
        found = answers(one, other)
        assert found == answers(one, blind(other)), name
        assert all(answer.held for answer in found) or name != "same"


def test_replicas_with_the_same_batches_are_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = (write(tmp_path / name, 1, 10_000) for name in ("one", "other"))
    read = []

    def counted(partition: logdir.Partition, start: int, end: int, kept_from: int) -> replica_agreement._ReplicaBatches:
        read.append((partition.topic, start, end))
        return original(partition, start, end, kept_from)

    original = replica_agreement._read
    monkeypatch.setattr(replica_agreement, "_read", counted)
    assert all(answer.held and not answer.violated for answer in answers(one, other))
    assert not read
    answers(one, {**other, "topic2": write(tmp_path / "another", 2, 10_000)["topic2"]})
    assert {topic for topic, *_ in read} == {"topic2"}


def test_digests_of_parts_add_up_in_any_order() -> None:
    base = np.arange(0, 3 * RANGE_OFFSETS, 7)
    crc = base * 31 % 1000
    whole = digests_of(base, base + 6, crc)
    assert len(whole) == 3
    cuts = [slice(0, 5000), slice(5000, 20_000), slice(20_000, None)]
    parts = [digests_of(base[cut], base[cut] + 6, crc[cut]) for cut in cuts]
    for order in (parts, parts[::-1]):
        assert joined(order).tolist() == whole.tolist()
    assert digests_of(base, base + 6, crc + 1)["digest"].tolist() != whole["digest"].tolist()
    assert not len(joined([]))


OFFSETS = st.integers(0, 5 * RANGE_OFFSETS) | st.integers(0, 2**62)


@pytest.mark.skipif(native is None, reason="compares the native engine with Python")
@given(batches=st.lists(st.tuples(OFFSETS, st.integers(0, 2**31 - 1), st.integers(-(2**31), 2**32 - 1))))
@example(batches=[(RANGE_OFFSETS, 1, 1), (0, 9, 2), (RANGE_OFFSETS + 3, 0, 3)])
def test_the_engine_has_the_digests_of_the_reference(batches: list[tuple[int, int, int]]) -> None:
    base, length, crc = np.array(batches, np.int64).reshape(-1, 3).T
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(range_digests, "ENGINE", False)
        expected = digests_of(base, base + length, crc)
    assert digests_of(base, base + length, crc).tolist() == expected.tolist()


def test_an_unreadable_segment_is_named(tmp_path: Path) -> None:
    one, other = (write(tmp_path / name, 1, 10_000) for name in ("one", "other"))
    damage_ = rows.DamageRow.of(Damage(0, "unreadable", "Input/output error"), file="orders-0/00000000000000000000.log")
    (answer,) = answers({"topic0": one["topic0"]}, {"topic0": other["topic0"]._replace(damage=(damage_,))})
    assert answer.lacked == ("a segment cannot be read: Input/output error",)
