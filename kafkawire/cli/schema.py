"""`kafkawire schema`: lists, shows and exports message schemas, and generates codecs from the user's own.

`import`, `diff` and `emit` are in modules of their own.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kafkawire.cli import (
    arguments,
    help_without_command,
    layouts,
    output,
    output_file,
    schema_diff,
    schema_emit,
    schema_fmt,
    schema_import,
)
from kafkawire.cli.arguments import InputError
from kafkawire.cli.formatting import counted, printable
from kafkawire.cli.notes import print_note
from kafkawire.cli.table import TableView

if TYPE_CHECKING:
    from kafkawire.codegen.model import MessageModel

PACKAGE_DOC = "Message codecs, compiled from JSON schemas; imported on first use."

SchemasFolder = Annotated[Path, typer.Option("--schemas", metavar="DIR", help="The folder of schemas (*.json).")]
OutputFolder = Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="The package's folder.")]
OptionalOutputFolder = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="DIR", help="The package to compare; without it, none is.")
]
PackageDoc = Annotated[str, typer.Option("--package-doc", metavar="TEXT", help="The docstring of the package.")]
Drafts = Annotated[bool, typer.Option("--drafts", help="Layouts that are never sent: no request needs an apiKey.")]
Namespace = Annotated[
    str,
    typer.Option("--namespace", metavar="NAME", help="kafka, or the layouts of a KIP's text, such as kip-664-draft."),
]


class MessageRow(output.CommandRow, frozen=True, kw_only=True):
    """A message of `schema list`. `flexible` are the versions with compact strings and tagged fields; None: no one."""

    name: str
    namespace: str
    kind: str
    family: str
    api_key: int | None
    versions: str
    flexible: str | None
    aliases: tuple[str, ...]


def register(app: typer.Typer) -> None:
    group = typer.Typer(rich_markup_mode=None)
    group.callback(invoke_without_command=True)(schema)
    group.command("list")(list_messages)
    group.command("show", short_help="Show what the fields of a message mean, and their bytes.")(show)
    group.command("export")(export)
    group.command("import", short_help="Import message schemas from Kafka's jars.")(schema_import.import_schemas)
    group.command("generate")(generate)
    group.command("check")(check)
    group.command("fmt", short_help="Write schema files in the canonical form.")(schema_fmt.fmt)
    group.command("diff", short_help="Compare two sets of schemas: would old readers survive?")(schema_diff.diff)
    group.command("emit", short_help="Make a Wireshark plugin, Kaitai Struct files, JSON Schemas, docs.")(
        schema_emit.emit
    )
    app.add_typer(group, name="schema")


def schema(context: typer.Context) -> None:
    """List, show, export, import and compare message schemas; generate codecs from your own."""
    help_without_command(context)


# What there is -------------------------------------------------------------------------------------------------------


def list_messages(
    family: Annotated[
        str | None, typer.Option("--family", help="Only this family: rpc, group, transaction, share, metadata, ...")
    ] = None,
    kind: Annotated[
        str | None, typer.Option("--kind", help="Only this kind: request, response, coordinator-key, ...")
    ] = None,
    api_key: Annotated[int | None, typer.Option("--api-key", help="Only messages with this api key.")] = None,
    namespace: Namespace = "kafka",
    format: output.FormatOption = None,
    to: output.OutputOption = None,
    wide: output.WideOption = False,
    no_cut: output.NoCutOption = False,
) -> None:
    """List the messages that have codecs.

    \b
    For example:
      kafkawire schema list --family transaction
    """
    registry = arguments.registry_of(namespace)
    for option, wanted, known in (
        ("--family", family, sorted({entry.family for entry in registry})),
        ("--kind", kind, sorted({entry.kind for entry in registry})),
    ):
        if wanted is not None and wanted not in known:
            raise typer.BadParameter(f"{wanted!r} is none of {', '.join(known)}", param_hint=option)
    rows = (
        MessageRow(
            name=entry.name,
            namespace=namespace,
            kind=entry.kind,
            family=entry.family,
            api_key=entry.api_key,
            versions=arguments.version_text(entry.valid_versions),
            flexible=arguments.version_text(entry.valid_versions[entry.valid_versions.index(entry.flexible) :])
            if entry.flexible in entry.valid_versions
            else None,
            aliases=entry.aliases,
        )
        for entry in registry
        if family in (None, entry.family) and kind in (None, entry.kind) and api_key in (None, entry.api_key)
    )
    views = {
        MessageRow: TableView(
            columns=("name", "kind", "family", "api_key", "versions", "flexible"), primary=("name", "kind", "versions")
        )
    }
    output.Shown(format, to, wide, no_cut).print(rows, [MessageRow], views)


def show(
    name: Annotated[str, typer.Argument(metavar="NAME[.FIELD]", help=f"{arguments.NAME_HELP} NAME.FIELD for a field.")],
    version: Annotated[int | None, typer.Option("--version", help="The layout of this version, in wire order.")] = None,
    schemas: arguments.SchemasOption = None,
    format: output.FormatOption = None,
    to: output.OutputOption = None,
    wide: output.WideOption = False,
    no_cut: output.NoCutOption = False,
) -> None:
    """Show the fields of a message with their meaning, or its layout in one version; or one field, by a dotted path.

    \b
    All versions, the bytes of one, a field and what it nests:
      kafkawire schema show WriteTxnMarkersRequest
      kafkawire schema show WriteTxnMarkersRequest --version 1
      kafkawire schema show WriteTxnMarkersRequest.Markers.Topics
    """
    output_file.check_output(to, [schemas])
    name, _, path = name.partition(".")
    message = arguments.message_class(name, schemas)
    if version is None:
        rows = layouts.all_fields(message, path)
    else:
        rows = layouts.fields_of_version(message, arguments.message_version(message, version), path)
    chosen = format or (output.Format.table if to is None else None)
    views = {layouts.FieldRow: layouts.VIEW if version is None else layouts.VERSION_VIEW}
    heading = layouts.heading(message, version, path)
    output.Shown(chosen, to, wide, no_cut).print(rows, [layouts.FieldRow], views, heading=heading)


def export(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help=arguments.NAME_HELP)] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every schema of the namespace.")] = False,
    folder: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="DIR", help="Where to write; without it NAME's is printed.")
    ] = None,
    namespace: Namespace = "kafka",
    force: Annotated[bool, typer.Option("--force", help="Overwrite files that are there and differ.")] = False,
) -> None:
    """Write out the JSON schemas that the codecs come from.

    In DIR each family has its folder, as the compiler expects it. Without DIR the one of NAME is printed.

    \b
    For example:
      kafkawire schema export WriteTxnMarkersRequest -o my/
      kafkawire schema export --all -o my/
    """
    if (name is None) != everything:
        raise typer.BadParameter("give NAME or --all")
    if name is not None:
        spec = arguments.message_class(name).spec
        namespace = arguments.split_name(name)[0]
        sources = [spec.source]
    else:
        arguments.registry_of(namespace)  # a usage error where there is none
        root = arguments.shipped_schemas(namespace)
        sources = [path.relative_to(root).as_posix() for path in sorted(root.rglob("*.json"))]
    texts = {source: (arguments.shipped_schemas(namespace) / source).read_bytes() for source in sources}
    if folder is None:
        if everything:
            raise typer.BadParameter("--all needs a folder", param_hint="--output")
        sys.stdout.buffer.write(texts[sources[0]])
        return
    edited = [source for source, text in texts.items() if _differs(folder / source, text)]
    if edited and not force:
        raise InputError(f"{folder / edited[0]} exists and differs ({len(edited)} in all): --force overwrites")
    for source, text in texts.items():
        path = folder / source
        output_file.save(path, text, [str(arguments.shipped_schemas(namespace))])
        typer.echo(printable(str(path)))


def _differs(path: Path, content: bytes) -> bool:
    return path.exists() and path.read_bytes() != content


# Generating ----------------------------------------------------------------------------------------------------------


def generate(
    schemas: SchemasFolder, folder: OutputFolder, package_doc: PackageDoc = PACKAGE_DOC, drafts: Drafts = False
) -> None:
    """Generate a package of codecs from a folder of schemas.

    Prints the files that it creates, changes and removes. The package needs nothing but kafkawire. Files in the folder
    that were not generated are never touched.

    \b
    For example:
      kafkawire schema generate --schemas my/ --output my_codecs/
    """
    from kafkawire.codegen import generate

    messages, files = _package(schemas, package_doc, drafts)
    changes = generate.write(files, folder, save=output_file.save)
    for change in changes:
        typer.echo(f"{generate.DONE[change.what]:8} {printable(str(change.path))}")
    typer.echo(f"{counted(len(messages), 'message')}, {len(changes)} of {len(files)} files changed")


def check(
    schemas: SchemasFolder,
    folder: OptionalOutputFolder = None,
    package_doc: PackageDoc = PACKAGE_DOC,
    drafts: Drafts = False,
) -> None:
    """Check schemas, and compare a generated package with them.

    Prints the files of the package that are missing, that differ or are left over; then the exit code is 1. Without a
    package only the schemas are checked.

    \b
    For example:
      kafkawire schema check --schemas my/ --output my_codecs/
    """
    from kafkawire.codegen import generate

    messages, files = _package(schemas, package_doc, drafts)
    if folder is None:
        typer.echo(f"{counted(len(messages), 'message')}, no mistake found")
        return
    changes = list(generate.differences(files, folder))
    for change in changes:
        typer.echo(f"{change.what:9} {printable(str(change.path))}")
    if changes:
        raise InputError(f"{len(changes)} files of {folder} are not what the schemas give: schema generate writes them")


def _package(schemas: Path, package_doc: str, drafts: bool) -> tuple[list[MessageModel], dict[str, str]]:
    """The messages of a folder, and the package's files: name -> text."""
    from kafkawire.codegen import generate
    from kafkawire.codegen.load import load_folder
    from kafkawire.codegen.python_source import doc, wrap
    from kafkawire.codegen.resolve import resolve_with_warnings

    messages, warnings = resolve_with_warnings(load_folder(schemas), drafts=drafts)
    for warning in warnings:
        print_note("warning", printable(str(warning)))
    return messages, generate.package_files(messages, wrap(doc(package_doc), 0))
