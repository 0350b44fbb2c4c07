"""Histories of one partition whose truth is known, and the captures and log directories that they leave.

A broker, its clients and the network act at random; every batch has records of its own, so that the truth about each is
known by its content. What they leave is rendered as a capture, of which packets may be dropped, and as log directories,
of which some may be of another time.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path

import crc32c

from kafkawire.messages import ProduceRequest, ProduceResponse
from kafkawire.messages.produce_request import PartitionProduceData, TopicProduceData
from kafkawire.messages.produce_response import PartitionProduceResponse, TopicProduceResponse
from kafkawire.records import Batch, Record, build, build_marker, read
from tests.audit_logs import NOON
from tests.capture.wiretap import Conversation, ethernet, pcap

TOPIC = "t"
VERSION = 9
NOT_LEADER, TIMED_OUT, TOO_LARGE = 6, 7, 10


@dataclass
class Sending:
    """A batch in a request. `answer`: (error, offset); None: it never arrived."""

    batch: int
    data: bytes
    connection: int
    answer: tuple[int, int] | None
    request_seen: bool = True
    response_seen: bool = True


@dataclass
class Entry:
    """A batch in a log. `batch`: number of the produced batch; None for a marker."""

    base: int
    last: int
    batch: int | None
    data: bytes
    epoch: int


@dataclass
class Produced:
    """A batch that a client produced.

    Attributes:
        planted: the anomaly that was planted with it.
        acked: offsets that were answered without error.
    """

    number: int
    producer: int
    records: int
    data: bytes
    transactional: bool = False
    planted: str | None = None
    acked: list[int] = field(default_factory=list)


@dataclass
class Producer:
    number: int
    producer_id: int
    epoch: int = 0
    sequence: int = 0
    transactional: bool = False
    pending: bool = False
    connection: int = 0


class History:
    """See the module.

    Args:
        random_: decides. faults: whether promises are broken.
    """

    def __init__(self, random_: random.Random, *, faults: bool, compacts: bool) -> None:
        self.random = random_
        self.faults = faults
        self.compacts = compacts
        self.log: list[Entry] = []
        self.cut: list[Entry] = []  # the end of the log that an unclean election dropped, and what is before it
        self.epochs = [(0, 0)]
        self.end = 0
        self.log_start = 0
        self.cleaned = 0
        self.sendings: list[Sending] = []
        self.produced: list[Produced] = []
        self.connections = 0
        self.elections = 0
        self.old: list[Entry] = []
        self.old_epochs: list[tuple[int, int]] = []
        ids = (-1, -1, 1000, 1001, 1002)
        self.producers = [Producer(number, one, transactional=one == 1002) for number, one in enumerate(ids)]
        for one in self.producers:
            self._reconnect(one)

    def run(self, steps: int) -> None:
        for _ in range(steps):
            kind = self.random.randrange(12)
            if kind < 9:
                self._produce(self.random.choice(self.producers))
            elif kind == 9:
                self._marker()
            elif kind == 10 and self.random.random() < 0.3 and not self.compacts:
                self._retention()
            elif kind == 11 and self.faults and self.elections < 1 and self.random.random() < 0.3:
                self._unclean_election()
        if self.compacts:
            self._compact()

    # The broker ----------------------------------------------------------------------------------------------------

    def _append(self, data: bytes, batch: int | None, offsets: int) -> int:
        (item,) = read(data)
        assert isinstance(item, Batch)
        base = self.end
        self.end += offsets
        self.log.append(Entry(base, self.end - 1, batch, item.rebased(base, self.epochs[-1][0]), self.epochs[-1][0]))
        return base

    def _appended(self, one: Produced, *, planted: bool) -> int:
        """The offset of a batch that arrived: an idempotent one is appended once, but for a fault."""
        known = [entry.base for entry in self.log if entry.batch == one.number and self._same(entry.data, one.data)]
        if known and self.producers[one.producer].producer_id >= 0 and not planted:
            return known[0]
        data = one.data
        if one.planted == "changed":
            (item,) = read(data)
            assert isinstance(item, Batch)
            records = [Record(b"other", record.value, timestamp=record.timestamp) for record in item.records]
            data = build(
                records,
                producer_id=item.producer_id,
                producer_epoch=item.producer_epoch,
                base_sequence=item.base_sequence,
                transactional=item.transactional,
                codec=item.codec,
            )
        return self._append(data, one.number, one.records)

    @staticmethod
    def _same(held: bytes, sent: bytes) -> bool:
        """Whether both have one producer id, epoch and sequence."""
        return held[43:57] == sent[43:57]

    def _unclean_election(self) -> None:
        """Another replica leads, whose log ends earlier, and writes on."""
        data = [entry for entry in self.log if entry.base >= self.log_start]
        if len(data) < 4:
            return
        number = self.random.randint(1, 3)
        self.elections += 1
        self.old, self.old_epochs = list(self.log), list(self.epochs)
        self.cut = self.log[-number:]
        del self.log[-number:]
        self.end = self.cut[0].base
        self.epochs.append((self.epochs[-1][0] + 1, self.end))
        for one in self.producers:
            one.pending = False

    def _marker(self) -> None:
        one = self.producers[4]
        if not one.pending:
            return
        one.pending = False
        name = self.random.choice(["COMMIT", "ABORT"])
        data = build_marker(
            name, offset=0, timestamp=NOON, producer_id=one.producer_id, producer_epoch=one.epoch, coordinator_epoch=0
        )
        self._append(data, None, 1)

    def _retention(self) -> None:
        later = [entry.base for entry in self.log if entry.base > self.log_start]
        if len(later) > 4:
            self.log_start = self.random.choice(later[:3])

    def _compact(self) -> None:
        if len(self.log) < 6:
            return
        self.cleaned = self.random.choice([entry.base for entry in self.log[2:-1]])
        kept = []
        for entry in self.log:
            if entry.batch is not None and entry.base < self.cleaned and self.random.random() < 0.4:
                continue
            kept.append(entry)
        self.log = kept

    # Clients -------------------------------------------------------------------------------------------------------

    def _reconnect(self, one: Producer) -> None:
        one.connection = self.connections
        self.connections += 1

    def _data(self, one: Producer, number: int, count: int) -> bytes:
        records = [Record(b"k%d" % number, b"value %d %d" % (number, i), timestamp=NOON + number) for i in range(count)]
        return build(
            records,
            producer_id=one.producer_id,
            producer_epoch=one.epoch if one.producer_id >= 0 else -1,
            base_sequence=one.sequence if one.producer_id >= 0 else -1,
            transactional=one.transactional,
            codec=self.random.choice(["none", "none", "gzip"]),
        )

    def _produce(self, one: Producer) -> None:
        number, count = len(self.produced), self.random.randint(1, 3)
        made = Produced(number, one.number, count, self._data(one, number, count), one.transactional)
        if self.faults and self.random.random() < 0.15:
            kinds = ["twice", "elsewhere", "changed"] if one.producer_id >= 0 else ["elsewhere"]
            made.planted = self.random.choice(kinds)
        self.produced.append(made)
        if one.transactional:
            one.pending = True
        first = True
        for _ in range(4):
            answered = self._send(one, made, first=first)
            first = False
            if answered:
                break
            if one.producer_id >= 0 and not one.transactional and self.random.random() < 0.1:
                self._reset(one, made)
        if one.producer_id >= 0:
            one.sequence += count

    def _reset(self, one: Producer, made: Produced) -> None:
        """The producer gets a new epoch, and sends the same records again (KIP-360)."""
        one.epoch += 1
        one.sequence = 0
        data = bytearray(made.data)
        data[51:53] = one.epoch.to_bytes(2, "big")
        data[53:57] = one.sequence.to_bytes(4, "big")
        data[17:21] = crc32c.crc32c(bytes(data[21:])).to_bytes(4, "big")
        made.data = bytes(data)

    def _send(self, one: Producer, made: Produced, *, first: bool) -> bool:
        """Whether the client is done with the batch."""
        kind = self.random.choices(
            ["ok", "no_response", "no_request", "refused", "timed_out", "too_large", "gives_up"],
            [60, 12, 6, 6, 4, 3, 2],
        )[0]
        answer: tuple[int, int] | None = None
        done = kind in ("ok", "too_large", "gives_up")
        if kind in ("ok", "no_response", "timed_out", "gives_up"):
            offset = self._appended(made, planted=made.planted == "twice" and not first)
            if kind == "ok" and made.planted == "twice" and first:
                self._appended(made, planted=True)
            if kind == "ok" and made.planted == "elsewhere":
                offset = self._elsewhere(offset, made.records)
                if offset < 0:
                    made.planted = None
                    offset = self._first(made)
            answer = {"ok": (0, offset), "timed_out": (TIMED_OUT, -1)}.get(kind)
            if kind == "ok":
                made.acked.append(offset)
        elif kind == "refused":
            answer = NOT_LEADER, -1
        elif kind == "too_large":
            answer = TOO_LARGE, -1
        self.sendings.append(Sending(made.number, made.data, one.connection, answer))
        if answer is None:
            self._reconnect(one)
        return done

    def _first(self, made: Produced) -> int:
        return next(e.base for e in self.log if e.batch == made.number and self._same(e.data, made.data))

    def _elsewhere(self, offset: int, records: int) -> int:
        """An offset at which other data is; -1: there is none."""
        others = [entry.base for entry in self.log if self.log_start <= entry.base < offset - records]
        return self.random.choice(others) if others else -1

    # What they leave -----------------------------------------------------------------------------------------------

    def capture(self, *, drops: float) -> bytes:
        """The capture; a share of the requests and responses is not in it."""
        talks: dict[int, Conversation] = {}
        order: list[bytes] = []

        def taken(talk: Conversation, *, seen: bool) -> None:
            order.extend(talk.packets if seen else ())
            talk.packets.clear()

        for number, one in enumerate(self.sendings):
            talk = talks.get(one.connection)
            if talk is None:
                talk = talks[one.connection] = Conversation(("10.0.0.1", 40000 + one.connection))
                taken(talk, seen=True)
            one.request_seen = self.random.random() >= drops
            one.response_seen = self.random.random() >= drops and one.answer is not None
            part = PartitionProduceData(index=0, records=one.data)
            request = ProduceRequest(acks=-1, topic_data=(TopicProduceData(name=TOPIC, partition_data=(part,)),))
            talk.request(request, version=VERSION, correlation_id=number)
            taken(talk, seen=one.request_seen)
            if one.answer is not None:
                error, offset = one.answer
                answer = PartitionProduceResponse(index=0, error_code=error, base_offset=offset)
                response = ProduceResponse(responses=(TopicProduceResponse(name=TOPIC, partition_responses=(answer,)),))
                talk.response(response, version=VERSION, correlation_id=number)
                taken(talk, seen=one.response_seen)
        return pcap(map(ethernet, order))

    def write(self, root: Path, *, until: int | None = None) -> list[Path]:
        """Log directories: of the leader, and of the one before it, which has not come back. `until`: the leader's copy
        ends at this offset, and is older than the history's end."""
        written = [root / "leader"]
        log = [entry for entry in self.log if until is None or entry.last < until]
        epochs = [line for line in self.epochs if until is None or line[1] <= until]
        _write(root / "leader", log, epochs, self.log_start, self.cleaned, self.end if until is None else until)
        if self.old:
            written.append(root / "old")
            last = self.old[-1].last + 1
            _write(root / "old", self.old, self.old_epochs, self.log_start, 0, last, node=2)
        return written


def _write(
    root: Path,
    log: list[Entry],
    epochs: list[tuple[int, int]],
    log_start: int,
    cleaned: int,
    high_watermark: int,
    *,
    node: int = 1,
) -> None:
    folder = root / f"{TOPIC}-0"
    folder.mkdir(parents=True)
    kept = [entry for entry in log if entry.last >= log_start]
    base = log_start if log_start else 0
    if kept:
        base = min(base, kept[0].base)
    (folder / f"{base:020}.log").write_bytes(b"".join(entry.data for entry in kept))
    lines = "".join(f"{epoch} {start}\n" for epoch, start in epochs)
    (folder / "leader-epoch-checkpoint").write_text(f"0\n{len(epochs)}\n{lines}")
    checkpoints = {
        "replication-offset-checkpoint": high_watermark,
        "log-start-offset-checkpoint": log_start,
        "cleaner-offset-checkpoint": cleaned,
    }
    for name, offset in checkpoints.items():
        lines = f"{TOPIC} 0 {offset}\n" if offset else ""
        (root / name).write_text(f"0\n{1 if offset else 0}\n{lines}")
    (root / "meta.properties").write_text(f"version=1\nnode.id={node}\ncluster.id=test\n")
