"""Random logs as a broker writes them: producers of every kind, in any order, each batch one that Kafka accepts."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import strategies as st

from kafkawire.messages.producer_snapshot import ProducerEntry
from kafkawire.records import Record, build, build_marker
from kafkawire.transactions import Append

NOON = 1_750_075_200_000
_SEQUENCES = 2**31


@dataclass
class Written:
    """A batch in the log: its facts by construction, and its bytes."""

    append: Append
    data: bytes
    keys: tuple[bytes, ...] = ()


@dataclass
class _Client:
    producer_id: int
    kind: str  # "plain", "idempotent", or the transaction version: "v1", "v2"
    epoch: int = 0
    sequence: int = 0
    known: bool = False
    coordinator_epoch: int = 0


@dataclass
class Schedule:
    """A log. `rolls`: base offsets of the segments."""

    batches: list[Written] = field(default_factory=list)
    rolls: list[int] = field(default_factory=lambda: [0])

    @property
    def end(self) -> int:
        return self.batches[-1].append.last_offset + 1 if self.batches else 0

    def segments(self) -> dict[int, bytes]:
        """Content of each segment, by base offset."""
        found = dict.fromkeys(self.rolls, b"")
        for written in self.batches:
            base = max(roll for roll in self.rolls if roll <= written.append.base_offset)
            found[base] += written.data
        return found


@st.composite
def schedules(draw: st.DrawFn, most: int = 30) -> Schedule:
    """Valid logs: up to `most` batches of up to five producers, of which one is not idempotent."""
    clients = [_Client(-1, "plain")]
    for number in range(draw(st.integers(1, 4))):
        start = draw(st.sampled_from([0, 0, _SEQUENCES - 3]))
        clients.append(_Client(1000 + number, draw(st.sampled_from(["idempotent", "v1", "v2"])), sequence=start))
    schedule = Schedule()
    at = NOON
    for _ in range(draw(st.integers(0, most))):
        client = draw(st.sampled_from(clients))
        at += draw(st.integers(0, 2000))
        step = draw(st.sampled_from(["data", "data", "data", "end", "end", "fence", "roll"]))
        if step == "roll":
            if schedule.end > schedule.rolls[-1]:
                schedule.rolls.append(schedule.end)
        elif step == "data" or client.kind in ("plain", "idempotent"):
            if step == "fence" and client.kind == "idempotent":
                client.epoch += 1
                client.sequence = 0
            schedule.batches.append(_data(schedule.end, client, draw(st.integers(1, 3)), at))
        else:
            client.coordinator_epoch += draw(st.sampled_from([0, 0, 1]))
            schedule.batches.append(_marker(schedule.end, client, draw(st.booleans()), step == "fence", at))
    return schedule


def _data(offset: int, client: _Client, count: int, at: int) -> Written:
    plain = client.kind == "plain"
    transactional = client.kind in ("v1", "v2")
    append = Append(
        base_offset=offset,
        last_offset=offset + count - 1,
        timestamp=at,
        producer_id=client.producer_id,
        producer_epoch=-1 if plain else client.epoch,
        base_sequence=-1 if plain else client.sequence,
        transactional=transactional,
    )
    client.sequence = (client.sequence + count) % _SEQUENCES
    client.known = True
    return Written(append, written(append, count), tuple(b"%d" % (offset + i) for i in range(count)))


def _marker(offset: int, client: _Client, commit: bool, fence: bool, at: int) -> Written:
    """Version 2 raises the epoch at every end; below it, only a coordinator that fences does. Once the partition knows
    a producer, each epoch begins with sequence number 0."""
    raised = client.kind == "v2" or fence
    client.epoch += raised
    if raised or not client.known:
        client.sequence = 0
    client.known = True
    append = Append(
        base_offset=offset,
        last_offset=offset,
        timestamp=at,
        producer_id=client.producer_id,
        producer_epoch=client.epoch,
        control="COMMIT" if commit else "ABORT",
        coordinator_epoch=client.coordinator_epoch,
    )
    return Written(append, written(append, 1))


def written(append: Append, count: int) -> bytes:
    """The batch with the last `count` of its records."""
    if append.control in ("COMMIT", "ABORT"):
        return build_marker(
            append.control,
            offset=append.base_offset,
            timestamp=append.timestamp,
            producer_id=append.producer_id,
            producer_epoch=append.producer_epoch,
            coordinator_epoch=append.coordinator_epoch or 0,
        )
    offsets = range(append.base_offset, append.last_offset + 1)[append.last_offset + 1 - append.base_offset - count :]
    return build(
        [Record(b"%d" % offset, b"v", offset=offset, timestamp=append.timestamp) for offset in offsets],
        base_offset=append.base_offset,
        last_offset=append.last_offset,
        append_time=None if count else append.timestamp,
        producer_id=append.producer_id,
        producer_epoch=append.producer_epoch,
        base_sequence=append.base_sequence,
        transactional=append.transactional,
        control=append.control is not None,
    )


def naive_state(appends: list[Append]) -> list[ProducerEntry]:
    """What a broker would snapshot after `appends`: for each producer, looked up in its own batches from the end."""
    entries = []
    for producer_id in sorted({append.producer_id for append in appends if append.producer_id >= 0}):
        own = [append for append in appends if append.producer_id == producer_id]
        last = own[-1]
        markers = [append for append in own if append.control]
        of_epoch = own[max((i + 1 for i, a in enumerate(own) if a.producer_epoch != last.producer_epoch), default=0) :]
        data = [append for append in of_epoch if not append.control]
        after = [a for a in own if not markers or a.base_offset > markers[-1].base_offset]
        begun = [append.base_offset for append in after if append.transactional]
        entries.append(
            ProducerEntry(
                producer_id=producer_id,
                epoch=last.producer_epoch,
                last_sequence=data[-1].last_sequence if data else -1,
                last_offset=data[-1].last_offset if data else -1,
                offset_delta=data[-1].last_offset - data[-1].base_offset if data else 0,
                timestamp=last.timestamp,
                coordinator_epoch=(markers[-1].coordinator_epoch or 0) if markers else -1,
                current_txn_first_offset=begun[0] if begun else -1,
            )
        )
    return entries


def naive_transactions(appends: list[Append]) -> list[tuple[int, int, Append | None]]:
    """Every transaction with data: its producer id, first offset, and the marker that ends it."""
    found = []
    for producer_id in {append.producer_id for append in appends}:
        first = None
        for append in appends:
            if append.producer_id != producer_id:
                continue
            if append.control:
                if first is not None:
                    found.append((producer_id, first, append))
                first = None
            elif append.transactional and first is None:
                first = append.base_offset
        if first is not None:
            found.append((producer_id, first, None))
    return found
