"""`Summary`: counts of a capture's content, in memory that does not grow with the capture."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

import msgspec

from kafkawire.capture.encapsulations import Step, path
from kafkawire.capture.network import Skipped
from kafkawire.rows import Exchange

if TYPE_CHECKING:
    from kafkawire.capture.tls import TlsSession

#: Kinds of problems that are counted separately. Sentences that differ in numbers only are one kind.
_MOST_KINDS = 100
#: Kinds of skipped packets that a sentence lists.
_MOST_LISTED = 10
#: A TLS connection whose handshake was not captured: its kind, and why it is not decrypted.
NO_HANDSHAKE = (
    "TLS, whose handshake was not captured",
    "its TLS handshake was not captured: start the capture first, then reconnect the client",
)
_NUMBER = re.compile(r"\d+")


class Summary(msgspec.Struct):
    """Counts of what was read so far; complete when all exchanges have been consumed.

    Attributes:
        packets: packets in the file. `skipped`: those without a readable TCP segment, by reason. `contents`: the same
            by what they were: EtherType, IP protocol or UDP port, inside which encapsulations.
        connections: TCP connections by their content: `kafka`, `tls`, `other`, `undecided` (too little was captured),
            `likely` (the same, and a packet begins with what may be a whole request of Kafka's: frames that are in no
            row); `bytes`: payload of their packets, retransmissions included.
        repeated, cut: retransmitted bytes of Kafka's connections, and bytes that the capture left out of their packets.
        joined: Kafka's connections that began before the capture and have bytes before their first complete frame;
            `joined_bytes`: the number of those bytes. All other bytes are in frames, each in one exchange, or in a
            `problem`.
        exchanges: number of all exchanges; `selected`: of those that match the selection.
        problems: how often each kind of problem occurred, by its sentence with `N` for numbers. `first`: the first
            sentence of each kind.
        damage: the first reason why a part of the file could not be read. `unread`: bytes of all unreadable parts that
            are in the decompressed data.
        decrypted: TLS connections of which anything was decrypted. `tls`: TLS connections by version, cipher suite and
            names. `encrypted`: why others were not decrypted, by endpoints; the first ones.
        key_log: a sentence for each line of a key log that cannot be read; the first ones.
    """

    packets: int = 0
    skipped: Counter[str] = msgspec.field(default_factory=Counter)
    contents: Counter[str] = msgspec.field(default_factory=Counter)
    connections: Counter[str] = msgspec.field(default_factory=Counter)
    bytes: Counter[str] = msgspec.field(default_factory=Counter)
    repeated: int = 0
    cut: int = 0
    joined: int = 0
    joined_bytes: int = 0
    exchanges: int = 0
    selected: int = 0
    problems: Counter[str] = msgspec.field(default_factory=Counter)
    first: dict[str, str] = msgspec.field(default_factory=dict)
    damage: str | None = None
    unread: int = 0
    decrypted: int = 0
    tls: Counter[str] = msgspec.field(default_factory=Counter)
    encrypted: dict[str, str] = msgspec.field(default_factory=dict)
    key_log: list[str] = msgspec.field(default_factory=list)

    @property
    def no_kafka(self) -> str:
        """The sentence for a capture without Kafka's protocol: what was found instead."""
        found = ", ".join(f"{number} {kind}" for kind, number in sorted(self.connections.items()))
        kinds = self.contents.most_common()
        listed = [f"; {_packets(count)}: {what}" for what, count in kinds[:_MOST_LISTED]]
        if rest := kinds[_MOST_LISTED:]:
            listed.append(f"; {_packets(sum(count for _, count in rest))} of {len(rest)} more kinds")
        return (
            f"no Kafka was recognised in {_packets(self.packets)} (TCP connections: {found or 'none'}{''.join(listed)})"
        )

    def skip(self, reason: Skipped, steps: list[Step], count: int = 1) -> None:
        """Counts packets without a TCP segment.

        Args:
            reason: why they have none.
            steps: of `network.parse`.
            count: their number.
        """
        self.skipped[reason.value] += count
        what = path(steps)
        if reason not in (Skipped.LINK, Skipped.NOT_IP, Skipped.NOT_TCP):  # the last step names those
            what += (", inside: " if what else "") + reason.value
        self.contents[_kind(self.contents, what)] += count

    def connection(self, verdict: str, size: int, *, repeated: int, cut: int, joined: int) -> None:
        """Counts a connection that is over.

        Args:
            verdict: `kafka`, `tls`, `other`, `undecided` or `likely`.
            size: bytes of its payload.
            repeated, cut, joined: bytes, of Kafka's connections; see the attributes.
        """
        self.connections[verdict] += 1
        self.bytes[verdict] += size
        self.repeated += repeated
        self.cut += cut
        self.joined += joined > 0
        self.joined_bytes += joined

    def tls_connection(self, ends: tuple[str, str], session: TlsSession | None) -> None:
        """Counts a TLS connection that is over. `session`: None if its handshake was not captured."""
        kind = NO_HANDSHAKE[0] if session is None else session.description
        self.tls[_kind(self.tls, kind)] += 1
        self.decrypted += session is not None and session.decrypted
        failure = NO_HANDSHAKE[1] if session is None else session.failure
        if failure is not None and len(self.encrypted) < _MOST_KINDS:
            self.encrypted.setdefault(" - ".join(ends), failure)

    def problem_of(self, row: Exchange) -> None:
        """Counts the problem of a row that has one."""
        if row.problem is not None:
            self.problem(row.problem, row.packet or row.response_packet)

    def problem(self, problem: str, packet: int | None) -> None:
        """Counts a problem. `packet`: the first one of its exchange."""
        kind = _kind(self.problems, _NUMBER.sub("N", problem))
        self.problems[kind] += 1
        self.first.setdefault(kind, problem if packet is None else f"packet {packet}: {problem}")


def _kind(counted: Counter[str], kind: str) -> str:
    """The kind to count: texts may contain bytes of the capture, so that beyond a limit there are only `others`."""
    return kind if kind in counted or len(counted) < _MOST_KINDS else "others"


def _packets(count: int) -> str:
    return f"{count:,} packet{'s' * (count != 1)}"
