"""`kafkawire schema fmt`: schema files in the canonical form."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from kafkawire.cli import output_file
from kafkawire.cli.arguments import InputError
from kafkawire.cli.formatting import counted, printable
from kafkawire.errors import Problem, SchemaError

#: Comment lines and empty lines above the schema, such as a licence.
_HEAD = re.compile(r"\ufeff?((?:[ \t]*//[^\n]*\n|[ \t]*/\*.*?\*/[ \t]*\n|[ \t\r]*\n)*)", re.DOTALL)


def fmt(
    paths: Annotated[list[Path], typer.Argument(metavar="FILE|DIR", help="Schema files, or folders of them.")],
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit with 1 where a file is not in the form.")
    ] = False,
) -> None:
    """Write schema files in the form that the shipped schemas have.

    One key a line in the order of the schema language, one field a line, its sentence on the next one. The comments
    above a schema stay. A file with comments inside is refused: the form has no place for them, `about` has.

    \b
    For example:
      kafkawire schema fmt my/
      kafkawire schema fmt --check my/
    """
    texts: dict[Path, str] = {}
    problems = []
    for file in (file for path in paths for file in _files(path)):
        try:
            texts[file] = _canonical(file)
        except SchemaError as error:
            problems += error.problems
    if problems:
        raise SchemaError(problems)
    differing = [file for file, text in texts.items() if file.read_bytes() != text.encode()]
    for file in differing:
        if not check:
            output_file.save(file, texts[file].encode())
        typer.echo(f"{'differs' if check else 'changed':8} {printable(str(file))}")
    if check and differing:
        raise InputError(f"{counted(len(differing), 'file')} not in the canonical form: schema fmt writes it")
    typer.echo(f"{counted(len(texts), 'file')}, {len(differing)} changed")


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = sorted(
        file
        for file in path.rglob("*.json")
        if file.is_file() and not any(part.startswith(".") for part in file.relative_to(path).parts)
    )
    if not files:
        raise InputError(f"{path}: there is no schema (*.json) in this folder")
    return files


def _canonical(file: Path) -> str:
    """The text that the file should have; SchemaError for what the compiler refuses in it."""
    from kafkawire.codegen import load
    from kafkawire.codegen.importing import render
    from kafkawire.codegen.importing.facts import facts
    from kafkawire.codegen.resolve import resolve

    text = load.read_text(file, str(file))
    raw = load.load_text(text, file=str(file))
    resolve([raw], drafts=True)
    head = _HEAD.match(text)
    begin = head.end() if head else 0
    comment = load.first_comment(text, begin)
    if comment is not None:
        line = text.count("\n", 0, comment) + 1
        raise SchemaError([Problem(str(file), "", f"line {line}: the canonical form has no comments here")])
    return (head[1] if head else "") + render.message(facts(raw.data, prose=True))
