"""When reset connections are over."""

from __future__ import annotations

from kafkawire.capture.resets import CERTAIN_NS, DOUBTED_NS, Resets


def due(resets: Resets[str], now_ns: int) -> list[str]:
    return list(resets.due(now_ns))


def test_a_certain_reset_is_due_after_a_second() -> None:
    resets: Resets[str] = Resets()
    resets.note("a", 5, None)
    resets.note("a", 9, None)
    assert due(resets, 5 + CERTAIN_NS) == []
    assert due(resets, 6 + CERTAIN_NS) == ["a"]
    assert not resets


def test_a_doubted_reset_is_due_a_minute_after_the_last_segment() -> None:
    resets: Resets[str] = Resets()
    resets.note("a", None, 5)
    resets.note("b", None, 7)
    resets.note("a", None, 9)
    assert due(resets, 8 + DOUBTED_NS) == ["b"]
    assert due(resets, 9 + DOUBTED_NS) == []
    assert due(resets, 10 + DOUBTED_NS) == ["a"]


def test_certain_and_doubted_resets_are_due_independently() -> None:
    resets: Resets[str] = Resets()
    resets.note("doubted", None, 1)
    resets.note("certain", 2, None)
    assert due(resets, 3 + CERTAIN_NS) == ["certain"]
    resets.note("certain", 4 + DOUBTED_NS, None)
    assert due(resets, 2 + DOUBTED_NS) == ["doubted"]


def test_a_doubted_reset_may_become_certain_or_be_revoked() -> None:
    resets: Resets[str] = Resets()
    resets.note("a", None, 1)
    resets.note("a", 1, None)
    assert due(resets, 2 + CERTAIN_NS) == ["a"]
    resets.note("b", 1, None)
    resets.note("b", None, None)
    resets.note("c", None, 1)
    resets.forget("c")
    assert not resets
    assert due(resets, 10 * DOUBTED_NS) == []
