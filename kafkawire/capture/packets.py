"""`read_packets`: the packets of capture files, classic pcap and pcapng.

Both formats are read forward without seeking, so that pipes and decompressors can be read. A part that cannot be read
is raised as a `CaptureError` with its position, after the packets before it; or it is passed to a callback, and reading
continues after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from kafkawire.capture.file_damage import UnreadPart, skip
from kafkawire.capture.files import EndOfReadableData, Lookahead, Readable, decompressed
from kafkawire.capture.packet import Packet, PacketRun
from kafkawire.capture.pcap import MAGIC, Pcap
from kafkawire.capture.pcapng import SECTION, PcapNg
from kafkawire.errors import CaptureError

#: What is expected where a file is no capture at all.
NO_CAPTURE = "a pcap or pcapng file"


def read_packets(file: Readable, unread: Callable[[UnreadPart], None] | None = None) -> Iterator[Packet]:
    """The packets of a capture file: pcap or pcapng, also compressed with gzip or zstd.

    Args:
        unread: called with each part of the file that cannot be read; reading continues after it. None: the first
            unreadable part is raised.

    Raises:
        CaptureError: the file is no capture, or cannot be decompressed further; without `unread`, also for a part that
            cannot be read, after the packets before it.
        MissingExtraError: the file is compressed with zstd, and no installed library decompresses that.
    """
    for found in read_runs(file, unread, None):
        assert isinstance(found, Packet)
        yield found


def read_runs(
    file: Readable,
    unread: Callable[[UnreadPart], None] | None,
    engine: Any,
    keys: Callable[[bytes], None] | None = None,
    before: int = 0,
) -> Iterator[Packet | PacketRun]:
    """The packets of a capture file (`read_packets`); runs of packets that the native tracker `engine` can parse go to
    it.

    Args:
        keys: called with each TLS key log in the file.
        before: number of packets before those of the file.
    """
    source = Lookahead(file)
    plain = decompressed(source)
    if plain is not None:
        source = Lookahead(plain)
    magic = source.at(0, 4)
    walk: Pcap | PcapNg
    if magic in MAGIC:
        walk = Pcap(source, engine, before)
    elif magic == SECTION:
        walk = PcapNg(source, doubting=unread is not None, keys=keys, engine=engine, before=before)
    else:
        found = f"a file that begins with {magic.hex(' ')}" if magic else "an empty file"
        raise CaptureError(expected=NO_CAPTURE, found=found, offset=0)
    yield from walk.packets() if unread is None else _resumed(walk, unread)


def _resumed(walk: Pcap | PcapNg, unread: Callable[[UnreadPart], None]) -> Iterator[Packet | PacketRun]:
    """The packets before and after all damage. Adjacent unreadable parts are reported as one."""
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
            except EndOfReadableData as end:  # no header was found up to there
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
