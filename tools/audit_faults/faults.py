"""`LogFault`: one change of one field, or of one element, in sound log directories."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from tests.worlds import TOPIC
from tools.audit_faults.layouts import LAYOUTS, Bounds, Row
from tools.audit_faults.sound import Files

#: The two brokers; what the first has, the second has of the topic.
_LEADER, _FOLLOWER = "broker-2", "broker-1"
EPOCHS = "leader-epoch-checkpoint"
_CHECKPOINTS = ("replication-offset-checkpoint", "log-start-offset-checkpoint")


class LogFault(NamedTuple):
    """A fault.

    Attributes:
        structure, field, change: what is changed and how; `field` is "" for a change of the whole element.
        seed: of the sound directories. `path`: of the first changed file. `number`: of the element in it.
        row: the element before, `after` the element then; None where it is removed.
        changed: gives the changed files; None: removed.
    """

    structure: str
    field: str
    change: str
    seed: int
    path: str
    number: int
    row: Row
    after: Row | None
    changed: Callable[[], dict[str, bytes | None]]

    @property
    def partition(self) -> tuple[str, int] | None:
        """The partition whose file it is."""
        return partition_of(self.path)

    def __str__(self) -> str:
        return f"{self.structure}.{self.field or '*'} {self.change} ({self.seed}, {self.path}, {self.number})"


def partition_of(path: str) -> tuple[str, int] | None:
    """Of a file's path."""
    topic, dash, number = PurePosixPath(path).parent.name.rpartition("-")
    return (topic, int(number)) if dash and topic != "broker" else None


# Changes of a field ---------------------------------------------------------------------------------------------------

#: A new value from the old one, those of the other elements, and the bounds; None: there is none.
_Change = Callable[[random.Random, Any, list[Any], Bounds], Any]


def _another(draw: random.Random, value: Any, others: list[Any], bounds: Bounds) -> Any:
    different = sorted({other for other in others if other != value}, key=str)
    return draw.choice(different) if different else None


_NUMBERS: dict[str, _Change] = {
    "one more": lambda draw, value, others, bounds: value + 1,
    "one less": lambda draw, value, others, bounds: value - 1,
    "sign": lambda draw, value, others, bounds: -value or None,
    "zero": lambda draw, value, others, bounds: 0,
    "highest": lambda draw, value, others, bounds: bounds[1] if bounds else None,
    "lowest": lambda draw, value, others, bounds: bounds[0] if bounds else None,
    "another's": _another,
}


def _partitions(draw: random.Random, value: Any, what: str) -> Any:
    """A list of partitions without one, or with one more."""
    if what == "one removed":
        return value[:-1] if value else None
    if what == "one added":
        return (*(value or ()), (TOPIC, max([0, *(one[1] for one in value or ())]) + 1))
    if what == "null":
        return None if value else ()
    return (*value, value[0]) if value else None  # repeated


def _field_changes(
    draw: random.Random, name: str, bounds: Bounds, rows: list[Row], at: int
) -> Iterator[tuple[str, Any]]:
    """Names of changes and new values. Those that change nothing are left out."""
    value: Any = rows[at].get(name)
    others = [row[name] for row in rows if name in row]
    if bounds == (0, 1):
        yield "flipped", 1 - value
        return
    if name == "partitions":
        for what in ("one removed", "one added", "one repeated"):
            changed = _partitions(draw, value, what)
            if changed is not None:
                yield what, changed
        if value:
            yield "null", None
    for what, change in _NUMBERS.items() if bounds else [("another's", _another)]:
        changed = change(draw, value, others, bounds)
        if changed is not None and changed != value and (bounds is None or bounds[0] <= changed <= bounds[1]):
            yield what, changed


# Faults ---------------------------------------------------------------------------------------------------------------


def faults(seed: int, files: Files) -> Iterator[LogFault]:
    """Every fault that the sound directories of a seed can have."""
    draw = random.Random(seed)
    for path in files:
        for structure, both in _structures(path, files):
            yield from _of_file(draw, seed, files, path, structure, both=both)
    yield from _of_files(seed, files)


def _structures(path: str, files: Files) -> Iterator[tuple[str, bool]]:
    """What a file holds, and whether the change is made to both replicas."""
    name = PurePosixPath(path)
    partition = partition_of(path)
    if name.name in _CHECKPOINTS:
        yield "checkpoint", False
    if partition is None:
        return
    topic = partition[0]
    if name.suffix == ".log" and topic == TOPIC:
        if path.startswith(_LEADER):
            yield "batch", True
            yield "marker", True
        yield "batch of one replica", False
        yield "marker of one replica", False
    elif name.suffix == ".log" and path.startswith(_LEADER):
        yield ("TransactionLogValue" if topic == "__transaction_state" else "ProducerIdsRecord"), False
    elif name.suffix == ".txnindex" and topic == TOPIC:
        yield ".txnindex", False
    elif name.suffix == ".snapshot" and topic == TOPIC:
        yield ".snapshot", False
        yield ".snapshot header", False
    elif name.name == EPOCHS:
        yield EPOCHS, False
        yield f"{EPOCHS} header", False


def _changed(row: Row, structure: str) -> bool:
    """Whether the element is one of the structure."""
    if structure.startswith(("batch", "marker")):
        return bool(row["_marker"]) == structure.startswith("marker")
    if structure == "TransactionLogValue":
        return not row["_tombstone"]
    return structure != "ProducerIdsRecord" or row["_other"] is None


def _next_alike(rows: list[Row], chosen: list[int], structure: str) -> int | None:
    """The next element, of the same producer or transactional id where elements have one: what is swapped between two
    of these is two faults."""
    first, *others = chosen
    names = {"batch": "producerId", "marker": "producerId", "TransactionLogValue": "transactional_id"}
    name = names.get(structure.removesuffix(" of one replica"))
    return next((at for at in others if name is None or rows[at][name] == rows[first][name]), None)


def _of_file(
    draw: random.Random, seed: int, files: Files, path: str, structure: str, *, both: bool
) -> Iterator[LogFault]:
    layout = LAYOUTS[structure.removesuffix(" of one replica")]
    rows = layout.read(files[path])
    chosen = [at for at, row in enumerate(rows) if _changed(row, structure)]
    paths = [path, path.replace(_LEADER, _FOLLOWER)] if both else [path]

    def fault(field: str, change: str, at: int, new: list[Row], after: Row | None) -> LogFault:
        return LogFault(
            structure, field, change, seed, path, at, rows[at], after, lambda: dict.fromkeys(paths, layout.write(new))
        )

    for place, at in enumerate(chosen):
        row = rows[at]
        for field, bounds in layout.fields.items():
            for change, value in _field_changes(draw, field, bounds, [rows[i] for i in chosen], place):
                after = {**row, field: value}
                yield fault(field, change, at, [*rows[:at], after, *rows[at + 1 :]], after)
            other = _next_alike(rows, chosen[place:], structure)
            if other is not None and rows[other][field] != row[field]:
                new = list(rows)
                new[at] = after = {**row, field: rows[other][field]}
                new[other] = {**rows[other], field: row[field]}
                yield fault(field, "swapped with the next", at, new, after)
        if structure.endswith("header"):
            continue
        changes: dict[str, tuple[list[Row], Row | None]] = {
            "removed": ([*rows[:at], *rows[at + 1 :]], None),
            "repeated": ([*rows[:at], row, row, *rows[at + 1 :]], row),
        }
        if at + 1 < len(rows):
            changes["swapped with the next"] = [*rows[:at], rows[at + 1], row, *rows[at + 2 :]], row
        for change, (new, became) in changes.items():
            yield fault("", change, at, new, became)
            if "_offset" in row and change != "removed":
                numbered = [{**one, "_offset": number} for number, one in enumerate(new, rows[0]["_offset"])]
                yield fault("", f"{change}, offsets in order", at, numbered, became)


def _of_files(seed: int, files: Files) -> Iterator[LogFault]:
    """Whole files, and the name of a snapshot, which is its offset."""
    for path, data in files.items():
        name = PurePosixPath(path)
        if (partition_of(path) or (TOPIC,))[0] != TOPIC or name.suffix in (".index", ".timeindex"):
            continue
        if partition_of(path) is None and name.name not in _CHECKPOINTS:
            continue
        changes: dict[str, dict[str, bytes | None]] = {"removed": {path: None}}
        if data:
            changes |= {"emptied": {path: b""}, "last byte missing": {path: data[:-1]}}
        if name.suffix == ".snapshot":
            for what, more in (("named one less", -1), ("named one more", 1)):
                other = str(name.with_name(f"{int(name.stem) + more:020}.snapshot"))
                if int(name.stem) + more >= 0 and other not in files:
                    changes[what] = {path: None, other: data}
        for change, changed in changes.items():
            yield LogFault(
                f"{name.suffix or name.name} file", "", change, seed, path, 0, {}, {}, partial(dict, changed)
            )


def sample(seeds: int, count: int, seed: int, sound: Callable[[int], Files]) -> list[LogFault]:
    """Faults drawn by seed, as many of each kind (structure, field, change) as there are kinds for the count.

    Args:
        seeds: how many sound directories are looked at.
    """
    draw = random.Random(seed)
    kinds: dict[tuple[str, str, str], list[LogFault]] = defaultdict(list)
    for number in range(seeds):
        here: dict[tuple[str, str, str], list[LogFault]] = defaultdict(list)
        for fault in faults(number, sound(number)):
            here[fault.structure, fault.field, fault.change].append(fault)
        for kind, of_kind in here.items():
            kinds[kind] += draw.sample(of_kind, min(len(of_kind), 4))
    for of_kind in kinds.values():
        draw.shuffle(of_kind)
    found: list[LogFault] = []
    for turn in range(4 * seeds):
        found += [of_kind[turn] for _, of_kind in sorted(kinds.items()) if len(of_kind) > turn]
        if len(found) >= count:
            break
    return draw.sample(found, min(count, len(found)))
