"""When reset connections are over."""

from __future__ import annotations

import pytest

from kafkawire.capture.network import ACK, RST, TcpSegment
from kafkawire.capture.resets import CERTAIN_NS, DOUBTED_NS, Resets
from kafkawire.capture.tcp_stream import Stream

CLIENT, BROKER = (b"\x0a\0\0\x01", 40000), (b"\x0a\0\0\x02", 9092)


class Known:
    """Resets of connections of which each direction has begun with the sequence number 1."""

    def __init__(self, *keys: str) -> None:
        self.resets: Resets[str] = Resets()
        self.streams = {key: (Stream(), Stream()) for key in keys}
        for stream in sum(self.streams.values(), ()):
            stream.open(0)

    def segment(self, key: str, now_ns: int, flags: int = ACK, sequence: int = 1, *, followed: bool = True) -> None:
        segment = TcpSegment(CLIENT, BROKER, sequence, 1, flags, b"")
        self.resets.segment(key, 0, segment, self.streams[key] if followed else None, now_ns)

    def due(self, now_ns: int) -> list[str]:
        return list(self.resets.due(now_ns))


def test_a_certain_reset_is_due_after_a_second() -> None:
    known = Known("a")
    known.segment("a", 5, RST)
    known.segment("a", 9)
    assert known.due(5 + CERTAIN_NS) == []
    assert known.due(6 + CERTAIN_NS) == ["a"]
    assert not known.resets


def test_a_doubted_reset_is_due_a_minute_after_the_last_segment() -> None:
    known = Known("a", "b")
    known.segment("a", 5, RST, 3)
    known.segment("b", 7, RST, 3)
    known.segment("a", 9)
    assert known.due(8 + DOUBTED_NS) == ["b"]
    assert known.due(9 + DOUBTED_NS) == []
    assert known.due(10 + DOUBTED_NS) == ["a"]


def test_certain_and_doubted_resets_are_due_independently() -> None:
    known = Known("doubted", "certain")
    known.segment("doubted", 1, RST, 3)
    known.segment("certain", 2, RST)
    assert known.due(3 + CERTAIN_NS) == ["certain"]
    known.segment("certain", 4 + DOUBTED_NS, RST)
    assert known.due(2 + DOUBTED_NS) == ["doubted"]


def test_a_doubted_reset_may_become_certain_or_be_revoked() -> None:
    known = Known("a", "b", "c")
    known.segment("a", 1, RST, 3)
    assert list(known.streams["a"][0].segment(1, b"ab", 2, 2))
    known.segment("a", 2)
    assert known.due(3 + CERTAIN_NS) == ["a"]
    known.segment("b", 1, RST)
    assert list(known.streams["b"][0].segment(1, b"ab", 2, 2))
    known.segment("b", 2)  # the receiver waits for another number meanwhile
    known.segment("c", 1, RST, 3)
    known.resets.forget("c")
    assert not known.resets
    assert known.due(10 * DOUBTED_NS) == []


def test_a_reset_of_another_number_is_none() -> None:
    known = Known("a")
    known.segment("a", 1, RST, 0)
    known.segment("a", 1, RST, 1 + (5 << 20))
    assert not known.resets


@pytest.mark.parametrize(("acknowledgment", "over"), [(1, True), (2, False)])
def test_a_reset_may_answer_a_syn(acknowledgment: int, over: bool) -> None:
    resets: Resets[str] = Resets()
    streams = Stream(), Stream()
    streams[1].open(0)
    resets.segment("a", 0, TcpSegment(CLIENT, BROKER, 0, acknowledgment, RST | ACK, b""), streams, 1)
    assert bool(resets) == over


def test_segments_of_a_connection_that_is_not_followed_count_for_its_time_alone() -> None:
    known = Known("a")
    known.segment("a", 1, RST, 3)
    known.segment("a", 5, RST, followed=False)
    assert known.due(2 + DOUBTED_NS) == []
    assert known.due(6 + DOUBTED_NS) == ["a"]
