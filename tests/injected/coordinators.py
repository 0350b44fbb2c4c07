"""Rules of coordinators: their decisions and markers, and their records; broken one by one."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from kafkawire.messages import TransactionLogValue
from kafkawire.messages.transaction_log_value import PartitionsSchema
from kafkawire.transactions.coordinator.coordinator_rules import partition_of_id
from tests.audit_logs import HOUR, NOON
from tests.injected.injection import INJECTIONS, Early, Injection, early
from tests.worlds import IDS, TOPIC, Producer, World

# Markers and decisions -----------------------------------------------------------------------------------------------


def _ended(version: int, decided: bool, *, commit: bool, ahead: int) -> Early:
    """A transaction in two partitions, whose marker in the second is another than that of the coordinator.

    Args:
        ahead: of the data's epoch.
    """

    def step(world: World) -> None:
        producer = world.producer("ended", version)
        world.begin(producer, 0, 2)
        epoch = producer.epoch
        world.prepare(producer, decided)
        world.marker(producer, 0, decided)
        world.marker(producer, 2, commit, epoch=epoch + ahead)
        world.write(producer, "CompleteCommit" if decided else "CompleteAbort")

    return step


INJECTIONS += [
    Injection("one_outcome", "aborted-by-hand", early=_ended(2, True, commit=False, ahead=0)),
    Injection("one_outcome", "aborted-by-hand-below-2", early=_ended(0, True, commit=False, ahead=0)),
    Injection("one_outcome", "aborted-as-by-a-coordinator", early=_ended(2, True, commit=False, ahead=1)),
    Injection("one_outcome", "committed", early=_ended(2, False, commit=True, ahead=1)),
    Injection("one_outcome", "committed-below-2", early=_ended(0, False, commit=True, ahead=0)),
    Injection("marker_epoch", "not-raised", early=_ended(2, True, commit=True, ahead=0)),
    Injection("marker_epoch", "raised-twice", early=_ended(2, True, commit=True, ahead=2)),
    Injection("marker_epoch", "raised-below-2", early=_ended(0, True, commit=True, ahead=1)),
    Injection("marker_epoch", "abort-not-raised", early=_ended(2, False, commit=False, ahead=0)),
    Injection("marker_epoch", "abort-raised-twice", early=_ended(2, False, commit=False, ahead=2)),
]


@early("one_outcome", "committed-by-no-coordinator")
def _(world: World) -> None:
    producer = world.producer("undecided", 0)
    world.data(producer, 0)
    world.marker(producer, 0, True)


# Records of transactional ids ----------------------------------------------------------------------------------------

Change = Callable[[TransactionLogValue], TransactionLogValue]


def _records(check: str, name: str, states: str, changes: dict[int, Change], version: int = 2) -> None:
    """An id without data goes through states (their initials, as in EOPCEPQ...); some records are changed."""

    def step(world: World) -> None:
        producer = world.producer("victim", version, init=False)
        for number, letter in enumerate(states):
            state = _LETTERS[letter]
            if letter == "." or state is None:
                world.tick()
                world.put(producer.name, None)
                producer.state, producer.epoch = None, 0
                continue
            _go(world, producer, state)
            value = world.value(producer, state)
            world.put(producer.name, changes.get(number, _same)(value))

    INJECTIONS.append(Injection(check, name, early=step))


_LETTERS: dict[str, str | None] = {
    "E": "Empty", "O": "Ongoing", "P": "PrepareCommit", "Q": "PrepareAbort", "C": "CompleteCommit",
    "D": "CompleteAbort", "X": "Dead", ".": None,
}  # fmt: skip


def _same(value: TransactionLogValue) -> TransactionLogValue:
    return value


def _go(world: World, producer: Producer, state: str) -> None:
    """The producer's state becomes what the coordinator would make it."""
    world.tick()
    if state == "Ongoing":
        if producer.state != "Ongoing":
            producer.started = world.now
        producer.partitions = (*producer.partitions, (TOPIC, len(producer.partitions)))
    elif state.startswith("Prepare"):
        producer.epoch += producer.version >= 2
        if producer.started < 0:
            producer.started = world.now
    else:
        producer.partitions = ()
        if state == "Empty":
            producer.started = -1
            producer.epoch += producer.state is not None
    producer.state = state


def _set(**fields: object) -> Change:
    return lambda value: replace(value, **fields)


def _more(**fields: int) -> Change:
    return lambda value: replace(value, **{name: getattr(value, name) + more for name, more in fields.items()})


_ONE = (PartitionsSchema(topic=TOPIC, partition_ids=(0,)),)

for _name, _states in (
    ("complete-after-ongoing", "EOC"), ("commit-of-nothing", "EPC"), ("empty-after-ongoing", "EOE"),
    ("begun-at-once", "OPC"), ("abort-after-commit", "EOPD"), ("tombstone-after-ongoing", "EO.E"), ("dead", "EX"),
):  # fmt: skip
    _records("legal_transition", _name, _states, {})
_records("legal_transition", "abort-of-nothing-below-2", "EQD", {}, version=0)


@early("legal_transition", "expired-too-soon")
def _(world: World) -> None:
    """A tombstone a millisecond before its time. One in time breaks nothing."""
    world.configure("transactional.id.expiration.ms", str(HOUR))
    for name, idle in (("in-time", HOUR), ("too-soon", HOUR - 1)):
        world.producer(name)
        world.tick(idle)
        world.put(name, None)


_records("transition_fields", "partition-lost", "EOOPC", {2: _set(transaction_partitions=_ONE[:0] or ())})
_records("transition_fields", "partition-lost-at-prepare", "EOOPC", {3: _set(transaction_partitions=_ONE)})
_records("transition_fields", "start-changes", "EOPC", {2: _more(transaction_start_timestamp_ms=1), 3: _same})
_records("transition_fields", "timeout-changes", "EOOPC", {i: _more(transaction_timeout_ms=1) for i in (2, 3, 4)})
_records("transition_fields", "clock-goes-back", "EOPC", {3: _more(transaction_last_update_timestamp_ms=-60_000)})
_records("transition_fields", "complete-with-partitions", "EOPC", {3: _set(transaction_partitions=_ONE)})
_records("transition_fields", "empty-with-a-start", "EOPCE", {4: _set(transaction_start_timestamp_ms=NOON)})
_records("transition_fields", "empty-with-a-list", "EOPCE", {4: _set(transaction_partitions=())})

_records("epoch_step", "ongoing", "EOPC", {i: _more(producer_epoch=1) for i in (1, 2, 3)})
_records("epoch_step", "complete", "EOPC", {3: _more(producer_epoch=1)})
_records("epoch_step", "not-at-prepare", "EOPC", {i: _more(producer_epoch=-1) for i in (2, 3)})
_records("epoch_step", "two-at-empty", "EE", {1: _more(producer_epoch=1)})
_records("epoch_step", "first", "E", {0: _set(producer_epoch=5)})
_records("epoch_step", "backwards", "EEE", {2: _more(producer_epoch=-2)})
_records("epoch_step", "below-2", "EOPC", {i: _more(producer_epoch=1) for i in (2, 3)}, version=0)

_records("previous_producer_id", "first", "E", {0: _more(previous_producer_id=-1)})
_records("previous_producer_id", "later", "EOPC", {2: _more(previous_producer_id=1)})
_records("previous_producer_id", "next-too-early", "EO", {1: _set(next_producer_id=99, transaction_timeout_ms=900_000)})
_records("previous_producer_id", "next-at-empty", "EE", {1: _set(next_producer_id=99)})


@early("producer_id_unique", "two-ids")
def _(world: World) -> None:
    first = world.producer("owner")
    world.put("thief", replace(world.value(first, "Empty"), transaction_last_update_timestamp_ms=world.tick()))


@early("producer_id_unique", "handed-out-twice")
def _(world: World) -> None:
    world.hand_out(world.next_producer_id // 1000 * 1000 + 1000)


@early("producer_id_unique", "half-a-block")
def _(world: World) -> None:
    world.hand_out(world.next_producer_id // 1000 * 1000 + 1500)


@early("producer_id_unique", "invented-by-a-coordinator")
def _(world: World) -> None:
    producer = world.producer("invented", init=False)
    producer.producer_id = 5_000_000
    world.write(producer, "Empty")


@early("producer_id_unique", "invented")
def _(world: World) -> None:
    world.orders[0].data(5_000_000, at=world.tick(), transactional=False)


@early("id_in_its_partition", "the-next")
def _(world: World) -> None:
    _misplaced(world, 1)


@early("id_in_its_partition", "another")
def _(world: World) -> None:
    _misplaced(world, 2)


def _misplaced(world: World, away: int) -> None:
    producer = world.producer("lost", init=False)
    home = partition_of_id(producer.name, IDS)
    world.tick()
    world.put(producer.name, world.value(producer, "Empty"), partition=(home + away) % IDS)
