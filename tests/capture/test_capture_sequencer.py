"""Exchanges in the order of their first packets, within limits."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kafkawire.capture.exchange import CapturedExchange
from kafkawire.capture.sequencer import Sequencer
from kafkawire.rows import Exchange


def exchange(packet: int) -> CapturedExchange:
    return CapturedExchange(row=Exchange(packet=packet))


def numbers(sequencer: Sequencer) -> list[int | None]:
    return [matched.row.packet for matched in sequencer.ready()]


@given(st.permutations(range(12)), st.sets(st.integers(0, 11)))
def test_yields_exchanges_in_the_order_of_packets(order: list[int], dropped: set[int]) -> None:
    sequencer = Sequencer()
    tickets = [sequencer.ticket(packet) for packet in range(12)]
    out: list[int | None] = []
    for packet in order:
        sequencer.close(tickets[packet], None if packet in dropped else exchange(packet))
        out += numbers(sequencer)
    assert out == [packet for packet in range(12) if packet not in dropped]


def test_an_open_place_holds_back_later_exchanges() -> None:
    sequencer = Sequencer()
    first, second = sequencer.ticket(1), sequencer.ticket(2)
    sequencer.close(second, exchange(2))
    assert numbers(sequencer) == []
    sequencer.close(first, exchange(1))
    assert numbers(sequencer) == [1, 2]


def test_holds_a_limited_number_of_places() -> None:
    sequencer = Sequencer(most=3)
    first = sequencer.ticket(0)
    for packet in range(1, 6):
        sequencer.close(sequencer.ticket(packet), exchange(packet))
    assert numbers(sequencer) == [1, 2, 3, 4, 5]
    sequencer.close(first, exchange(0))
    assert numbers(sequencer) == [0]
    assert numbers(sequencer) == []


def test_holds_a_limited_number_of_bytes() -> None:
    sequencer = Sequencer(most_bytes=100)
    sequencer.ticket(0)
    sequencer.close(sequencer.ticket(1), exchange(1), 100)
    assert numbers(sequencer) == []
    sequencer.close(sequencer.ticket(2), exchange(2), 1)
    assert numbers(sequencer) == [1, 2]


def test_holds_exchanges_for_a_limited_time() -> None:
    def at(second: int) -> CapturedExchange:
        return CapturedExchange(row=Exchange(packet=second, time_ns=second * 10**9))

    sequencer = Sequencer(patience_ns=2 * 10**9)
    poll = sequencer.ticket(100)
    for second in range(101, 106):
        sequencer.close(sequencer.ticket(second), at(second))
        assert numbers(sequencer) == {104: [101, 102, 103, 104], 105: [105]}.get(second, [])
    sequencer.close(poll, at(100))
    assert numbers(sequencer) == [100]


def test_counts_the_time_of_a_place_from_the_epoch_on() -> None:
    sequencer = Sequencer(patience_ns=10)
    sequencer.close(sequencer.ticket(1), CapturedExchange(row=Exchange(packet=1, time_ns=0)))
    sequencer.ticket(2)
    sequencer.close(sequencer.ticket(3), CapturedExchange(row=Exchange(packet=3, time_ns=11)))
    assert numbers(sequencer) == [1, 3]


def test_accepts_a_late_place_without_an_exchange() -> None:
    sequencer = Sequencer(most=1)
    first, second = sequencer.ticket(1), sequencer.ticket(2)
    assert list(sequencer.ready()) == []
    sequencer.close(first)
    sequencer.close(second)
    assert list(sequencer.ready()) == []
