"""Sound log directories of two brokers, in memory: what faults are injected into."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Mapping
from pathlib import Path

from kafkawire.records import Batch, read
from tests.worlds import IDS, TOPIC, Producer, World

#: Path below the folder of both brokers -> content.
Files = dict[str, bytes]
#: The same after changes; None: removed.
Changed = Mapping[str, bytes | None]

#: A timeout that never passes (KIP-939): a transaction that is open in the copies breaks no rule.
_NEVER = 2**31 - 1


def sound(seed: int, cluster: str = "test") -> Files:
    """The files of a sound pair of brokers. By seed some partitions have lost their first segment to retention, or have
    a high watermark below their end."""
    with tempfile.TemporaryDirectory(dir=_memory()) as folder:
        root = Path(folder)
        world = World(root, seed)
        _live(world)
        _open(world)
        world.finish()
        draw = random.Random(seed)
        others = world.replicate()
        if seed % 3 == 1:
            _lag(world, others.high_watermark, draw)
        world.logs.write()
        others.write()
        for number, log in enumerate(world.orders):
            copy = others.partitions[TOPIC, number]
            for path in log.directory.iterdir():
                if path.suffix in (".snapshot", ".txnindex"):
                    (copy.directory / path.name).write_bytes(path.read_bytes())
        for directory in (world.logs.root, others.root):
            (directory / "cleaner-offset-checkpoint").write_text("0\n0\n")
            (directory / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":1}')
            for path in directory.glob(f"{TOPIC}-*/*.log"):
                path.with_suffix(".index").write_bytes(b"")
                path.with_suffix(".timeindex").write_bytes(b"")
        if seed % 3 == 2:
            _retained(world, others.root)
        for directory in root.glob(f"*/{TOPIC}-*"):
            (directory / "leader-epoch-checkpoint").write_text(_leader_epochs(directory))
        files = {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}
    return with_cluster(files, cluster)


def with_cluster(files: Changed, cluster: str) -> Files:
    """The same files as of another cluster, without those that are removed."""
    return {
        path: data.replace(b"cluster.id=test", f"cluster.id={cluster}".encode())
        if path.endswith(".properties")
        else data
        for path, data in files.items()
        if data is not None
    }


def _memory() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


def _live(world: World) -> None:
    """Both transaction versions: commits and aborts that overlap, an empty abort, an id that is fenced, coordinators
    and leaders that are elected anew, segments that roll, an idempotent producer."""
    producers = [world.producer(f"app-{version}-{number}", version) for version in (0, 2) for number in range(2)]
    idempotent = world.producer_id()
    draw = world.random
    for _ in range(3):
        first, second = draw.sample(producers, 2)
        world.begin(first, 0, draw.randrange(1, 3))
        world.begin(second, 0)
        world.orders[draw.randrange(3)].data(
            idempotent, at=world.tick(), records=draw.randrange(1, 4), transactional=False
        )
        world.data(first, 0, records=2)
        world.end(second, draw.random() < 0.3)
        world.data(first, 0)
        world.end(first, draw.random() < 0.3)
        rolled = world.orders[draw.randrange(3)]
        if rolled.end > rolled.segments[-1][0]:
            rolled.roll()
            rolled.leader_epoch += 1
        world.orders[draw.randrange(3)].plain(at=world.tick(), records=2)
        if draw.random() < 0.5:
            _elect(world)
    _fenced(world, draw.choice(producers))
    world.run(3)
    everywhere = draw.choice(producers)
    world.begin(everywhere, 0, 1, 2)
    world.end(everywhere, False)


def _elect(world: World) -> None:
    world.coordinator_epoch += 1
    for number in range(IDS):
        world.logs.partition("__transaction_state", number).leader_epoch = world.coordinator_epoch


def _fenced(world: World, producer: Producer) -> None:
    """Its coordinator aborts over its time, and its producer begins anew."""
    world.begin(producer, 0, 2)
    producer.epoch += producer.version < 2
    world.end(producer, False)
    producer.epoch += 1
    world.write(producer, "Empty")


def _open(world: World) -> None:
    """One that is open when the brokers stop, under two-phase commit."""
    producer = world.producer("prepared")
    producer.timeout = _NEVER
    producer.epoch += 1
    world.write(producer, "Empty")
    world.begin(producer, 1)


def _leader_epochs(directory: Path) -> str:
    """The first offset of each leader epoch in a log."""
    starts: dict[int, int] = {}
    for path in sorted(directory.glob("*.log")):
        for batch in read(path.read_bytes()):
            assert isinstance(batch, Batch)
            starts.setdefault(batch.partition_leader_epoch, batch.base_offset)
    return "".join([f"0\n{len(starts)}\n", *(f"{epoch} {start}\n" for epoch, start in starts.items())])


def _lag(world: World, of_other: object, draw: random.Random) -> None:
    """A high watermark below the end, on both brokers."""
    number = draw.randrange(2)
    end = world.orders[number].end
    mark = end - draw.randrange(1, 4)
    world.logs.high_watermark(TOPIC, number, mark)
    of_other(TOPIC, number, mark)  # type: ignore[operator]


def _retained(world: World, other: Path) -> None:
    """The first segment of a partition is deleted on both brokers."""
    for log in world.orders:
        if len(log.segments) > 1 and log.segments[1][0]:
            base, start = log.segments[0][0], log.segments[1][0]
            for directory in (log.directory, other / log.directory.name):
                for path in directory.glob(f"{base:020}.*"):
                    path.unlink()
                checkpoint = directory.parent / "log-start-offset-checkpoint"
                checkpoint.write_text(f"0\n1\n{log.directory.name.replace('-', ' ')} {start}\n")
            return
