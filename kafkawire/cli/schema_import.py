"""`kafkawire schema import`: schemas from Kafka's jars, of any release, or from folders of JSON."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kafkawire import versions
from kafkawire.cli.arguments import InputError
from kafkawire.cli.formatting import counted, printable
from kafkawire.cli.output_file import check_output, save

if TYPE_CHECKING:
    from kafkawire.codegen.importing.merge import VersionGapError


def import_schemas(
    inputs: Annotated[
        list[Path], typer.Argument(metavar="JAR|DIR", help="Kafka's jars, or folders of jars and schemas (*.json).")
    ],
    folder: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Where the schemas are written.")],
    family: Annotated[
        str | None, typer.Option("--family", metavar="NAME", help="The family of all; by default each jar's own.")
    ] = None,
    newest_wins: Annotated[
        bool, typer.Option("--newest-wins", help="Where releases disagree on a version, take the newest's layout.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite files that are there and differ.")] = False,
) -> None:
    """Import message schemas of one or several releases, one file a message for all versions.

    The newest release decides what they share; older ones add the versions and fields that it dropped. The
    release is part of a jar's name. Where a name has none, the first input is the newest. Messages get their newest
    names; earlier ones stay as aliases. Each family has its folder in DIR.

    \b
    Two releases, newest first:
      kafkawire schema import kafka-clients-4.4.0.jar kafka-clients-3.9.1.jar -o my/
    """
    from kafkawire.codegen.importing import catalogue, render, sources
    from kafkawire.codegen.importing.merge import VersionGapError

    if family is not None and not sources.is_family(family):
        raise typer.BadParameter(f"{family!r} will not do as a folder's name", param_hint="--family")
    releases = sources.releases([sources.read(path, family=family) for path in inputs])
    try:
        built = catalogue.build(releases)
    except VersionGapError as gap:
        raise InputError(f"{gap}{_closing(gap)}") from None
    except ValueError as error:
        raise InputError(str(error)) from None
    if built.undecided and not newest_wins:
        raise InputError(
            f"{len(built.undecided)} versions are laid out otherwise by an older release, {built.undecided[0]} first: "
            "--newest-wins takes the newest layout"
        )
    texts = {
        folder / family / f"{name}.json": render.message(schema) for name, (family, schema) in built.messages.items()
    }
    for path in texts:
        check_output(str(path), map(str, inputs))
    changed = _write(texts, force)
    for path, what in changed.items():
        typer.echo(f"{what:8} {printable(str(path))}")
    for path in sorted({*folder.glob("*/*.json")} - texts.keys()):
        typer.echo(f"{'kept':8} {printable(str(path))}: no input has it")
    for conflict in built.undecided:
        typer.echo(f"{'newest':8} {conflict} is laid out otherwise there")
    for name in built.left_out:
        typer.echo(f"{'left out':8} {name}: no input has a version of it")
    counts = Counter(family for family, _ in built.messages.values())
    families = ", ".join(f"{family} {count}" for family, count in sorted(counts.items()))
    versions = catalogue.count_versions(built.messages)
    labels = printable(", ".join(release.label for release in releases))
    typer.echo(f"{counted(len(built.messages), 'message')} ({families}), {versions} message-versions, of {labels}")


def _closing(gap: VersionGapError) -> str:
    """The end of an error's sentence: which releases fill the gap between versions, where they are known."""
    having = [versions.releases_with(gap.message, version) for version in gap.versions]
    closing = [release for release in having[0] if all(release in others for others in having)]
    if closing:
        several = f"{closing[0]} to {closing[-1]}" if len(closing) > 1 else closing[0]
        return f". Kafka {several} has {'it' if len(having) == 1 else 'them'}: give one of these, too"
    return ": give a release between those that were given, too"


def _write(texts: dict[Path, str], force: bool) -> dict[Path, str]:
    """Writes the files that differ; returns each file with its outcome."""
    there = {path: path.read_bytes() for path in texts if path.exists()}
    changed = {path: "changed" if path in there else "created" for path, text in texts.items()
               if there.get(path) != text.encode()}  # fmt: skip
    edited = [path for path, what in changed.items() if what == "changed"]
    if edited and not force:
        raise InputError(f"{edited[0]} exists and differs ({len(edited)} in all): --force overwrites")
    for path in changed:
        save(path, texts[path].encode())
    return changed
