"""The options of `kafkawire dump`: their names and help texts, and how their texts become values."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from kafkawire.cli import arguments
from kafkawire.cli.option_groups import CLUSTER, COPIES, Group, conflict, exclusive

if TYPE_CHECKING:
    from kafkawire.logdir import LogFile
    from kafkawire.records import MessageFormat, RecordMessages
    from kafkawire.wire.registry import Registry

#: The default number of threads, beyond which threads wait for the one that reads; and the largest number that may be
#: given, because each thread takes some megabytes.
_MOST_JOBS, _MOST_GIVEN = 4, 64
_DECODES = "Decode records as {}, whatever the topic's name is."

Paths = Annotated[
    list[str] | None,
    typer.Argument(metavar="PATH", help="Log directories, directories of partitions, single files, globs."),
]
Files = Annotated[
    str | None,
    typer.Option(
        "--files", metavar="FILE,FILE", help="More paths, with commas between them, as kafka-dump-log takes them."
    ),
]

# What is shown --------------------------------------------------------------------------------------------------------

DeepIteration = Annotated[bool, typer.Option("--deep-iteration", help="The records of each batch too.")]
PrintDataLog = Annotated[
    bool, typer.Option("--print-data-log", help="Records with keys, values and headers; internal topics decoded.")
]
SkipRecordMetadata = Annotated[
    bool, typer.Option("--skip-record-metadata", help="Records as with --print-data-log, but only what they hold.")
]
NoPayloads = Annotated[
    bool, typer.Option("--no-payloads", help="No keys, values and headers, whatever other options are given.")
]
ShowSecrets = Annotated[
    bool, typer.Option("--show-secrets", help="Credentials, tokens and passwords in __cluster_metadata as they are.")
]
IsolationLevel = Annotated[
    Literal["read_uncommitted", "read_committed"] | None,
    typer.Option(
        "--isolation-level",
        help="Only what a consumer of this level gets: data from the log start offset up to the last stable offset "
        "(read_uncommitted: the high watermark).",
    ),
]
Transaction = Annotated[
    bool,
    typer.Option(
        "--transaction", help="A field with the state of each transaction: none, committed, aborted, open, unknown."
    ),
]
Stats = Annotated[
    bool, typer.Option("--stats", help="A row for each partition: batches, records, codecs, producers, gaps.")
]

# How records are decoded ----------------------------------------------------------------------------------------------

OffsetsDecoder = Annotated[bool, typer.Option("--offsets-decoder", help=_DECODES.format("those of __consumer_offsets"))]
TransactionLogDecoder = Annotated[
    bool, typer.Option("--transaction-log-decoder", help=_DECODES.format("those of __transaction_state"))
]
ClusterMetadataDecoder = Annotated[
    bool, typer.Option("--cluster-metadata-decoder", help=_DECODES.format("those of __cluster_metadata"))
]
RemoteLogMetadataDecoder = Annotated[
    bool, typer.Option("--remote-log-metadata-decoder", help=_DECODES.format("those of __remote_log_metadata"))
]
ShareGroupStateDecoder = Annotated[
    bool, typer.Option("--share-group-state-decoder", help=_DECODES.format("those of __share_group_state"))
]

Decode = Annotated[
    list[str] | None,
    typer.Option(
        "--decode",
        metavar="TOPIC=MESSAGE",
        help="Decode the values of a topic as a message, of --schemas or of Kafka's: orders=OrderValue, or with the "
        "version orders=OrderValue@1; @prefix: the version is an int16 in front. May be repeated.",
    ),
]
DecodeKey = Annotated[
    list[str] | None,
    typer.Option("--decode-key", metavar="TOPIC=MESSAGE", help="The same of the topic's keys. May be repeated."),
]

# Indexes --------------------------------------------------------------------------------------------------------------

VerifyIndexOnly = Annotated[
    bool, typer.Option("--verify-index-only", help="Only check indexes against their logs: a row for each index.")
]
IndexSanityCheck = Annotated[
    bool, typer.Option("--index-sanity-check", help="Only look at indexes as a broker does when it starts.")
]

# How much -------------------------------------------------------------------------------------------------------------

Offset = Annotated[
    str | None,
    typer.Option(
        "--offset", metavar="FROM..TO", help="Offsets up to TO, without it: 100..200, 100.., ..200; or one: 100."
    ),
]
Time = Annotated[
    str | None,
    typer.Option("--time", metavar="FROM..TO", help="Timestamps up to TO, without it: ISO 8601 (UTC) or epoch ms."),
]
ProducerId = Annotated[int | None, typer.Option("--producer-id", metavar="N", help="What this producer wrote.")]
Key = Annotated[
    str | None,
    typer.Option(
        "--key",
        metavar="TEXT",
        help="Records with this key, or of internal topics with this id or group; hex:00ff where it is no text.",
    ),
]
Control = Annotated[bool | None, typer.Option("--control/--no-control", help="Only control batches, or none of them.")]
MaxBytes = Annotated[
    int | None, typer.Option("--max-bytes", min=0, metavar="N", help="Only the first N bytes of each log.")
]
MaxMessageSize = Annotated[
    int | None,
    typer.Option(
        "--max-message-size",
        min=1,
        max=(1 << 31) - 1,
        metavar="N",
        help="Most bytes of a batch, in the log or decompressed.",
    ),
]

_DECODERS = (
    "offsets_decoder", "transaction_log_decoder", "cluster_metadata_decoder", "remote_log_metadata_decoder",
    "share_group_state_decoder",
)  # fmt: skip
GROUPS = (
    Group("Topics of a cluster in place of files", ("bootstrap_server",)),
    Group("A cluster", ("command_config", "topic", "partition"), (CLUSTER,)),
    Group("Files", ("files", "tier_key", "max_bytes"), (COPIES,)),
    Group(
        "What is shown",
        (
            "deep_iteration", "print_data_log", "skip_record_metadata", "no_payloads", "show_secrets",
            "isolation_level", "transaction",
        ),
    ),
    Group("Instead of rows", ("stats", "verify_index_only", "index_sanity_check"), (COPIES,)),
    Group("Which records", ("offset", "time", "producer_id", "key", "control")),
    Group("How records are decoded", (*_DECODERS, "decode", "decode_key", "schemas")),
    Group("Limits", ("max_message_size",)),
    Group("What is printed", ("format", "to", "wide", "no_cut", "jobs")),
)  # fmt: skip


_NO_ROWS = ("stats", "verify_index_only", "index_sanity_check")
REFUSALS = (
    exclusive("records can be decoded in one way only: give one decoder", *_DECODERS),
    exclusive("--stats, --verify-index-only and --index-sanity-check exclude each other", *_NO_ROWS),
    conflict(
        "--isolation-level and --transaction are for the rows of segments", _NO_ROWS, "isolation_level", "transaction"
    ),
)


def key_bytes(text: str) -> bytes:
    """The bytes of a key: those of the text, or of the hex digits after `hex:`."""
    prefix, _, digits = text.partition(":")
    if prefix != "hex":
        return text.encode("utf-8", "surrogateescape")
    try:
        return bytes.fromhex(digits)
    except ValueError:
        raise typer.BadParameter(f"{digits!r} is no hex", param_hint="--key") from None


def decoder_topic(**flags: bool) -> str | None:
    """The internal topic whose decoder a flag selects; the flags are named after the topics."""
    return next((topic for topic, flag in flags.items() if flag), None)


def topic_messages(values: list[str] | None, keys: list[str] | None, schemas: str | None) -> dict[str, RecordMessages]:
    """The messages of each topic, from --decode and --decode-key; a usage error for one that is unknown or given twice.
    `values`, `keys`: texts of the two options, TOPIC=MESSAGE. `schemas`: of --schemas, over those of Kafka."""
    from kafkawire.records import INTERNAL_TOPICS, RecordMessages

    if not values and not keys:
        return {}
    registry = arguments.registry_with(schemas)
    found: dict[str, dict[str, MessageFormat]] = {}
    for part, option, given in (("value", "--decode", values), ("key", "--decode-key", keys)):
        for text in given or ():
            topic, _, name = text.rpartition("=")
            if not topic or not name:
                raise typer.BadParameter(f"{text!r} is not TOPIC=MESSAGE", param_hint=option)
            if topic in INTERNAL_TOPICS:
                raise typer.BadParameter(f"{topic} has Kafka's own messages", param_hint=option)
            parts = found.setdefault(topic, {})
            if part in parts:
                raise typer.BadParameter(f"{topic} is given twice", param_hint=option)
            parts[part] = _message_format(name, registry, option)
    return {topic: RecordMessages(**parts) for topic, parts in found.items()}


def _message_format(text: str, registry: Registry, option: str) -> MessageFormat:
    from kafkawire.records import MessageFormat

    name, at, version = text.partition("@")
    message = arguments.message_of(registry, name, option)
    valid = message.spec.valid_versions
    if version == "prefix":
        return MessageFormat(message, None)
    if not at and len(valid) == 1:
        return MessageFormat(message, valid[0])
    if not re.fullmatch("[0-9]{1,5}", version, re.ASCII) or int(version) not in valid:
        has = f"{name} has the versions {arguments.version_text(valid)}"
        raise typer.BadParameter(f"{has}: give one of them, {name}@{valid[-1]}, or {name}@prefix", param_hint=option)
    return MessageFormat(message, int(version))


def check_topics(messages: Iterable[str], files: Iterable[LogFile]) -> None:
    """A usage error for topics to which no file belongs."""
    from difflib import get_close_matches

    there = {file.topic for file in files if file.topic is not None}
    for topic in messages:
        if topic not in there:
            near = ", ".join(get_close_matches(topic, there, n=3))
            raise typer.BadParameter(f"the paths hold no topic {topic!r}" + (f"; near: {near}" if near else ""))


def all_paths(paths: list[str] | None, files: str | None) -> list[str]:
    """The paths of the arguments; a glob is replaced by its matches, in order."""
    given = [*(paths or ()), *(files.split(",") if files else ())]
    if not given:
        raise typer.BadParameter("give a log directory, a partition's directory or a file")
    found: list[str] = []
    for path in given:
        matched = _matches(path)
        if not matched:
            from kafkawire.logdir.remote import without_secrets

            raise typer.BadParameter(f"{without_secrets(path)} matches nothing")
        found += matched
    return found


def _matches(path: str) -> list[str]:
    from kafkawire.logdir.file_names import is_uri

    if is_uri(path):
        from kafkawire.logdir.remote import matching

        place, mark, query = path.partition("?")  # which is no glob here
        return [one + mark + query for one in matching(path)] if glob.has_magic(place) else [path]
    if glob.has_magic(path) and not os.path.lexists(path):
        return sorted(glob.glob(path, recursive=True, include_hidden=True))
    return [path]


def jobs(given: int | None, *, lines: bool) -> int:
    """How many threads write lines: those given, or one a core up to `_MOST_JOBS`. `given`: of --jobs. `lines`: whether
    lines are printed; a usage error where threads are given for anything else."""
    from kafkawire.wire.backend import native

    if given is None:
        return min(arguments.cores(), _MOST_JOBS)
    if given > _MOST_GIVEN:
        raise typer.BadParameter(f"{given} is more than {_MOST_GIVEN} threads", param_hint="--jobs")
    if not lines or native is None:
        what = "rows that are printed as lines" if native is not None else "the native engine, which is not in use"
        raise typer.BadParameter(f"threads are for {what}", param_hint="--jobs")
    return given
