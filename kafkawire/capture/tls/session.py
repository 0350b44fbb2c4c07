"""`TlsSession`: one TLS connection, from the bytes of both directions in order to decrypted bytes (sans-IO).

1. Records of a direction are processed in order. A record whose keys are not known yet waits: for messages of the other
   direction, or for a key log that grows.
2. A record counts if it authenticates. So after a hole its sequence number is found by trial, and with it the place
   where records begin again.
3. All bytes of a direction end as decrypted data, as handshake, or as `LostRecords`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from kafkawire.capture.tcp_stream import Chunk
from kafkawire.capture.tls import handshake
from kafkawire.capture.tls.direction import HEADER_BYTES, MAX_FRAGMENT_BYTES, Direction, Hole, LostRecords, TlsRecord
from kafkawire.capture.tls.handshake import TLS_1_2, TLS_1_3, MalformedHandshake
from kafkawire.capture.tls.key_log import Secrets
from kafkawire.capture.tls.negotiation import Failed, Keys, MustWait, Negotiation
from kafkawire.capture.tls.protection import (
    ALERT,
    APPLICATION_DATA,
    CHANGE_CIPHER_SPEC,
    HANDSHAKE,
    Unauthentic,
)

#: Most bytes of a record: no compression, at most 256 bytes of padding. So lost bytes are at least this many records.
_LARGEST_RECORD_BYTES = (1 << 14) + 325
_PROTECTED_RECORD = re.compile(rb"[\x15-\x17]\x03\x03", re.DOTALL)
#: Bytes of a direction that wait for keys.
_MOST_WAITING = 256 << 10
#: Sequence numbers that are tried on a record after a hole, and trials of a connection in all.
_TRIED_NUMBERS, _MOST_TRIALS = 4096, 200_000
_FATAL = 2

#: A direction, and what its bytes were decrypted to.
TlsEvent = tuple[int, Chunk | LostRecords]
#: The parts of a protection, number of the next record, and bytes: of each packet, with its number and time.
Steady = tuple[str, bool, bytes, bytes, int, list[tuple[bytes, int, int]]]


class TlsSession:
    """One TLS connection.

    Attributes:
        failure: why nothing more is decrypted; None while it is, or may be.

    Args:
        secrets: of the key logs.
    """

    def __init__(self, secrets: Secrets) -> None:
        self.failure: str | None = None
        self._negotiation = Negotiation(secrets)
        self._directions = (Direction(), Direction())
        self._trials = _MOST_TRIALS

    @property
    def description(self) -> str:
        """Version, suite, server name, protocol and certificates, as far as they are known; no secret."""
        return self._negotiation.description

    @property
    def decrypted(self) -> bool:
        """Whether any record was decrypted."""
        return any(direction.opened for direction in self._directions)

    @property
    def held(self) -> int:
        """Number of bytes that wait for the rest of a record or for keys."""
        return sum(direction.held for direction in self._directions)

    def held_since(self, index: int) -> int | None:
        """Number of the first packet of a direction whose bytes are held; None where none are."""
        return self._directions[index].held_since

    def receive(self, index: int, chunk: Chunk) -> Iterator[TlsEvent]:
        """Takes the next bytes of a direction; yields what can be decrypted now, of either direction."""
        direction = self._directions[index]
        if self.failure is not None:
            direction.lose(len(chunk.data), len(chunk.data))
            return
        direction.append(chunk.data, chunk.packet, chunk.time_ns)
        yield from self._advance(index)

    def lose(self, index: int, missing: int, packet: int, time_ns: int) -> Iterator[TlsEvent]:
        """Takes a hole. The bytes of a record before it are lost with it.

        Args:
            index: of the direction.
            missing: bytes of the hole.
            packet, time_ns: of the packet that showed it.
        """
        direction = self._directions[index]
        if self.failure is not None:
            direction.lose(missing, 0)
            return
        direction.break_off(missing, packet, time_ns)
        yield from self._advance(index)

    def finish(self) -> Iterator[TlsEvent]:
        """Ends the connection; yields the events of its last bytes."""
        for index in (0, 1):
            if self.failure is None:
                yield from self._advance(index)
        if self.failure is None and (not self.decrypted or any(each.records for each in self._directions)):
            self._fail(self._negotiation.missing)
        if not self.decrypted:
            return
        for index, direction in enumerate(self._directions):
            size = len(direction.buffer)
            packet, time_ns = direction.place(direction.position) if direction.places else (0, 0)
            if direction.unframed:
                direction.lose(size, size)
            for lost in self._losses(direction, packet, time_ns):
                yield index, lost
            if size and not direction.unframed:
                yield index, LostRecords(size, size, "of a TLS record that is not whole", packet, time_ns)
            direction.cut(size)

    def give_up(self) -> None:
        """Frees what waits for keys; nothing more is decrypted."""
        if self.failure is None:
            self._fail(self._negotiation.missing)

    # Directions in which data follows data ---------------------------------------------------------------------------

    def hand_over(self, index: int) -> Steady | None:
        """Hands over a direction in which only data is expected, with the bytes that it holds. The receiver decrypts
        its records until a record of another type comes. None where the direction is not handed over.

        Args:
            index: of the direction.
        """
        direction = self._directions[index]
        keys = direction.keys
        unsettled = direction.records or direction.unframed or direction.seeking or direction.lost or direction.early
        if self.failure is not None or unsettled or keys is None or not direction.opened:
            return None
        if keys.protection.parts is None or (self._negotiation.version == TLS_1_3 and direction.stage == 0):
            return None
        return *keys.protection.parts, keys.sequence, direction.hand_over()

    def take_back(self, index: int, sequence: int, opened: int, pieces: Iterable[tuple[bytes, int, int]]) -> None:
        """Takes a direction back.

        Args:
            index: of the direction.
            sequence: number of the next record.
            opened: number of records that were decrypted.
            pieces: bytes that are in none of them: of each packet, with its number and time.
        """
        direction = self._directions[index]
        assert direction.keys is not None
        direction.keys = direction.keys._replace(sequence=sequence)
        direction.opened += opened
        for piece in pieces:
            direction.append(*piece)

    def advance(self, index: int) -> Iterator[TlsEvent]:
        """Continues with the bytes of a direction that was taken back."""
        if self.failure is None:
            yield from self._advance(index)

    # Records --------------------------------------------------------------------------------------------------------

    def _advance(self, index: int) -> Iterator[TlsEvent]:
        """Processes the records of both directions, until neither gets any further."""
        try:
            self._directions[index].cut_records()
            progress = True
            while progress:
                progress = False
                for each in (index, 1 - index):
                    for event in self._processed(each, self._directions[each]):
                        progress = True
                        if event is not None:
                            yield each, event
        except Failed as failed:
            self._fail(str(failed))
        except MalformedHandshake:
            self._fail("a handshake message is malformed")
        if self.failure is None and any(
            direction.waiting > _MOST_WAITING or len(direction.buffer) > _MOST_WAITING for direction in self._directions
        ):
            self._fail(self._negotiation.missing)

    def _processed(self, index: int, direction: Direction) -> Iterator[Chunk | LostRecords | None]:
        """Processes a direction's records until one has to wait; yields events, and None after each record."""
        try:
            while direction.records or (direction.unframed and self._resynchronized(index, direction)):
                record = direction.records[0]
                if isinstance(record, Hole):
                    direction.lose(*record)
                    direction.seeking = True
                    direction.messages.clear()
                    direction.records.popleft()
                    continue
                events = self._record(index, direction, record)
                direction.records.popleft()
                direction.waiting -= len(record.fragment)
                yield from events
                yield None
        except MustWait:
            return

    def _record(self, index: int, direction: Direction, record: TlsRecord) -> list[Chunk | LostRecords]:
        """Processes a record. Raises MustWait (then nothing has changed), Failed and MalformedHandshake."""
        events: list[Chunk | LostRecords] = []
        kind, content = record.kind, record.fragment
        if kind == CHANGE_CIPHER_SPEC and not (direction.protected and self._negotiation.version == TLS_1_2):
            if self._negotiation.version is None:
                raise MustWait
            if self._negotiation.version == TLS_1_2:
                self._protect(index, direction)
            return events  # TLS 1.3 sends them for middleboxes only
        if direction.protected or kind == APPLICATION_DATA:
            opened = self._opened(index, direction, kind, content)
            if opened is None:
                direction.pass_over(HEADER_BYTES + len(content), early=self._is_early(index, direction))
                return events
            kind, content = opened
            events += self._losses(direction, record.packet, record.time_ns)
        if kind == APPLICATION_DATA:
            if content:
                events.append(Chunk(content, record.packet, record.time_ns))
        elif kind == HANDSHAKE:
            for message, body in direction.messages.feed(content):
                self._message(index, direction, message, body)
        elif kind == CHANGE_CIPHER_SPEC:  # of a renegotiation
            self._protect(index, direction)
        elif kind == ALERT and not direction.protected and content[:1] == bytes([_FATAL]):
            raise Failed(f"its handshake failed (alert {content[-1]})")
        return events

    def _losses(self, direction: Direction, packet: int, time_ns: int) -> Iterator[LostRecords]:
        """The losses before a place."""
        if direction.early:
            yield LostRecords(direction.early, direction.early, "of TLS early data (0-RTT)", packet, time_ns)
        if direction.lost:
            reason = "of TLS records that cannot be decrypted" + (f": {self.failure}" if self.failure else "")
            yield LostRecords(direction.lost, direction.lost_captured, reason, packet, time_ns)
        direction.early = direction.lost = direction.lost_captured = 0

    def _opened(self, index: int, direction: Direction, kind: int, fragment: bytes) -> tuple[int, bytes] | None:
        """A protected record decrypted; None if it was not written with any of the keys that are possible here.

        Raises MustWait, Failed.
        """
        certain = False
        for keys, first, last, stage in self._candidates(index, direction):
            certain = certain or stage == direction.stage
            for sequence in range(first, last):
                if direction.seeking:
                    self._trials -= 1
                    if self._trials < 0:
                        raise Failed("too many places were tried after holes")
                try:
                    opened = keys.protection.open(sequence, kind, fragment)
                except Unauthentic:
                    continue
                if self._is_first_data(stage, sequence) and not direction.opened:
                    direction.lost = direction.lost_captured = 0  # of the handshake only
                direction.keys = keys._replace(sequence=sequence + 1)
                direction.stage, direction.protected, direction.seeking = stage, True, False
                direction.opened += 1
                return opened
        if certain and not (direction.opened or direction.seeking or self._is_early(index, direction)):
            raise Failed(f"the secret for client random {self._negotiation.random.hex()} is a wrong one")
        return None

    def _is_early(self, index: int, direction: Direction) -> bool:
        """Whether a record that does not decrypt may be early data: before the first record of the handshake's keys."""
        hello = self._negotiation.hello
        return hello is not None and hello.early_data and not direction.opened and index == self._negotiation.client

    def _is_first_data(self, stage: int, sequence: int) -> bool:
        """Whether no data precedes a record: in TLS 1.2 number 0 is Finished."""
        return sequence <= 1 if self._negotiation.version == TLS_1_2 else stage == 0 or sequence == 0

    def _candidates(self, index: int, direction: Direction) -> Iterator[tuple[Keys, int, int, int]]:
        """Keys with which the next record may be written, the sequence numbers from and before which, and the stage."""
        if self._negotiation.version not in (TLS_1_2, TLS_1_3):
            raise MustWait
        tried = _TRIED_NUMBERS if direction.seeking else 1
        if direction.keys is not None:
            possible = [direction.keys]
        elif self._negotiation.version == TLS_1_2:
            possible = self._negotiation.keys_after_change(index)
        else:
            possible = self._negotiation.traffic_keys(index, direction.stage)
        for keys in possible:
            first = keys.sequence + (direction.lost // _LARGEST_RECORD_BYTES if direction.seeking else 0)
            yield keys, first, first + tried, direction.stage
        if self._negotiation.version == TLS_1_2 or (possible and not direction.seeking):
            return
        following = []
        if direction.stage == 0:
            following = self._negotiation.traffic_keys(index, 1)
        elif direction.keys is not None:
            following = [self._negotiation.updated(direction.keys)]
        for keys in following:
            yield keys, 0, tried, 1

    def _resynchronized(self, index: int, direction: Direction) -> bool:
        """Searches the bytes after a hole for a record; returns whether records are known from there.

        Raises MustWait: its keys are unknown. Its bytes are kept then.
        """
        at = 0
        while found := _PROTECTED_RECORD.search(direction.buffer, at):
            at = found.start()
            end = at + HEADER_BYTES
            if end > len(direction.buffer):
                break
            size = int.from_bytes(direction.buffer[at + 3 : end], "big")
            end += size
            if size <= MAX_FRAGMENT_BYTES:
                if end > len(direction.buffer):
                    break
                if self._begins(index, direction, bytes(direction.buffer[at:end])):
                    direction.drop(at)
                    direction.unframed = False
                    direction.cut_records()
                    return True
            at += 1
        else:
            at = max(at, len(direction.buffer) - 2)
        direction.drop(at)
        return False

    def _begins(self, index: int, direction: Direction, record: bytes) -> bool:
        """Whether bytes after a hole are a record. Its sequence number is the next one then."""
        direction.seeking = True
        if self._opened(index, direction, record[0], record[HEADER_BYTES:]) is None:
            return False
        assert direction.keys is not None
        direction.keys = direction.keys._replace(sequence=direction.keys.sequence - 1)
        direction.opened -= 1  # it is decrypted once more, in its place
        return True

    def _message(self, index: int, direction: Direction, kind: int, body: bytes) -> None:
        self._negotiation.take(index, kind, body)
        if self._negotiation.version == TLS_1_3:
            if kind == handshake.SERVER_HELLO:
                direction.protected = True
            elif kind == handshake.FINISHED:
                direction.stage, direction.keys = 1, None
            elif kind == handshake.KEY_UPDATE and direction.keys is not None:
                direction.keys = self._negotiation.updated(direction.keys)

    def _protect(self, index: int, direction: Direction) -> None:
        """Sets the keys of a direction of TLS 1.2 after its ChangeCipherSpec: where several are possible, its first
        record shows which. Raises MustWait, Failed."""
        possible = self._negotiation.keys_after_change(index)
        direction.keys = possible[0] if len(possible) == 1 else None
        direction.protected = True
        direction.messages.clear()

    def _fail(self, reason: str) -> None:
        self.failure = reason
        for direction in self._directions:
            direction.clear()
