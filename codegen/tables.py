"""Kafka's numbers and their names: `schemas/errors.json` and `schemas/api_keys.json` -> modules of the package."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from kafkawire.codegen.load import describe
from kafkawire.codegen.quoting import quote
from kafkawire.codegen.render import environment
from kafkawire.errors import Problem, SchemaError

#: Module -> (file of the numbers, the key that holds a number, the template).
TABLES = {
    "kafka_errors.py": ("errors.json", "code", "errors.py.jinja"),
    "kafka_api_keys.py": ("api_keys.json", "key", "api_keys.py.jinja"),
}
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


def table_files(schemas: Path) -> dict[str, str]:
    """The modules, name -> text, of the tables in the folder `schemas`; SchemaError for a malformed table."""
    return {
        module: environment().get_template(template).render(entries=load(schemas / file, key))
        for module, (file, key, template) in TABLES.items()
    }


def load(path: Path, key: str) -> list[dict[str, Any]]:
    """The entries of a table, every key in each; SchemaError for a malformed one."""
    try:
        entries = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise SchemaError([Problem(path.name, "", str(error))]) from None
    if not isinstance(entries, list):
        raise SchemaError([Problem(path.name, "", f"is no array, but {describe(entries)}")])
    seen: set[int | str] = set()
    problems = []
    for place, entry in enumerate(entries):
        if not _is_entry(entry, key):
            reason = f"needs a number {key!r} and a name; that and its exception are letters, digits and _"
            problems.append(Problem(path.name, f"[{place}]", reason))
            continue
        number, name = entry[key], entry["name"]
        if number in seen or name in seen:
            problems.append(Problem(path.name, f"[{place}]", f"{number} or {quote(name)} is given twice"))
        seen |= {number, name}
    if problems:
        raise SchemaError(problems)
    return [{"exception": None, "retriable": False, "clusterAction": False, **entry} for entry in entries]


def _is_entry(entry: Any, key: str) -> bool:
    return (
        isinstance(entry, dict)
        and type(entry.get(key)) is int
        and all(
            isinstance(name, str) and _NAME.fullmatch(name) for name in (entry.get("name"), entry.get("exception", "A"))
        )
    )
