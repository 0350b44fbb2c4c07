"""`kafkawire proxy`: a proxy between clients and a cluster, for tests, debugging and recording."""

from __future__ import annotations

import ssl
import sys
from contextlib import ExitStack
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Annotated

import typer

from kafkawire.cli.arguments import parse_address
from kafkawire.cli.formatting import printable
from kafkawire.cli.interrupt import terminating
from kafkawire.cli.notes import print_note
from kafkawire.cli.output_file import check_output
from kafkawire.cli.server_tls import server_tls

if TYPE_CHECKING:
    from kafkawire.client import Config
    from kafkawire.wire.message import Message


def register(app: typer.Typer) -> None:
    app.command("proxy")(proxy)


def proxy(
    bootstrap: Annotated[str, typer.Option("--bootstrap-server", metavar="HOST:PORT", help="A broker of the cluster.")],
    listen: Annotated[
        str, typer.Option(metavar="[HOST:]PORT", help="Where it listens; HOST is 127.0.0.1 unless it is given.")
    ] = "9092",
    command_config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Client properties: the TLS of the brokers.")
    ] = None,
    tls_certificate: Annotated[
        Path | None, typer.Option(metavar="PEM", help="Clients connect by TLS, with this certificate and its key.")
    ] = None,
    pass_tls: Annotated[
        bool, typer.Option("--pass-tls", help="Pass TLS between clients and brokers unread; addresses stay.")
    ] = False,
    log_in: Annotated[
        bool, typer.Option("--log-in", help="Log in at the brokers by SASL, as --command-config says; clients do not.")
    ] = False,
    record: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write what passes as pcapng (kafkawire capture); - is standard output."),
    ] = None,
    api: Annotated[
        str | None, typer.Option(metavar="NAME", help="Requests that the fault happens to: Produce; by default any.")
    ] = None,
    topic: Annotated[str | None, typer.Option(metavar="NAME", help="Of these those that name this topic.")] = None,
    rate: Annotated[
        float | None, typer.Option(metavar="SHARE", help="Of these a share, above 0 and at most 1; by default all.")
    ] = None,
    delay_ms: Annotated[
        float | None, typer.Option("--delay-ms", metavar="MS", min=0, help="The fault: they wait so long.")
    ] = None,
    error: Annotated[
        str | None,
        typer.Option(metavar="CODE", help="The fault: they are answered with this error, by name or number."),
    ] = None,
    drop: Annotated[
        str | None, typer.Option(metavar="request|response", help="The fault: these are lost, and the connection ends.")
    ] = None,
) -> None:
    """Pass the requests of clients on to a cluster and the responses back. For tests, debugging and recording.

    Addresses of brokers in responses become those of the proxy, which listens on one port for each broker: PORT, and
    those that follow. Nothing else is changed without a fault. A recording has no TLS, and the passwords of logins.
    Why connections ended is printed on standard error. Ends on Ctrl-C (130) or SIGTERM (143).

    \b
    A recording of one client without root, TLS of the brokers included:
      kafkawire proxy --bootstrap-server broker:9093 --command-config ssl.properties --listen 19092 --record all.pcapng
    One in ten Produce requests is refused:
      kafkawire proxy --bootstrap-server broker:9092 --api Produce --rate 0.1 --error NOT_LEADER_OR_FOLLOWER
    """
    from kafkawire.proxy import Fault, Proxy

    host, port = parse_address(listen)
    shown = record is not None and str(record) == "-"
    if record is not None:
        read = [None if path is None else str(path) for path in (command_config, tls_certificate)]
        check_output(str(record), read, "--record", appended=True)  # a FIFO may have a reader that shows it at once
    if shown and sys.stdout.isatty():
        raise typer.BadParameter("pcapng is not for a terminal: redirect the output", param_hint="--record")
    problems: SimpleQueue[str] = SimpleQueue()
    try:
        fault = None
        if delay_ms or error is not None or drop is not None:
            fault = Fault(
                _request(api),
                topic,
                1.0 if rate is None else rate,
                None,
                (delay_ms or 0.0) / 1000,
                _code(error),
                drop,  # type: ignore[arg-type]  # a ValueError says what it may be
            )
        elif api is not None or topic is not None or rate is not None:
            raise ValueError("--api, --topic and --rate select for a fault: --delay-ms, --error or --drop")
        running = Proxy(
            bootstrap,
            host=host,
            port=port,
            record=sys.stdout.buffer if shown else record,
            broker_tls=_broker_tls(bootstrap, command_config),
            client_tls=server_tls(tls_certificate),
            log_in=_config(bootstrap, command_config) if log_in else None,
            pass_tls=pass_tls,
            on_problem=problems.put,
        )
        if fault is not None:
            running.fault(fault)
    except ValueError as problem:
        raise typer.BadParameter(str(problem)) from None
    with terminating(), ExitStack() as stack:
        try:
            stack.enter_context(running)
        except OSError as problem:
            if problem.filename is not None:
                raise
            raise OSError(f"--listen {listen}: {problem.strerror}") from None
        line = f"listening on {running.address} for {bootstrap}: for tests, debugging and recording"
        print(printable(line), file=sys.stderr if shown else sys.stdout, flush=True)
        while True:  # until a signal
            text = problems.get()
            if running.recording_error is not None:
                raise running.recording_error
            print_note("note", printable(text))


def _request(api: str | None) -> type[Message] | None:
    from kafkawire.messages import REGISTRY

    if api is None:
        return None
    try:
        return REGISTRY.load(REGISTRY.entry(f"{api}Request"))
    except LookupError as problem:
        raise typer.BadParameter(f"--api: {problem}") from None


def _code(text: str | None) -> int:
    from kafkawire.kafka_errors import CODES

    if text is None:
        return 0
    if text.lstrip("-").isdecimal():
        return int(text)
    if text not in CODES:
        raise ValueError(f"--error: no error code is named {text}")
    return CODES[text]


def _config(bootstrap: str, command_config: Path | None) -> Config:
    from kafkawire.client import Config, read_properties

    if command_config is None:
        raise ValueError("--log-in needs --command-config, which has the credentials")
    return Config.of(bootstrap, read_properties(str(command_config)))


def _broker_tls(bootstrap: str, command_config: Path | None) -> ssl.SSLContext | None:
    if command_config is None:
        return None
    from kafkawire.client import Config, read_properties

    properties = read_properties(str(command_config))
    if properties.get("security.protocol", "PLAINTEXT").startswith("SASL"):
        # Clients log in through the proxy; it needs the TLS alone.
        protocol = "SSL" if properties["security.protocol"] == "SASL_SSL" else "PLAINTEXT"
        kept = {name: value for name, value in properties.items() if not name.startswith("sasl.")}
        properties = kept | {"security.protocol": protocol}
    tls = Config.of(bootstrap, properties).tls
    return None if tls is None else tls.context()
