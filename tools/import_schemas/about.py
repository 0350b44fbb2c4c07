"""Our own sentences: `about/*.json`, read at every import, so that importing anew keeps them.

A file holds {message: {"about": sentence, "fields": {path: sentence}}}; a path is the names of nested fields joined by
dots.
"""

import json
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent / "about"


class About(NamedTuple):
    """Our descriptions of one message and its fields."""

    about: str
    fields: dict[str, str]


def load(folder: Path) -> dict[str, About]:
    """Message -> its sentences; raises ValueError for anything but that shape, or a message that two files describe."""
    out: dict[str, About] = {}
    for path in sorted(folder.glob("*.json")):
        try:
            for name, entry in json.loads(path.read_text(encoding="utf-8")).items():
                if name in out:
                    raise ValueError(f"{name} is described in another file too")
                out[name] = About(**entry)
        except (ValueError, TypeError, AttributeError) as error:
            raise ValueError(f"{path.name}: {error}") from error
    return out
