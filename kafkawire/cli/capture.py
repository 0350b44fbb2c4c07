"""`kafkawire capture`: the requests and responses in packet captures, row by row."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from kafkawire.cli import output
from kafkawire.cli.outcome import Outcome

if TYPE_CHECKING:
    from kafkawire.capture import Exchanges, Summary
    from kafkawire.rows import Exchange

_BODIES = ("request", "response")


def register(app: typer.Typer) -> None:
    app.command("capture")(capture)


def capture(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE...", help="Captures (pcap, pcapng); - is standard input.")
    ],
    body: Annotated[bool, typer.Option("--body", help="Whole messages, as `decode` prints them.")] = False,
    records: Annotated[
        bool, typer.Option("--records", help="Bodies with their record batches decoded, instead of as base64.")
    ] = False,
    no_payloads: Annotated[
        bool, typer.Option("--no-payloads", help="Bodies without record batches, whatever else is asked for.")
    ] = False,
    show_secrets: Annotated[
        bool, typer.Option("--show-secrets", help="Passwords, tokens and keys in bodies as they are.")
    ] = False,
    format: output.FormatOption = None,
    to: output.OutputOption = None,
) -> None:
    """Print what clients and brokers said to each other: a row for each request and its response.

    Kafka is recognised by what is said, not by the port. Exit code 4: something could not be read or decoded; the
    rows' `problem` says what, and why.
    """
    from kafkawire import rows
    from kafkawire.capture import read

    body = body or records
    outcome = Outcome()

    def exchanges() -> Iterator[Exchange]:
        for file in files:
            found = read(
                sys.stdin.buffer if file == "-" else file,
                body=body,
                records=records,
                payloads=not no_payloads,
                show_secrets=show_secrets,
            )
            yield from _rows(found, file, outcome)

    output.print_rows(
        exchanges(),
        [rows.Exchange],
        format=format,
        output=to,
        columns={
            rows.Exchange: (
                "time", "client", "broker", "api", "version", "client_id", "latency_ms", "request_bytes",
                "response_bytes", "errors", "problem", *_BODIES,
            )
        },
        unset=() if body else _BODIES,
    )  # fmt: skip
    outcome.end()


def _rows(exchanges: Exchanges, file: str, outcome: Outcome) -> Iterator[Exchange]:
    """The exchanges of one file; what is wrong with it does not keep others from being read."""
    from kafkawire.capture.matcher import NO_RESPONSE, TOKEN
    from kafkawire.errors import CaptureError

    # All that was captured of these has been read: a capture may well end before an answer.
    clear = (None, NO_RESPONSE, TOKEN)
    try:
        for exchange in exchanges:
            if exchange.api is not None:
                outcome.read()
            if exchange.problem not in clear:
                packet = exchange.packet or exchange.response_packet
                outcome.problem(f"{file}: {f'packet {packet}: ' if packet else ''}{exchange.problem}")
            yield exchange
    except CaptureError as error:
        outcome.problem(f"{file}: {error}")
    except OSError as error:
        outcome.problem(f"{file}: {error.strerror or error}")
    if not exchanges.summary.exchanges and exchanges.summary.connections:
        outcome.problem(f"{file}: {_nothing(exchanges.summary)}")


def _nothing(summary: Summary) -> str:
    found = ", ".join(f"{number} {kind}" for kind, number in sorted(summary.connections.items()))
    return f"no Kafka was recognised in {summary.packets} packets (TCP connections: {found})"
