"""`kafkawire dump`: what a broker's log directories hold, row by row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from kafkawire.cli import output
from kafkawire.cli.arguments import InputError
from kafkawire.cli.outcome import Outcome

if TYPE_CHECKING:
    from kafkawire.logdir import LogDirectory
    from kafkawire.rows import Row

#: Fields of a record's row that are only there with --print-data-log.
_PAYLOAD = ("key", "key_base64", "value", "value_base64", "headers", "decoded")


def register(app: typer.Typer) -> None:
    app.command("dump")(dump)


def dump(
    paths: Annotated[
        list[str],
        typer.Argument(metavar="PATH...", help="Log directories, partitions' directories, single files."),
    ],
    deep_iteration: Annotated[bool, typer.Option("--deep-iteration", help="The records of each batch too.")] = False,
    print_data_log: Annotated[
        bool, typer.Option("--print-data-log", help="Records with keys, values and headers; internal topics decoded.")
    ] = False,
    no_payloads: Annotated[
        bool, typer.Option("--no-payloads", help="No keys, values and headers, whatever else is asked for.")
    ] = False,
    format: output.FormatOption = None,
    to: output.OutputOption = None,
) -> None:
    """Print what log directories hold: batches, records, indexes, snapshots, checkpoints, and what is damaged.

    Exit code 4: something was damaged or could not be read; there is a row for each.
    """
    from kafkawire import logdir, rows

    directory = logdir.open(*paths)
    if all(file.kind == "unknown" for file in directory.files):
        raise InputError(f"{paths[0]}: no file of a log directory is here")
    deep = deep_iteration or print_data_log
    payloads = print_data_log and not no_payloads
    outcome = Outcome()
    output.print_rows(
        _rows(directory, outcome, deep=deep, payloads=payloads),
        [kind for kind in rows.LOG_ROWS.values() if deep or kind is not rows.Record],
        format=format,
        output=to,
        columns={
            rows.Batch: (
                "position", "base_offset", "last_offset", "records", "size", "codec", "timestamp", "producer_id",
                "producer_epoch", "sequence", "leader_epoch", "transactional", "control",
            ),
            rows.Record: (
                "offset", "timestamp", "producer_id", "producer_epoch", "sequence", "control", "key_size",
                "value_size", *_PAYLOAD,
            ),
            rows.Damage: ("position", "reason", "detail", "resumed_at", "harmless"),
        },
        unset=() if payloads else _PAYLOAD,
    )  # fmt: skip
    outcome.end()


def _rows(directory: LogDirectory, outcome: Outcome, *, deep: bool, payloads: bool) -> Iterator[Row]:
    from kafkawire import logdir, rows

    for unreadable in directory.unreadable:
        yield _unreadable(outcome, unreadable.path, unreadable.reason)
    for file in directory.files:
        try:
            for row in logdir.rows_of(file, logdir.Options(deep=deep, payloads=payloads)):
                if not isinstance(row, rows.Damage):
                    outcome.read()
                elif not row.harmless:
                    outcome.problem(f"{row.file}: at byte {row.position}: {row.detail or row.reason}")
                yield row
        except OSError as error:
            yield _unreadable(outcome, file.path, error.strerror or str(error))


def _unreadable(outcome: Outcome, path: str, reason: str) -> Row:
    from kafkawire import rows

    outcome.problem(f"{path}: {reason}")
    return rows.Damage(file=path, reason="unreadable", detail=reason)
