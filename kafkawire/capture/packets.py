"""`read_packets`: the packets of capture files, classic pcap and pcapng.

Both walk forward over a file and never seek, so a pipe will do, or a decompressor. What cannot be read is raised as
`CaptureError` with its place in the file, after the packets before it; or it is told, and the walk goes on behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from kafkawire.capture.damage import UnreadPart, skip
from kafkawire.capture.files import EndOfReadableData, Lookahead, Readable, decompressed
from kafkawire.capture.packet import Packet, PacketRun
from kafkawire.capture.pcap import MAGIC, Pcap
from kafkawire.capture.pcapng import SECTION, PcapNg
from kafkawire.errors import CaptureError


def read_packets(file: Readable, unread: Callable[[UnreadPart], None] | None = None) -> Iterator[Packet]:
    """The packets of a capture file, whichever format it has; compressed with gzip or zstd, or not.

    Args:
        unread: is told of each part of the file that could not be read; reading goes on behind it. Without, the first
            such part is raised.

    Raises:
        CaptureError: no capture file, or one whose content cannot be decompressed any further; without `unread`, any
            part that cannot be read (after the packets before it).
        MissingExtraError: it is compressed with zstd, and nothing here can decompress it.
    """
    for found in read_runs(file, unread, None):
        assert isinstance(found, Packet)
        yield found


def read_runs(file: Readable, unread: Callable[[UnreadPart], None] | None, lanes: Any) -> Iterator[Packet | PacketRun]:
    """As `read_packets`; but runs of packets that `lanes` (of the native engine) can take are given to it at once."""
    source = Lookahead(file)
    plain = decompressed(source)
    if plain is not None:
        source = Lookahead(plain)
    magic = source.at(0, 4)
    walk: Pcap | PcapNg
    if magic in MAGIC:
        walk = Pcap(source, lanes)
    elif magic == SECTION:
        walk = PcapNg(source, doubting=unread is not None)
    else:
        found = f"a file that begins with {magic.hex(' ')}" if magic else "an empty file"
        raise CaptureError(expected="a pcap or pcapng file", found=found, offset=0)
    yield from walk.packets() if unread is None else _resumed(walk, unread)


def _resumed(walk: Pcap | PcapNg, unread: Callable[[UnreadPart], None]) -> Iterator[Packet | PacketRun]:
    """The packets before and behind all damage. Parts that follow each other are told as one."""
    lost: UnreadPart | None = None
    ended: EndOfReadableData | None = None
    while ended is None and (lost is None or lost.resumed):
        try:
            for packet in walk.packets():
                if lost is not None:
                    unread(lost)
                    lost = None
                yield packet
            break
        except EndOfReadableData as error:
            ended = error
        except CaptureError as error:
            position = walk.file.position
            try:
                count, found = skip(walk.file, walk.headers)
            except EndOfReadableData as end:  # up to there nothing was found
                ended, count, found = end, end.offset - position, False
            if lost is not None and lost.position + lost.bytes == position:
                lost.bytes += count
                lost.resumed = found
                continue
            if lost is not None:
                unread(lost)
            lost = UnreadPart(position, count, error, found)
    if lost is not None and not walk.number:
        raise lost.error
    if lost is not None:
        unread(lost)
    if ended is not None:
        raise ended
