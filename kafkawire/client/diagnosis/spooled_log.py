"""A copy of a live partition's log in a local folder, laid out as a broker's log directory, for commands that read logs
more than once (`kafkawire explain`). The bytes on the disk are bounded; one piece is in memory."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import aclosing
from pathlib import Path

import crc32c
import msgspec
from msgspec.structs import replace

from kafkawire import logdir
from kafkawire.client.cluster.cluster import Cluster
from kafkawire.client.cluster.deadline import Deadline
from kafkawire.client.diagnosis.partition_symptoms import newest_from
from kafkawire.client.errors import ClientError
from kafkawire.client.results import Offsets, PartitionInfo, TopicPartition
from kafkawire.client.rpc.configs import topic_configs
from kafkawire.client.rpc.fetch_batches import PIECE
from kafkawire.client.rpc.log_dirs import log_sizes
from kafkawire.client.rpc.partition_log import DeletedOffsets, behind, pieces
from kafkawire.client.rpc.partition_offsets import list_offsets
from kafkawire.client.rpc.producer_states import describe_producers
from kafkawire.client.rpc.transactional_ids import list_transactions
from kafkawire.logdir.directory import CLEANED, HIGH_WATERMARKS, LOG_STARTS, PROPERTIES
from kafkawire.logdir.entry_layouts import SNAPSHOT_CHECKSUMMED
from kafkawire.messages import ProducerSnapshot
from kafkawire.messages.producer_snapshot import ProducerEntry
from kafkawire.records import Batch
from kafkawire.transactions.coordinator.coordinator_rules import partition_of_id
from kafkawire.transactions.facts import TRANSACTION_STATE
from kafkawire.transactions.formatting import size

#: Names of topics (Kafka's `Topic.LEGAL_CHARS`).
_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")


class Spooled(msgspec.Struct, kw_only=True):
    """The part of a partition's log that was written.

    Attributes:
        offsets: that it had when reading began.
        first, end: the offsets that were read, from one up to another.
        bytes: that were written, of all partitions.
        problems: what was not read, sentences.
    """

    offsets: Offsets
    first: int
    end: int
    bytes: int = 0
    problems: list[str] = msgspec.field(default_factory=list)

    @property
    def lower_stable(self) -> int | None:
        """The last stable offset, where it is below what was read: logs on disks show none below their first segment.
        None: it is not."""
        stable = self.offsets.last_stable_offset
        return stable if stable < self.first else None


async def spool(
    cluster: Cluster,
    place: TopicPartition,
    root: Path,
    *,
    first: int | None,
    end: int | None,
    offset: int | None,
    fetch_bytes: int,
) -> Spooled:
    """Writes a partition's log, and what a broker keeps beside it, into a folder.

    Args:
        root: an empty folder.
        first, end: the offsets that are wanted; None: as far as the budget goes up to the end.
        offset: the one offset whose story is wanted: what is around it, and the coordinator's log of its transaction.
        fetch_bytes: of the partition, at most.

    Raises:
        LookupError: there is no such partition, with a sentence. ClientError: it could not be read.
    """
    if not _NAME.fullmatch(place.topic) or place.topic in (".", ".."):
        raise LookupError(f"{place.topic!r} is no name of a topic")  # it becomes a folder's name
    deadline = cluster.deadline()
    metadata = await cluster.metadata([place.topic], deadline=deadline)
    for error in metadata.errors.values():
        raise error
    if place not in metadata.partitions:
        numbers = [str(one.partition) for one in sorted(metadata.partitions)]
        raise LookupError(f"{place.topic} has no partition {place.partition}; there are {', '.join(numbers[:20])}")
    offsets = (await list_offsets(cluster, [place], deadline))[place]
    start = await _start(cluster, place, offsets, first, offset, fetch_bytes, deadline)
    found = Spooled(offsets=offsets, first=start, end=start)
    stop = offsets.high_watermark
    await _write_log(cluster, place, root, found, stop, fetch_bytes)
    if start > offsets.log_start:
        await _write_snapshot(cluster, place, root, deadline)
    if start > offsets.log_start and start > (first or 0):
        found.problems.append(f"{place}: not read below offset {start}: --fetch-bytes is {size(fetch_bytes)}")
    if found.end < stop and (end is None or found.end < end):
        found.problems.append(f"{place}: not read from offset {found.end} to {stop - 1} (--fetch-bytes, --from)")
    if (at := found.lower_stable) is not None:
        found.problems.append(f"{place}: a transaction from offset {at} on is open: where it began was not read")
    await _write_files(cluster, place, root, found, metadata.cluster_id, metadata.partitions[place], deadline)
    if offset is not None:
        await _write_coordinator_log(cluster, place, root, found, offset, fetch_bytes)
    return found


async def _start(
    cluster: Cluster,
    place: TopicPartition,
    offsets: Offsets,
    first: int | None,
    offset: int | None,
    fetch_bytes: int,
    deadline: Deadline,
) -> int:
    """The offset to start at: the one that is wanted, or one from which the budget reaches the end, or one that puts
    the wanted offset in the middle of the budget."""
    if first is not None:
        return min(max(first, offsets.log_start), offsets.high_watermark)
    sizes = await log_sizes(cluster, [place], deadline)
    newest = newest_from(offsets, sizes.values.get(place), fetch_bytes)
    if offset is None or newest == offsets.log_start:
        return newest
    half = (offsets.high_watermark - newest) // 2
    return max(offsets.log_start, min(newest, offset - half))


async def _write_log(
    cluster: Cluster, place: TopicPartition, root: Path, found: Spooled, stop: int, fetch_bytes: int
) -> None:
    """Writes batches from `found.first` on, as one segment."""
    folder = _folder(root, place)
    file, left = None, fetch_bytes
    path = folder / f"{found.first:020}.log"
    try:
        async with aclosing(pieces(cluster, place, found.first, stop, most=max(1, min(left, PIECE)))) as walk:
            async for piece in walk:
                if isinstance(piece, DeletedOffsets):
                    found.problems.append(f"{place}: {piece.damage.detail}")
                    found.first = found.end = max(found.first, piece.end) if file is None else found.first
                    continue
                if file is None:
                    base = int.from_bytes(piece.data[:8], "big", signed=True)
                    path = folder / f"{max(0, base):020}.log"
                    file = path.open("wb")
                file.write(piece.data)
                found.bytes += len(piece.data)
                found.end = behind(piece.data) or found.end
                left -= len(piece.data)
                if left <= 0:
                    break
    except ClientError as error:
        found.problems.append(f"{place}: from offset {found.end} on: {error}")
    finally:
        if file is None:
            path.touch()
        else:
            file.close()


async def _write_snapshot(cluster: Cluster, place: TopicPartition, root: Path, deadline: Deadline) -> None:
    """The transactions that began before what was read and are open, as a broker's snapshot has them: they hold the
    last stable offset."""
    folder = _folder(root, place)
    (log,) = folder.glob("*.log")
    states = (await describe_producers(cluster, [place], deadline))[place]
    entries = tuple(
        ProducerEntry(
            producer_id=one.producer_id,
            epoch=one.producer_epoch,
            last_sequence=-1,
            last_offset=-1,
            timestamp=-1 if one.last_timestamp is None else one.last_timestamp,
            coordinator_epoch=-1 if one.coordinator_epoch is None else one.coordinator_epoch,
            current_txn_first_offset=one.transaction_start_offset,
        )
        for one in states
        if one.transaction_start_offset is not None and one.transaction_start_offset < int(log.stem)
    )
    snapshot = ProducerSnapshot(producer_entries=entries)
    data = snapshot.encode_prefixed(1)
    crc = crc32c.crc32c(memoryview(data)[SNAPSHOT_CHECKSUMMED:])
    log.with_suffix(".snapshot").write_bytes(replace(snapshot, crc=crc).encode_prefixed(1))


async def _write_files(
    cluster: Cluster,
    place: TopicPartition,
    root: Path,
    found: Spooled,
    cluster_id: str | None,
    info: PartitionInfo,
    deadline: Deadline,
) -> None:
    """What a broker keeps beside logs: its ids, the high watermark, the log start, and whether it compacts."""
    lines = ["version=1", *([] if cluster_id is None else [f"cluster.id={cluster_id}"])]
    lines += [] if info.leader is None else [f"node.id={info.leader}"]
    (root / PROPERTIES).write_text("\n".join(lines) + "\n")
    high = min(found.offsets.high_watermark, max(found.end, found.first))
    _checkpoint(root / HIGH_WATERMARKS, [(place, high)])
    _checkpoint(root / LOG_STARTS, [(place, found.offsets.log_start)])
    settings = await topic_configs(cluster, {place.topic}, ["cleanup.policy"], deadline)
    policy = settings.values.get(place.topic, {}).get("cleanup.policy")
    if policy is None:
        found.problems.append(f"whether {place.topic} is compacted is not known: {settings.errors.get(place.topic)}")
    compacted = policy is not None and "compact" in (policy.value or "")
    _checkpoint(root / CLEANED, [(place, found.end)] if compacted else [])


async def _write_coordinator_log(
    cluster: Cluster, place: TopicPartition, root: Path, found: Spooled, offset: int, fetch_bytes: int
) -> None:
    """The log of the coordinator of an offset's transaction."""
    producer = _producer_at(_folder(root, place), offset)
    if producer is None:
        return
    deadline = cluster.deadline()
    listed = await list_transactions(cluster, deadline, producer_ids=[producer])
    names = {one.transactional_id for of_broker in listed.values.values() for one in of_broker}
    found.problems += [f"broker {broker} did not list its ids: {error}" for broker, error in listed.errors.items()]
    if not names:
        found.problems.append(f"no broker lists a transactional id with producer {producer}: its records were not read")
        return
    metadata = await cluster.metadata([TRANSACTION_STATE], deadline=deadline)
    count = len(metadata.partitions)
    for number in sorted({partition_of_id(name, count) for name in names}) if count else ():
        own = TopicPartition(TRANSACTION_STATE, number)
        try:
            offsets = (await list_offsets(cluster, [own], deadline))[own]
        except ClientError as error:
            found.problems.append(f"{own}: {error}")
            continue
        part = Spooled(offsets=offsets, first=offsets.log_start, end=offsets.log_start)
        await _write_log(cluster, own, root, part, offsets.high_watermark, fetch_bytes)
        found.bytes += part.bytes
        if part.end < offsets.high_watermark:
            part.problems.append(f"{own}: not read from offset {part.end} on: --fetch-bytes")
        found.problems += part.problems
        high = {place: found.end, own: part.end}
        _checkpoint(root / HIGH_WATERMARKS, high.items())
        _checkpoint(root / CLEANED, [*_cleaned(root), (own, part.end)])


def _cleaned(root: Path) -> list[tuple[TopicPartition, int]]:
    lines = (root / CLEANED).read_text().splitlines()[2:]
    return [(TopicPartition(topic, int(number)), int(at)) for topic, number, at in map(str.split, lines)]


def _producer_at(folder: Path, offset: int) -> int | None:
    """The producer of the transaction that an offset is in; None for none."""
    for partition in logdir.open(str(folder)).partitions:
        for item in partition:
            batch = item.measured() if isinstance(item, Batch) else None
            if batch is not None and batch.base_offset <= offset <= batch.last_offset:
                return batch.producer_id if batch.transactional else None
    return None


def _folder(root: Path, place: TopicPartition) -> Path:
    folder = root / str(place)
    folder.mkdir(exist_ok=True)
    return folder


def _checkpoint(path: Path, lines: Iterable[tuple[TopicPartition, int]]) -> None:
    entries = [f"{place.topic} {place.partition} {at}" for place, at in lines]
    path.write_text("\n".join(["0", str(len(entries)), *entries]) + "\n")
