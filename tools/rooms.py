"""`python -m tools.rooms BEFORE AFTER`: lines and files of each room at two commits, as a table of docs/DESIGN.md.

A room is a package of kafkawire, or a top-level folder of the repository. Lines are those of Python, and of Rust in
native; generated packages do not count.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
from collections import Counter
from pathlib import PurePosixPath

from tools import ROOT
from tools.pages import write_section

PAGE, SECTION = ROOT / "docs" / "DESIGN.md", "rooms"
_GENERATED = {"messages", "embedded", "drafts", "kafka_errors.py", "kafka_api_keys.py"}
_SIDE_BY_SIDE = 5


def measured(commit: str) -> tuple[Counter[str], Counter[str]]:
    """Files and lines by room at a commit.

    Raises:
        subprocess.CalledProcessError: git does not have it.
    """
    listed = subprocess.run(["git", "archive", commit, "--", "*.py", "*.rs"], cwd=ROOT, capture_output=True, check=True)
    files: Counter[str] = Counter()
    lines: Counter[str] = Counter()
    with tarfile.open(fileobj=io.BytesIO(listed.stdout)) as archive:
        for member in archive:
            content = archive.extractfile(member) if member.isfile() else None
            room = None if content is None else room_of(PurePosixPath(member.name))
            if content is not None and room is not None:
                files[room] += 1
                lines[room] += content.read().count(b"\n")
    return files, lines


def room_of(path: PurePosixPath) -> str | None:
    """The room of a file; None where it is in none, or generated."""
    top, *below = path.parts
    if top in ("codegen", "native", "tools", "tests"):
        return top
    if top != "kafkawire" or below[0] in _GENERATED:
        return None
    return below[0] if len(below) > 1 else "(top)"


def table(before: str, after: str) -> str:
    """The section: lines, and in brackets files, of both commits."""
    (old_files, old), (new_files, new) = measured(before), measured(after)
    others = ("codegen", "native", "tools", "tests")
    for files, lines in ((old_files, old), (new_files, new)):
        packages = [room for room in lines if room not in others]
        files["kafkawire"], lines["kafkawire"] = (sum(one[room] for room in packages) for one in (files, lines))
    new_rooms = sum(lines for room, lines in new.items() if room not in old)
    rooms = [*sorted(room for room in new if room not in (*others, "kafkawire")), "kafkawire", *others]
    cells = [f"{room} | {_cell(old, old_files, room)} | {_cell(new, new_files, room)}" for room in rooms]
    cells += [" | | "] * (-len(cells) % _SIDE_BY_SIDE)
    rows = [cells[at : at + _SIDE_BY_SIDE] for at in range(0, len(cells), _SIDE_BY_SIDE)]
    return "\n".join([
        f"**Rooms, at {before} and at {after}**: lines, and files in brackets, written by hand (`python -m tools.rooms "
        f"{before} HEAD`). Of kafkawire {new_rooms:,} lines are in rooms that were added since.",
        "",
        "| " + " | ".join(["room | before | now"] * _SIDE_BY_SIDE) + " |",
        "|---|---:|---:" * _SIDE_BY_SIDE + "|",
        *("| " + " | ".join(row) + " |" for row in rows),
    ])  # fmt: skip


def _cell(lines: Counter[str], files: Counter[str], room: str) -> str:
    return f"{lines[room]:,} ({files[room]})" if files[room] else ""


def main(*commits: str) -> None:
    before, after = (
        subprocess.run(["git", "rev-parse", "--short=8", one], cwd=ROOT, capture_output=True, check=True, text=True)
        for one in commits
    )
    write_section(PAGE, SECTION, table(before.stdout.strip(), after.stdout.strip()))


if __name__ == "__main__":
    main(*sys.argv[1:])
