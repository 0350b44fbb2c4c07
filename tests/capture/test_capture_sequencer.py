"""Exchanges in the order of their first packets."""

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


def test_counts_what_it_holds() -> None:
    sequencer = Sequencer()
    first, second = sequencer.ticket(0), sequencer.ticket(1)
    empty = sequencer.held
    sequencer.close(second, exchange(1), 100)
    assert (numbers(sequencer), sequencer.held) == ([], empty + 100)
    sequencer.close(first)
    assert (numbers(sequencer), sequencer.held) == ([1], 0)
