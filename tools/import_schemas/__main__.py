"""The command: `python -m tools.import_schemas [--add RELEASE] [--cache DIR | --jars DIR] [--output DIR]`.

Without `--jars` and `--output` it does all that a new release needs: schemas, error codes and api keys (which takes
Java), and the generated code.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from kafkawire.codegen.__main__ import main as generate
from kafkawire.codegen.importing import annotate, catalogue, decisions, render
from kafkawire.codegen.importing.catalogue import Catalogue, CatalogueMessage
from kafkawire.codegen.importing.sources import newest_first
from kafkawire.errors import SchemaError
from tools import ROOT
from tools.import_schemas import about, enums, release_versions, schema_jars

CACHE = Path.home() / ".cache" / "kafkawire" / "jars"
SCHEMAS = ROOT / "schemas" / "kafka"
RELEASES_FILE = Path(__file__).parent / "releases.json"


def main(arguments: Sequence[str] | None = None) -> int:
    """Import, print what was written, return the exit code: 0 done, 1 when it could not or a file is left over."""
    parser = argparse.ArgumentParser(prog="python -m tools.import_schemas", description=__doc__)
    parser.add_argument("--cache", type=Path, default=CACHE, metavar="DIR", help=f"where jars are kept ({CACHE})")
    parser.add_argument("--jars", type=Path, metavar="DIR", help="use the jars in this folder and download nothing")
    parser.add_argument("--output", type=Path, default=SCHEMAS, metavar="DIR", help="folder to write (schemas/kafka)")
    parser.add_argument("--add", metavar="RELEASE", help="one more release, from now on")
    options = parser.parse_args(arguments)
    releases = newest_first({*schema_jars.RELEASES, *([options.add] if options.add else [])})
    wanted = [(artifact.name, release) for release in releases for artifact in schema_jars.wanted(release)]
    ours = options.output == SCHEMAS and options.jars is None
    try:
        if options.jars is None:
            schema_jars.fetch(options.cache, wanted)
        built = catalogue.build(schema_jars.load(options.jars or options.cache, wanted))
        messages = with_sentences(built.messages, about.load(about.FOLDER))
        check(built)
        tables = (
            enums.texts(releases) | {release_versions.FILE.name: release_versions.text(options.cache)} if ours else {}
        )
        stale = write(messages, options.output)
        for file, text in tables.items():
            (SCHEMAS.parent / file).write_text(text, encoding="utf-8", newline="\n")
        if ours:
            RELEASES_FILE.write_text(json.dumps(releases) + "\n", encoding="utf-8")
            generate(check=False)
    except (schema_jars.JarError, enums.EnumsError, ValueError, OSError) as error:
        lines = error.problems if isinstance(error, SchemaError) else [error]
        for line in lines:
            print(f"import_schemas: {line}", file=sys.stderr)
        return 1
    for family, count in sorted(Counter(message.family for message in messages.values()).items()):
        print(f"{family:12} {count:4}")
    print(f"{len(messages)} messages, {catalogue.count_versions(messages)} message-versions -> {options.output}")
    for path in stale:
        print(f"import_schemas: no release has {path.name}, remove {path}", file=sys.stderr)
    return 1 if stale else 0


def with_sentences(
    messages: dict[str, CatalogueMessage], abouts: dict[str, about.About]
) -> dict[str, CatalogueMessage]:
    """The messages with our sentences; ValueError when one is on something that is not there."""
    _known(messages, abouts)
    return {
        name: CatalogueMessage(family, annotate.described(schema, *abouts[name]) if name in abouts else schema)
        for name, (family, schema) in messages.items()
    }


def check(built: Catalogue) -> None:
    """Raises ValueError for what an import of other releases may leave open, and the committed schemas may not."""
    if built.undecided:
        raise ValueError(f"two layouts of the same version, decide which: {', '.join(map(str, built.undecided))}")
    if built.left_out:
        raise ValueError(f"no release given has the layout of {', '.join(built.left_out)}")
    _known(built.messages, decisions.RENAMED_MESSAGES)
    _known(built.messages, decisions.RENAMED_FIELDS)
    for name, fields in decisions.RENAMED_FIELDS.items():
        annotate.aliased(built.messages[name].schema, [], fields)


def _known(messages: dict[str, CatalogueMessage], named: Iterable[str]) -> None:
    if unknown := set(named) - messages.keys():
        raise ValueError(f"unknown message: {', '.join(sorted(unknown))}")


def write(messages: dict[str, CatalogueMessage], output: Path) -> list[Path]:
    """Write one file a message below `output`; return the schema files there that belong to none of them."""
    written = set()
    for name, message in messages.items():
        path = output / message.family / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(render.message(message.schema), encoding="utf-8", newline="\n")
        written.add(path)
    return sorted(set(output.glob("*/*.json")) - written)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
