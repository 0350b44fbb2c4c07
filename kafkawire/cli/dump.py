"""`kafkawire dump`: what a broker's log directories hold, row by row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import msgspec
import typer

from kafkawire import rows
from kafkawire.cli import arguments, output
from kafkawire.cli import dump_options as given
from kafkawire.cli.arguments import InputError
from kafkawire.cli.exit_codes import ReadOutcome
from kafkawire.cli.formatting import json_bytes, printable_characters
from kafkawire.cli.option_groups import grouped, refusing
from kafkawire.cli.output_file import check_log_output, check_output
from kafkawire.cli.progress import Advance, progress, total_size, watched
from kafkawire.cli.ranges import offset_range, time_range
from kafkawire.cli.source_options import ClusterOption, PartitionsOption, TierKeysOption, check_source
from kafkawire.cli.table import TableView, Views
from kafkawire.cli.txn_options import ConfigOption, TopicOption

if TYPE_CHECKING:
    from kafkawire.logdir import LogDirectory, LogFile, Options, OutcomesByFile
    from kafkawire.logdir.located_file import LocatedFile
    from kafkawire.logdir.view import IsolationLevel
    from kafkawire.records import Damage

    #: A row, or many of them.
    Made = rows.Row | rows.Lines | rows.Columns
    #: Makes the rows of a file.
    RowsOf = Callable[[LocatedFile, Options], Iterator[Made]]

#: How many rows are printed between two steps of the progress bar.
_STEP = 512


def _all_of(kind: type[rows.Row]) -> TableView:
    """All fields of a row except those that the table's title contains."""
    return TableView(
        tuple(name for name in kind.__struct_fields__ if name not in ("kind", "file", "topic", "partition"))
    )


_OF_A_FILE = (rows.Epoch, rows.Index, rows.PropertyRow, rows.Snapshot, rows.TimeIndex, rows.TxnIndex)
#: What a table shows of each kind.
_VIEWS: Views = {
    rows.BatchRow: TableView(
        columns=(
            "position", "base_offset", "last_offset", "records", "size", "codec", "timestamp", "producer_id",
            "producer_epoch", "sequence", "leader_epoch", "transactional", "control", "transaction",
        ),
        primary=("base_offset", "last_offset", "timestamp", "producer_id", "producer_epoch", "control"),
        minor=("leader_epoch", "size", "codec", "sequence", "position", "transactional"),
    ),
    rows.RecordRow: TableView(
        columns=(
            "offset", "timestamp", "producer_id", "producer_epoch", "sequence", "control", "transaction",
            "key_size", "value_size", "key", "key_base64", "value", "value_base64", "headers", "decoded",
        ),
        primary=("offset", "timestamp", "control", "key", "key_base64", "value", "value_base64"),
        minor=("key_size", "value_size", "sequence"),
    ),
    **{kind: _all_of(kind) for kind in _OF_A_FILE},
    rows.Check: TableView(columns=("file", "check", "passed", "entries"), primary=("file", "passed")),
    rows.DamageRow: TableView(
        columns=("position", "reason", "detail", "resumed_at", "harmless"),
        primary=("position", "reason", "detail"),
        prose=("detail",),
    ),
    rows.Stats: TableView(
        columns=(
            "topic", "partition", "state", "segments", "batches", "records", "bytes", "first_offset", "last_offset",
            "first_timestamp", "last_timestamp", "magics", "codecs", "compressed_bytes", "uncompressed_bytes",
            "compression_ratio", "producers", "control_batches", "transactional_batches", "gaps", "missing_offsets",
            "damaged",
        ),
        primary=("topic", "partition", "state", "records", "bytes", "first_offset", "last_offset"),
        minor=(
            "magics", "compressed_bytes", "uncompressed_bytes", "transactional_batches", "first_timestamp",
            "last_timestamp", "control_batches", "codecs", "segments", "producers", "batches",
        ),
    ),
}  # fmt: skip


def register(app: typer.Typer) -> None:
    app.command("dump")(dump)


@refusing(*given.REFUSALS)
@grouped(*given.GROUPS)
def dump(
    paths: given.Paths = None,
    files: given.Files = None,
    tier_key: TierKeysOption = None,
    bootstrap_server: ClusterOption = None,
    command_config: ConfigOption = None,
    topic: TopicOption = None,
    partition: PartitionsOption = None,
    deep_iteration: given.DeepIteration = False,
    print_data_log: given.PrintDataLog = False,
    skip_record_metadata: given.SkipRecordMetadata = False,
    no_payloads: given.NoPayloads = False,
    show_secrets: given.ShowSecrets = False,
    isolation_level: given.IsolationLevel = None,
    transaction: given.Transaction = False,
    stats: given.Stats = False,
    offset: given.Offset = None,
    time: given.Time = None,
    producer_id: given.ProducerId = None,
    key: given.Key = None,
    control: given.Control = None,
    offsets_decoder: given.OffsetsDecoder = False,
    transaction_log_decoder: given.TransactionLogDecoder = False,
    cluster_metadata_decoder: given.ClusterMetadataDecoder = False,
    remote_log_metadata_decoder: given.RemoteLogMetadataDecoder = False,
    share_group_state_decoder: given.ShareGroupStateDecoder = False,
    decode: given.Decode = None,
    decode_key: given.DecodeKey = None,
    schemas: arguments.MoreSchemasOption = None,
    verify_index_only: given.VerifyIndexOnly = False,
    index_sanity_check: given.IndexSanityCheck = False,
    max_bytes: given.MaxBytes = None,
    max_message_size: given.MaxMessageSize = None,
    jobs: arguments.JobsOption = None,
    format: output.FormatOption = None,
    to: output.OutputOption = None,
    wide: output.WideOption = False,
    no_cut: output.NoCutOption = False,
) -> None:
    """Print what log directories hold: batches, records, indexes, snapshots, checkpoints, and what is damaged.

    Files are only read, and may be those of a running broker. Reading continues after damage, which has a row of its
    own. Exit code 4: something was damaged or could not be read; there is a row for each.

    \b
    What is in a partition, and what a transaction coordinator wrote:
      kafkawire dump /var/kafka-logs/orders-0
      kafkawire dump /var/kafka-logs/__transaction_state-* --print-data-log
    The records of an hour, of one producer, as a Parquet file:
      kafkawire dump /var/kafka-logs/orders-* --print-data-log --producer-id 4001 \\
        --time 2026-11-21T10:00..2026-11-21T11:00 -o orders.parquet
    Exactly the records of committed transactions, and of none:
      kafkawire dump /var/kafka-logs/orders-0 --print-data-log --isolation-level read_committed
    Values that are messages of your own, whose schemas are in my/:
      kafkawire dump /var/kafka-logs/orders-* --schemas my/ --decode orders=OrderValue@1
    How well do topics compress, and where are offsets missing?
      kafkawire dump /var/kafka-logs --stats
    Do the indexes agree with their logs?
      kafkawire dump /var/kafka-logs --verify-index-only
    The same rows of a live topic, up to where it ends now; nothing is committed:
      kafkawire dump --bootstrap-server broker-1:9092 --topic orders --print-data-log
    """
    from kafkawire import logdir

    decode_as = given.decoder_topic(
        __consumer_offsets=offsets_decoder,
        __transaction_state=transaction_log_decoder,
        __cluster_metadata=cluster_metadata_decoder,
        __remote_log_metadata=remote_log_metadata_decoder,
        __share_group_state=share_group_state_decoder,
    )
    by_outcome = isolation_level is not None or transaction
    messages = given.topic_messages(decode, decode_key, schemas)
    decodes = decode_as is not None or bool(messages)
    payloads = (print_data_log or skip_record_metadata or decodes) and not no_payloads
    deep = deep_iteration or print_data_log or skip_record_metadata or decodes
    options = logdir.Options(
        deep=deep,
        payloads=payloads,
        metadata=not skip_record_metadata,
        messages=messages,
        decode_as=decode_as,
        show_secrets=show_secrets,
        indexes="verify" if verify_index_only else "sanity" if index_sanity_check else "show",
        max_batch_bytes=max_message_size or logdir.Options().max_batch_bytes,
        max_bytes=max_bytes,
        selection=logdir.Selection(
            offsets=None if offset is None else offset_range(offset),
            times=None if time is None else time_range(time),
            producer_id=producer_id,
            key=None if key is None else given.key_bytes(key),
            control=control,
        ),
    )
    outcome = ReadOutcome()
    shown = rows.RecordRow.fields(payload=payloads, metadata=options.metadata, transaction=transaction)
    rows_of_file: RowsOf = logdir.rows_of
    lines = output.takes_lines(format, to)
    threads = given.jobs(jobs, lines=lines and not (stats or verify_index_only or index_sanity_check))
    if lines:
        rows_of_file = partial(_lines_of_file, threads=threads)
    elif output.takes_columns(format, to):
        rows_of_file = _columns_of_file

    def show(directory: LogDirectory, found: Iterator[Made], kinds: Sequence[type[rows.Row]]) -> None:
        unset = set(rows.field_names(rows.RecordRow)) - set(shown)
        output.Shown(format, to, wide, no_cut).print(outcome.counted(directory, found), kinds, _VIEWS, unset=unset)
        outcome.end()

    check_source(paths or (files and [files]), bootstrap_server)
    if bootstrap_server is not None:
        from kafkawire.cli.dump_cluster import fetched_rows

        check_output(to, [command_config])
        wanted_level = isolation_level, transaction
        with fetched_rows(
            bootstrap_server, command_config, (topic, partition), options, rows_of_file, wanted_level
        ) as found:
            show(logdir.LogDirectory(()), found, _kinds(options, False, isolation_level or "read_uncommitted"))
        return
    chosen = given.all_paths(paths, files)
    check_log_output(to, [*chosen, *(tier_key or ())])
    directory = logdir.open(*chosen, tier_keys=tier_key or ())
    if all(file.kind == "unknown" for file in directory.files):
        raise InputError(f"{chosen[0]}: neither a log directory nor a file of one, such as 00000000000000000000.log")
    given.check_topics(messages, directory.files)
    options = msgspec.structs.replace(options, topic_names=logdir.TopicIds(directory))
    outcomes = logdir.OutcomesByFile(directory.partitions, chosen) if by_outcome else None
    listed = directory.files if outcomes is None or isolation_level is None else _consumed(outcomes, directory)
    wanted = list(logdir.wanted_files(listed, options.selection))
    if outcomes is not None:
        rows_of_file = _seen(rows_of_file, outcomes, isolation_level, transaction)
    with progress(total_size(wanted), shown=watched(to)) as advance:
        found = _stats(wanted, options, advance) if stats else _rows(wanted, options, advance, rows_of_file)
        show(directory, found, _kinds(options, stats, isolation_level))


def _kinds(options: Options, stats: bool, isolation_level: str | None) -> Sequence[type[rows.Row]]:
    """The kinds of rows that can occur: their fields are the columns of csv and Parquet."""
    if stats:
        return (rows.Stats, rows.DamageRow)
    if options.indexes != "show":
        return (rows.Check, rows.DamageRow)
    if isolation_level is not None:
        return (rows.BatchRow, *((rows.RecordRow,) if options.deep else ()), rows.DamageRow)
    without = {rows.Stats, rows.Check, *(() if options.deep else (rows.RecordRow,))}
    return [kind for kind in rows.LOG_ROWS.values() if kind not in without]


def _rows(files: list[LogFile], options: Options, advance: Advance, rows_of: RowsOf) -> Iterator[Made]:
    """The rows of files, one file after the other."""
    for file in files:
        yield from _moving(file, rows_of(file, options), advance)


def _consumed(outcomes: OutcomesByFile, directory: LogDirectory) -> list[LogFile]:
    """The segments in use, and others that were named."""
    named = (file for file in directory.files if file.kind == "log" and file.path in outcomes.named)
    return [*outcomes.segments.values(), *(file for file in named if file.path not in outcomes.segments)]


def _seen(rows_of: RowsOf, outcomes: OutcomesByFile, level: IsolationLevel | None, shown: bool) -> RowsOf:
    """The rows of segments by what became of their transactions, after the damage of other files that this rests on."""
    from kafkawire import rows
    from kafkawire.logdir import View

    reported: set[tuple[str, Damage]] = set()

    def found(file: LocatedFile, options: Options) -> Iterator[Made]:
        if file.kind == "log":
            view = View(outcomes=outcomes.of(file), isolation_level=level, shown=shown)
            for path, damage in view.damage:
                if (path, damage) not in reported:
                    reported.add((path, damage))
                    yield rows.DamageRow.of(damage, file=path)
            unproven = options.check_crc and not outcomes.proven(file)
            options = msgspec.structs.replace(options, view=view, check_crc=unproven)
        yield from rows_of(file, options)

    return found


def _lines_of_file(file: LocatedFile, options: Options, *, threads: int) -> Iterator[Made]:
    """The rows of one file for jsonl."""
    from kafkawire.logdir.jsonl import lines_of

    return lines_of(file, options, encode=json_bytes, printable=printable_characters, threads=threads)


def _columns_of_file(file: LocatedFile, options: Options) -> Iterator[Made]:
    """The rows of one file for Parquet."""
    from kafkawire.logdir.segment_arrays import columns_of

    return columns_of(file, options, encode=json_bytes)


def _stats(files: list[LogFile], options: Options, advance: Advance) -> Iterator[Made]:
    from kafkawire.logdir.file_rows import damage_as_rows
    from kafkawire.logdir.stats import by_partition, stats_of

    for segments in by_partition(files):
        yield from damage_as_rows(segments[0], stats_of(segments, options))
        advance(total_size(segments))


def _moving(file: LogFile, found: Iterator[Made], advance: Advance) -> Iterator[Made]:
    """The rows; each advances the progress bar."""
    from kafkawire.logdir.file_rows import damage_as_rows

    reported = 0
    made: Iterator[Made] = damage_as_rows(file, found)
    for number, row in enumerate(made):
        if not number % _STEP or isinstance(row, (rows.Lines, rows.Columns)):
            position = getattr(row, "position", None) or 0
            advance(max(0, position - reported))
            reported = max(reported, position)
        yield row
    advance(max(0, total_size([file]) - reported))
