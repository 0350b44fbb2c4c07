"""Packet captures: from packets to requests with their responses.

    for exchange in capture.read("trace.pcap"):       # rows.Exchange: a request and its response
        exchange.api, exchange.latency_ms, exchange.errors

Each stage can be used alone: `read_packets` (files to packets), `parse` (a packet to a TCP segment), `Fragments`
(reassembly of IP datagrams), `Stream` (segments to bytes in order), `frames.FrameReader` (bytes to frames).
"""

from kafkawire.capture.exchange import CapturedExchange
from kafkawire.capture.exchange_selection import ExchangeSelection
from kafkawire.capture.file_damage import UnreadPart
from kafkawire.capture.fragments import Fragment, Fragments
from kafkawire.capture.named_entities import NamedEntities
from kafkawire.capture.network import Skipped, TcpSegment, parse, transport
from kafkawire.capture.packet import Packet
from kafkawire.capture.packets import read_packets
from kafkawire.capture.reader import Exchanges, read
from kafkawire.capture.statistics import Statistics
from kafkawire.capture.summary import Summary
from kafkawire.capture.tcp_stream import Chunk, Conflict, Loss, Stream
from kafkawire.capture.timeline import Timeline, steps
from kafkawire.capture.tracker import ColumnsOfExchanges, LinesOfExchanges, StatisticsOfExchanges

__all__ = [
    "CapturedExchange",
    "Chunk",
    "ColumnsOfExchanges",
    "Conflict",
    "ExchangeSelection",
    "Exchanges",
    "Fragment",
    "Fragments",
    "LinesOfExchanges",
    "Loss",
    "NamedEntities",
    "Packet",
    "Skipped",
    "Statistics",
    "StatisticsOfExchanges",
    "Stream",
    "Summary",
    "TcpSegment",
    "Timeline",
    "UnreadPart",
    "parse",
    "read",
    "read_packets",
    "steps",
    "transport",
]
