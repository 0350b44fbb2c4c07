"""The premises of an all-clear."""

from __future__ import annotations

from pathlib import Path

from kafkawire import logdir, rows
from kafkawire.transactions import audit
from kafkawire.transactions.verdict.premises import (
    live_place,
    live_reach,
    live_soundness,
    live_time,
    reach,
    soundness,
    with_gaps,
)
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


# Of a live cluster ----------------------------------------------------------------------------------------------------


def test_leaders_are_those_that_all_brokers_name() -> None:
    assert live_place(4, (1,), ()).what == (
        "4 partitions described by the leaders that this broker names, in the same leader epochs"
    )
    many = live_place(4, (1, 2, 3), ())
    assert (many.holds, many.source) == (True, "Metadata of brokers 1, 2, 3")
    doubted = live_place(4, (1, 2), ["partition orders-0: brokers disagree"])
    assert (doubted.name, doubted.holds) == ("place", False)
    assert "orders-0: brokers disagree" in doubted.what


def test_what_brokers_did_not_answer_is_no_reach() -> None:
    def found(*gaps: str) -> rows.Premise:
        return live_reach(3, 4, ids="nothing is open", hidden="no authorizer", gaps=gaps, brokers="broker 1")

    assert found().what == "3 of 4 chosen partitions described; no authorizer; nothing is open"
    assert (found("orders-3 was not read").holds, found("orders-3 was not read").name) == (False, "reach")
    (whole,) = with_gaps([found()], ())
    assert whole.holds
    (later,) = with_gaps([found()], ["the group could not be read"])
    assert (later.holds, later.what) == (False, "not everything was read: the group could not be read")


def test_an_age_that_is_not_known_is_no_time() -> None:
    assert live_time("this machine's clock", 0, (), ()).what == "no age is needed: no transaction is open"
    measured = live_time("this machine's clock", 2, (), ["the clock of broker 2 is behind"])
    assert measured.what == (
        "2 open transactions, none begun after this machine's clock; allowed for: the clock of broker 2 is behind"
    )
    assert not live_time("this machine's clock", 2, ["orders-0, offset 3: it began later"], ()).holds


def test_an_answer_that_is_an_error_is_not_sound() -> None:
    assert live_soundness(()).holds
    assert live_soundness(["broker 2: no answer"]).what == "answers are errors: broker 2: no answer"
