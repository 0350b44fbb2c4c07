"""`Summary`: what was met in a capture, in numbers that do not grow with it."""

from __future__ import annotations

import re
from collections import Counter

import msgspec

from kafkawire.rows import Exchange

#: Kinds of problems that are counted apart; in their words, numbers are left out.
_MOST_KINDS = 100
_NUMBER = re.compile(r"\d+")


class Summary(msgspec.Struct):
    """What was met so far; complete when all exchanges have been taken.

    Attributes:
        packets: in the file. `skipped`: those that hold no TCP segment that could be read, by reason.
        connections: TCP connections by what they carry: `kafka`, `tls`, `other`, `undecided` (too little was captured);
            `bytes`: data in their packets, what came again too.
        repeated, cut: of Kafka's connections, bytes that came again, and that the capture left out of packets.
        joined: Kafka's connections whose beginning was not captured, and which carried something before the first frame
            that was captured whole; `joined_bytes`: how much. All other bytes are in frames, each in one exchange, or
            in a `problem`.
        exchanges: all, and `selected` those that were asked for.
        problems: what could not be decoded, or is missing, of all exchanges, and how often, by kind: its words with `N`
            for numbers. `first`: the first of each kind, as it was told.
        damage: why the file, or a part of it, could not be read; the first of such reasons. `unread`: bytes of those
            parts, without what no decompressor gave.
    """

    packets: int = 0
    skipped: Counter[str] = msgspec.field(default_factory=Counter)
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

    @property
    def no_kafka(self) -> str:
        """What was met instead, in words."""
        found = ", ".join(f"{number} {kind}" for kind, number in sorted(self.connections.items()))
        passed = "".join(f"; {count} packets: {reason}" for reason, count in self.skipped.most_common())
        return f"no Kafka was recognised in {self.packets} packets (TCP connections: {found or 'none'}{passed})"

    def problem_of(self, row: Exchange) -> None:
        """Counts the problem of a row, if it has one."""
        if row.problem is None:
            return
        kind = _NUMBER.sub("N", row.problem)
        # A stranger's bytes may be in the words: the kinds are bounded.
        if kind not in self.problems and len(self.problems) >= _MOST_KINDS:
            kind = "others"
        self.problems[kind] += 1
        packet = row.packet or row.response_packet
        self.first.setdefault(kind, row.problem if packet is None else f"packet {packet}: {row.problem}")
