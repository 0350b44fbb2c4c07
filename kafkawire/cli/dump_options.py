"""The options of `kafkawire dump`: their names and help texts, and how their texts become values."""

from __future__ import annotations

import glob
import os
from typing import Annotated, Literal

import typer

_DECODES = "Decode records as {}, whatever the topic's name is."

Paths = Annotated[
    list[str] | None,
    typer.Argument(metavar="PATH...", help="Log directories, directories of partitions, single files, globs."),
]
Files = Annotated[
    str | None, typer.Option("--files", metavar="FILE,FILE", help="The same, as kafka-dump-log takes them.")
]

# What is shown --------------------------------------------------------------------------------------------------------

DeepIteration = Annotated[bool, typer.Option("--deep-iteration", help="The records of each batch too.")]
PrintDataLog = Annotated[
    bool, typer.Option("--print-data-log", help="Records with keys, values and headers; internal topics decoded.")
]
SkipRecordMetadata = Annotated[
    bool,
    typer.Option("--skip-record-metadata", help="Records as with --print-data-log, but only what they hold."),
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
    str | None, typer.Option("--key", metavar="TEXT", help="Records with this key; hex:00ff where it is no text.")
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
    chosen = [topic for topic, flag in flags.items() if flag]
    if len(chosen) > 1:
        raise typer.BadParameter("records can be decoded in one way only: give one decoder")
    return chosen[0] if chosen else None


def all_paths(paths: list[str] | None, files: str | None) -> list[str]:
    """The paths of the arguments; a glob is replaced by its matches, in order."""
    given = [*(paths or ()), *(files.split(",") if files else ())]
    if not given:
        raise typer.BadParameter("give a log directory, a partition's directory or a file")
    found: list[str] = []
    for path in given:
        if glob.has_magic(path) and not os.path.lexists(path):
            matched = sorted(glob.glob(path, recursive=True, include_hidden=True))
            if not matched:
                raise typer.BadParameter(f"{path} matches nothing")
            found += matched
        else:
            found.append(path)
    return found
