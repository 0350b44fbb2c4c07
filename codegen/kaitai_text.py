"""Text for Kaitai Struct files: ids that every language accepts, expressions over versions, scalars of YAML."""

from __future__ import annotations

import keyword
import re
import textwrap
from collections.abc import Iterable

from kafkawire.codegen import names
from kafkawire.codegen.model import MessageModel, StructModel
from kafkawire.codegen.quoting import yaml_string
from kafkawire.codegen.versions import runs
from kafkawire.printable import printable

_WIDTH = 100
_WORDS = (
    "abstract auto begin boolean byte case catch char const data default do double dyn end ensure enum extends "
    "extern false final flexible float fn func function goto implements impl int interface len let local long loop "
    "match mod module move mut native new nil not object package private protected public pub redo ref repeat "
    "rescue retry self short signed sizeof static string struct super switch synchronized tag tagged_fields then "
    "this throw throws trait transient true type typedef union unless unsigned unsafe until use var version virtual "
    "void volatile when where "
)
#: Ids that templates use, that Kaitai Struct's expressions know, or that no member can have in one of its languages.
_RESERVED_IDS = frozenset(keyword.kwlist) | frozenset(_WORDS.split())
#: Names that types cannot have: the built-in ones, and classes that compiled code names.
_RESERVED_TYPES = re.compile(
    r"[su][1248]|f[48]|([su][248]|f[48])(le|be)|b[0-9]+(le|be)?|strz?|bytes|io|any|bool|struct|array|array_list|error|"
    r"exception|integer|kaitai_st\w+|list|long|math|object|string|short|byte|float|double|boolean|number|kafka_\w+"
)


def file_id(message: MessageModel) -> str:
    """The id of a message's file: `FetchRequest` -> `fetch_request`."""
    id = names.snake_case(message.name)
    return f"{id}_message" if _RESERVED_TYPES.fullmatch(id) or keyword.iskeyword(id) else id


def member_ids(struct: StructModel) -> dict[str, str]:
    """The ids of a struct's fields, by name."""
    taken: set[str] = set()
    ids = {field.name: names.snake_case(field.name) for field in struct.fields}
    return {name: unique(f"{id}_field" if id in _RESERVED_IDS else id, taken) for name, id in ids.items()}


def type_id(struct: StructModel) -> str:
    """The id of a struct's type."""
    id = names.snake_case(struct.name)
    return f"{id}_struct" if _RESERVED_TYPES.fullmatch(id) else id


def unique(wanted: str, taken: set[str]) -> str:
    """The name, with a number where it is taken, which then is taken, too."""
    name, number = wanted, 2
    while name in taken:
        name, number = f"{wanted}_{number}", number + 1
    taken.add(name)
    return name


def condition(versions: Iterable[int], within: Iterable[int], variable: str) -> str:
    """The expression that is true in those versions, of the versions `within`; it may be `true` or `false`.

    Args:
        versions: in which it is true.
        within: all that the variable may hold.
        variable: the expression of the version.
    """
    wanted, all_ = set(versions), sorted(within)
    if not wanted or wanted >= set(all_):
        return "true" if wanted else "false"
    parts = []
    for run in runs(wanted.intersection(all_)):
        low, high = run.low, run.high
        bounds = [f"{variable} >= {low}"] * (low != all_[0]) + [f"{variable} <= {high}"] * (high != all_[-1])
        parts.append(f"{variable} == {low}" if low == high else " and ".join(bounds))
    return parts[0] if len(parts) == 1 else f"({' or '.join(f'({part})' for part in parts)})"


def doc(text: str, indent: str) -> str:
    """The `doc:` of a text, or nothing where that is empty.

    The compiler copies it into comments and docstrings as it is; so what could end one there is taken apart.
    """
    text = printable(" ".join(text.split())).replace("\\", "\\\\")
    for mark in ('"""', "*/", "/*", "]#"):
        text = text.replace(mark, " ".join(mark))
    if not text:
        return ""
    if len(line := f"{indent}doc: {yaml_string(text)}\n") <= _WIDTH:
        return line
    lines = textwrap.wrap(text, _WIDTH - len(indent) - 2, break_long_words=False, break_on_hyphens=False)
    return f"{indent}doc: |\n" + "".join(f"{indent}  {line}\n" for line in lines)
