"""Limits of the memory that a capture's connections take together.

The native engine keeps within them: it drops data, and reports what is lost. Python's tracker stops beyond them. The
memory held is determined once in `EVERY_BYTES` of data, so that it never exceeds `MOST_HELD` by more than that.
"""

from __future__ import annotations

#: Bytes that all connections may hold: data ahead of the order, incomplete frames, requests without their responses
#: and responses without their requests; in Python, exchanges that wait for earlier ones, too.
MOST_HELD = 128 << 20
EVERY_BYTES = 16 << 20
#: Connections that are open at the same time. Each takes some kilobytes, however little data it carries.
MOST_OPEN = 20_000
#: A connection without a packet for longer drops the bytes that it compares retransmissions with, at the next check.
IDLE_NS = 300_000_000_000
#: Places of exchanges that wait for earlier ones, and the memory that these take, in bytes. Beyond one of them the
#: oldest open place no longer holds back others.
MOST_PLACES = 100_000
MOST_WAITING = 64 << 20
#: How long an open exchange holds back later ones in live output, in capture time.
LIVE_NS = 1_000_000_000
