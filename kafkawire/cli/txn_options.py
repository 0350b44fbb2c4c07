"""Options of the `txn` commands to reach a cluster, and the function that runs their requests."""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar

import typer

from kafkawire.cli import output
from kafkawire.cli.arguments import MINUTE_MS, check_minutes
from kafkawire.cli.formatting import printable
from kafkawire.cli.interrupt import unhandled_terminations
from kafkawire.cli.notes import print_note
from kafkawire.cli.wait_reports import Counting, reported

if TYPE_CHECKING:
    from kafkawire import rows
    from kafkawire.client import Admin, Search

T = TypeVar("T")

BootstrapOption = Annotated[
    str, typer.Option("--bootstrap-server", metavar="HOST:PORT,...", help="Some brokers of the cluster.")
]
ConfigOption = Annotated[
    str | None, typer.Option("--command-config", metavar="FILE", help="Client properties, as for Kafka's own tools.")
]
TimeoutOption = Annotated[
    float | None,
    typer.Option(
        "--timeout",
        min=0.001,
        max=86_400,
        metavar="SECONDS",
        help="Limit of each call; by default default.api.timeout.ms of --command-config, or else 60.",
    ),
]
TopicOption = Annotated[list[str] | None, typer.Option("--topic", metavar="NAME", help="Only this topic; repeatable.")]
MaxTimeoutOption = Annotated[
    int | None,
    typer.Option(
        "--max-transaction-timeout",
        min=0,
        callback=check_minutes,
        metavar="MINUTES",
        help="The brokers' transaction.max.timeout.ms, in minutes; default: what they report, or else 15.",
    ),
]
BlockedAfterOption = Annotated[
    int,
    typer.Option(
        "--blocked-after",
        min=0,
        callback=check_minutes,
        metavar="MINUTES",
        help="How long a transaction may hold back readers, in minutes: longer is found, whatever its verdict.",
    ),
]
#: Its default, in minutes (`transactions.attention.BLOCKED_AFTER_MS`).
BLOCKED_AFTER = 5
ConfirmOption = Annotated[
    float,
    typer.Option(
        "--confirm-after",
        min=0,
        max=3600,
        metavar="SECONDS",
        help="Wait before a suspect is read again; longer where a broker is missing.",
    ),
]

ShowRecordsOption = Annotated[
    int,
    typer.Option(
        "--show-records", min=0, max=1000, metavar="N", help="Print the first N records that an abort would hide."
    ),
]
FetchBytesOption = Annotated[
    int,
    typer.Option(
        "--fetch-bytes",
        min=0,
        max=1 << 30,
        metavar="BYTES",
        help="Fetch at most this much of a partition to count what is held back; 0: estimate it.",
    ),
]

_warned: set[str] = set()


def warn_once(text: str) -> None:
    """A warning on standard error, once a process: a command may connect several times."""
    if text not in _warned:
        _warned.add(text)
        print_note("warning", printable(text))


class TransactionToolRow(output.CommandRow, frozen=True, kw_only=True, rename="pascal"):
    """A row whose columns are named as kafka-transactions.sh names them."""


class Address(NamedTuple):
    """A cluster, as the options name it. `bootstrap`: `HOST:PORT,...`. `command_config`: a file of client properties.
    `timeout`: seconds for each call."""

    bootstrap: str
    command_config: str | None = None
    timeout: float | None = None

    def run(
        self,
        action: Callable[[Admin], Awaitable[T]],
        counting: Counting | None = None,
        *,
        reload: Callable[[], bool] | None = None,
    ) -> T:
        """The result of `action`, with a client of the cluster that is closed afterwards. Waits are reported on
        standard error, and `counting` on a terminal.

        SIGTERM, and SIGHUP when the terminal closes, end it as Ctrl-C does: `action` is cancelled, and can still report
        its result.

        Args:
            action: the coroutine function to run.
            counting: progress to show on a terminal.
            reload: called at SIGHUP instead of ending. If it returns True, the client is closed, and `action` is
                cancelled and called again with one of the properties that the file has then.
        """
        from kafkawire.client import Admin

        async def run() -> T:
            properties = client_properties(self.command_config, self.timeout)
            with _ended_by_signals(reload):
                async with Admin.connect(self.bootstrap, properties) as admin:
                    for sentence in admin.cluster.config.unapplied:
                        warn_once(f"{self.command_config}: {sentence}")
                    async with reported(admin.cluster.waits, counting):
                        return await action(admin)

        import asyncio

        while True:
            try:
                return asyncio.run(run())
            except _ReloadSignal:
                pass


def client_properties(command_config: str | None, timeout: float | None) -> dict[str, str]:
    """The client properties of a file, and the seconds for each call in them."""
    from kafkawire.client import read_properties

    properties = read_properties(command_config) if command_config is not None else {}
    if timeout is not None:
        properties["default.api.timeout.ms"] = str(max(1, round(timeout * 1000)))
    return properties


class _ReloadSignal(Exception):
    """SIGHUP, and what was configured is to be read again."""


@contextmanager
def _ended_by_signals(reload: Callable[[], bool] | None) -> Iterator[None]:
    """A signal cancels the body, and the command ends with 128 and its number, as in a shell; `reload` may make SIGHUP
    a `_ReloadSignal`."""
    import asyncio

    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    got: list[signal.Signals] = []

    def end(one: signal.Signals) -> None:
        if one.name != "SIGHUP" or reload is None or reload():
            got.append(one)
            task.cancel(one.name)

    for one in unhandled_terminations():
        with suppress(NotImplementedError, RuntimeError, ValueError):  # on Windows; in a thread
            loop.add_signal_handler(one, end, one)
    try:
        yield
    except asyncio.CancelledError:
        if not got:
            raise
        ending = next((one for one in got if one.name != "SIGHUP" or reload is None), None)
        raise (_ReloadSignal if ending is None else typer.Exit(128 + ending)) from None


def make_search(
    cluster: Address,
    max_transaction_timeout: int | None,
    confirm_after: float,
    blocked_after: int = BLOCKED_AFTER,
    **where: Any,
) -> Search:
    """The search of these options; `where`: its other attributes.

    Args:
        cluster: for commands in findings.
        max_transaction_timeout: the brokers' limit in minutes; None: their setting.
        confirm_after: seconds between the two readings.
        blocked_after: minutes for which a last stable offset may be held.
    """
    from kafkawire.client import Search

    return Search(
        max_timeout_ms=None if max_transaction_timeout is None else max_transaction_timeout * MINUTE_MS,
        confirm_after_s=confirm_after,
        session_s=max(Search().session_s, confirm_after),
        address=cluster.bootstrap,
        command_config=cluster.command_config,
        blocked_after_ms=blocked_after * MINUTE_MS,
        **where,
    )


def warn_of_limit(settings: tuple[rows.Setting, ...]) -> None:
    """A warning where more is given for transaction.max.timeout.ms than any broker allows."""
    if len(settings) == 2 and settings[0].value > settings[1].value:
        from kafkawire.transactions.formatting import duration

        given, allowed = settings
        warn_once(
            f"--max-transaction-timeout is {duration(given.value)}, and the {allowed.name} of {allowed.source} is "
            f"{duration(allowed.value)}: what hangs counts as young for longer"
        )


def now_ms() -> int:
    """This machine's clock, epoch milliseconds."""
    import time

    return int(time.time() * 1000)
