"""The options of `kafkawire capture`: their names and help, and the conversion of their texts to values."""

from __future__ import annotations

import os
import re
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from kafkawire.cli.option_groups import Group, conflict, exclusive

if TYPE_CHECKING:
    from kafkawire.capture import ExchangeSelection
    from kafkawire.wire.registry import Registry

Files = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE",
        help="Captures (pcap, pcapng, also in gzip or zstd); of a directory or a pattern in quotes the files as one; "
        "- is standard input.",
    ),
]

# What is shown --------------------------------------------------------------------------------------------------------

Body = Annotated[bool, typer.Option("--body", help="Print whole messages, as `decode` does.")]
Records = Annotated[
    bool, typer.Option("--records", help="Print bodies, with decoded record batches instead of base64.")
]
NoPayloads = Annotated[
    bool, typer.Option("--no-payloads", help="Leave record batches out of bodies, whatever the other options.")
]
ShowSecrets = Annotated[
    bool, typer.Option("--show-secrets", help="Show passwords, tokens and keys in bodies and frames.")
]
Stats = Annotated[
    bool,
    typer.Option("--stats", help="Print a row for each api, version and client: counts, bytes, latencies, errors."),
]
BreaksAt = Annotated[
    str | None,
    typer.Option(
        "--breaks-at",
        metavar="RELEASE",
        help="Print which clients use versions that this release of Kafka does not speak any more, 4.0; exit code 3.",
    ),
]
Timeline = Annotated[
    str | None, typer.Option("--timeline", metavar="ID", help="Print the steps of one transactional id or producer id.")
]
FramesOut = Annotated[
    str | None,
    typer.Option("--frames-out", metavar="DIR", help="Write each frame to a file of its own, for `decode --frame`."),
]
Keylog = Annotated[
    list[str] | None,
    typer.Option(
        "--keylog",
        metavar="FILE",
        help="Decrypt TLS with the secrets in FILE (SSLKEYLOGFILE's format); those in a pcapng are always used. "
        "May be repeated.",
    ),
]
DecodeAs = Annotated[
    list[str] | None,
    typer.Option(
        "--decode-as",
        metavar="RULE",
        help="Read packets of a UDP port as an encapsulation: udp.port==N,NAME (vxlan, vxlan-gpe, geneve, gtp, mpls, "
        "tzsp); connections to a TCP port as Kafka's: tcp.port==N,kafka. May be repeated.",
    ),
]


class CaptureFormat(StrEnum):
    """How rows are printed: as in all commands, or as spans."""

    table = "table"
    json = "json"
    jsonl = "jsonl"
    csv = "csv"
    parquet = "parquet"
    otlp = "otlp-json"


FormatOption = Annotated[
    CaptureFormat | None,
    typer.Option(
        "--format",
        help="By default a table on a terminal and jsonl in a pipe or file; parquet needs -o FILE; otlp-json: spans of "
        "OpenTelemetry, as lines of OTLP.",
    ),
]
Follow = Annotated[
    bool,
    typer.Option("--follow", "-f", help="Wait for more at the end of a growing file, or of a ring buffer of files."),
]

# Which exchanges ------------------------------------------------------------------------------------------------------

Api = Annotated[
    list[str] | None,
    typer.Option("--api", metavar="NAME", help="Only this api: its name (Produce) or its key. May be repeated."),
]
ClientId = Annotated[list[str] | None, typer.Option("--client-id", metavar="ID", help="Only this client id.")]
Topic = Annotated[
    list[str] | None,
    typer.Option(
        "--topic", metavar="NAME", help="Only exchanges that name this topic, or its id once a response has given it."
    ),
]
TransactionalId = Annotated[
    list[str] | None,
    typer.Option("--transactional-id", metavar="ID", help="Only exchanges that name this transactional id."),
]
ProducerId = Annotated[
    list[int] | None,
    typer.Option(
        "--producer-id", metavar="N", help="Only exchanges that name this producer id, also in record batches."
    ),
]
Errors = Annotated[
    bool, typer.Option("--errors", help="Only exchanges with an error code in the response, or with a problem.")
]
Slow = Annotated[
    float | None,
    typer.Option("--slow", min=0, metavar="MS", help="Only responses after MS milliseconds or more, or never."),
]
Connection = Annotated[
    list[int] | None, typer.Option("--connection", metavar="N", help="Only this TCP connection, by its number in rows.")
]
Port = Annotated[
    list[int] | None, typer.Option("--port", metavar="N", help="Only connections with this port at either end.")
]
Time = Annotated[
    str | None,
    typer.Option(
        "--time", metavar="FROM..TO", help="Only requests from FROM on and before TO: ISO 8601 (UTC) or epoch ms."
    ),
]

GROUPS = (
    Group("What is shown of each exchange", ("body", "records", "no_payloads", "show_secrets", "frames_out")),
    Group("Instead of exchanges: one of these", ("stats", "breaks_at", "timeline")),
    Group("How captures are read", ("keylog", "decode_as", "follow", "schemas")),
    Group(
        "Which exchanges: all that are given must match",
        (
            "api", "client_id", "topic", "transactional_id", "producer_id", "errors", "slow", "connection", "port",
            "time",
        ),
    ),
    Group("What is printed", ("format", "to", "wide", "no_cut")),
)  # fmt: skip

REFUSALS = (
    exclusive("--stats, --timeline and --breaks-at exclude each other", "stats", "timeline", "breaks_at"),
    conflict(
        "--breaks-at excludes --follow, --body, --records and --frames-out",
        "breaks_at", "follow", "body", "records", "frames_out",
    ),
)  # fmt: skip


def selection(
    *,
    apis: list[str] | None,
    registry: Registry,
    client_ids: list[str] | None,
    topics: list[str] | None,
    transactional_ids: list[str] | None,
    producer_ids: list[int] | None,
    errors: bool,
    slow_ms: float | None,
    connections: list[int] | None,
    ports: list[int] | None,
    time: str | None,
) -> ExchangeSelection:
    """The selection of the options; a usage error for an unknown api or a malformed time.

    Args:
        apis: names or numbers of apis; each list selects any of its values, None all.
        registry: the messages, whose requests name the apis.
        client_ids, topics, transactional_ids, producer_ids: as in the messages.
        errors: only exchanges with an error code.
        slow_ms: least latency in milliseconds.
        connections, ports: numbers of connections; TCP ports.
        time: `FROM..TO`, ISO 8601 or epoch milliseconds.
    """
    from kafkawire.capture import ExchangeSelection
    from kafkawire.cli.ranges import time_range

    for api in apis or ():
        _known_api(api, registry)
    return ExchangeSelection(
        apis=tuple(apis or ()),
        client_ids=tuple(client_ids or ()),
        topics=tuple(topics or ()),
        transactional_ids=tuple(transactional_ids or ()),
        producer_ids=tuple(producer_ids or ()),
        errors=errors,
        slow_ms=slow_ms,
        connections=tuple(connections or ()),
        ports=tuple(ports or ()),
        times=None if time is None else time_range(time),
    )


def checked_rules(rules: list[str] | None) -> tuple[str, ...]:
    """The rules of --decode-as; a usage error for one that `read` refuses."""
    from kafkawire.capture.decode_rules import rules_of

    try:
        rules_of(rules or ())
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--decode-as") from None
    return tuple(rules or ())


def check_keylog(paths: list[str] | None) -> None:
    """A usage error for a file of --keylog that cannot be read."""
    for path in paths or ():
        if not os.access(path, os.R_OK) or os.path.isdir(path):
            raise typer.BadParameter(f"{path} is not a file that can be read", param_hint="--keylog")


def _known_api(api: str, registry: Registry) -> None:
    from difflib import get_close_matches

    if re.fullmatch(r"-?\d{1,5}|UNKNOWN_-?\d{1,5}", api, re.IGNORECASE | re.ASCII):
        return
    known = (request.name.removesuffix("Request") for request in registry.requests().values())
    names = {name.lower(): name for name in known}
    if api.lower() not in names:
        near = [names[name] for name in get_close_matches(api.lower(), names, n=3)]
        hint = f"; near: {', '.join(near)}" if near else ""
        raise typer.BadParameter(f"no api is named {api!r}{hint}", param_hint="--api")
