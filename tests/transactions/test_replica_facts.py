"""`open_transactions` of a replica against a slow and obvious search."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kafkawire.transactions import Append, Place, Replay
from kafkawire.transactions.auditing.replica_facts import open_transactions

PLACE = Place("logs", "orders", 0)


@st.composite
def appends(draw: st.DrawFn) -> list[Append]:
    offset, listed = draw(st.integers(0, 5)), []
    for _ in range(draw(st.integers(0, 25))):
        control = draw(st.sampled_from([None, None, None, "COMMIT", "ABORT", "EMPTY"]))
        length = 1 if control else draw(st.integers(1, 4))
        coordinator_epoch = draw(st.integers(0, 3)) if control in ("COMMIT", "ABORT") else None
        listed.append(
            Append(
                offset,
                offset + length - 1,
                draw(st.integers(0, 50)),
                draw(st.integers(0, 3)),
                draw(st.integers(0, 2)),
                control,
                coordinator_epoch,
                append_time=control is None and draw(st.booleans()),
            )
        )
        offset += length + draw(st.integers(0, 2))
    return listed


@given(appends())
def test_open_transactions_are_the_data_after_each_producers_last_marker(listed: list[Append]) -> None:
    replay = Replay()
    for append in listed:
        replay.add(append)
    found = {open_.producer_id: open_ for open_ in open_transactions(PLACE, replay)}
    for producer_id in range(4):
        own = [append for append in listed if append.producer_id == producer_id]
        markers = [append for append in own if append.control]
        data = [a for a in own if not a.control and (not markers or a.base_offset > markers[-1].base_offset)]
        assert (producer_id in found) is bool(data)
        if not data:
            continue
        open_ = found[producer_id]
        assert (open_.start_offset, open_.last_offset) == (data[0].base_offset, data[-1].last_offset)
        assert (open_.last_timestamp, open_.producer_epoch) == (data[-1].timestamp, data[-1].producer_epoch)
        epochs = [append.coordinator_epoch for append in markers if append.coordinator_epoch is not None]
        assert open_.coordinator_epoch == (epochs[-1] if epochs else None)
        before = [a.timestamp for a in listed if a.control and a.base_offset < data[-1].base_offset]
        assert open_.written_after == max(before, default=None)
        stamps = [
            a.timestamp
            for a in listed
            if a.base_offset >= data[-1].base_offset and (a.append_time or a.control in ("COMMIT", "ABORT"))
        ]
        assert open_.written_by == (stamps[0] if stamps else None)
        own_markers = [append.timestamp for append in markers if append.control != "EMPTY"]
        assert open_.marked_at == (own_markers[-1] if own_markers else None)
