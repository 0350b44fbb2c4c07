"""Copies of a history's log directories: which files a copy has, the moment at which each was copied, and harms to it:
files that are missing, renamed or damaged.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tests.audit_logs import PartitionLog
from tools.audit_faults.histories.history import History
from tools.audit_faults.histories.producers import SECOND
from tools.audit_faults.histories.true_cluster import DATA, METADATA, STATE, Place, TrueLog

_CHECKPOINTS, _RECOVERY_POINTS = "replication-offset-checkpoint", "recovery-point-offset-checkpoint"
#: How copies are made. `stopped`: all brokers cleanly stopped, in one moment; `killed`: all in one moment, as a
#: snapshot of their disks has them; `rolling`: each broker cleanly stopped at a moment of its own; the others:
#: directory by directory while brokers run.
ORDERS = ("stopped", "killed", "rolling", "names", "reverse", "random")


class Copy(NamedTuple):
    """A plan.

    Attributes:
        order: of `ORDERS`. `brokers`: whose directories are copied.
        moments: for each broker and partition (None: the files beside partitions), the event up to which its files were
            copied.
    """

    order: str
    brokers: tuple[int, ...]
    moments: dict[tuple[int, Place | None], int]

    @property
    def clean(self) -> bool:
        """Whether its brokers were stopped cleanly."""
        return self.order in ("stopped", "rolling")


def plan(history: History, draw: random.Random) -> Copy:
    """A copy, made while the history goes on."""
    order = draw.choice(ORDERS)
    everyone = tuple(range(history.brokers))
    brokers = (
        everyone if draw.random() < 0.6 else tuple(sorted(draw.sample(everyone, draw.randrange(1, len(everyone) + 1))))
    )
    begun = draw.randrange(history.end // 4, history.end + 1)
    ended = min(history.end, begun + draw.choice([3, 10, 40, history.end]))
    moments: dict[tuple[int, Place | None], int] = {}
    for broker in brokers:
        keys = _in_order(order, [None, *sorted([METADATA, *STATE, *DATA])], draw)
        if order in ("stopped", "killed"):
            times = [begun] * len(keys)
        elif order == "rolling":
            times = [draw.randint(begun, ended)] * len(keys)
        else:
            times = sorted(draw.randint(begun, ended) for _ in keys)
        moments |= {(broker, key): time for key, time in zip(keys, times, strict=True)}
    return Copy(order, brokers, moments)


def whole(history: History) -> Copy:
    """Everything, cleanly stopped at the end."""
    everyone = tuple(range(history.brokers))
    moments = {(broker, key): history.end for broker in everyone for key in (None, METADATA, *STATE, *DATA)}
    return Copy("stopped", everyone, moments)


def _in_order(order: str, keys: list[Place | None], draw: random.Random) -> list[Place | None]:
    """Checkpoints are named after `__transaction_state` and before most topics: anywhere."""
    if order == "reverse":
        return [*reversed(keys[1:]), None]
    if order == "random":
        return draw.sample(keys, len(keys))
    return keys


def replicated(history: History, broker: int, place: Place, event: int) -> int:
    """The event up to which a broker has a partition's log, at an event: all of it while it leads, and never less than
    it had; otherwise it lags. A coordinator answers once all replicas in sync have its record: these do not lag."""
    log = history.logs[place]
    if history.stale is not None and history.stale[0] == broker:
        event = min(event, history.stale[1])
    if log.led_at(event) == broker or place in STATE:
        return event
    led = [until - 1 for (_, leader), (until, _) in zip(log.leaders, log.leaders[1:], strict=False) if leader == broker]
    behind = history.event_before(event, history.lags[broker])
    return max([behind, *(until for until in led if until <= event)])


def high_watermark(history: History, place: Place, event: int) -> int:
    """What all replicas in sync have: of all brokers but the stale one."""
    stale = None if history.stale is None else history.stale[0]
    insync = [broker for broker in range(history.brokers) if broker != stale]
    return history.logs[place].end_at(min(replicated(history, broker, place, event) for broker in insync))


def write(history: History, copy: Copy, root: Path, cluster: str = "test") -> list[Path]:
    """The files of a copy, below a folder; returns the log directories. `cluster`: its id."""
    directories = []
    for broker in copy.brokers:
        directory = root / f"broker-{broker}"
        directory.mkdir(parents=True)
        directories.append(directory)
        for place in (METADATA, *STATE, *DATA):
            event = replicated(history, broker, place, copy.moments[broker, place])
            _write_log(history.logs[place], event, directory / f"{place[0]}-{place[1]}", clean=copy.clean)
        _write_beside(history, copy, broker, directory)
        properties = f"version=1\nnode.id={broker}\ncluster.id={cluster}\n"
        (directory / "meta.properties").write_text(properties)
    return directories


def _write_log(log: TrueLog, event: int, directory: Path, *, clean: bool) -> None:
    """The files of a replica that has the events up to one."""
    written = PartitionLog(directory)
    written.segments = []
    ends = [base for base, _ in log.rolls[1:]]
    for (base, since), end in zip(log.rolls, [*ends, None], strict=True):
        if base and since > event:
            break
        data = b"".join(
            one.data
            for one in log.appended
            if one.event <= event and base < one.end and (end is None or one.end <= end)
        )
        written.segments.append((base, bytearray(data)))
    written.end = log.end_at(event)
    written.write()
    if log.appended and written.end:
        written.derive(stopped=clean)
    epochs = [f"{epoch} {log.end_at(since)}" for epoch, (since, _) in enumerate(log.leaders) if since <= event]
    (directory / "leader-epoch-checkpoint").write_text("\n".join(["0", str(len(epochs)), *epochs, ""]))


def _write_beside(history: History, copy: Copy, broker: int, directory: Path) -> None:
    """What a broker has beside its partitions."""
    event = copy.moments[broker, None]
    if history.stale is not None and history.stale[0] == broker:
        event = min(event, history.stale[1])
    late = 0 if copy.clean else 5 * SECOND  # replica.high.watermark.checkpoint.interval.ms
    known = history.event_before(event, late)
    marks, ends = {}, {}
    for place in (*STATE, *DATA):
        reached = replicated(history, broker, place, known)
        ends[place] = history.logs[place].end_at(reached)
        marks[place] = min(high_watermark(history, place, min(known, reached)), ends[place])
    _write_checkpoint(directory / _CHECKPOINTS, marks)
    if copy.clean:
        _write_checkpoint(directory / _RECOVERY_POINTS, ends)
    (directory / "cleaner-offset-checkpoint").write_text("0\n0\n")
    if copy.clean:
        (directory / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":1}')


def _write_checkpoint(path: Path, offsets: dict[Place, int]) -> None:
    lines = [f"{topic} {number} {offset}" for (topic, number), offset in offsets.items()]
    path.write_text("\n".join(["0", str(len(lines)), *lines, ""]))


# Harms ----------------------------------------------------------------------------------------------------------------

_UUID = "0123456789abcdef" * 2
#: Those that take nothing away: the copy is as good as without.
HARMLESS = ("nothing", "link")


def _folder(draw: random.Random, directories: list[Path], *topics: str) -> Path | None:
    """The folder of a partition; None where no directory has one."""
    found = [path for directory in directories for path in sorted(directory.glob("*-[0-9]"))]
    chosen = [path for path in found if path.name.rpartition("-")[0] in topics]
    return draw.choice(chosen) if chosen else None


_DATA_TOPICS = tuple(dict.fromkeys(topic for topic, _ in DATA))
_ALL = (*_DATA_TOPICS, STATE[0][0], METADATA[0])


def _missing(*topics: str) -> Callable[[random.Random, list[Path]], None]:
    """A partition's folder is missing."""

    def harm(draw: random.Random, directories: list[Path]) -> None:
        if (folder := _folder(draw, directories, *topics)) is not None:
            shutil.rmtree(folder)

    return harm


def _renamed(suffix: str) -> Callable[[random.Random, list[Path]], None]:
    """A partition's folder has the name of one that is moved, or removed."""

    def harm(draw: random.Random, directories: list[Path]) -> None:
        if (folder := _folder(draw, directories, *_DATA_TOPICS)) is not None:
            folder.rename(folder.with_name(f"{folder.name}.{_UUID}-{suffix}"))

    return harm


def _segment(draw: random.Random, directories: list[Path]) -> Path | None:
    folder = _folder(draw, directories, *_ALL)
    segments = [] if folder is None else [path for path in sorted(folder.glob("*.log")) if path.stat().st_size]
    return draw.choice(segments) if segments else None


def _swap(draw: random.Random, directories: list[Path]) -> None:
    """A segment has the name that it has while compaction replaces it."""
    if (segment := _segment(draw, directories)) is not None:
        segment.rename(f"{segment}.swap")


def _link(draw: random.Random, directories: list[Path]) -> None:
    """A partition's folder is a symbolic link."""
    if (folder := _folder(draw, directories, *_ALL)) is not None:
        there = folder.parents[2] / f"linked-{folder.parents[1].name}" / folder.name
        there.parent.mkdir(exist_ok=True)
        folder.rename(there)
        folder.symlink_to(there, target_is_directory=True)


def _changed(change: Callable[[random.Random, bytearray], bytes]) -> Callable[[random.Random, list[Path]], None]:
    """The bytes of a segment are changed."""

    def harm(draw: random.Random, directories: list[Path]) -> None:
        if (segment := _segment(draw, directories)) is not None:
            segment.write_bytes(change(draw, bytearray(segment.read_bytes())))

    return harm


def _flipped(draw: random.Random, data: bytearray) -> bytes:
    data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    return bytes(data)


def _zeroed(draw: random.Random, data: bytearray) -> bytes:
    kept = draw.randrange(len(data))
    return bytes(data[:kept]).ljust(len(data), b"\0")


def _cut(draw: random.Random, data: bytearray) -> bytes:
    return bytes(data[: draw.randrange(len(data))])


def _without(name: str) -> Callable[[random.Random, list[Path]], None]:
    """A file beside the partitions is missing."""

    def harm(draw: random.Random, directories: list[Path]) -> None:
        (draw.choice(directories) / name).unlink()

    return harm


#: By name.
HARMS: dict[str, Callable[[random.Random, list[Path]], None]] = {
    "nothing": lambda draw, directories: None,
    "link": _link,
    "missing data": _missing(*_DATA_TOPICS),
    "missing ids": _missing(STATE[0][0]),
    "missing metadata": _missing(METADATA[0]),
    "missing checkpoint": _without("replication-offset-checkpoint"),
    "swap": _swap,
    "future": _renamed("future"),
    "stray": _renamed("stray"),
    "flipped": _changed(_flipped),
    "zeroed": _changed(_zeroed),
    "cut": _changed(_cut),
}
