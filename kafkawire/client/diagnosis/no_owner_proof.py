"""Proofs that no transactional id owns a producer id. That no broker lists such an id is no proof: the id may be hidden
from the client, or its coordinator may be moving."""

from __future__ import annotations

from collections.abc import Collection

from kafkawire.client.cluster.cluster import Cluster
from kafkawire.client.diagnosis.cluster_reading import ClusterReading, epoch_of
from kafkawire.client.diagnosis.transaction_state_log import read_ids
from kafkawire.client.errors import BrokerError, ClientError
from kafkawire.client.results import Results, TopicPartition
from kafkawire.client.rpc.hidden_resources import has_authorizer
from kafkawire.transactions.coordinator.coordinator_log import IdLog, pick_owner
from kafkawire.transactions.facts import TRANSACTION_STATE
from kafkawire.transactions.formatting import count, numbers
from kafkawire.transactions.verdict.case import IdState
from kafkawire.transactions.verdict.live_case import HIDDEN, Absence

_LATER = f"{TRANSACTION_STATE} was read as a proof a short while ago; it is read again later."


class NoOwnerProver:
    """Proves absence for one search.

    Attributes:
        read: the partitions of `__transaction_state` that were read.
        tried: whether they were read, or reading failed for another reason than a missing right.

    Args:
        read_log: whether `__transaction_state` may be read.
    """

    def __init__(self, cluster: Cluster, timeout_s: float | None, *, read_log: bool = True) -> None:
        self.read: list[int] = []
        self.tried = False
        self._read_log = read_log
        self._cluster = cluster
        self._timeout_s = timeout_s
        self._authorizer: bool | None = None

    async def has_authorizer(self) -> bool:
        """Whether the cluster checks rights. The request is sent once."""
        if self._authorizer is None:
            self._authorizer = await has_authorizer(self._cluster, self._cluster.deadline(self._timeout_s))
        return self._authorizer

    async def prove(self, reading: ClusterReading, producer_ids: Collection[int]) -> tuple[Absence, dict[int, IdState]]:
        """The proofs for producer ids that no coordinator named, and the states of their ids in the log.

        Without an authorizer nothing is hidden: it is enough that every coordinator has loaded its partitions and
        answered. Otherwise all of `__transaction_state` has to be read.
        """
        silent = _silent(reading)
        if not silent and not await self.has_authorizer():
            answered = ", ".join(map(str, sorted(reading.listed.values)))
            proof = (
                f"no authorizer hides any, all coordinators have loaded their ids, and all brokers answered: {answered}"
            )
            return Absence(proof=proof, source=f"brokers {answered}: ListTransactions"), {}
        asked = numbers(sorted({*reading.listed.values, *reading.listed.errors}))
        source = f"brokers {asked}: ListTransactions"
        if not self._read_log:
            return Absence(doubts=(*silent, _LATER), source=source), {}
        logs = await self._logs(reading)
        if isinstance(logs, ClientError) or logs.errors or not logs.values:
            hidden = [HIDDEN] if await self.has_authorizer() and _denied(logs) else []
            self.tried = not hidden
            why = [] if hidden else [_unreadable(logs)]
            return Absence(doubts=(*silent, *hidden, *why), source=source), {}
        self.tried = True
        self.read = sorted(place.partition for place in logs.values)
        id_states = {}
        for producer_id in producer_ids:
            state = _id_state(producer_id, logs.values, reading)
            if state is not None:
                id_states[producer_id] = state
        read = f"all {count(len(self.read), 'partition')} of {TRANSACTION_STATE} were read"
        led = {leader for leader, _ in reading.coordinators[1].leaders.values() if leader is not None}
        return Absence(proof=read, source=f"brokers {numbers(sorted(led))}: {TRANSACTION_STATE}"), id_states

    async def _logs(self, reading: ClusterReading) -> Results[TopicPartition, IdLog] | ClientError:
        leaders = reading.coordinators[1].leaders
        if not leaders:
            problem = reading.coordinators[1].problem or "it has no partitions"
            return ClientError(f"{TRANSACTION_STATE} is not visible: {problem}")
        return await read_ids(self._cluster, sorted(leaders), self._cluster.deadline(self._timeout_s))


def _silent(reading: ClusterReading) -> list[str]:
    """A sentence for each coordinator that did not list all its ids."""
    doubts = [
        f"Broker {broker} did not list its transactional ids ({error})."
        for broker, error in reading.listed.errors.items()
    ]
    doubts += [
        f"Broker {broker} listed its transactional ids and then did not answer any more ({error}): what it coordinates "
        "may move."
        for broker, error in sorted(reading.gone.items())
    ]
    leaders = reading.coordinators[1].leaders
    headless = sorted(number for number, (leader, _) in leaders.items() if leader is None)
    if headless:
        doubts.append(
            f"Partitions {numbers(headless)} of {TRANSACTION_STATE} have no leader: no broker coordinates their ids."
        )
    if reading.unloaded:
        doubts.append(_unloaded(reading.unloaded))
    asked = set(reading.listed.values) | set(reading.listed.errors)
    unasked = sorted({leader for leader, _ in leaders.values() if leader is not None} - asked)
    if unasked:
        doubts.append(f"Broker {numbers(unasked)} coordinates, and is not in the cluster's metadata.")
    return doubts


def _unloaded(missing: dict[int, ClientError]) -> str:
    which = f"partition{'s' * (len(missing) > 1)} {numbers(sorted(missing))}"
    why = next(iter(missing.values()))
    return f"The ids in {which} of {TRANSACTION_STATE} could not be listed: no coordinator has loaded them ({why})."


def _denied(logs: Results[TopicPartition, IdLog] | ClientError) -> bool:
    if isinstance(logs, ClientError):
        return True  # not visible, with an authorizer: it is hidden
    return any(isinstance(error, BrokerError) and error.right for error in logs.errors.values())


def _unreadable(logs: Results[TopicPartition, IdLog] | ClientError) -> str:
    error = logs if isinstance(logs, ClientError) else next(iter(logs.errors.values()))
    return f"{TRANSACTION_STATE} could not be read as a proof ({error})."


def _id_state(producer_id: int, logs: dict[TopicPartition, IdLog], reading: ClusterReading) -> IdState | None:
    """A producer id in the log: its owner is hidden from the lists, has expired, or uses another one now."""
    owner = pick_owner(owner for log in logs.values() if (owner := log.owner(producer_id)) is not None)
    if owner is None:
        return None
    newest = owner.newest
    coordinator = reading.coordinators[1].leaders.get(newest.place.partition, (None, -1))[0]
    return IdState(
        transactional_id=newest.transactional_id,
        source=f"broker {coordinator}: {newest.place}: offset {newest.offset}",
        value=newest.value,
        partition=newest.place.partition,
        coordinator=coordinator,
        epoch=epoch_of(newest.transactional_id, reading.coordinators[1]),
    )
