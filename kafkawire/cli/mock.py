"""`kafkawire mock`: a mock broker for tests of clients."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from kafkawire.cli.arguments import parse_address
from kafkawire.cli.interrupt import terminating
from kafkawire.cli.server_tls import server_tls


def register(app: typer.Typer) -> None:
    app.command("mock")(mock)


def mock(
    listen: Annotated[
        str, typer.Option(metavar="[HOST:]PORT", help="Where it listens; HOST is 127.0.0.1 unless it is given.")
    ] = "9092",
    topic: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME[:PARTITIONS]", help="A topic that is there from the start (repeat it)."),
    ] = None,
    release: Annotated[
        str | None, typer.Option(metavar="RELEASE", help="Offer the versions of that release of Kafka: 3.9.")
    ] = None,
    transaction_version: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=2,
            help="Level of the feature transaction.version; by default 2, and 0 for a --release below 4.0.",
        ),
    ] = None,
    nodes: Annotated[
        int, typer.Option(min=1, max=100, help="How many brokers; they listen on PORT and those that follow.")
    ] = 1,
    tls_certificate: Annotated[
        Path | None, typer.Option(metavar="PEM", help="Clients connect by TLS, with this certificate and its key.")
    ] = None,
    no_verification: Annotated[
        bool, typer.Option("--no-verification", help="Accept records of a transaction that has ended: it hangs then.")
    ] = False,
    max_log_bytes: Annotated[
        int, typer.Option(min=1, metavar="BYTES", help="Of each partition; older batches are dropped.")
    ] = 64 << 20,
    max_bytes: Annotated[
        int, typer.Option(min=1, metavar="BYTES", help="Of all partitions, producers and groups; more is refused.")
    ] = 1 << 30,
) -> None:
    """Run a Kafka broker for tests, or a cluster of several, in memory. Nothing is kept on disk.

    Producers, transactions and consumer groups of usual clients work (docs/testing.md). Topics that clients ask for are
    created with one partition. Ends on Ctrl-C (130) or SIGTERM (143).

    \b
    A broker of release 3.9 with two topics:
      kafkawire mock --listen 9092 --release 3.9 --topic orders:3 --topic payments
    """
    from kafkawire.testing import MockBroker

    host, port = parse_address(listen)
    try:
        broker = MockBroker(
            dict(_topic(text) for text in topic or ()),
            release=release,
            transaction_version=transaction_version,
            verify_transactions=not no_verification,
            max_log_bytes=max_log_bytes,
            max_bytes=max_bytes,
            nodes=nodes,
            tls=server_tls(tls_certificate),
            host=host,
            port=port,
        )
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None

    with terminating(), ExitStack() as stack:
        try:
            stack.enter_context(broker)
        except OSError as error:
            raise OSError(f"--listen {listen}: {error.strerror}") from None
        addresses = ",".join(broker.addresses.values())
        print(f"listening on {addresses}: a broker for tests, in memory", flush=True)
        threading.Event().wait()  # until a signal


def _topic(text: str) -> tuple[str, int]:
    name, colon, count = text.partition(":")
    if colon and not (count.isascii() and count.isdigit() and len(count) < 10):
        raise typer.BadParameter(f"{text!r} is not of the form NAME[:PARTITIONS]", param_hint="--topic")
    return name, int(count or 1)
