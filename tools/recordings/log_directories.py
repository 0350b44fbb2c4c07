"""Log directories of single brokers of three releases, and what a read_uncommitted consumer got from each partition."""

from __future__ import annotations

import json
import os
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
        try:
            size = os.path.getsize(source)
            if Path(source).parent.name.startswith("__cluster_metadata") and source.endswith("index"):
                size = max(METADATA_INDEX_BYTES, _used(source)) if size > METADATA_INDEX_BYTES else size
            with open(source, "rb") as read, open(to, "wb") as write:
                write.write(read.read(size))
        except FileNotFoundError:
            pass

    shutil.copytree(log_dir, target, copy_function=copy)
    (target / ".lock").unlink(missing_ok=True)


def _used(path: str) -> int:
    """Bytes up to the last entry of an index that is not zeros."""
    entry = 12 if path.endswith("timeindex") else 8
    return -(-len(Path(path).read_bytes().rstrip(b"\0")) // entry) * entry


def _write_expected(path: Path, expected: dict[str, Any]) -> None:
    """JSON with a record a line."""
    lines = []
    for place, found in expected["records"].items():
        rows = ",\n".join("  " + json.dumps(record) for record in found)
        lines.append(f" {json.dumps(place)}: [\n{rows}\n ]")
    text = f'{{"version": {json.dumps(expected["version"])}, "records": {{\n' + ",\n".join(lines) + "\n}}\n"
    path.write_text(text)
