"""Captures: from packets to messages.

    for exchange in capture.read("trace.pcap"):       # rows.Exchange: a request and its response
        exchange.api, exchange.latency_ms, exchange.errors

The pieces can be used alone: `read_packets` (files), `parse` (a packet to a TCP segment), `Fragments` (to IP
datagrams), `Stream` (segments to bytes in order), `frames.FrameReader` (bytes to frames).
"""

from kafkawire.capture.damage import Unread
from kafkawire.capture.fragments import Fragment, Fragments
from kafkawire.capture.matched import Matched
from kafkawire.capture.network import Segment, Skipped, parse, transport
from kafkawire.capture.packet import Packet
from kafkawire.capture.packets import read_packets
from kafkawire.capture.reader import Exchanges, read
from kafkawire.capture.selection import Selection
from kafkawire.capture.statistics import Statistics
from kafkawire.capture.streams import Chunk, Conflict, Gap, Stream
from kafkawire.capture.subjects import Subjects
from kafkawire.capture.summary import Summary
from kafkawire.capture.timeline import Timeline, steps

__all__ = [
    "Chunk",
    "Conflict",
    "Exchanges",
    "Fragment",
    "Fragments",
    "Gap",
    "Matched",
    "Packet",
    "Segment",
    "Selection",
    "Skipped",
    "Statistics",
    "Stream",
    "Subjects",
    "Summary",
    "Timeline",
    "Unread",
    "parse",
    "read",
    "read_packets",
    "steps",
    "transport",
]
