"""`copied_why`: what blocks a group, a topic, an id or a producer, by an audit of copies of log directories."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from kafkawire import rows
from kafkawire.errors import KafkaWireError
from kafkawire.logdir import LogDirectory
from kafkawire.logdir.splits import batches_of
from kafkawire.offsets.copied_history import copied_history
from kafkawire.offsets.copied_lag import copied_lags
from kafkawire.offsets.copied_shares import UnknownShareGroupError, copied_share_lags, explained_shares
from kafkawire.offsets.fill_shares import FillShares
from kafkawire.offsets.group_records import GroupLog
from kafkawire.offsets.group_view import CONSUMER_OFFSETS, group_view
from kafkawire.offsets.leading_replica import LeadingReplicas
from kafkawire.offsets.share_explain import ShareExplained
from kafkawire.records import Damage
from kafkawire.transactions import Settings
from kafkawire.transactions.auditing.local_audit import audit, cluster_ids
from kafkawire.transactions.blocking.blockers import Fills, GroupView, Place, concerning, holders
from kafkawire.transactions.blocking.partition_blockers import unreplayable
from kafkawire.transactions.blocking.why import answer
from kafkawire.transactions.cluster.cluster_metadata import handed_out
from kafkawire.transactions.cluster.metadata_replay import StoppedAt, stops
from kafkawire.transactions.commands import Reach
from kafkawire.transactions.facts import CLUSTER_METADATA, TRANSACTION_STATE
from kafkawire.transactions.verdict.case import SOUNDNESS, given_limit
from kafkawire.transactions.verdict.premises import soundness


class UnknownSubjectError(KafkaWireError):
    """Copies show nothing of what was asked about, or are of several clusters."""


def copied_why(
    directory: LogDirectory,
    subject: rows.Subject,
    settings: Settings = Settings(),  # noqa: B008 (frozen)
    *,
    paths: tuple[str, ...] = (),
    progress: Callable[[int], None] | None = None,
) -> rows.Why:
    """What blocks a subject. `settings`, `paths`, `progress`: see `transactions.audit`. Raises
    UnknownSubjectError: no copy names the subject, or the copies are of several clusters."""
    one_cluster(directory)
    replicas = LeadingReplicas(directory)
    if subject.topic is not None:
        check_topic(replicas, subject)
    view = None if subject.group is None else group_view(replicas, subject.group)
    shares = [] if subject.group is None else _shares(replicas, subject.group)
    if shares and subject.group is not None:
        view = share_view(subject.group, shares)
    if subject.group is not None and view is None:
        raise UnknownSubjectError(f"no copy of {CONSUMER_OFFSETS} names group {subject.group}")
    found = audit(directory, settings, paths=paths, progress=progress)
    if view is not None:
        found = _with_damage(found, replicas, view.partitions)
    elif subject.topic is not None:
        numbers = subject.partitions or replicas.numbers(subject.topic)
        found = _with_damage(found, replicas, {(subject.topic, number) for number in numbers})
    reach = Reach(options=given_limit(settings.max_timeout_ms))
    if view is not None:
        held = holders(found.findings)
        lags = tuple(
            copied_share_lags(replicas, shares, found.as_of, held)
            if shares
            else copied_lags(replicas, view, found.as_of, held_by=held)
        )
        return answer(found, subject, reach, group=view, lags=lags)
    others, gaps = _of_metadata(replicas) if subject.topic == CLUSTER_METADATA else ([], [])
    if not concerning(found, subject).findings:
        gaps += _unknown(replicas, subject)
    return answer(found, subject, reach, fills=_fills(replicas, found, subject), others=others, gaps=gaps)


def _shares(replicas: LeadingReplicas, group: str) -> list[ShareExplained]:
    """The share partitions of a group; empty where it is none."""
    try:
        found, gaps = explained_shares(replicas, group)
    except UnknownShareGroupError:
        return []
    found[0].problems += gaps
    return found


def share_view(group: str, shares: Iterable[ShareExplained]) -> GroupView:
    """Where a share group stands: it keeps no offsets in `__consumer_offsets`."""
    committed: dict[Place, int] = {}
    partitions: set[Place] = set()
    gaps: dict[str, None] = {}
    for one in shares:
        state, topic = one.source.history.state, one.source.topic
        gaps |= dict.fromkeys((*one.source.problems, *one.problems))
        if topic is None:
            gaps[f"a topic of group {group!r} is not here: its id is {one.source.key.topic_id}"] = None
        elif state is not None and not one.source.gone:
            place = topic, one.source.key.partition
            partitions.add(place)
            if state.start_offset >= 0:
                committed[place] = state.start_offset
    return GroupView(group=group, committed=committed, partitions=frozenset(partitions), gaps=tuple(gaps))


def _unknown(replicas: LeadingReplicas, subject: rows.Subject) -> list[str]:
    """Why it is not certain that there is such an id, where no transaction of it is open; of a topic nothing. Raises
    UnknownSubjectError: no copy names the id, or the producer id was never handed out."""
    if subject.producer_id is not None:
        first_free = handed_out([] if replicas.metadata is None else [replicas.metadata])
        if first_free is not None and subject.producer_id >= first_free:
            why = f"was not handed out: the next one is {first_free}, by {CLUSTER_METADATA}"
            raise UnknownSubjectError(f"producer id {subject.producer_id} {why}")
    elif subject.transactional_id is not None:
        unread: dict[str, None] = {}
        for one in copied_history(replicas, subject):
            if isinstance(one, rows.HistoryEvent) and not one.damaged:
                return []
            why = one.what if isinstance(one, rows.HistoryEvent) else one.detail or one.reason
            unread[f"{one.topic}-{one.partition}: {why}"] = None
        if not replicas.numbers(TRANSACTION_STATE):
            unread[f"no copy of {TRANSACTION_STATE} is here"] = None
        name = subject.transactional_id
        if not unread:
            raise UnknownSubjectError(f"no copy of {TRANSACTION_STATE} names transactional id {name}")
        return [f"whether there is a transactional id {name!r} is not known: {one}" for one in unread]
    return []


def _of_metadata(replicas: LeadingReplicas) -> tuple[list[rows.Blocker], list[str]]:
    """The records of the metadata log that cannot be replayed, and what of it could not be read."""
    leading = replicas.of(CLUSTER_METADATA, 0)
    read = [] if leading is None else list(stops(leading.partition))
    found = [one for one in read if isinstance(one, StoppedAt)]
    gaps = [one for one in read if isinstance(one, str)]
    return ([unreplayable(found, leading.partition.path)] if found and leading is not None else []), gaps


def one_cluster(directory: LogDirectory) -> None:
    """Raises UnknownSubjectError where copies are of several clusters: names of groups and ids are each one's own."""
    clusters = sorted(set(cluster_ids(directory).values()))
    if len(clusters) > 1:
        raise UnknownSubjectError(f"the copies are of several clusters ({', '.join(clusters)}): give those of one")


def check_topic(replicas: LeadingReplicas, subject: rows.Subject) -> None:
    """Raises UnknownSubjectError where no copy of a topic, or of a partition that is asked about, is here."""
    topic = subject.topic or ""
    here = replicas.numbers(topic)
    missing = [number for number in subject.partitions if number not in here]
    if not here or missing:
        name = topic if not here else f"{topic}-{missing[0]}"
        raise UnknownSubjectError(f"no copy of {name} is here")


def _with_damage(found: rows.Audit, replicas: LeadingReplicas, places: Iterable[Place]) -> rows.Audit:
    """An audit with the damage in the records of some partitions added: consumers stop there. An audit reads the
    headers of most batches, and compares no checksums of these."""
    known = {(one.file, one.position) for one in found.damage}
    more: list[rows.DamageRow] = []
    for place in sorted(places):
        leading = replicas.of(*place)
        for file in () if leading is None else leading.partition.segments:
            try:
                damaged = [item for item in batches_of(file) if isinstance(item, Damage)]
            except OSError as error:
                damaged = [Damage.unreadable(error)]
            read = [rows.DamageRow.of(one, **file.place) for one in damaged if not one.harmless]
            more += [one for one in read if (one.file, one.position) not in known]
    if not more:
        return found
    damage = (*found.damage, *more)
    premises = tuple(soundness(damage) if one.name == SOUNDNESS and one.holds else one for one in found.read.premises)
    return replace(found, damage=damage, read=replace(found.read, premises=premises))


def _fills(replicas: LeadingReplicas, found: rows.Audit, subject: rows.Subject) -> dict[Place, Fills]:
    """What fills the chosen partitions of `__consumer_offsets` whose cleaner is held."""
    made: dict[Place, Fills] = {}
    for one in found.findings if subject.topic == CONSUMER_OFFSETS else ():
        place = one.topic, one.partition
        chosen = not subject.partitions or one.partition in subject.partitions
        leading = replicas.of(*place)
        if one.topic != CONSUMER_OFFSETS or one.blocked is False or place in made or not chosen or leading is None:
            continue
        shares, log = FillShares(), GroupLog(leading.partition)
        for batch in log.batches(one.start_offset or 0):
            shares.add(batch)
        made[place] = Fills(shares.rows(), next(iter(log.problems), shares.doubt))
    return made
