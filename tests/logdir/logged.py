"""Log directories made by hand, and the content of their files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kafkawire import logdir, rows
from kafkawire.records import Damage

NAME = "0" * 20


def write(path: Path, data: bytes | str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def all_rows(directory: logdir.LogDirectory, **options: Any) -> list[dict[str, Any]]:
    return [rows.to_dict(row) for file in directory.files for row in logdir.rows_of(file, logdir.Options(**options))]


def reasons(items: Iterator[Any]) -> list[tuple[str, int]]:
    return [(item.reason, item.position) for item in items if isinstance(item, Damage)]
