"""Log directories of single brokers of three releases, and what a read_uncommitted consumer got from each partition."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from tools.broker import cluster

from .errors import RecordingError
from .log_directory_clients import read_all
from .log_directory_recipes import SMALL, LogDirectoryRecipe, LogDirectoryScene, create_topics

#: The metadata log's indexes have a size of their own, 10 MiB each: a copy keeps this much of their zeros.
METADATA_INDEX_BYTES = 2048


def record(recipe: LogDirectoryRecipe, folder: Path, cache: Path | None = None) -> None:
    """Makes `data/`, the broker's log directory, and `expected.json`, what librdkafka read from it, in `folder`.

    Args:
        recipe: release, topics, and what is done to them. `folder`: exists, and is empty.
        cache: folder of Kafka's jars; by default `jars.cache_dir()`.

    Raises:
        RecordingError: the broker was not shut down cleanly, or a client did not get an answer.
    """
    with cluster(version=recipe.version, config={**SMALL, **recipe.config}, cache=cache) as running:
        scene = LogDirectoryScene(running)
        create_topics(scene, recipe.topics)
        recipe.act(scene)
        expected = {f"{topic}-0": read_all(running.bootstrap, topic, 0) for topic in recipe.topics}
        log_dir = running.log_dirs[1]
        if not recipe.running and not (running.stop() and (log_dir / ".kafka_cleanshutdown").exists()):
            raise RecordingError(f"{recipe.name}: the broker was not shut down cleanly")
        copy_log_directory(log_dir, folder / "data")
        scene.left_open.clear()
    _write_expected(folder / "expected.json", {"version": recipe.version, "records": expected})


def copy_log_directory(log_dir: Path, target: Path) -> None:
    """Copies as an operator would; files that disappear during the copy are skipped."""

    def copy(source: str, to: str) -> None:
        copy_file(Path(source), Path(to))

    shutil.copytree(log_dir, target, copy_function=copy)
    (target / ".lock").unlink(missing_ok=True)


def copy_file(source: Path, target: Path, metadata_index_bytes: int = METADATA_INDEX_BYTES) -> None:
    """Copies a file as long as it is now, unless it has disappeared.

    Args:
        metadata_index_bytes: at least as much is kept of an index of the metadata log.
    """
    try:
        size = source.stat().st_size
        if source.parent.name.startswith("__cluster_metadata") and source.name.endswith("index"):
            size = min(size, max(metadata_index_bytes, _used(source)))
        with source.open("rb") as read:
            data = read.read(size)
    except FileNotFoundError:
        return
    target.write_bytes(data)


def _used(path: Path) -> int:
    """Bytes up to the last entry of an index that is not zeros."""
    entry = 12 if path.suffix == ".timeindex" else 8
    return -(-len(path.read_bytes().rstrip(b"\0")) // entry) * entry


def _write_expected(path: Path, expected: dict[str, Any]) -> None:
    """JSON with a record a line."""
    lines = []
    for place, found in expected["records"].items():
        rows = ",\n".join("  " + json.dumps(record) for record in found)
        lines.append(f" {json.dumps(place)}: [\n{rows}\n ]")
    text = f'{{"version": {json.dumps(expected["version"])}, "records": {{\n' + ",\n".join(lines) + "\n}}\n"
    path.write_text(text)
