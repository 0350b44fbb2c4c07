"""The cut property: a capture that begins at any packet of another one shows what follows, and names what it lacks.

    python -m tests.capture.cuts [--every N] [--python] [--faults] FILE...     # all cuts of captures; prints what fails

For a capture without its first packets, with or without a fault of TCP after the cut:

- each exchange whose request begins in a packet that is left has the row that it has in the whole capture, but for the
  numbers of packets and of connections;
- no other row has a request. Responses whose requests were cut off may have rows, with the `problem` that says so;
- where an exchange has no row or another one, the command's exit code is not 0.

Bytes of frames that begin in a packet that was cut off are the only ones that may be missing without a problem.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from io import BytesIO
from itertools import product
from pathlib import Path
from typing import NamedTuple

import msgspec
import typer
from msgspec.structs import replace

from kafkawire import capture
from kafkawire.capture import Exchanges, ExchangeSelection, Summary, read_packets
from kafkawire.capture.exchange import ReadOptions
from kafkawire.capture.network import TcpSegment, endpoint, parse
from kafkawire.cli.arguments import InputError
from kafkawire.cli.capture_summary import FileNotes
from kafkawire.rows import Exchange

_FILE, _PACKET = 24, 16

#: Reads a capture: the rows, and the command's exit code.
Engine = Callable[[bytes], tuple[list[Exchange], int]]


def native(data: bytes) -> tuple[list[Exchange], int]:
    """With the engine that is in use."""
    return _read(capture.read(BytesIO(data)))


def python(data: bytes) -> tuple[list[Exchange], int]:
    """With the tracker in Python."""
    return _read(
        Exchanges(lambda unread, _: read_packets(BytesIO(data), unread), "-", ReadOptions(), ExchangeSelection())
    )


def _read(found: Exchanges) -> tuple[list[Exchange], int]:
    rows = list(found)
    return rows, exit_code_of(found.summary)


def exit_code_of(summary: Summary) -> int:
    """The command's exit code after a capture."""
    notes = FileNotes()
    notes.summary("capture", summary)
    try:
        notes.end()
    except InputError:  # nothing was recognised
        return 1
    except typer.Exit as ended:
        return ended.exit_code
    return 0


class Recorded(NamedTuple):
    """A capture: the header of its file and of each packet, and the packets."""

    header: bytes
    packets: Sequence[bytes]

    @classmethod
    def of(cls, data: bytes) -> Recorded:
        """`data`: a classic pcap file in this machine's byte order."""
        packets = []
        at = _FILE
        while at < len(data):
            end = at + _PACKET + int.from_bytes(data[at + 8 : at + 12], sys.byteorder)
            packets.append(data[at:end])
            at = end
        return cls(data[:_FILE], packets)

    def file(self, packets: Iterable[bytes]) -> bytes:
        return self.header + b"".join(packets)


class Found(NamedTuple):
    """What a capture shows that was cut: rows that the whole one has not, rows of it that are not there, exit code.

    `connections`: the ends of those that have rows.
    """

    more: list[Exchange]
    lacking: list[Exchange]
    exit_code: int
    connections: set[tuple[str | None, str | None]]

    @property
    def fault(self) -> str | None:
        """What contradicts the property; None where it holds."""
        if self.more:
            return f"another row: {_shown(self.more[0])}"
        if self.lacking and self.exit_code == 0:
            return f"exit code 0 without {len(self.lacking)} rows: {_shown(self.lacking[0])}"
        for row in self.lacking:
            if (row.client, row.broker) in self.connections:
                return f"{len(self.lacking)} rows are not there (exit code {self.exit_code}): {_shown(row)}"
        return None


def numbered(found: Iterable[Exchange], numbers: Sequence[int]) -> list[Exchange]:
    """Rows with packets as they are numbered in the whole capture, without their connection's number.

    Args:
        numbers: the number in the whole capture of each packet that was read.
    """
    return [
        replace(
            row,
            connection=None,
            packet=None if row.packet is None else numbers[row.packet - 1],
            response_packet=None if row.response_packet is None else numbers[row.response_packet - 1],
        )
        for row in found
    ]


def read_from(
    whole: Recorded, rows: Sequence[Exchange], first: int, engine: Engine, order: Sequence[int] | None = None
) -> Found:
    """Compares a capture that was cut with the whole one.

    Args:
        rows: of the whole capture, `numbered`.
        first: the first packet that is left, from 0.
        order: the packets that are left, where they are not those from `first` on.
    """
    left = range(first, len(whole.packets)) if order is None else order
    found, exit_code = engine(whole.file(whole.packets[i] for i in left))
    present = [row for row in numbered(found, [i + 1 for i in left]) if row.request_bytes is not None]
    wanted = [row for row in rows if _begins_behind(row, first)]
    # A copy that TCP sent again may be all that is left of a frame.
    again = {_header(row) for row in rows if not _begins_behind(row, first)}
    return Found(
        [row for row in _without(present, wanted) if _header(row) not in again],
        _without(wanted, present),
        exit_code,
        {(row.client, row.broker) for row in found},
    )


def _begins_behind(row: Exchange, first: int) -> bool:
    """Whether a row has a request, with a header, that begins in a packet that is left."""
    return row.api_key is not None and row.packet is not None and row.packet > first


def _header(row: Exchange) -> tuple[object, ...]:
    return row.client, row.broker, row.api_key, row.version, row.correlation_id


def _without(rows: Iterable[Exchange], others: Iterable[Exchange]) -> list[Exchange]:
    """The rows that are not among others, each as often as it occurs more there."""
    left = Counter(map(msgspec.json.encode, others))
    found = []
    for row in rows:
        key = msgspec.json.encode(row)
        if left[key]:
            left[key] -= 1
        else:
            found.append(row)
    return found


def _shown(row: Exchange) -> str:
    return f"packet {row.packet}, {row.client}: {row.api} v{row.version} {row.correlation_id}: {row.problem}"


def cuts(data: bytes, engine: Engine, firsts: Iterable[int] | None = None) -> Iterator[tuple[int, Found]]:
    """Cuts a capture before each packet; gives the packet, from 0, and what is found from there on.

    Args:
        data: a classic pcap file.
        firsts: the packets; by default all.
    """
    whole = Recorded.of(data)
    rows = numbered(engine(data)[0], range(1, len(whole.packets) + 1))
    for first in range(len(whole.packets)) if firsts is None else firsts:
        yield first, read_from(whole, rows, first, engine)


class Fault(Enum):
    """What happens to one packet. `SWAPPED`: with the next one."""

    LOST = "lost"
    SWAPPED = "swapped"
    DOUBLED = "doubled"


def order_of(fault: Fault, first: int, at: int, count: int) -> list[int]:
    """The packets from `first` on, with a fault of the packet `at`; each from 0."""
    left = list(range(first, count))
    place = at - first
    match fault:
        case Fault.LOST:
            del left[place]
        case Fault.SWAPPED:
            left[place : place + 2] = left[place : place + 2][::-1]
        case Fault.DOUBLED:
            left.insert(place + 2, at)
    return left


def faults(
    data: bytes, engine: Engine, firsts: Iterable[int] | None = None, distances: Iterable[int] = (0, 1, 2, 5)
) -> Iterator[tuple[int, int, Fault, str | None]]:
    """Cuts a capture before each packet, and lets a packet near the cut be lost, swapped or doubled.

    Gives the packet before which it was cut, the packet with the fault, the fault, and what contradicts the property.

    Args:
        firsts: as of `cuts`.
        distances: from the cut to the packets with a fault.
    """
    whole = Recorded.of(data)
    count = len(whole.packets)
    rows = numbered(engine(data)[0], range(1, count + 1))
    segments = [parse(packet.link_type, packet.data) for packet in read_packets(BytesIO(data))]
    for first in range(count) if firsts is None else firsts:
        for at, fault in product([first + distance for distance in distances], Fault):
            if at < count and not (fault is not Fault.DOUBLED and _is_sent_again(segments, at)):
                order = order_of(fault, first, at, count)
                found = read_from(whole, rows, first, engine, order)
                begun = any(_has_data_of(segments[at], segments[i]) for i in range(first, at))
                exact = fault is Fault.DOUBLED or (fault is Fault.SWAPPED and begun)
                yield first, at, fault, found.fault if exact else _with_fault(found, segments, order, first, at)


def _is_sent_again(segments: Sequence[object], at: int) -> bool:
    """Whether another packet has the same bytes, so that the loss of this one changes no more than a time."""
    gone = segments[at]
    return any(
        _has_data_of(gone, other) and (other.sequence, other.payload) == (gone.sequence, gone.payload)
        for other in (*segments[max(0, at - 20) : at], *segments[at + 1 : at + 20])
    )


def _with_fault(found: Found, segments: Sequence[object], order: Sequence[int], first: int, at: int) -> str | None:
    """What contradicts the property where a packet was lost, or moved behind the first ones of its direction.

    Its connection may have other rows, with a problem. A loss shows in bytes of its sender on both sides of it, or in
    an acknowledgment of its bytes; otherwise it is as if the capture began behind it, or ended before it.
    """
    gone = segments[at]
    assert isinstance(gone, TcpSegment)
    ends = {endpoint(gone.source), endpoint(gone.destination)}
    for row in (*found.more, *found.lacking):
        if {row.client, row.broker} != ends:
            return f"a connection without the fault has other rows: {_shown(row)}"
    for row in found.more:
        if row.problem is None:
            return f"another row: {_shown(row)}"
    if not found.lacking or found.exit_code != 0:
        return None
    begun = any(_has_data_of(gone, segments[i]) for i in range(first, at))
    if at in order or (begun and any(_shows(gone, segments[i]) for i in range(at + 1, len(segments)))):
        return f"exit code 0 without {len(found.lacking)} rows: {_shown(found.lacking[0])}"
    return None


def _has_data_of(one: object, other: object) -> bool:
    """Whether a segment has data in the direction of another one."""
    if not isinstance(one, TcpSegment) or not isinstance(other, TcpSegment) or not other.payload:
        return False
    return (other.source, other.destination) == (one.source, one.destination)


def _shows(gone: TcpSegment, later: object) -> bool:
    """Whether a later segment shows that a segment was sent."""
    if not isinstance(later, TcpSegment) or not gone.payload:
        return False
    if _has_data_of(gone, later):
        return later.sequence != gone.sequence
    end = gone.sequence + len(gone.payload)
    return (later.source, later.destination) == (gone.destination, gone.source) and later.acknowledgment >= end


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="+", type=Path)
    parser.add_argument("--every", type=int, default=1, help="cut before each N-th packet")
    parser.add_argument("--faults", action="store_true", help="with faults of TCP behind the cut")
    parser.add_argument("--python", action="store_true", help="the tracker in Python")
    asked = parser.parse_args()
    for file in asked.file:
        data = file.read_bytes()
        engine = python if asked.python else native
        firsts = range(0, len(Recorded.of(data).packets), asked.every)
        count = bad = 0
        for first, at, fault, wrong in (
            faults(data, engine, firsts)
            if asked.faults
            else ((first, None, None, found.fault) for first, found in cuts(data, engine, firsts))
        ):
            count += 1
            if wrong is not None:
                bad += 1
                event = "" if fault is None else f", packet {at + 1} {fault.value}"
                print(f"{file}: without the first {first} packets{event}: {wrong}")
        print(f"{file}: {count} captures, {bad} that contradict the property")


if __name__ == "__main__":
    main()
