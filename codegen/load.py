"""Schema files -> raw schemas: JSON with comments, one object a file, named as its message.

Every problem has the file and the place in it: line and column in text that is not JSON; the path of the key in JSON,
whose line and column `positions` finds.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kafkawire.codegen.positions import find_positions
from kafkawire.codegen.quoting import quote
from kafkawire.errors import Problem, SchemaError

# Strings are matched so that the comment marks in them are none; one without an end goes to the end of the text, which
# is not looked through again for each quote in it. A comment is blanked and not cut: places stay.
_STRING_OR_COMMENT = re.compile(r'"(?:[^"\\]|\\.)*+"?|//[^\n]*|/\*.*?(?:\*/|(?P<open>\Z))', re.DOTALL)
_BUT_NEWLINES = re.compile(r"[^\r\n]")
#: Bytes of one schema; Kafka's longest has 60 KB.
MAX_SCHEMA = 4 << 20
_BLANKS = re.compile(r"[ \t\r\n]*")


@dataclass(frozen=True, slots=True)
class RawSchema:
    """One schema as its file has it.

    Attributes:
        file: its path, relative to the loaded folder.
        family: the folder that it lies in; `resolve` decides whether that is the message's family.
        data: the JSON object.
        text: the text of the file, comments blanked out; "" where there is none to point into.
    """

    file: str
    family: str
    data: dict[str, Any]
    text: str = field(default="", repr=False, compare=False)


def load_folder(path: str | Path) -> list[RawSchema]:
    """Every `*.json` under the folder `path`, sorted by file; SchemaError with the problems of all of them.

    The `family` of a raw schema is the name of the folder that it lies in: that of `path` itself for the files
    directly in it. A file has the name of its message. Hidden files and folders are left out.
    """
    root = Path(path)
    if not root.is_dir():
        raise SchemaError([Problem(str(path), "", "is no folder" if root.exists() else "the folder does not exist")])
    schemas: list[RawSchema] = []
    problems: list[Problem] = []
    for file in sorted(root.rglob("*.json")):
        relative = file.relative_to(root)
        if file.is_dir() or any(part.startswith(".") for part in relative.parts):
            continue
        try:
            schemas.append(_read(file, relative.as_posix(), (root.resolve() / relative).parent.name))
        except SchemaError as error:
            problems += error.problems
    if not schemas and not problems:
        problems.append(Problem(str(path), "", "there is no schema (*.json) in this folder"))
    if problems:
        raise SchemaError(problems)
    return schemas


def load_text(text: str, *, file: str = "<text>", family: str = "", lenient: bool = False) -> RawSchema:
    """The schema in a text.

    Args:
        text: JSON with comments.
        file: its name in problems.
        family: the namespace of its api key.
        lenient: accept what Kafka's JSON reader accepted when the releases were built, and released files contain:
            text after the first JSON value, and keys that are given twice (the last one counts).
    """
    objects = _Objects()
    try:
        blanked = _without_comments(text)
        value, end = objects.decoder.raw_decode(blanked, _next_token(blanked, 0))
    except json.JSONDecodeError as error:
        empty = error.pos == len(error.doc) and not error.doc.strip()
        reason = "is empty" if empty else f"{_place(error)}: {error.msg[:1].lower()}{error.msg[1:]}"
        raise SchemaError([Problem(file, "", reason)]) from None
    except ValueError as error:
        raise SchemaError([Problem(file, "", str(error))]) from None
    except RecursionError:
        raise SchemaError([Problem(file, "", "is nested too deeply")]) from None
    if not isinstance(value, dict):
        raise SchemaError([Problem(file, "", f"a schema is a JSON object, not {describe(value)}")])
    problems = [] if lenient else objects.repeated_keys(file, value)
    rest = _next_token(blanked, end)
    if rest < len(blanked) and not lenient:
        place = _place(json.JSONDecodeError("", blanked, rest))
        problems.append(Problem(file, "", f"{place}: there is more after the end of the schema"))
    if problems:
        raise SchemaError(problems)
    return RawSchema(file, family, value, blanked[:end])


def located(schemas: Iterable[RawSchema], problems: Iterable[Problem]) -> list[Problem]:
    """The problems with line and column, where their file is one of `schemas` and has their path."""
    texts = {schema.file: schema.text for schema in schemas}
    paths: dict[str, list[str]] = {}
    problems = list(problems)
    for problem in problems:
        paths.setdefault(problem.file, []).append(problem.path)
    found = {file: find_positions(texts.get(file, ""), wanted) for file, wanted in paths.items()}
    return [
        Problem(problem.file, problem.path, problem.reason, *found[problem.file].get(problem.path, (0, 0)))
        for problem in problems
    ]


def describe(value: object) -> str:
    """A JSON value in a few words, for reasons: never long, whatever it holds."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "an array"
    if isinstance(value, str):
        return quote(value)
    return json.dumps(value)


def read_text(file: Path, name: str) -> str:
    """The text of a schema file, which problems call `name`; SchemaError where it cannot be read."""
    if not file.is_file():  # a folder, a pipe, a link to nowhere
        raise SchemaError([Problem(name, "", "is no file" if file.exists() else "the file does not exist")])
    try:
        with file.open("rb") as stream:
            return decoded(stream.read(MAX_SCHEMA + 1), name)
    except OSError as error:
        raise SchemaError([Problem(name, "", f"cannot be read: {error.strerror}")]) from None


def decoded(content: bytes, name: str) -> str:
    """The text of a schema, of which one byte above the limit was read at most; SchemaError where it is none."""
    if len(content) > MAX_SCHEMA:
        raise SchemaError([Problem(name, "", f"is longer than {MAX_SCHEMA >> 20} MiB")])
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise SchemaError([Problem(name, "", f"is not UTF-8 (byte {error.start})")]) from None


def first_comment(text: str, start: int = 0) -> int | None:
    """The offset of the first comment from `start` on; None where there is none."""
    return next((match.start() for match in _STRING_OR_COMMENT.finditer(text, start) if match[0][0] != '"'), None)


def _read(file: Path, name: str, family: str) -> RawSchema:
    schema = load_text(read_text(file, name), file=name, family=family)
    message = schema.data.get("name")
    if isinstance(message, str) and message != file.stem:
        reason = f"the file of {quote(message)} is named {quote(file.stem)}: a file has the name of its message"
        raise SchemaError(located([schema], [Problem(name, "name", reason)]))
    return schema


def _next_token(text: str, start: int) -> int:
    blanks = _BLANKS.match(text, start)
    return blanks.end() if blanks else start


def _place(error: json.JSONDecodeError) -> str:
    return f"line {error.lineno}, column {error.colno}"


def _without_comments(text: str) -> str:
    """`text` with blanks for its comments and byte order mark: of the same length, with the same lines."""

    def blank(match: re.Match[str]) -> str:
        if match["open"] is not None:
            raise json.JSONDecodeError("a comment begins here and never ends", text, match.start())
        return match[0] if match[0][0] == '"' else _BUT_NEWLINES.sub(" ", match[0])

    blanked = _STRING_OR_COMMENT.sub(blank, text)
    return " " + blanked[1:] if blanked.startswith("\ufeff") else blanked


class _Objects:
    """Decodes JSON and remembers which of the objects had a key twice."""

    def __init__(self) -> None:
        self._repeated: dict[int, list[str]] = {}
        self.decoder = json.JSONDecoder(
            object_pairs_hook=self._object, parse_int=_integer, parse_constant=_no_such_constant
        )

    def _object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        value = dict(pairs)
        if len(value) != len(pairs):
            counts = Counter(key for key, _ in pairs)
            self._repeated[id(value)] = [key for key in value if counts[key] > 1]
        return value

    def repeated_keys(self, file: str, value: dict[str, Any]) -> list[Problem]:
        """A problem for each key that stands twice in an object of `value`, in the order of the file."""
        if not self._repeated:
            return []
        problems = []
        pending: list[tuple[str, Any]] = [("", value)]
        while pending:  # a stack and not a recursion: the nesting is the file's
            path, item = pending.pop()
            children: list[tuple[str, Any]] = []
            if isinstance(item, dict):
                for key in self._repeated.get(id(item), ()):
                    problems.append(Problem(file, path, f"the key {quote(key)} is given twice"))
                children = [(f"{path}.{key}" if path else key, child) for key, child in item.items()]
            elif isinstance(item, list):
                children = [(f"{path}[{index}]", child) for index, child in enumerate(item)]
            pending += reversed(children)
        return problems


def _integer(text: str) -> int:
    # No number of a schema has more digits than this; int() takes quadratic time for long ones.
    if len(text) > 40:
        raise ValueError(f"the number {text[:20]}... is too long")
    return int(text)


def _no_such_constant(text: str) -> None:
    raise ValueError(f"{text} is no JSON")
