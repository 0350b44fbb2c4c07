"""`scan`: the one way into this package."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from kafkawire.scanning.logs import LogScan
from kafkawire.scanning.record_filter import Place, RecordFilter, Time
from kafkawire.scanning.record_options import Decoded, RecordOptions, isolation, messages_of
from kafkawire.scanning.stream import Errors, Scan, ScanSource

#: Most rows of a batch.
BATCH_ROWS = 65_536


def scan(
    *source: str | os.PathLike[str],
    topics: str | Iterable[str] | None = None,
    partitions: int | Iterable[int] | None = None,
    offsets: tuple[int | None, int | None] | Mapping[Place, tuple[int | None, int | None]] | None = None,
    times: tuple[Time | None, Time | None] | None = None,
    producer_id: int | Iterable[int] | None = None,
    transaction: str | Iterable[str] | None = None,
    isolation_level: str | None = None,
    control: bool = False,
    columns: Iterable[str] | None = None,
    decode: Mapping[str, Decoded] | None = None,
    show_secrets: bool = False,
    tier_keys: Iterable[str | os.PathLike[str]] = (),
    batch_size: int = BATCH_ROWS,
    errors: Errors = "raise",
) -> Scan:
    """The records of log directories, segments and tiers as an Arrow stream.

        duckdb.sql("SELECT topic, count(*) FROM stream GROUP BY topic")    # stream = kafkawire.scan("kafka-logs/")

    What is named is checked at once, and nothing is read before rows are asked for.

    Args:
        source: paths, or URIs of a store that pyarrow knows: a broker's log directory, a partition's directory,
            segments, a tier (KIP-405).
        topics, partitions: names, and numbers in any of the topics.
        offsets: half-open range, `(100, 200)` or `(100, None)`, of all partitions; or of some: `{("orders", 0): (100,
            200)}`.
        times: half-open range of timestamps: epoch milliseconds, or `datetime` with a time zone.
        producer_id: records of these producers.
        transaction: records whose transactions are in these states: none, committed, aborted, open, unknown.
        isolation_level: exactly what consumers of that level get, "read_uncommitted" or "read_committed". None: all
            data that is there.
        control: also control records (markers of transactions, changes of leaders).
        columns: names, in their order. By default topic, partition, offset, timestamp, key, value, headers,
            producer_id, producer_epoch, sequence, transaction, and what `decode` adds. Further ones: timestamp_type,
            leader_epoch, transactional, codec, control, coordinator_epoch, key_size, value_size, file, position.
        decode: topic -> class of the message in its values; (class, version) where it has several versions, with
            "prefix" for the int16 in front; or `records.RecordMessages`, for keys, too. Each message has a column of
            its name, and `decode_error` says what is wrong with a value that is none.
        show_secrets: credentials, tokens and passwords in `__cluster_metadata` as they are.
        tier_keys: files with the RSA private keys (PEM) of an encrypted tier.
        batch_size: most rows of a batch.
        errors: "raise" raises `errors.ScanError` behind the last row where places could not be read; "collect" leaves
            them in `Scan.problems`.

    Raises:
        TypeError, ValueError: an argument is of another form, or selects nothing.
        LookupError: no such column, topic or partition.
        OSError: a path does not exist or must not be read.
        MissingExtraError: pyarrow is not installed.
    """
    if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1:
        raise ValueError(f"batch_size is a number of rows, not {batch_size!r}")
    if errors not in ("raise", "collect"):
        raise ValueError(f'errors is "raise" or "collect", not {errors!r}')
    if not source:
        raise TypeError("no source is given")
    level = isolation(isolation_level)
    if control and level is not None:
        raise ValueError("consumers get no control records: control and isolation_level exclude each other")
    options = RecordOptions(
        filter=RecordFilter.of(topics, partitions, offsets, times, producer_id, transaction, control),
        isolation_level=level,
        messages=messages_of(decode),
        show_secrets=show_secrets,
    )
    paths = [os.fspath(one) for one in source]
    found: ScanSource = LogScan.of(paths, options, columns, [os.fspath(key) for key in tier_keys])
    return Scan(found, batch_size=batch_size, errors=errors)
