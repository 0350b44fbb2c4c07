"""The command: `python -m tools.import_schemas.about_check [MESSAGE...]`: sentences that are missing or add nothing.

Every message and every field of `schemas/` has a sentence (`about`). It states what its name does not: unit, sentinel
values, versions, who sets it. Every error code has two (`error_advice.json`): its cause, and what to do.
"""

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any

from tools import ROOT

SCHEMAS = ROOT / "schemas"
#: Characters of one sentence or three.
LONGEST = 600
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
#: Words that add nothing to a name.
_EMPTY_WORDS = frozenset(
    re.findall(
        r"\w+",
        """a all an and are as at be been by each every field for from given has have in is it its list message name
        names of on or request requested response result results set that the their this to value values was were
        which with""",
    )
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print each problem; return 1 where there is one."""
    wanted = set(sys.argv[1:] if arguments is None else arguments)
    problems = [problem for schema in _schemas() if not wanted or schema["name"] in wanted for problem in check(schema)]
    if not wanted:
        names, advice = (
            json.loads((SCHEMAS / f"{file}.json").read_text("utf-8")) for file in ("errors", "error_advice")
        )
        problems += check_advice({entry["name"] for entry in names}, advice)
    for problem in problems:
        print(problem)
    if problems:
        places = "tools/import_schemas/about/*.json, schemas/error_advice.json"
        print(f"{len(problems)} sentences are missing or add nothing: {places}")
    return bool(problems)


def check(schema: dict[str, Any]) -> Iterator[str]:
    """What is wrong with the sentences of a schema, "Message.Path: reason" each."""
    name: str = schema["name"]
    yield from _check(name, name, schema.get("about"))
    for path, field in fields_of(schema):
        yield from _check(f"{name}.{path}", f"{name} {path}", field.get("about"))


def check_advice(errors: Set[str], advice: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """What is wrong with the causes and the advice of error codes, "NAME: reason" each."""
    for name in sorted(errors ^ advice.keys()):
        yield f"{name}: {'no cause and advice' if name in errors else 'no error has this name'}"
    for name, sentences in advice.items():
        if len(sentences) != 2:
            yield f"{name}: {len(sentences)} texts, not a cause and advice"
        for text in sentences:
            yield from _check(name, name, text)


def fields_of(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The fields of a schema, each with its path; those of common structs below the struct's name."""

    def walk(fields: list[dict[str, Any]], above: str) -> Iterator[tuple[str, dict[str, Any]]]:
        for field in fields:
            yield above + field["name"], field
            yield from walk(field.get("fields", []), f"{above}{field['name']}.")

    yield from walk(schema["fields"], "")
    for struct in schema.get("commonStructs", []):
        yield from walk(struct["fields"], f"{struct['name']}.")


def _check(place: str, names: str, text: str | None) -> Iterator[str]:
    if not text:
        yield f"{place}: no sentence"
        return
    if not text.endswith((".", "?", ")")) or text != " ".join(text.split()):
        yield f"{place}: no sentence with a full stop, or blanks that are not single: {text!r}"
    if len(text) > LONGEST:
        yield f"{place}: {len(text)} characters are more than {LONGEST}"
    if _words(text) <= _words(names) | _EMPTY_WORDS:
        yield f"{place}: restates the name: {text!r}"


def _words(text: str) -> set[str]:
    return {word.lower().removesuffix("s") for word in _WORD.findall(text)} | {
        word.lower() for word in _WORD.findall(text) if word.lower() in _EMPTY_WORDS
    }


def _schemas() -> Iterator[dict[str, Any]]:
    for path in sorted(SCHEMAS.rglob("*.json")):
        schema = json.loads(path.read_text("utf-8"))
        if isinstance(schema, dict) and "fields" in schema:
            yield schema


if __name__ == "__main__":
    sys.exit(main())
