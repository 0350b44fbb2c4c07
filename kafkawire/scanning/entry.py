"""`scan`: records of logs and topics, or exchanges of captures, as an Arrow stream. Everything else in this package
serves it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from kafkawire.capture import ExchangeSelection
from kafkawire.capture.ring import is_ring
from kafkawire.logdir.file_names import is_uri
from kafkawire.scanning.captures import CaptureScan, is_capture, matches
from kafkawire.scanning.logs import LogScan
from kafkawire.scanning.record_filter import Place, RecordFilter, Time, several
from kafkawire.scanning.record_options import Decoded, RecordOptions, isolation, messages_of
from kafkawire.scanning.stream import Errors, Scan, ScanSource

#: Most rows of a batch.
BATCH_ROWS = 65_536


def scan(
    *source: str | os.PathLike[str],
    bootstrap_servers: str | Iterable[str] | None = None,
    config: Mapping[str, str] | str | os.PathLike[str] | None = None,
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
    apis: str | Iterable[str] | None = None,
    keylog: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] = (),
    decode_as: str | Iterable[str] = (),
    show_secrets: bool = False,
    tier_keys: Iterable[str | os.PathLike[str]] = (),
    batch_size: int = BATCH_ROWS,
    errors: Errors = "raise",
) -> Scan:
    """Records of log directories, segments, tiers and live topics, or the exchanges of captures, as an Arrow stream.

        duckdb.sql("SELECT topic, count(*) FROM stream GROUP BY topic")    # stream = kafkawire.scan("kafka-logs/")

    What is named is checked at once, and nothing is read before rows are asked for.

    Args:
        source: paths, patterns, or URIs of a store that pyarrow knows: a broker's log directory, a partition's
            directory, segments, a tier (KIP-405). Or captures (pcap, pcapng): files, patterns, and directories that
            hold them.
        bootstrap_servers: "host:port" of some brokers, in place of a source: the topics of a live cluster, up to where
            they end when reading begins. Nothing is committed, and no consumer group is joined.
        config: client properties of Java clients (security.protocol, sasl.jaas.config, ...), or a file of them.
        topics, partitions: names, and numbers in any of the topics. Of captures, exchanges that name the topics.
        offsets: half-open range, `(100, 200)` or `(100, None)`, of all partitions; or of some: `{("orders", 0): (100,
            200)}`.
        times: half-open range of timestamps, or of the times of requests: epoch milliseconds, or `datetime` with a time
            zone.
        producer_id: records of these producers, or exchanges that name them.
        transaction: records whose transactions are in these states: none, committed, aborted, open, unknown.
        isolation_level: exactly what consumers of that level get, "read_uncommitted" or "read_committed". None: all
            data that is there.
        control: also control records (markers of transactions, changes of leaders).
        columns: names, in their order. Of records by default topic, partition, offset, timestamp, key, value, headers,
            producer_id, producer_epoch, sequence, transaction, and what `decode` adds. Further ones: timestamp_type,
            leader_epoch, transactional, codec, control, coordinator_epoch, key_size, value_size, file, position.
            Of captures those of `rows.Exchange`.
        decode: topic -> class of the message in its values; (class, version) where it has several versions, with
            "prefix" for the int16 in front; or `records.RecordMessages`, for keys, too. Each message has a column of
            its name, and `decode_error` says what is wrong with a value that is none.
        apis: of captures, the exchanges of these requests, such as "Produce". Of one, the columns request and response
            have the bodies.
        keylog: TLS key logs, with which captures are decrypted. decode_as: encapsulations on further UDP ports, see
            `capture.read`.
        show_secrets: credentials, tokens and passwords, in `__cluster_metadata` and in bodies, as they are.
        tier_keys: files with the RSA private keys (PEM) of an encrypted tier.
        batch_size: most rows of a batch.
        errors: "raise" raises `errors.ScanError` after the last row where places could not be read; "collect" leaves
            them in `Scan.problems`.

    Raises:
        TypeError, ValueError: an argument is of another form, selects nothing, or is for sources of another kind.
        LookupError: no such column, topic, partition or api.
        OSError: a path does not exist or must not be read.
        client.ClientError: the cluster cannot be reached, a topic cannot be read, or a property is wrong.
        MissingExtraError: pyarrow is not installed, or what a key log needs.
    """
    if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1:
        raise ValueError(f"batch_size is a number of rows, not {batch_size!r}")
    if errors not in ("raise", "collect"):
        raise ValueError(f'errors is "raise" or "collect", not {errors!r}')
    if bool(source) == (bootstrap_servers is not None):
        raise TypeError("give a source or bootstrap_servers, and not both")
    wanted = RecordFilter.of(topics, partitions, offsets, times, producer_id, transaction, control)
    paths = [os.fspath(one) for one in source]
    keys = [os.fspath(key) for key in _listed(tier_keys)]
    logs, rules = [os.fspath(log) for log in _listed(keylog)], [str(rule) for rule in _listed(decode_as)]
    if bootstrap_servers is None:
        _refuse("files", config=config)
    found: ScanSource
    if paths and _are_captures(paths):
        _refuse("captures", partitions=partitions, offsets=offsets, transaction=transaction, control=control,
                isolation_level=isolation_level, decode=decode, tier_keys=keys)  # fmt: skip
        selection = ExchangeSelection(
            apis=several("apis", apis, str) or (),
            topics=tuple(sorted(wanted.topics or ())),
            producer_ids=wanted.producer_ids or (),
            times=None if times is None else wanted.times,
        )
        found = CaptureScan.of(paths, selection, columns, show_secrets=show_secrets, keylog=logs, decode_as=rules)
        return Scan(found, batch_size=batch_size, errors=errors)
    _refuse("records", apis=apis, keylog=logs, decode_as=rules)
    level = isolation(isolation_level)
    if control and level is not None:
        raise ValueError("consumers get no control records: control and isolation_level exclude each other")
    options = RecordOptions(
        filter=wanted, isolation_level=level, messages=messages_of(decode), show_secrets=show_secrets
    )
    if bootstrap_servers is None:
        named = [one for path in paths for one in _expanded(path)]
        found = LogScan.of(named, options, columns, keys)
    else:
        _refuse("live topics", tier_keys=keys, show_secrets=show_secrets)
        found = _live(",".join(_listed(bootstrap_servers)), config, options, columns)
    return Scan(found, batch_size=batch_size, errors=errors)


def _expanded(path: str) -> list[str]:
    """The paths that a pattern names."""
    return matches(path) if not is_uri(path) and not os.path.exists(path) and is_ring(path) else [path]


def _are_captures(paths: list[str]) -> bool:
    kinds = [is_capture(path) for path in paths]
    if len(set(kinds)) > 1:
        raise ValueError(f"{paths[kinds.index(True)]} is a capture, {paths[kinds.index(False)]} is none")
    return kinds[0]


def _live(
    servers: str,
    config: Mapping[str, str] | str | os.PathLike[str] | None,
    options: RecordOptions,
    columns: Iterable[str] | None,
) -> ScanSource:
    """Topics of a cluster. The client is imported here: files need none of it."""
    from kafkawire.client import Config, read_properties
    from kafkawire.scanning.live import LiveScan

    given = read_properties(os.fspath(config)) if isinstance(config, (str, os.PathLike)) else config
    return LiveScan.of(Config.of(servers, given), options, columns)


def _listed(given: Any) -> list[Any]:
    """One path or text, or several, as a list."""
    return [given] if isinstance(given, (str, os.PathLike)) else list(given)


def _refuse(kind: str, **given: Any) -> None:
    """Refuses arguments that have no effect on sources of a kind."""
    for name, value in given.items():
        if value is not None and value is not False and value != []:
            raise ValueError(f"{name} is not for {kind}")
