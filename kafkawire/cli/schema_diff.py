"""`kafkawire schema diff`: what changed between two sets of schemas, and whether old readers survive it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kafkawire.cli import arguments, output, output_file
from kafkawire.cli.arguments import InputError
from kafkawire.cli.exit_codes import FOUND
from kafkawire.cli.formatting import counted, printable
from kafkawire.cli.notes import print_note
from kafkawire.cli.table import TableView

if TYPE_CHECKING:
    from kafkawire.codegen.model import MessageModel

VIEW = TableView(
    columns=("message", "change", "versions", "field", "old", "new", "compatible", "why"),
    primary=("message", "change", "field", "compatible", "why"),
    minor=("versions",),
    prose=("why",),
)
_SIDE = "A folder of schemas, a jar of Kafka's, or a namespace: kafka, kip-664-draft, ..."


class ChangeRow(output.CommandRow, frozen=True, kw_only=True):
    """A change. `compatible`: whether programs that use the old schema keep working."""

    message: str
    change: str
    versions: str | None
    field: str | None
    old: str | None
    new: str | None
    compatible: bool
    why: str | None


def diff(
    old: Annotated[str, typer.Argument(metavar="A", help=_SIDE)],
    new: Annotated[str, typer.Argument(metavar="B", help="The same, of what came after A.")],
    incompatible: Annotated[
        bool, typer.Option("--incompatible", help="Only the changes that old readers or writers do not survive.")
    ] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="Messages that only A or only B has, too: A and B are whole sets.")
    ] = False,
    format: output.FormatOption = None,
    to: output.OutputOption = None,
    wide: output.WideOption = False,
    no_cut: output.NoCutOption = False,
) -> None:
    """Compare the schemas of A with those of B, message by message and version by version.

    The rules are those of Kafka's own checker; and beyond them the bytes of each version that both have are compared.
    Messages that only one side has are counted on standard error; with --all they are changes, too. The exit code is 3
    when a change is not compatible.

    \b
    Two releases; edited schemas and Kafka's; a KIP's text and what was shipped:
      kafkawire schema diff kafka-clients-3.9.1.jar kafka-clients-4.4.0.jar --all
      kafkawire schema diff kafka my/
      kafkawire schema diff kip-664-draft kafka --incompatible
    """
    from kafkawire.codegen.diff import ADDED, REMOVED, compare
    from kafkawire.codegen.importing.decisions import new_name

    output_file.check_output(to, [old, new])
    changes = list(compare(_messages(old), _messages(new), new_name))
    if not everything:
        for side, what in ((old, REMOVED), (new, ADDED)):
            _note_others(side, [change.message for change in changes if change.what == what])
        changes = [change for change in changes if change.what not in (ADDED, REMOVED)]
    rows = (
        ChangeRow(
            message=change.message,
            change=change.what,
            versions=change.versions or None,
            field=change.field or None,
            old=change.old or None,
            new=change.new or None,
            compatible=change.compatible,
            why=change.why or None,
        )
        for change in changes
        if not (incompatible and change.compatible)
    )
    output.Shown(format, to, wide, no_cut).print(rows, [ChangeRow], {ChangeRow: VIEW})
    if not all(change.compatible for change in changes):
        raise typer.Exit(FOUND)


def _note_others(side: str, names: list[str]) -> None:
    """A line for the messages that only one side has."""
    if names:
        more = ", ..." if len(names) > 3 else ""
        text = f"only in {side}: {counted(len(names), 'message')} ({', '.join(names[:3])}{more}); --all compares them"
        print_note("note", printable(text))


def _messages(side: str) -> list[MessageModel]:
    """The messages of one side; a usage error where it is neither a path nor a namespace."""
    from kafkawire.codegen.importing import sources
    from kafkawire.codegen.load import RawSchema
    from kafkawire.codegen.resolve import resolve

    path = Path(side)
    if not path.exists():
        if side not in arguments.namespaces():
            known = ", ".join(arguments.namespaces())
            raise typer.BadParameter(f"{side!r} is no file, no folder, and no namespace ({known})")
        path = arguments.shipped_schemas(side)
    releases = sources.releases([sources.read(path, prose=False)])
    if len(releases) > 1:
        labels = ", ".join(release.label for release in releases)
        raise InputError(f"{side} holds several releases ({labels}): schema import makes one of them")
    (release,) = releases
    raws = [RawSchema(f"{side}, {name}", family, schema) for name, (family, schema) in release.messages.items()]
    return resolve(raws, drafts=True)
