"""Kafka's error codes and api keys: `Errors` and `ApiKeys` of each release, asked by Java, united newest first."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

Entry = dict[str, Any]

FILES = {"errors": ("errors.json", "code"), "apiKeys": ("api_keys.json", "key")}
"""Enum -> the file below `schemas/`, and the key that identifies an entry."""


_OPTIONS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
"""For a JVM that compiles one file, runs it and ends."""


class EnumsError(Exception):
    """Java is missing, or could not list the enums."""


def texts(releases: Sequence[str]) -> dict[str, str]:
    """The files of `FILES`, name -> text, of the enums of the releases, newest first, from Java (17)."""
    asked = [ask(release) for release in releases]
    return {file: text(unite([answer[enum] for answer in asked], key)) for enum, (file, key) in FILES.items()}


def ask(release: str) -> dict[str, list[Entry]]:
    """The enums of one release."""
    from tools.broker.errors import BrokerUnavailableError
    from tools.broker.jars import java
    from tools.oracle.build import OracleUnavailableError, class_path

    try:
        path = ":".join(map(str, class_path(release)))
        command = [java(), *_OPTIONS, "-cp", path, str(Path(__file__).parent / "Enums.java")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except (BrokerUnavailableError, OracleUnavailableError, OSError) as error:
        raise EnumsError(str(error)) from error
    if done.returncode:
        raise EnumsError(f"Enums.java on {release}: {done.stderr.strip().splitlines()[:1]}")
    answer: dict[str, list[Entry]] = json.loads(done.stdout)
    return answer


def unite(newest_first: Iterable[list[Entry]], key: str) -> list[Entry]:
    """The entries of all, by number; the newest decides where two have the same one."""
    out: dict[int, Entry] = {}
    for entries in newest_first:
        for entry in entries:
            out.setdefault(entry[key], entry)
    return [out[number] for number in sorted(out)]


def text(entries: Iterable[Entry]) -> str:
    """The file: an entry a line; flags that are off and what is null left out."""
    lines = [json.dumps({k: v for k, v in entry.items() if v is not None and v is not False}) for entry in entries]
    return "[\n  " + ",\n  ".join(lines) + "\n]\n"
