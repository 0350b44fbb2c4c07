"""The command that installs an extra, from the place where the package was installed from: an index, a folder, a
URL."""

from __future__ import annotations

import json
import shlex
from importlib import metadata
from pathlib import Path
from urllib.parse import unquote, urlsplit

_NAME = "kafkawire"


def install_command(extra: str) -> str:
    """`pip install ...` with an extra, as it is typed into a shell."""
    return f"pip install {_target(extra)}"


def _target(extra: str) -> str:
    named = f'"{_NAME}[{extra}]"'
    try:
        stated = metadata.distribution(_NAME).read_text("direct_url.json")
    except metadata.PackageNotFoundError:
        # Run from a source tree; an archive such as a pex has neither.
        folder = Path(__file__).resolve().parents[1]
        return shlex.quote(f"{folder}[{extra}]") if (folder / "pyproject.toml").is_file() else named
    origin = _origin(stated)
    if origin is None:
        return named
    url = str(origin["url"])
    if isinstance(folder_info := origin.get("dir_info"), dict):
        path = shlex.quote(f"{unquote(urlsplit(url).path)}[{extra}]")
        return f"-e {path}" if folder_info.get("editable") else path
    if isinstance(source := origin.get("vcs_info"), dict):
        url = f"{source.get('vcs')}+{url}@{source.get('commit_id')}"
    return shlex.quote(f"{_NAME}[{extra}] @ {url}")


def _origin(stated: str | None) -> dict[str, object] | None:
    """What pip has noted (PEP 610); None where the package comes from an index, or the note is not understood."""
    try:
        found = json.loads(stated or "null")
    except ValueError:
        return None
    return found if isinstance(found, dict) and isinstance(found.get("url"), str) else None
