"""`kafkawire capture`: the requests and responses in packet captures, row by row."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, BinaryIO

import typer

from kafkawire import rows
from kafkawire.cli import arguments, output, output_file
from kafkawire.cli import capture_options as given
from kafkawire.cli.capture_summary import FileNotes
from kafkawire.cli.exit_codes import FOUND, FOUND_INCOMPLETE, INCOMPLETE
from kafkawire.cli.formatting import json_bytes
from kafkawire.cli.interrupt import ending_input
from kafkawire.cli.option_groups import grouped, refusing
from kafkawire.cli.progress import Advance, progress, watched
from kafkawire.cli.table import TableView, Views
from kafkawire.wire import backend

if TYPE_CHECKING:
    from kafkawire.capture import CapturedExchange, Exchanges
    from kafkawire.capture.old_clients import OldClients
    from kafkawire.capture.tracker import FoundExchanges

_BODIES = ("request", "response")
#: Bytes read between two updates of the progress bar.
_STEP = 1 << 20

#: The table columns of each kind of row.
_VIEWS: Views = {
    rows.Exchange: TableView(
        columns=(
            "time", "client", "broker", "api", "version", "client_id", "latency_ms", "request_bytes",
            "response_bytes", "errors", "problem", *_BODIES,
        ),
        primary=("time", "api", "errors", "problem"),
        minor=("version", "request_bytes", "response_bytes", "client", "broker", "client_id"),
        prose=("problem",),
    ),
    rows.ExchangeStatistics: TableView(
        columns=(
            "api", "version", "client_id", "count", "unanswered", "request_bytes", "response_bytes",
            "latency_p50_ms", "latency_p99_ms", "latency_max_ms", "errors", "problems",
        ),
        primary=("api", "version", "client_id", "count", "latency_p99_ms", "errors"),
        minor=("request_bytes", "response_bytes", "latency_p50_ms"),
    ),
    rows.OldClient: TableView(
        columns=(
            "client_id", "host", "software_name", "software_version", "api", "version", "speaks", "count", "packet",
        ),
        primary=("client_id", "host", "api", "version", "speaks", "count"),
        minor=("software_name", "software_version", "packet"),
    ),
    rows.TimelineStep: TableView(
        columns=(
            "time", "connection", "broker", "api", "version", "producer_id", "what", "latency_ms", "errors",
            "problem",
        ),
        primary=("time", "api", "what", "errors", "problem"),
        minor=("version", "connection", "broker"),
        prose=("what", "problem"),
    ),
}  # fmt: skip


def register(app: typer.Typer) -> None:
    app.command("capture")(capture)


@refusing(*given.REFUSALS)
@grouped(*given.GROUPS)
def capture(
    files: given.Files,
    body: given.Body = False,
    records: given.Records = False,
    no_payloads: given.NoPayloads = False,
    show_secrets: given.ShowSecrets = False,
    stats: given.Stats = False,
    breaks_at: given.BreaksAt = None,
    timeline: given.Timeline = None,
    frames_out: given.FramesOut = None,
    keylog: given.Keylog = None,
    decode_as: given.DecodeAs = None,
    follow: given.Follow = False,
    schemas: arguments.MoreSchemasOption = None,
    api: given.Api = None,
    client_id: given.ClientId = None,
    topic: given.Topic = None,
    transactional_id: given.TransactionalId = None,
    producer_id: given.ProducerId = None,
    errors: given.Errors = False,
    slow: given.Slow = None,
    connection: given.Connection = None,
    port: given.Port = None,
    time: given.Time = None,
    format: given.FormatOption = None,
    to: output.OutputOption = None,
    wide: output.WideOption = False,
    no_cut: output.NoCutOption = False,
) -> None:
    """Print the exchanges in packet captures: a row for each request and its response.

    Kafka's protocol is recognised by content, not by port. An exchange must match all options that choose exchanges;
    of an option given more than once it must match one value. Exit code 4: something could not be read or decoded; the
    `problem` of its row has the place and the reason.

    \b
    Live traffic, until Ctrl-C:
      tcpdump -i any -U -w - port 9092 | kafkawire capture -
    Which clients are slow, and which get errors?
      kafkawire capture trace.pcap --stats
      kafkawire capture trace.pcap --slow 500 --api Produce --api Fetch
    One transactional producer, over all its connections:
      kafkawire capture trace.pcap --timeline orders-service
    Over TLS, with the secrets that a client or broker has written:
      kafkawire capture trace.pcap --keylog keys.log
    Messages of your own, whose schemas are in my/:
      kafkawire capture trace.pcap --body --schemas my/
    A ring buffer that dumpcap or tcpdump rotates over; the quotes keep the pattern from the shell:
      kafkawire capture --follow 'ring*.pcapng'
    One message as bytes:
      kafkawire capture trace.pcap --api WriteTxnMarkers --frames-out frames
      kafkawire decode --frame frames/000001-WriteTxnMarkers-v1.req.bin
    """
    from kafkawire.capture import CapturedExchange, steps
    from kafkawire.capture.ring import files_of, is_ring
    from kafkawire.cli.capture_frames import FrameFiles

    old = None if breaks_at is None else _old_clients(breaks_at)
    if follow and (stats or len(files) > 1):
        raise typer.BadParameter(
            "--follow does not end: it needs a single file or a pattern in quotes, and excludes --stats"
        )
    if follow and backend.native is None:
        raise typer.BadParameter("pure Python does not follow captures: --follow needs the native engine")
    spans = format is given.CaptureFormat.otlp
    if spans and (stats or timeline is not None or old is not None or body or records):
        raise typer.BadParameter(
            "otlp-json has spans: it excludes --stats, --timeline, --breaks-at, --body and --records"
        )
    printed = output.Format.jsonl if spans else None if format is None else output.Format(format.value)
    inputs = [each for file in files for each in (file, *(files_of(file) if is_ring(file) else ()))]
    output_file.check_output(to, [*inputs, *(keylog or ()), schemas])
    given.check_keylog(keylog)
    rules = given.checked_rules(decode_as)
    body = (body or records) and not stats and timeline is None
    registry = arguments.registry_with(schemas)
    selection = given.selection(
        apis=api,
        registry=registry,
        client_ids=client_id,
        topics=topic,
        transactional_ids=transactional_id,
        producer_ids=producer_id,
        errors=errors,
        slow_ms=slow,
        connections=connection,
        ports=port,
        time=time,
    )
    frames = None if frames_out is None else FrameFiles(frames_out, inputs, show_secrets=show_secrets)
    notes = FileNotes()
    exchanges_only = not stats and timeline is None and old is None and frames is None and not spans
    lines, columns = output.takes_lines(printed, to), output.takes_columns(printed, to)

    def exchanges() -> Iterator[FoundExchanges]:
        from kafkawire.capture import StatisticsOfExchanges
        from kafkawire.capture.old_clients import API_VERSIONS
        from kafkawire.capture.producer_overlaps import APIS, ProducerOverlaps
        from kafkawire.capture.reader import read_with
        from kafkawire.capture.timeline import APIS as TIMELINE_APIS

        for file in files:
            try:
                opened = None if is_ring(file) else _opened(file, advance)
            except OSError as error:
                notes.failed(file, error.strerror or str(error))
                continue
            with opened or nullcontext(file) as source:
                found = read_with(
                    source,
                    body=body,
                    text=lines or columns,
                    records=records,
                    payloads=not no_payloads,
                    show_secrets=show_secrets,
                    follow=follow and (lambda: not ended()),
                    live=file == "-" and backend.native is not None,
                    keep=frames is not None,
                    spans=spans,
                    keep_messages=TIMELINE_APIS if timeline is not None else (),
                    follows=timeline,
                    lines=lines and exchanges_only,
                    columns=json_bytes if columns and exchanges_only else None,
                    keep_requests=APIS if stats else () if old is None else (API_VERSIONS,),
                    statistics=stats and frames is None,
                    selection=selection,
                    size=None if opened is None else opened.size,
                    keylog=keylog or (),
                    decode_as=rules,
                    registry=registry,
                )
                overlaps = ProducerOverlaps()
                for matched in _matched(found, file, notes):
                    if isinstance(matched, StatisticsOfExchanges):
                        overlaps.add_uses(matched.uses)
                    elif stats and isinstance(matched, CapturedExchange):
                        overlaps.add(matched)
                    yield matched
                if stats:
                    notes.tls(file, found.summary)
                    notes.overlaps(file, overlaps)
            ended()  # a pipe does not ask at its end

    def written() -> Iterator[FoundExchanges]:
        for matched in exchanges():
            if frames is not None and isinstance(matched, CapturedExchange):
                frames.write(matched)
            yield matched

    def printable() -> Iterator[Any]:
        if spans:
            from kafkawire import __version__
            from kafkawire.capture.otlp import export

            return export(written(), version=__version__, live=live)
        if stats:
            return _statistics(written())
        if old is not None:
            return _of_old_clients(_single(written()), old, notes)
        if timeline is not None:
            nothing = f"no request of the transactional or producer id {timeline!r}"
            return _noted(steps(_single(written()), timeline), notes, nothing)
        return _rows(written())

    of_requests = rows.OldClient if old is not None else rows.Exchange if timeline is None else rows.TimelineStep
    live = follow or ("-" in files and not output_file.is_regular(sys.stdin))
    with ending_input(wanted=live) as ended, progress(_total(inputs), shown=watched(to) and not follow) as advance:
        kinds = [rows.ExchangeStatistics if stats else of_requests]
        shown = output.Shown(printed, to, wide, no_cut)
        shown.print(printable(), kinds, _VIEWS, unset=() if body else _BODIES, live=live)
    found = old is not None and bool(old.rows())
    try:
        notes.end(interrupted=ended())
    except typer.Exit as ending:
        if found and ending.exit_code == INCOMPLETE:
            raise typer.Exit(FOUND_INCOMPLETE) from None
        raise
    if found:
        raise typer.Exit(FOUND)


def _old_clients(release: str) -> OldClients:
    """Counts the requests of versions that a release does not speak; a usage error for an unknown release."""
    from kafkawire import versions
    from kafkawire.capture.old_clients import OldClients

    try:
        return OldClients(release, versions.of(release))
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--breaks-at") from None


def _of_old_clients(found: Iterator[CapturedExchange], old: OldClients, notes: FileNotes) -> Iterator[rows.OldClient]:
    for exchange in found:
        old.add(exchange)
    if old.left_out:
        notes.note(f"{old.left_out} requests of more clients are not listed")
    yield from old.rows()


def _rows(found: Iterator[FoundExchanges]) -> Iterator[rows.Exchange | rows.Lines | rows.Columns]:
    """The rows of exchanges, one by one, as lines or as columns."""
    from kafkawire.capture import CapturedExchange, ColumnsOfExchanges, LinesOfExchanges

    for each in found:
        if isinstance(each, CapturedExchange):
            yield each.row
        elif isinstance(each, LinesOfExchanges):
            yield rows.Lines(0, memoryview(each.data))
        elif isinstance(each, ColumnsOfExchanges):
            yield rows.Columns(0, each.count, each.arrays)


def _single(found: Iterator[FoundExchanges]) -> Iterator[CapturedExchange]:
    """The exchanges of a reading without lines and columns."""
    from kafkawire.capture import CapturedExchange

    return (each for each in found if isinstance(each, CapturedExchange))


def _noted(found: Iterator[rows.Row], notes: FileNotes, nothing: str) -> Iterator[rows.Row]:
    first = next(found, None)
    if first is None:
        notes.note(nothing)
        return
    yield first
    yield from found


def _statistics(found: Iterator[FoundExchanges]) -> Iterator[rows.ExchangeStatistics]:
    from kafkawire.capture import CapturedExchange, Statistics, StatisticsOfExchanges

    statistics = Statistics()
    for each in found:
        if isinstance(each, StatisticsOfExchanges):
            statistics.add_groups(each.groups)
        elif isinstance(each, CapturedExchange):
            statistics.add(each.row)
    yield from statistics.rows()


def _matched(exchanges: Exchanges, file: str, notes: FileNotes) -> Iterator[FoundExchanges]:
    """The exchanges of one file. Its errors become notes, so that the next file is read."""
    from kafkawire.errors import CaptureError

    try:
        yield from exchanges.found()
    except CaptureError as error:
        notes.failed(file, str(error))
        return
    except OSError as error:
        notes.failed(file, error.strerror or str(error))
        if not exchanges.summary.packets:
            return
    notes.summary(file, exchanges.summary)


# Files ---------------------------------------------------------------------------------------------------------------


class _ProgressFile:
    """A file whose reading advances a progress bar.

    `name`: as given; `size`: length in bytes when opened, None for standard input.
    """

    def __init__(self, file: BinaryIO, name: str, advance: Advance) -> None:
        self.size = os.fstat(file.fileno()).st_size if name != "-" else None
        self._file: Any = file  # `BinaryIO` has no `read1`
        self._advance = advance
        self._unreported = 0
        self.name = name

    def __enter__(self) -> _ProgressFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._advance(self._unreported)
        if self._file is not sys.stdin.buffer:
            self._file.close()

    def read(self, size: int, /) -> bytes:
        return self._advanced(self._file.read(size))

    def read1(self, size: int, /) -> bytes:
        return self._advanced(self._file.read1(size))

    def _advanced(self, data: bytes) -> bytes:
        self._unreported += len(data)
        if self._unreported >= _STEP:
            self._advance(self._unreported)
            self._unreported = 0
        return data


def _opened(file: str, advance: Advance) -> _ProgressFile:
    if file == "-":
        return _ProgressFile(sys.stdin.buffer, "-", advance)
    return _ProgressFile(open(file, "rb", buffering=_STEP), file, advance)


def _total(files: list[str]) -> int:
    return sum(os.path.getsize(file) for file in files if os.path.isfile(file))
