"""The small text files: checkpoints, properties, JSON.

Each reader takes a file's bytes and yields its entries, and a `Damage` for bytes that cannot be read, each with its
position in the file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import TypeVar

from kafkawire._java_numbers import INT32, INT64, number
from kafkawire.logdir.entries import CheckpointLine, EpochLine, Property
from kafkawire.records import Damage

L = TypeVar("L", CheckpointLine, EpochLine)

_LINE = re.compile(rb"[^\n]*\n?")


def offset_checkpoint(data: bytes) -> Iterator[CheckpointLine | Damage]:
    """A broker's `*-checkpoint`: `topic partition offset` a line (Kafka's `OffsetCheckpointFile`)."""
    return _checkpoint(
        data, 3, lambda at, words: CheckpointLine(at, words[0], number(words[1], INT32), number(words[2], INT64))
    )


def leader_epochs(data: bytes) -> Iterator[EpochLine | Damage]:
    """`leader-epoch-checkpoint`: `epoch start-offset` a line, both ascending (Kafka's `LeaderEpochCheckpointFile`,
    `LeaderEpochFileCache`)."""
    before = (-1, -1)
    for line in _checkpoint(data, 2, lambda at, words: EpochLine(at, number(words[0], INT32), number(words[1], INT64))):
        if isinstance(line, EpochLine):
            if line.epoch <= before[0] or line.start_offset < before[1]:
                detail = f"epoch {line.epoch} from offset {line.start_offset} after {before[0]} from {before[1]}"
                yield Damage(line.position, "not_ascending", detail, line.position)
            before = (line.epoch, line.start_offset)
        yield line


def properties(data: bytes) -> Iterator[Property | Damage]:
    """`meta.properties` (name=value) and `partition.metadata` (name: value)."""
    for position, line in _lines(data):
        if not line or line[0] in "#!":
            continue
        name, separator, value = re.sub(r"\\(.)", r"\1", line).partition("=" if "=" in line else ":")
        if separator:
            yield Property(position, name.strip(), value.strip())
        else:
            yield _bad_line(position, line)


def json_properties(data: bytes) -> Iterator[Property | Damage]:
    """`quorum-state`, `.kafka_cleanshutdown`: `json_object`, or nothing, as older brokers leave the second."""
    if data:
        yield from json_object(data)


def json_object(data: bytes) -> Iterator[Property | Damage]:
    """`.rsm-manifest`: one JSON object; values that are no strings are kept as JSON."""
    try:
        found = json.loads(data)
        if not isinstance(found, dict):
            raise ValueError("no JSON object")
    except (ValueError, RecursionError) as error:
        yield Damage(0, "bad_json", str(error) or type(error).__name__)
        return
    for name, value in found.items():
        yield Property(0, name, value if isinstance(value, str) else json.dumps(value))


def _checkpoint(data: bytes, words: int, entry: Callable[[int, list[str]], L]) -> Iterator[L | Damage]:
    """The lines of a checkpoint file after its version (0) and its number of lines (Kafka's `CheckpointFile`). An empty
    file, as brokers create it, has none.

    Args:
        words: of a line. `entry`: makes one of its position and words. ValueError: they are none.
    """
    if not data:
        return
    lines = _lines(data)
    position, version = next(lines)
    if version != "0":
        yield Damage(position, "bad_version", f"version {version[:50]!r}; 0 is known")
        return
    position, expected = next(lines, (len(data), ""))
    try:
        count = number(expected, INT32)
    except ValueError:
        count = None
        yield Damage(position, "bad_count", f"{expected[:50]!r} where the number of lines should stand")
    found = 0
    for position, line in lines:
        if not line:
            continue
        found += 1
        split = line.split()
        try:
            yield entry(position, split) if len(split) == words else _bad_line(position, line)
        except ValueError:
            yield _bad_line(position, " ".join(split))
    if count is not None and count != found:
        yield Damage(len(data), "truncated", f"{found} of {count} lines")


def _bad_line(position: int, line: str) -> Damage:
    return Damage(position, "bad_line", f"cannot be read: {line[:100]!r}")


def _lines(data: bytes) -> Iterator[tuple[int, str]]:
    """Lines without their ends and surrounding blanks, and where they begin."""
    for found in _LINE.finditer(data):
        if found.group():
            yield found.start(), found.group().decode("utf-8", "surrogateescape").strip()
