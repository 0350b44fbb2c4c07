"""`kafkawire txn watch`: find-hanging again and again: changes as jsonl, and metrics for Prometheus."""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated

import typer

from kafkawire import rows
from kafkawire.cli import findings, output
from kafkawire.cli import txn_options as txn
from kafkawire.cli.arguments import parse_address
from kafkawire.cli.formatting import printable
from kafkawire.cli.metrics_server import MetricsEndpoint, serving
from kafkawire.cli.notes import print_note
from kafkawire.cli.option_groups import Group, Need, conflict, grouped, refusing
from kafkawire.cli.output import Format
from kafkawire.cli.output_file import check_output, open_output
from kafkawire.cli.web_config import WebConfig, read_web_config
from kafkawire.errors import KafkaWireError

if TYPE_CHECKING:
    from kafkawire.client import Admin, Watch

ListenOption = Annotated[
    str | None,
    typer.Option("--listen", metavar="[HOST:]PORT", help="Serve metrics there; HOST is 127.0.0.1 unless it is given."),
]

_LISTEN = Need("--listen", "--listen", lambda values: values["listen"] is not None)
_METRICS = Need(
    "--listen or --textfile",
    "--listen or --textfile",
    lambda values: values["listen"] is not None or values["textfile"] is not None,
)


@refusing(conflict("--once serves nothing: give --listen or --once", "once", "listen", hint="--listen"))
@grouped(
    Group("Which transactions", ("topic", "broker_id", "all_")),
    Group("How they are judged", ("max_transaction_timeout", "confirm_after", "blocked_after")),
    Group("When", ("interval", "once")),
    Group("Metrics", ("listen", "textfile")),
    Group("Metrics of groups", ("lag",), (_METRICS,)),
    Group("The server of metrics", ("web_config",), (_LISTEN,)),
    Group("The cluster", ("bootstrap", "command_config", "timeout", "fetch_bytes")),
    Group("What is printed", ("every_poll",)),
)
def watch(
    bootstrap: txn.BootstrapOption,
    topic: txn.TopicOption = None,
    broker_id: Annotated[
        int | None, typer.Option("--broker-id", metavar="ID", help="Only partitions with a replica there.")
    ] = None,
    max_transaction_timeout: txn.MaxTimeoutOption = None,
    confirm_after: txn.ConfirmOption = 1.0,
    blocked_after: txn.BlockedAfterOption = txn.BLOCKED_AFTER,
    interval: Annotated[
        float, typer.Option(min=1, max=86_400, metavar="SECONDS", help="From one poll to the next.")
    ] = 60.0,
    listen: ListenOption = None,
    web_config: Annotated[
        str | None,
        typer.Option("--web-config", metavar="FILE", help="TLS and passwords of --listen, as Prometheus' exporters."),
    ] = None,
    textfile: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Write the metrics there after each poll, for node_exporter's textfile."),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Poll once and end, as find-hanging does: for cron.")] = False,
    every_poll: Annotated[
        bool, typer.Option("--every-poll", help="Print a line for every poll, not only for those that failed.")
    ] = False,
    all_: Annotated[bool, typer.Option("--all", help="Print changes of live and young transactions, too.")] = False,
    lag: Annotated[
        list[str] | None,
        typer.Option(
            "--lag",
            metavar="GROUP",
            help="Also read the lag of this consumer group with each poll, for the metrics; repeatable.",
        ),
    ] = None,
    fetch_bytes: txn.FetchBytesOption = 8 << 20,
    command_config: txn.ConfigOption = None,
    timeout: txn.TimeoutOption = None,
) -> None:
    """Watch for hanging transactions: what changes is printed as jsonl, and --listen serves metrics for Prometheus.

    A line reports a transaction that appeared, changed its verdict or is gone, a partition or broker that can no
    longer be read or can be again, or a poll that failed. Ends on Ctrl-C (130) or SIGTERM (143); SIGHUP reads
    --command-config and --web-config again where there is no terminal. With --once: exit code 3 where a transaction
    hangs, is stuck or has blocked readers for longer than --blocked-after, 4 where not everything could be read or
    judged, 5 where both hold, 1 where nothing could be read.

    A poll requests the producers of each broker's partitions (500 in a request) and, while transactions are open, their
    offsets and the transactions that the broker coordinates. What a hanging or stuck transaction holds back is
    measured once: offsets of groups, size and settings of its partition, at most --fetch-bytes of its log. Each broker
    has one connection, which is kept.

    \b
    Metrics at http://127.0.0.1:9308/metrics, or in a file, from cron:
      kafkawire txn watch --bootstrap-server 127.0.0.1:9092 --listen 9308
      kafkawire txn watch --bootstrap-server 127.0.0.1:9092 \\
        --once --textfile /var/lib/node_exporter/kafka.prom
    """
    from kafkawire.client import Watch

    if textfile is not None:
        check_output(textfile, [command_config, web_config], "--textfile")
    address = None if listen is None else parse_address(listen)
    cluster = txn.Address(bootstrap, command_config, timeout)
    search = txn.make_search(
        cluster,
        max_transaction_timeout,
        confirm_after,
        blocked_after,
        topics=tuple(topic) if topic else None,
        broker_id=broker_id,
        impact=True,
        fetch_bytes=fetch_bytes,
    )
    with ExitStack() as stack:
        metrics = _Metrics(textfile, web_config, round(interval * 1000)) if textfile or address else None
        watching: Watch | None = None

        async def run(admin: Admin) -> Watch:
            nonlocal watching
            if watching is None:
                watching = Watch(admin, search, interval_s=interval, everything=all_, lag_groups=lag or ())
                if metrics is not None:
                    metrics.expose(watching, stack, address)
            else:
                watching.use(admin)
            if once:
                show(await watching.poll(), every_poll=True)
                return watching
            async for found in watching.run():
                show(found, every_poll=every_poll)
            raise AssertionError("a watch ends by a signal alone")

        def show(found: list[rows.Change | rows.Poll], *, every_poll: bool) -> None:
            assert watching is not None
            _print(found, watching, every_poll=every_poll)
            if metrics is not None:
                metrics.write()

        def reload() -> bool:
            return _reload(bootstrap, command_config, metrics)

        done = cluster.run(run, reload=None if once or _on_terminal() else reload)
    if done.error is not None:
        raise done.error
    assert done.observation is not None
    findings.end(done.observation.audit)


def _on_terminal() -> bool:
    """Whether SIGHUP means that the terminal was closed. A service has none."""
    return any(os.isatty(number) for number in range(3))


def _reload(bootstrap: str, command_config: str | None, metrics: _Metrics | None) -> bool:
    """Reads the configuration again and uses it; where it is not valid, prints a warning and returns False."""
    from kafkawire.client import Config, read_properties

    try:
        if command_config is not None:
            Config.of(bootstrap, read_properties(command_config))
        if metrics is not None:
            metrics.reload()
    except (KafkaWireError, OSError) as error:
        print_note("warning", f"not reloaded, the former settings stay: {printable(str(error))}")
        return False
    print_note("note", "reloaded")
    return True


def _print(found: list[rows.Change | rows.Poll], watching: Watch, *, every_poll: bool) -> None:
    if watching.observation is not None:
        txn.warn_of_limit(watching.observation.audit.read.settings)
    shown = [
        row for row in found if isinstance(row, rows.Change) or every_poll or row.outcome == "failed" or row.missed
    ]
    output.print_rows(shown, [rows.Change, rows.Poll], format=Format.jsonl, live=True)


class _Metrics:
    """The metrics that --listen serves and --textfile writes."""

    def __init__(self, textfile: str | None, web_config: str | None, interval_ms: int) -> None:
        self._textfile = textfile
        self._web_config = web_config
        self._interval_ms = interval_ms
        self._web = self._read()
        self._endpoint: MetricsEndpoint | None = None

    def _read(self) -> WebConfig:
        return WebConfig() if self._web_config is None else read_web_config(self._web_config)

    def reload(self) -> None:
        """Reads --web-config again."""
        self._web = self._read()
        if self._endpoint is not None:
            self._endpoint.web = self._web

    def expose(self, watching: Watch, stack: ExitStack, address: tuple[str, int] | None) -> None:
        """Serves the metrics for as long as `stack` lasts."""
        from kafkawire.client.diagnosis.cluster_reading import clock_ms
        from kafkawire.client.watch.metrics import Exporter, polling

        since, limit_ms = clock_ms(), round(3 * (self._interval_ms + watching.poll_timeout_s * 1000))
        self._registry = Exporter(lambda: watching.state, clock_ms, interval_ms=self._interval_ms).registry()
        self._endpoint = MetricsEndpoint(
            self._registry,
            healthy=lambda: polling(watching.state, clock_ms(), since, limit_ms),
            ready=lambda: watching.state.last is not None,
            web=self._web,
        )
        if address is not None:
            host = f"[{address[0]}]" if ":" in address[0] else address[0]
            port = stack.enter_context(serving(self._endpoint, *address))
            scheme = "http" if self._web.context is None else "https"
            print_note("note", f"metrics are at {scheme}://{printable(host)}:{port}/metrics")

    def write(self) -> None:
        """Writes the metrics into the file."""
        from prometheus_client import generate_latest

        if self._textfile is not None:
            with open_output(self._textfile) as file:
                file.write(generate_latest(self._registry))
