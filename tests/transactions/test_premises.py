"""The premises of an all-clear."""

from __future__ import annotations

from pathlib import Path

from kafkawire import logdir, rows
from kafkawire.transactions import audit
from kafkawire.transactions.premises import reach, soundness
from tests.worlds import World


def test_what_was_not_read_is_named_and_counted() -> None:
    found = reach(3, ("checkpoint",), [f"gap {n}" for n in range(5)])
    assert not found.holds
    assert found.what == "not everything was read: gap 0; gap 1; gap 2; and 2 more"
    assert (found.source, found.needs) == ("checkpoint", "a copy of what is missing")


def test_all_that_is_named_was_read() -> None:
    found = reach(1200, ("a", "b"), (), ["orders-0.x-stray"])
    assert found.holds
    assert found.what == (
        "all partitions that the checkpoints and metadata logs name were read to their high watermarks "
        "(1,200 replicas); no broker uses orders-0.x-stray"
    )
    assert (found.source, found.needs) == ("a; b", None)


def test_harmless_damage_is_sound() -> None:
    zeros = rows.DamageRow(file="f", position=9, reason="zeros", harmless=True)
    assert soundness([zeros]).holds
    found = soundness([zeros, rows.DamageRow(file="f", position=3, reason="crc_mismatch")])
    assert (found.holds, found.what) == (False, "damaged: f: at byte 3: crc_mismatch")


def test_an_audit_has_the_premises_of_its_all_clear(tmp_path: Path) -> None:
    world = World(tmp_path, 3)
    world.run()
    world.finish()
    found = audit(logdir.open(world.logs.root)).read
    assert [(one.name, one.holds) for one in found.premises] == [("reach", True), ("soundness", True)]
    log = world.logs.root / "orders-1" / f"{0:020}.log"
    data = bytearray(log.read_bytes())
    data[40] ^= 1
    log.write_bytes(data)
    found = audit(logdir.open(world.logs.root)).read
    assert [(one.name, one.holds) for one in found.premises] == [("reach", True), ("soundness", False)]
