"""Recordings of real Kafka clusters: log directories, captures, and the answers of clients and brokers about them.

`python -m tools.recordings` makes them anew: `examples/`, which people browse, and an archive a cluster in
`tests/recordings`, whose README describes each. `archive` packs and unpacks. `raw_client` sends single requests,
`clients` are applications; recipes list what is done to a cluster.
"""

from __future__ import annotations

import subprocess
from pathlib import Path


class RecordingError(Exception):
    """Something is missing, Kafka answered other than the recipe expects, or a recording is too large."""


def run(command: list[str], what: str | None = None, *, folder: Path | None = None, seconds: float = 900) -> str:
    """Runs a command to its end; its standard output.

    Args:
        what: its name in errors; by default its words. `folder`: where it runs.

    Raises:
        RecordingError: it fails, or takes longer.
    """
    what = what or " ".join(command)[:200]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        raise RecordingError(f"{what}: not done in {seconds:g} s") from None
    if done.returncode:
        raise RecordingError(f"{what}: {(done.stderr or done.stdout).strip()[-400:]}")
    return done.stdout
