"""Captures: from packets to messages.

    for exchange in capture.read("trace.pcap"):       # rows.Exchange: a request and its response
        exchange.api, exchange.latency_ms, exchange.errors

The pieces can be used alone: `read_packets` (files), `parse` (a packet to a TCP segment), `Fragments` (to IP
datagrams), `Stream` (segments to bytes in order), `frames.FrameReader` (bytes to frames).
"""

from kafkawire.capture.fragments import Fragment, Fragments
from kafkawire.capture.network import Segment, Skipped, parse, transport
from kafkawire.capture.packets import Packet, read_packets
from kafkawire.capture.reader import Exchanges, Summary, read
from kafkawire.capture.streams import Chunk, Conflict, Gap, Stream

__all__ = [
    "Chunk",
    "Conflict",
    "Exchanges",
    "Fragment",
    "Fragments",
    "Gap",
    "Packet",
    "Segment",
    "Skipped",
    "Stream",
    "Summary",
    "parse",
    "read",
    "read_packets",
    "transport",
]
