"""Finds the hanging transactions of a cluster (KIP-664's find-hanging, with proofs).

A first reading finds suspects. A transaction is *hanging* only if two readings, some time apart, agree on that, no
coordinator moved in between, and it is proven that nothing was hidden. What cannot be proven is *unknown*.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field

from msgspec.structs import replace

from kafkawire import rows
from kafkawire.client.cluster.cluster import Cluster
from kafkawire.client.cluster.deadline import Deadline
from kafkawire.client.diagnosis.all_clear import LeaderCheck, check_leaders, errors_of, premises_of
from kafkawire.client.diagnosis.clock_samples import MeasuredClocks, compare_clocks, to_compare
from kafkawire.client.diagnosis.cluster_reading import ClusterReading, OpenKey, clock_ms, missing_brokers, read
from kafkawire.client.diagnosis.impact_reading import read_impacts
from kafkawire.client.diagnosis.lost_markers import lost_marker_doubts
from kafkawire.client.diagnosis.no_owner_proof import NoOwnerProver
from kafkawire.client.diagnosis.reading_changes import (
    agree,
    clock_skews,
    coordinator_moves,
    coordinator_skew,
    is_abandoned,
    is_being_ended,
    is_suspect,
    is_unsettled,
    preparing_ms,
    same_verdict,
)
from kafkawire.client.diagnosis.search import LogsRead, Observation, Search, chosen
from kafkawire.client.diagnosis.unread_partitions import (
    UnreadGap,
    gaps_of,
    gaps_of_brokers,
    readable_again,
    rows_of,
    unanswered,
)
from kafkawire.client.errors import ClientError, NoSuchBrokerError
from kafkawire.client.results import Metadata, TopicPartition
from kafkawire.client.rpc.broker_traits import read_traits
from kafkawire.client.rpc.hidden_resources import hidden_topics
from kafkawire.client.rpc.max_transaction_timeout import max_timeouts, settings
from kafkawire.transactions.cluster.cluster_traits import ClusterTraits
from kafkawire.transactions.facts import Open, Place
from kafkawire.transactions.formatting import some, when
from kafkawire.transactions.verdict.case import IdState
from kafkawire.transactions.verdict.live_case import Absence, ClockSkew, LiveCase
from kafkawire.transactions.verdict.verdicts import UNKNOWN, judge

_READINGS = 4
_FEW = 5
_GIVEN = "as given: not that of now"
_LEADERS = "brokers name different leaders: partitions are read again when brokers' sessions are over"
#: The text of the wait before suspects are read again, by whether a broker is missing or a coordinator moves.
_AGAIN = {
    False: "suspects are read again",
    True: "a broker is missing or a coordinator moves: suspects are read again when brokers' sessions are over",
}
_CONFIRMED = "An earlier search has confirmed it, and read the same."


async def find_hanging(
    cluster: Cluster, search: Search, progress: Callable[[int, int], None] | None = None
) -> rows.Audit:
    """Every open transaction with its verdict, and the coverage of the search.

    Args:
        progress: called with the number of partitions that were described since its last call, and the total.

    Raises:
        ClientError: nothing could be read. Partitions and ids that could not be read are in `read.gaps`.
    """
    return (await observe(cluster, search, {}, progress=progress)).audit


async def observe(
    cluster: Cluster,
    search: Search,
    earlier: Mapping[OpenKey, rows.Finding],
    *,
    since: Mapping[OpenKey, int] | None = None,
    read_log: bool = True,
    logs: LogsRead | None = None,
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    clock: Callable[[], int] = clock_ms,
    progress: Callable[[int, int], None] | None = None,
) -> Observation:
    """Every open transaction with its verdict, for callers that repeat the search of `find_hanging`.

    Args:
        earlier: the last findings. A transaction that was hanging or stuck, and is so in the first reading now, is not
            confirmed again, nor is absence proven again: no id is assigned to a producer id in use.
        since: when earlier searches first saw the transactions of `earlier`, epoch milliseconds.
        read_log: whether `__transaction_state`, which can be large, may be read as a proof.
        logs: what logs show, which is more than leaders say.
        pause: sleeps for the given seconds, before suspects are read again. `clock`: returns epoch milliseconds.
        progress: called with the number of partitions described since its last call, and the total.
    """
    prover = NoOwnerProver(cluster, search.timeout_s, read_log=read_log)
    return await _Finder(
        cluster, search, progress, earlier, since or {}, prover, pause, logs or LogsRead(), clock
    ).run()


@dataclass
class _Finder:
    _cluster: Cluster
    _search: Search
    _progress: Callable[[int, int], None] | None
    _earlier: Mapping[OpenKey, rows.Finding]
    _since: Mapping[OpenKey, int]
    _prover: NoOwnerProver
    _pause: Callable[[float], Awaitable[None]]
    _logs: LogsRead
    _clock: Callable[[], int]
    _settings: tuple[rows.Setting, ...] = ()
    _traits: ClusterTraits = field(default_factory=ClusterTraits)
    _cases: dict[OpenKey, LiveCase] = field(default_factory=dict)
    _gaps: list[UnreadGap] = field(default_factory=list)
    _cluster_id: str | None = None
    _leaders: dict[TopicPartition, int] = field(default_factory=dict)
    _first_seen: dict[tuple[OpenKey, int], int] = field(default_factory=dict)
    _leader_check: LeaderCheck = field(default_factory=LeaderCheck)
    _skews: dict[int, ClockSkew] = field(default_factory=dict)
    _clocks: MeasuredClocks = field(default_factory=MeasuredClocks)
    _hidden: str = "the topics were given"

    async def run(self) -> Observation:
        if self._search.as_of is not None and self._search.as_of > self._clock():
            raise ClientError(f"{when(self._search.as_of)} is after this machine's clock: nothing is that old yet")
        metadata = await self._metadata()
        self._leaders = chosen(self._search, metadata)
        partitions = [*self._leaders]
        reading = await self._first_reading(metadata, partitions)
        # Not beside the reading: a broker that answers by closing the connection would end its requests, too.
        allowed = await max_timeouts(self._cluster, metadata.brokers, self._deadline())
        self._settings = settings(self._search.max_timeout_ms, allowed)
        findings = await self._judge(reading, reading.opens, {}, thorough=False)
        known = {key: again for key, finding in findings.items() if (again := self._confirmed(key, finding))}
        findings |= known
        await self._measure(findings)
        findings |= self._by_measured_clocks(findings, known.keys())
        suspects = {key for key, finding in findings.items() if is_suspect(finding) and key not in known}
        last, errors = reading, reading.errors
        explained = {key: old.cause for key, one in findings.items() if (old := self._explained(key, one))}
        late = {key for key, one in findings.items() if one.cause is not None} - suspects - known.keys()
        if self._search.impact and (suspects or late - explained.keys()):
            self._traits = await read_traits(self._cluster, metadata.brokers, self._deadline())
        for key in late:  # they are not read again
            cause = explained.get(key) or judge(replace(self._cases[key], traits=self._traits)).cause
            findings[key] = replace(findings[key], cause=cause)
        if suspects:
            confirmed, last, returned = await self._confirm(suspects, reading, findings, metadata)
            findings = {key: finding for key, finding in findings.items() if key not in suspects} | confirmed
            errors = {place: error for place, error in errors.items() if place not in returned}
            findings |= self._by_measured_clocks(findings, confirmed.keys() | known.keys())
        judged = [finding for _, finding in sorted(findings.items())]
        found = await read_impacts(self._cluster, judged, self._search, metadata.brokers, self._earlier)
        described = frozenset(partitions) - errors.keys()
        gaps = self._all_gaps(errors, last)
        silent = reading.listed.errors | last.listed.errors
        coverage = self._coverage(metadata, len(described), len(partitions), gaps)
        of_answer = premises_of(
            [self._cases[key] for key in findings],
            self._leader_check,
            partitions=(len(described), len(partitions)),
            brokers=frozenset(metadata.brokers) - unanswered(errors, silent, allowed.errors, self._leaders),
            hidden=self._hidden,
            clock=coverage.clock or "",
            gaps=gaps,
            errors=errors_of(errors, silent | last.gone),
        )
        return Observation(
            audit=rows.Audit(
                as_of=reading.at if self._search.as_of is None else self._search.as_of,
                read=replace(coverage, premises=of_answer),
                findings=found,
                unread=tuple(rows_of(errors, self._leaders)),
            ),
            cases=tuple(self._cases[key] for key in sorted(findings)),
            described=described,
            errors=errors,
            leaders=self._leaders,
            silent=silent,
            gaps=gaps,
            read_log=self._prover.tried,
            expected=frozenset(metadata.brokers) | missing_brokers(metadata),
            answered=frozenset(metadata.brokers) - unanswered(errors, silent, allowed.errors, self._leaders),
            max_timeout_ms=self._settings[0].value,
        )

    def _deadline(self) -> Deadline:
        return self._cluster.deadline(self._search.timeout_s)

    # What to read -----------------------------------------------------------------------------------------------------

    async def _metadata(self) -> Metadata:
        search = self._search
        topics = search.topics
        if search.places is not None:
            topics = tuple(sorted({place.topic for place in search.places}))
        metadata = await self._cluster.metadata(topics, deadline=self._deadline())
        self._cluster_id = metadata.cluster_id
        if search.broker_id is not None and search.broker_id not in metadata.brokers:
            raise NoSuchBrokerError.of(search.broker_id, metadata.brokers)
        if topics and len(metadata.errors) == len(set(topics)):
            raise next(iter(metadata.errors.values()))
        self._gaps += [UnreadGap(f"topic {topic}", str(error)) for topic, error in metadata.errors.items()]
        if topics is None:
            await self._look_for_hidden_topics(metadata)
        return metadata

    async def _look_for_hidden_topics(self, metadata: Metadata) -> None:
        self._hidden = "no authorizer hides topics"
        if not await self._prover.has_authorizer():
            return
        self._hidden = "the principal may Describe all topics that the brokers' disks have"
        visible = {place.topic for place in metadata.partitions}
        hidden, more = await hidden_topics(self._cluster, metadata.brokers, visible, self._deadline())
        if hidden:
            text = f"{len(hidden)} topics are hidden from the principal, which needs Describe: {some(hidden, _FEW)}"
            self._gaps.append(UnreadGap("hidden topics", text))
        if more is not None:
            text = f"topics that the principal may not Describe were not seen ({more})"
            self._gaps.append(UnreadGap("topics that may be hidden", text))

    async def _first_reading(self, metadata: Metadata, partitions: Collection[TopicPartition]) -> ClusterReading:
        """A reading to find suspects, of each partition's leader: again while brokers name different ones."""
        search = self._search
        for turn in range(_READINGS):
            reading = await self._read(partitions, first=True)
            if partitions and not reading.described:
                raise next(iter(reading.errors.values()))
            self._leader_check = await check_leaders(
                self._cluster,
                metadata,
                set(partitions) - reading.errors.keys(),
                broker_id=search.broker_id,
                without=unanswered(reading.errors, {}, {}, self._leaders),
                timeout_s=search.timeout_s,
            )
            if not self._leader_check.doubts or not self._leader_check.passing or turn == _READINGS - 1:
                break
            with self._cluster.waits.on("leaders", _LEADERS, search.session_s):
                await self._pause(search.session_s)
            topics = sorted({place.topic for place in partitions})
            metadata = await self._cluster.metadata(topics, deadline=self._deadline())
            for place in partitions:
                info = metadata.partitions.get(place)
                if info is not None and search.broker_id is None:
                    self._leaders[place] = -1 if info.leader is None else info.leader
        return reading

    async def _read(self, partitions: Collection[TopicPartition], first: bool = False) -> ClusterReading:
        """Reads the cluster once. `first`: to find suspects; leaders and coordinators are not verified."""
        progress = self._progress
        total = len(partitions)
        advance = (lambda done: progress(done, total)) if first and progress is not None else None
        return await read(
            self._cluster,
            partitions,
            broker_id=self._search.broker_id,
            timeout_s=self._search.timeout_s,
            progress=advance,
            thorough=not first,
            loaded=not first and not await self._prover.has_authorizer(),
            clock=self._clock,
        )

    # Verdicts ---------------------------------------------------------------------------------------------------------

    async def _judge(
        self,
        reading: ClusterReading,
        keys: Collection[OpenKey],
        moved: dict[OpenKey, tuple[str, ...]],
        *,
        thorough: bool,
        before: ClusterReading | None = None,
    ) -> dict[OpenKey, rows.Finding]:
        """Judges each transaction of a reading. `thorough`: with proofs of absence; verdicts without them only find
        suspects.
        `before`: an earlier reading, since which no coordinator has moved."""
        absence = Absence()
        id_states = dict(reading.id_states)
        nameless = {producer_id for _, producer_id in keys} & reading.nameless
        if thorough and nameless:
            absence, found = await self._prover.prove(reading, nameless)
            id_states.update(found)
        starts = reading.starts
        cases = {key: self._case(key, reading, starts, id_states, absence, moved.get(key, ())) for key in keys}
        cases = {
            key: replace(case, disputed=reading.disputed.get(key[0])) if key in moved else case
            for key, case in cases.items()
        }
        if before is not None:
            cases = {
                key: replace(case, lasting_ms=preparing_ms(key, before, reading), agreed=agree(key, before, reading))
                for key, case in cases.items()
            }
        self._cases |= cases
        return {key: judge(case) for key, case in cases.items()}

    def _case(
        self,
        key: OpenKey,
        reading: ClusterReading,
        starts: dict[TopicPartition, int],
        id_states: dict[int, IdState],
        absence: Absence,
        moved: tuple[str, ...],
    ) -> LiveCase:
        place, producer_id = key
        state = reading.opens[key]
        start = state.transaction_start_offset
        assert start is not None
        offsets = reading.offsets.get(place)
        open_ = Open(
            place=Place(self._search.address, place.topic, place.partition),
            producer_id=producer_id,
            producer_epoch=state.producer_epoch,
            start_offset=start,
            last_offset=start,
            last_timestamp=-1 if state.last_timestamp is None else state.last_timestamp,
            coordinator_epoch=state.coordinator_epoch,
        )
        return LiveCase(
            open=self._logs.seen(key, open_),
            read_to=self._logs.read_to.get(place, 0),
            first_start=starts[place],
            as_of=reading.at if self._search.as_of is None else self._search.as_of,
            max_timeout_ms=self._settings[0].value,
            cluster_id=self._cluster_id,
            leader=self._leaders[place],
            log_start=offsets.log_start if offsets else 0,
            last_stable_offset=offsets.last_stable_offset if offsets else None,
            high_watermark=offsets.high_watermark if offsets else None,
            id_state=id_states.get(producer_id),
            absence=absence,
            moved=moved,
            address=self._search.reach,
            options=self._search.options,
            traits=self._traits,
            blocked_after_ms=self._search.blocked_after_ms,
            leader_epoch=reading.agreed.get(place),
            read_at=reading.at,
            first_seen=self._seen(key, start, reading.at),
            skew=coordinator_skew(
                id_states.get(producer_id), self._earlier.get(key), self._since.get(key), reading.until, self._skews
            ),
            uncompared=self._clocks.problem_of(id_states.get(producer_id)),
        )

    async def _measure(self, findings: Mapping[OpenKey, rows.Finding]) -> None:
        brokers = to_compare((self._cases[key], one) for key, one in findings.items())
        if brokers:
            seconds, timeout_s = self._search.confirm_after_s, self._search.timeout_s
            self._clocks = await compare_clocks(self._cluster, brokers, self._clock, self._pause, seconds, timeout_s)
            self._skews |= {broker: skew for broker, skew in self._clocks.skews.items() if skew is not None}

    def _by_measured_clocks(
        self, findings: Mapping[OpenKey, rows.Finding], judged: Collection[OpenKey]
    ) -> dict[OpenKey, rows.Finding]:
        """What coordinators hold, judged by the clocks that the readings after its own have measured."""
        found = {}
        for key in findings.keys() - judged:
            case = self._cases[key]
            broker = None if case.id_state is None else case.id_state.coordinator
            problem = self._clocks.problem_of(case.id_state)
            if broker is not None and case.skew is None and (broker in self._skews or problem is not None):
                self._cases[key] = replace(case, skew=self._skews.get(broker), uncompared=problem)
                found[key] = replace(judge(self._cases[key]), cause=findings[key].cause)
        return found

    def _seen(self, key: OpenKey, start: int, at: int) -> int:
        """Since when the transaction has been open as far as this search and those before it know."""
        old = self._earlier.get(key)
        since = self._since.get(key, at) if old is not None and old.start_offset == start else at
        return min(self._first_seen.setdefault((key, start), since), at)

    def _confirmed(self, key: OpenKey, finding: rows.Finding) -> rows.Finding | None:
        """The finding, if an earlier search has confirmed it and it is unchanged."""
        old = self._earlier.get(key)
        if old is not None and old.reason == "stuck_prepare" and is_being_ended(finding):
            same = (finding.start_offset, finding.coordinator_state) == (old.start_offset, old.coordinator_state)
            if same:  # one reading does not show that it lasts
                evidence = tuple(line for line in old.evidence if line != _CONFIRMED)
                finding = replace(finding, reason=old.reason, evidence=evidence, action=old.action)
        if old is None or not is_suspect(finding) or finding.verdict == UNKNOWN or not same_verdict(finding, old):
            return None
        return replace(finding, evidence=(*finding.evidence, _CONFIRMED), cause=old.cause)

    def _explained(self, key: OpenKey, finding: rows.Finding) -> rows.Finding | None:
        """The finding of an earlier search with its cause, if it has the same verdict."""
        old = self._earlier.get(key)
        return old if old is not None and old.cause is not None and same_verdict(finding, old) else None

    async def _confirm(
        self, suspects: set[OpenKey], before: ClusterReading, earlier: dict[OpenKey, rows.Finding], metadata: Metadata
    ) -> tuple[dict[OpenKey, rows.Finding], ClusterReading, set[TopicPartition]]:
        """Reads suspects again until two readings agree, and leaves out those that have ended.

        Partitions that could not be read before are read too, where their broker is available again. Returns: The
        findings, the last reading, and the partitions that could be read only now."""
        final: dict[OpenKey, rows.Finding] = {}
        unread, returned = before.errors, set[TopicPartition]()
        unsettled = bool(missing_brokers(metadata))
        for turn in range(_READINGS):
            unsettled = unsettled or is_unsettled(before)
            seconds = self._search.session_s if unsettled else self._search.confirm_after_s
            with self._cluster.waits.on("suspects", _AGAIN[unsettled], seconds):
                await self._pause(seconds)
            back = await self._back(unread) if turn == 0 else []
            reading = await self._read(sorted({*(place for place, _ in suspects), *back}))
            if back:
                returned = set(back) - reading.errors.keys()
                suspects |= {key for key in reading.opens if key[0] in returned}
            changed = coordinator_moves(before, reading)
            self._skews |= clock_skews(before, reading)
            last = turn == _READINGS - 1
            open_ = {key for key in suspects if key in reading.opens}
            lost = {key for key in suspects - open_ if key[0] in reading.errors}
            again: dict[OpenKey, tuple[str, ...]] = {key: (changed,) for key in open_ if changed}
            for key in open_:
                old = before.opens.get(key)
                if old is None or old.transaction_start_offset != reading.opens[key].transaction_start_offset:
                    again[key] = ("A new transaction of the producer began between two readings.",)
                if key[0] in reading.disputed:
                    again.setdefault(key, ())
            now = await self._judge(
                reading, open_, again if last else {}, thorough=True, before=None if changed else before
            )
            suspects = set()
            for key, finding in now.items():
                differs = is_abandoned(finding) and not same_verdict(finding, earlier.get(key))
                doubted = key in again and (is_abandoned(finding) or is_being_ended(finding))
                lacking = bool(reading.gone) and finding.verdict == UNKNOWN
                if not last and (differs or doubted or lacking):
                    suspects.add(key)
                else:
                    final[key] = finding
            for key in lost:  # judged by the earlier reading, with a doubt
                doubt = f"It could not be read again: {reading.errors[key[0]]}."
                final[key] = (await self._judge(before, [key], {key: (doubt,)}, thorough=False))[key]
            if not suspects:
                break
            before, earlier = reading, now
            unsettled = bool(changed or reading.disputed or reading.gone)
        doubts = await lost_marker_doubts(self._cluster, metadata, final, self._deadline())
        self._cases |= {key: replace(self._cases[key], lost=doubt) for key, doubt in doubts.items()}
        return final | {key: judge(self._cases[key]) for key in doubts}, reading, returned

    async def _back(self, unread: Mapping[TopicPartition, ClientError]) -> list[TopicPartition]:
        """The partitions of `unread` whose broker is available again."""
        if not unread:
            return []
        metadata = await self._cluster.metadata(sorted({place.topic for place in unread}), deadline=self._deadline())
        back = readable_again(unread, metadata, self._search.broker_id)
        if self._search.broker_id is None:
            self._leaders |= {
                place: -1 if (one := metadata.partitions[place].leader) is None else one for place in back
            }
        return back

    def _all_gaps(self, errors: Mapping[TopicPartition, ClientError], last: ClusterReading) -> tuple[UnreadGap, ...]:
        """Partitions that were not read, and brokers that did not list their ids in the last reading."""
        of_brokers = gaps_of_brokers(last.listed.errors if last.opens else {}, last.gone)
        return tuple(dict.fromkeys((*self._gaps, *gaps_of(errors), *self._leader_check.gaps(), *of_brokers)))

    def _coverage(self, metadata: Metadata, described: int, chosen: int, gaps: tuple[UnreadGap, ...]) -> rows.Coverage:
        return rows.Coverage(
            paths=(self._search.address,),
            brokers=tuple(sorted(metadata.brokers)),
            clusters=(self._cluster_id,) if self._cluster_id else (),
            partitions=described,
            partitions_chosen=chosen,
            transaction_state=tuple(self._prover.read),
            clock=self._clocks.beside("this machine's clock" if self._search.as_of is None else _GIVEN),
            complete=not gaps,
            gaps=tuple(dict.fromkeys(gap.text for gap in gaps)),
            settings=self._settings,
        )
